package results

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// importing is the outcome of a run from a bundle that is not whole yet.
const importing = "importing"

// died is the outcome of a run whose process went away without a word.
const died = "died"

// Dropped is what opening a store found of a process that was cut off.
type Dropped struct {
	Run      string
	Imported bool  // the run was being imported from a bundle, and is not there, or as it was before
	Cells    int   // that were finished, and are kept
	Files    int   // of records that no finished cell has, removed
	Bytes    int64 // of these files
	Err      error // why nothing could be tidied up, which the next opening tries again
}

// String says it to a person.
func (d Dropped) String() string {
	switch {
	case d.Err != nil && d.Run == "":
		return fmt.Sprintf("whether runs were cut off cannot be seen to now: %v", d.Err)
	case d.Err != nil:
		return fmt.Sprintf("run %s was cut off; it cannot be tidied up after now, which hurts nothing: %v", d.Run, d.Err)
	case d.Imported:
		return fmt.Sprintf("the import of run %s was cut off; nothing of it is kept, import it again", d.Run)
	}
	return fmt.Sprintf("run %s was cut off; finished cells, which are kept: %d; half-written files of records, which are removed: %d (%d bytes)",
		d.Run, d.Cells, d.Files, d.Bytes)
}

// Dropped is what opening the store found of processes that were cut off. It is
// found once: the next opening has nothing to say of it.
func (s *Store) Dropped() []Dropped { return s.dropped }

// hold shows others that a run goes on, for as long as this process lives.
func (s *Store) hold(ctx context.Context, run string) error {
	if s.Shared() {
		got, err := s.claims.take(ctx, "run "+run, "")
		if err == nil && !got {
			err = fmt.Errorf("%w: another process is at run %s", ErrLocked, run)
		}
		return err
	}
	if err := os.MkdirAll(filepath.Join(s.dir, "running"), 0o755); err != nil {
		return err
	}
	lock := flock.New(s.runningFile(run))
	got, err := lock.TryLock()
	if err == nil && !got {
		err = fmt.Errorf("%w: another process is at run %s", ErrLocked, run)
	}
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun[run] = lock
	return nil
}

func (s *Store) runningFile(run string) string { return filepath.Join(s.dir, "running", run) }

