package results

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type journalLine struct {
	N int `json:"n"`
}

func TestJournal(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := Follow(ctx, dir, "r1", nil); !errors.Is(err, ErrNoJournal) {
		t.Errorf("Follow without a journal = %v", err)
	}
	j, err := NewJournal(dir, "r1")
	check(t, err)
	if _, err := NewJournal(dir, "r1"); err == nil {
		t.Error("a second journal of the same run was begun")
	}
	check(t, j.Write(journalLine{1}))
	if over, err := abandoned(journalFile(dir, "r1")); err != nil || over {
		t.Errorf("abandoned = %v, %v while it is written", over, err)
	}

	var got []string
	seen := make(chan int, 10)
	followed := make(chan error, 1)
	go func() {
		followed <- Follow(ctx, dir, "r1", func(line []byte) error {
			got = append(got, string(line))
			seen <- len(got)
			return nil
		})
	}()
	<-seen
	check(t, j.Write(journalLine{2}))
	<-seen // while the writer is there
	_, err = j.file.WriteString(`{"n":`)
	check(t, err)
	check(t, j.Close())
	check(t, <-followed)
	if diff := cmp.Diff([]string{`{"n":1}`, `{"n":2}`}, got); diff != "" {
		t.Errorf("Follow (-want +got):\n%s", diff)
	}
	if over, err := abandoned(journalFile(dir, "r1")); err != nil || !over {
		t.Errorf("abandoned = %v, %v after its end", over, err)
	}

	j, err = NewJournal(dir, "r2")
	check(t, err)
	defer j.Close()
	runs, err := Journals(dir)
	if diff := cmp.Diff([]string{"r2", "r1"}, runs); diff != "" || err != nil {
		t.Errorf("Journals (-want +got), %v:\n%s", err, diff)
	}
	stop := errors.New("enough")
	check(t, j.Write(journalLine{3}))
	if err := Follow(ctx, dir, "r2", func([]byte) error { return stop }); err != stop {
		t.Errorf("Follow = %v, want what its function returned", err)
	}
	gone, leave := context.WithCancel(ctx)
	if err := Follow(gone, dir, "r2", func([]byte) error { leave(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("Follow = %v, want that it was left", err)
	}
}

// TestJournalOfTheDead is a run whose process was killed.
func TestJournalOfTheDead(t *testing.T) {
	dir := t.TempDir()
	cmd := child(t, dir, "journal r1")
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	piece := make([]byte, 1)
	if _, err := out.Read(piece); err != nil {
		t.Fatal(err)
	}
	lines, killed := 0, false
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = Follow(ctx, dir, "r1", func(line []byte) error {
		if !strings.HasPrefix(string(line), `{"n":`) {
			t.Errorf("line %q", line)
		}
		if lines++; !killed {
			killed = true
			return cmd.Process.Kill()
		}
		return nil
	})
	_ = cmd.Wait()
	if err != nil || lines == 0 {
		t.Errorf("Follow = %v after %d lines", err, lines)
	}
}

// writeJournal is a process that writes a journal until it is killed.
func writeJournal(_ context.Context, dir string, args []string) error {
	j, err := NewJournal(dir, args[0])
	if err != nil {
		return err
	}
	if err := j.Write(journalLine{0}); err != nil {
		return err
	}
	if _, err := os.Stdout.WriteString("begun\n"); err != nil {
		return err
	}
	for n := 1; n < 1e6; n++ { // more than it lives to write
		if err := j.Write(journalLine{n}); err != nil {
			return err
		}
	}
	return nil
}
