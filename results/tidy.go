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
	Imported bool  // the run was being imported from a bundle, and is gone
	Cells    int   // that were finished, and are kept
	Files    int   // of records that no finished cell has, removed
	Bytes    int64 // of these files
}

// String says it to a person.
func (d Dropped) String() string {
	if d.Imported {
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
		_, err := s.claims.take(ctx, "run "+run, "")
		return err
	}
	if err := os.MkdirAll(filepath.Join(s.dir, "running"), 0o755); err != nil {
		return err
	}
	lock := flock.New(s.runningFile(run))
	if got, err := lock.TryLock(); err != nil || !got {
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
// marks them, so that it is told once.
func (s *Store) tidy(ctx context.Context) error {
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
		if d.Imported {
			err = s.Remove(ctx, Litter{Run: r.id})
		} else if err = s.db.get(ctx, `SELECT count(*) FROM cells WHERE run_id = ?`, []any{r.id}, &d.Cells); err == nil {
			_, err = s.db.exec(ctx, `UPDATE runs SET outcome = ? WHERE id = ? AND outcome = ''`, died, r.id)
		}
		if err == nil && !s.Shared() {
			err = s.dropFiles(ctx, &d)
		}
		if err != nil {
			return fmt.Errorf("tidy up after run %s: %w", r.id, err)
		}
		s.dropped = append(s.dropped, d)
	}
	return nil
}

// dropFiles removes what a run that was cut off has left beside the database:
// files of records without their row, whole or begun.
func (s *Store) dropFiles(ctx context.Context, d *Dropped) error {
	used, err := collect(ctx, s.db, "read records", `SELECT records FROM cells WHERE run_id = ? AND records IS NOT NULL`, []any{d.Run},
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
		// A file that is being written begins with a point.
		if keep[e.Name()] || !strings.HasPrefix(strings.TrimPrefix(e.Name(), "."), d.Run+"-") {
			continue
		}
		if info, err := e.Info(); err == nil {
			d.Files, d.Bytes = d.Files+1, d.Bytes+info.Size()
		}
		if err := os.Remove(filepath.Join(s.recordsDir(), e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := os.Remove(s.runningFile(d.Run)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