// release ends hold.
func (s *Store) release(ctx context.Context, run string) error {
	if s.Shared() {
		return s.claims.give(ctx, "run "+run)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lock := s.begun[run]
	if lock == nil {
		return nil
	}
	delete(s.begun, run)
	return errors.Join(os.Remove(lock.Path()), lock.Close())
}

// Running reports of each of these runs whether a process is at it.
func (s *Store) Running(ctx context.Context, runs []string) (map[string]bool, error) {
	going := map[string]bool{}
	if s.Shared() {
		by, err := s.db.claimed(ctx)
		if err != nil {
			return nil, err
		}
		for _, run := range runs {
			_, going[run] = by[claimKey("run "+run)]
		}
		return going, nil
	}
	for _, run := range runs {
		if _, err := os.Stat(s.runningFile(run)); err != nil {
			// An older hcl shows it by the run's journal alone.
			if going[run], err = journalHeld(s.dir, run); err != nil {
				return nil, err
			}
			continue
		}
		lock := flock.New(s.runningFile(run))
		free, err := lock.TryRLock()
		if err := errors.Join(err, lock.Close()); err != nil {
			return nil, err
		}
		going[run] = !free
	}
	return going, nil
}

// tidy looks for runs that were cut off, removes what they have left half done, and
// marks them, so that it is told once. What cannot be tidied up now, because the disk
// is full or cannot be written, waits: nobody who reads needs it.
func (s *Store) tidy(ctx context.Context) {
	if err := s.tidyRuns(ctx); err != nil {
		s.dropped = append(s.dropped, Dropped{Err: err})
	}
	if err := s.tidyIncoming(ctx); err != nil {
		s.dropped = append(s.dropped, Dropped{Err: err})
	}
}

func (s *Store) tidyRuns(ctx context.Context) error {
	type run struct{ id, outcome string }
	open, err := collect(ctx, s.db, "look for runs that were cut off",
		`SELECT id, outcome FROM runs WHERE outcome = '`+importing+`' OR outcome = '' AND bundled = 0 ORDER BY started, id`, nil,
		func(scan func(...any) error) (r run, err error) {
			err = scan(&r.id, &r.outcome)
			return r, err
		})
	if err != nil || len(open) == 0 {
		return err
	}
	var ids []string
	for _, r := range open {
		ids = append(ids, r.id)
	}
	going, err := s.Running(ctx, ids)
	if err != nil {
		return err
	}
	for _, r := range open {
		if going[r.id] {
			continue
		}
		d := Dropped{Run: r.id, Imported: r.outcome == importing}
		d.Err = s.tidyRun(ctx, &d)
		s.dropped = append(s.dropped, d)
	}
	return nil
}

func (s *Store) tidyRun(ctx context.Context, d *Dropped) (err error) {
	if d.Imported { // by an hcl that kept it piece by piece
		err = s.Remove(ctx, Litter{Run: d.Run})
	} else if err = s.db.get(ctx, `SELECT count(*) FROM cells WHERE run_id = ?`, []any{d.Run}, &d.Cells); err == nil && !s.Shared() {
		// Before the mark: a run that is marked is not looked at again.
		err = s.dropFiles(ctx, d)
	}
	if err == nil && !d.Imported {
		_, err = s.db.exec(ctx, `UPDATE runs SET outcome = ? WHERE id = ? AND outcome = ''`, died, d.Run)
	}
	if err != nil || s.Shared() {
		return err
	}
	if err := os.Remove(s.runningFile(d.Run)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// tidyIncoming removes what imports that were cut off have laid down, and the files
// of records that they had begun to keep.
func (s *Store) tidyIncoming(ctx context.Context) error {
	folders, err := filepath.Glob(filepath.Join(s.dir, incomingPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range folders {
		lock := flock.New(filepath.Join(dir, incomingLock))
		got, err := lock.TryLock()
		if err != nil || !got {
			if err := errors.Join(err, lock.Close()); err != nil {
				return err
			}
			continue // somebody is at it
		}
		run, err := os.ReadFile(filepath.Join(dir, incomingRun))
		if d := (Dropped{Run: string(run), Imported: true}); err == nil && isRunID(d.Run) && !s.Shared() {
			if err := s.dropFiles(ctx, &d); err != nil {
				return errors.Join(err, lock.Close())
			}
			s.dropped = append(s.dropped, d)
		}
		if err := errors.Join(os.RemoveAll(dir), lock.Close()); err != nil {
			return err
		}
	}
	return nil
}

// dropFiles removes what a run that was cut off has left beside the database: files
// of records that no cell names, whole or begun.
func (s *Store) dropFiles(ctx context.Context, d *Dropped) error {
	used, err := collect(ctx, s.db, "read records", `SELECT records FROM cells WHERE records IS NOT NULL`, nil,
		func(scan func(...any) error) (name string, err error) {
			err = scan(&name)
			return name, err
		})
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, name := range used {
		keep[name] = true
	}
	entries, err := os.ReadDir(s.recordsDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if keep[e.Name()] || !isRecordsOf(d.Run, e.Name()) {
			continue
		}
		if info, err := e.Info(); err == nil {
			d.Files, d.Bytes = d.Files+1, d.Bytes+info.Size()
		}
		if err := os.Remove(filepath.Join(s.recordsDir(), e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// isRecordsOf reports whether a file is one of those that newRecordsFile names for a
// run's cells, or one that is being written, which begins with a point.
func isRecordsOf(run, file string) bool {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(file, "."), run+"-")
	cell, _, whole := strings.Cut(rest, ".")
	return ok && whole && cell != "" && !strings.Contains(cell, "-") && strings.Contains(rest, recordsSuffix)
}
