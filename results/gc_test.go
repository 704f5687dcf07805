package results

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestOutdated: what a lab needs stays, whatever other labs in the store have.
func TestOutdated(t *testing.T) { everywhere(t, testOutdated) }

func testOutdated(t *testing.T, place string) {
	ctx := t.Context()
	s := open(t, place)
	for i, r := range []struct{ id, lab, command, cells string }{
		{"a1", "a", "apply", "x"},
		{"a2", "a", "apply", "x y"}, // y counts still
		{"a3", "a", "apply", "x"},
		{"b1", "b", "apply", "x"}, // another lab's x
		{"a4", "a", "apply", "x"},
		{"a5", "a", "rehearse", "x"},
		{"a6", "a", "apply", "x"},
		{"a7", "a", "apply", ""},    // goes on
		{"a8", "a", Proving, "x y"}, // no result of the lab, which takes the place of none
	} {
		at := noon.Add(time.Duration(i) * time.Hour)
		run := testRun(r.id)
		run.Lab, run.Command, run.Started = r.lab, r.command, at
		check(t, s.BeginRun(ctx, run))
		for _, id := range strings.Fields(r.cells) {
			c := testCell(r.id, id)
			c.Started, c.Finished = at, at.Add(time.Minute)
			check(t, s.PutCell(ctx, c, testRecords()))
		}
		if r.cells != "" {
			check(t, s.FinishRun(ctx, r.id, "done", at.Add(time.Hour)))
		}
	}
	for name, c := range map[string]struct {
		which Outdated
		want  string
	}{
		"all":           {Outdated{Before: noon.Add(100 * time.Hour)}, "a1 a3 a4 a8"},
		"old":           {Outdated{Before: noon.Add(4 * time.Hour)}, "a1 a3"},
		"newest 1":      {Outdated{Keep: 1}, "a1 a3 a4"},
		"newest 3":      {Outdated{Keep: 3}, "a1 a3"},
		"newest 5":      {Outdated{Keep: 5}, "a1"},
		"old, newest 3": {Outdated{Keep: 3, Before: noon.Add(2 * time.Hour)}, "a1"},
		"of lab b":      {Outdated{Keep: 1, Lab: "b"}, ""},
		"none":          {Outdated{}, ""},
	} {
		found, err := s.Litter(ctx, c.which)
		check(t, err)
		var got []string
		for _, l := range found {
			if l.Run == "" || l.Bytes == 0 {
				t.Errorf("%s: %+v; want a run with a size", name, l)
			}
			got = append(got, l.Run)
		}
		if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestLitter(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	s := open(t, dir)
	for _, r := range []struct {
		id, command string
		at          time.Time
		cells       []string
	}{
		{"r1", "apply", noon, []string{"a"}},                          // all of it was measured again
		{"r2", "apply", noon.Add(24 * time.Hour), []string{"a", "b"}}, // b counts still
		{"r3", "apply", noon.Add(48 * time.Hour), []string{"a"}},
		{"r4", "rehearse", noon, []string{"a"}}, // the only rehearsal
	} {
		run := testRun(r.id)
		run.Command, run.Started = r.command, r.at
		var cells []Cell
		for _, id := range r.cells {
			c := testCell(r.id, id)
			c.Started, c.Finished = r.at, r.at.Add(time.Minute)
			cells = append(cells, c)
		}
		fill(t, s, run, cells...)
		check(t, s.FinishRun(ctx, r.id, "done", r.at.Add(time.Hour)))
	}
	check(t, s.Event(ctx, "r1", Event{Time: noon, Level: "warn", Message: "hot"}))

	old := time.Now().Add(-2 * litterAge)
	orphan := filepath.Join(dir, "records", "r0-x.jsonl.zst")
	check(t, os.WriteFile(orphan, []byte("12345"), 0o644))
	check(t, os.WriteFile(filepath.Join(dir, "records", "r9-new.jsonl.zst"), nil, 0o644)) // its row may come yet
	check(t, os.Chtimes(orphan, old, old))
	for _, run := range []string{"r1", "r3"} {
		j, err := NewJournal(dir, run)
		check(t, err)
		check(t, j.Write(journalLine{1}))
		if run == "r1" {
			check(t, j.Close())
		} else {
			t.Cleanup(func() { j.Close() }) // goes on
		}
		check(t, os.Chtimes(journalFile(dir, run), old, old))
	}

	got, err := s.Litter(ctx, Outdated{})
	check(t, err)
	want := []Litter{
		{Path: "journal/r1.jsonl", Bytes: 8, Why: "journal of a run that is over"},
		{Path: "records/r0-x.jsonl.zst", Bytes: 5, Why: "records of no cell"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Litter (-want +got):\n%s", diff)
	}
	got, err = s.Litter(ctx, Outdated{Before: noon.Add(100 * time.Hour)})
	check(t, err)
	want = append(want, Litter{Run: "r1", Why: "every cell of it was measured again since"})
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Litter{}, "Bytes")); diff != "" {
		t.Errorf("Litter with old runs (-want +got):\n%s", diff)
	}
	for _, l := range got {
		if l.Bytes == 0 {
			t.Errorf("%+v has no size", l)
		}
		check(t, s.Remove(ctx, l))
		check(t, s.Remove(ctx, l)) // somebody was faster
	}
	if left, err := s.Litter(ctx, Outdated{Before: noon.Add(100 * time.Hour)}); err != nil || len(left) > 0 {
		t.Errorf("left after removing: %v, %v", left, err)
	}

	counts, err := s.Counts(ctx)
	check(t, err)
	if diff := cmp.Diff(map[string]Count{"r2": {Suspect: 2}, "r3": {Suspect: 1}, "r4": {Suspect: 1}}, counts); diff != "" {
		t.Errorf("Counts (-want +got):\n%s", diff)
	}
	if _, err := s.Records(ctx, "r2", "b"); err != nil {
		t.Errorf("records of a cell that counts: %v", err)
	}
	if events, err := s.Events(ctx, "r1"); err != nil || len(events) > 0 {
		t.Errorf("events of a run that has gone: %v, %v", events, err)
	}
	if err := s.Remove(ctx, Litter{Path: "../../elsewhere"}); err == nil {
		t.Error("a file outside of the store was removed")
	}
}
