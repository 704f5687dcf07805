package results

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hclbench/load"
)

// TestStageCutOff: what an import that was killed has laid down, and the files that
// it had begun to keep, go when the store is opened next.
func TestStageCutOff(t *testing.T) {
	const run, cell = "20261121-120000-k3f9", "0123456789a1"
	dir := filepath.Join(t.TempDir(), "lab[1]") // a name that means something in a pattern
	s := open(t, dir)
	stage, err := s.Stage(t.Context())
	check(t, err)
	check(t, stage.Records(cell, func(put func(*load.Record) error) error { return put(&load.Record{Seq: 1}) }))
	other := open(t, dir) // while it is at work
	if _, err := os.Stat(stage.dir); err != nil || len(other.Dropped()) > 0 {
		t.Errorf("another process has seen to it: %v, %v", err, other.Dropped())
	}
	check(t, os.WriteFile(filepath.Join(stage.dir, stageRun), []byte(run), 0o644))
	_, err = s.place.(*folder).layDown(run, stage.records)
	check(t, err)
	check(t, stage.lock.Close()) // as the end of a process does
	check(t, s.Close())
	name := run + "a-b" + RecordsSuffix // of another run, whose id only begins so
	check(t, os.WriteFile(filepath.Join(dir, "records", name), nil, 0o644))
	again := open(t, dir)
	entries, err := os.ReadDir(filepath.Join(dir, "records"))
	check(t, err)
	if dropped := again.Dropped(); len(dropped) != 1 || dropped[0].Run != run || !dropped[0].Imported || dropped[0].Files != 1 || dropped[0].Err != nil {
		t.Errorf("dropped %+v; want one import with one file", dropped)
	}
	if len(entries) != 1 || entries[0].Name() != name {
		t.Errorf("records has %v; want the file of another run alone", entries)
	}
	if _, err := os.Stat(stage.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of the import: %v", err)
	}
	if !strings.Contains(again.Dropped()[0].String(), "import it again") {
		t.Errorf("it says: %s", again.Dropped()[0])
	}
}

func TestIsRecordsOf(t *testing.T) {
	for file, want := range map[string]bool{
		"20261121-120000-k3f9-0123456789ab.jsonl.zst":     true,
		"20261121-120000-k3f9-0123456789ab.2.jsonl.zst":   true,
		".20261121-120000-k3f9-0123456789ab.jsonl.zst123": true,
		"20261121-120000-k3f9-x-0123456789ab.jsonl.zst":   false,
		"20261121-120000-k3f9a-0123456789ab.jsonl.zst":    false,
		"20261121-120000-k3f9-0123456789ab.txt":           false,
		"20261121-120000-k3f9-.jsonl.zst":                 false,
	} {
		if got := isRecordsOf("20261121-120000-k3f9", file); got != want {
			t.Errorf("isRecordsOf(%q) = %v", file, got)
		}
	}
	if isRecordsOf("20261121", "20261121-120000-k3f9-0123456789ab.jsonl.zst") {
		t.Error("the beginning of an id is taken for the id")
	}
}
