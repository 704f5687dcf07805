package results

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// Journal is what happens in a run, one JSON object a line, written while it
// happens so that others can follow it. It is for watching: what was measured is
// in the store, and nothing is read back from here.
type Journal struct {
	file *os.File
	held *flock.Flock // tells followers that the run goes on
}

// ErrNoJournal says that there is no journal of a run.
var ErrNoJournal = errors.New("there is no journal of this run")

func journalFile(dir, run string) string { return filepath.Join(dir, "journal", run+".jsonl") }

// NewJournal begins the journal of a run in the folder of a store.
func NewJournal(dir, run string) (_ *Journal, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("begin journal: %w", err)
		}
	}()
	if err := checkID(run); err != nil {
		return nil, err
	}
	path := journalFile(dir, run)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	held := flock.New(path)
	if err := held.Lock(); err != nil { // a follower holds it no longer than a look takes
		return nil, errors.Join(err, file.Close())
	}
	return &Journal{file, held}, nil
}

// Write adds one line. It may be called by one goroutine at a time.
func (j *Journal) Write(event any) error {
	enc := json.NewEncoder(j.file) // which writes a line at once
	enc.SetEscapeHTML(false)
	if err := enc.Encode(event); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// Close ends the journal; so does the end of the process, however it comes.
func (j *Journal) Close() error { return errors.Join(j.file.Close(), j.held.Close()) }

// Journals returns the runs that have a journal in the folder of a store, the
// newest first.
func Journals(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, "journal"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list journals: %w", err)
	}
	var runs []string
	for _, e := range entries {
		if run, ok := strings.CutSuffix(e.Name(), ".jsonl"); ok {
			runs = append(runs, run)
		}
	}
	slices.Sort(runs) // a run's id sorts by its start
	slices.Reverse(runs)
	return runs, nil
}

// journalPoll is how often a follower looks for more.
const journalPoll = 200 * time.Millisecond

// Follow calls each with every line of a run's journal, from the first, until
// the run is over or ctx ends. A line that was cut off by the death of its
// writer is left out. A run that nobody writes any more is over, whether its
// last line says so or not.
func Follow(ctx context.Context, dir, run string, each func(line []byte) error) error {
	if err := checkID(run); err != nil {
		return fmt.Errorf("follow run: %w", err)
	}
	path := journalFile(dir, run)
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("follow run %s: %w", run, ErrNoJournal)
	}
	if err != nil {
		return fmt.Errorf("follow run %s: %w", run, err)
	}
	defer file.Close()

	poll := time.NewTicker(journalPoll)
	defer poll.Stop()
	lines := bufio.NewReader(file)
	var begun []byte // of a line whose end is not there yet
	for over := false; ; {
		part, err := lines.ReadBytes('\n')
		begun = append(begun, part...)
		if err == nil {
			if err := each(bytes.TrimSuffix(begun, []byte("\n"))); err != nil {
				return err
			}
			begun = nil
			continue
		}
		if err != io.EOF {
			return fmt.Errorf("follow run %s: %w", run, err)
		}
		if over {
			return nil
		}
		// What the writer left must be read after it was seen to be gone.
		if over, err = abandoned(path); err != nil {
			return fmt.Errorf("follow run %s: %w", run, err)
		}
		if over {
			continue
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-poll.C:
		}
	}
}

// abandoned reports whether nobody writes a journal any more.
func abandoned(path string) (bool, error) {
	if _, err := os.Stat(path); err != nil {
		return true, nil
	}
	lock := flock.New(path)
	defer lock.Close()
	return lock.TryRLock()
}
