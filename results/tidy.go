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

// Importing is the outcome of a run from a bundle that is not whole yet, as an older
// hcl kept it piece by piece.
const Importing = "importing"

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
	return fmt.Sprintf("run %s was cut off; finished cells, which are kept: %d; "+
		"half-written files of records, which are removed: %d (%d bytes)", d.Run, d.Cells, d.Files, d.Bytes)
}

// Dropped is what opening the store found of processes that were cut off. It is
// found once: the next opening has nothing to say of it.
func (s *Store) Dropped() []Dropped { return s.dropped }

// tidy looks for runs that were cut off, removes what they have left half done, and
// marks them, so that it is told once. What cannot be tidied up now, because the disk
// is full or cannot be written, waits: nobody who reads needs it.
func tidy(ctx context.Context, s *Store) {
	for _, look := range []func(context.Context, *Store) error{tidyRuns, tidyStages} {
		if err := look(ctx, s); err != nil {
			s.dropped = append(s.dropped, Dropped{Err: err})
		}
	}
}

func tidyRuns(ctx context.Context, s *Store) error {
	type run struct{ id, outcome string }
	open, err := collect(ctx, s.db, "look for runs that were cut off",
		`SELECT id, outcome FROM runs WHERE outcome = '`+Importing+`' OR outcome = '' AND bundled = 0 ORDER BY started, id`, nil,
		func(r *run) []any { return []any{&r.id, &r.outcome} })
	if err != nil || len(open) == 0 {
		return err
	}
	var ids []string
	for _, r := range open {
		ids = append(ids, r.id)
	}
	going, err := s.place.running(ctx, ids)
	if err != nil {
		return err
	}
	for _, r := range open {
		if !going[r.id] {
			d := Dropped{Run: r.id, Imported: r.outcome == Importing}
			d.Err = tidyRun(ctx, s, &d)
			s.dropped = append(s.dropped, d)
		}
	}
	return nil
}

func tidyRun(ctx context.Context, s *Store, d *Dropped) error {
	if d.Imported {
		return errors.Join(removeRun(ctx, s.place, d.Run), s.place.drop(ctx, d))
	}
	if err := s.db.get(ctx, `SELECT count(*) FROM cells WHERE run_id = ?`, []any{d.Run}, &d.Cells); err != nil {
		return err
	}
	// Before the mark: a run that is marked is not looked at again.
	if err := s.place.drop(ctx, d); err != nil {
		return err
	}
	_, err := s.db.exec(ctx, `UPDATE runs SET outcome = ? WHERE id = ? AND outcome = ''`, died, d.Run)
	return err
}

// tidyStages removes what imports that were cut off have laid down, and the files of
// records that they had begun to keep.
func tidyStages(ctx context.Context, s *Store) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return removed(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), stagePrefix) {
			if err := tidyStage(ctx, s, filepath.Join(s.dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func tidyStage(ctx context.Context, s *Store, stage string) (err error) {
	lock := flock.New(filepath.Join(stage, stageLock))
	defer func() { err = errors.Join(err, lock.Close()) }()
	if got, err := lock.TryLock(); err != nil || !got { // somebody is at it
		return err
	}
	if run, err := os.ReadFile(filepath.Join(stage, stageRun)); err == nil && IsRunID(string(run)) {
		d := Dropped{Run: string(run), Imported: true}
		if err := s.place.drop(ctx, &d); err != nil {
			return err
		}
		if d.Files > 0 {
			s.dropped = append(s.dropped, d)
		}
	}
	return os.RemoveAll(stage)
}
