package results

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

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
func tidy(ctx context.Context, dir string, db *database, at place) []Dropped {
	runs, err := tidyRuns(ctx, db, at)
	if err != nil {
		runs = append(runs, Dropped{Err: err})
	}
	stages, err := tidyStages(ctx, dir, at)
	if err != nil {
		stages = append(stages, Dropped{Err: err})
	}
	return append(runs, stages...)
}

func tidyRuns(ctx context.Context, db *database, at place) (dropped []Dropped, err error) {
	type run struct{ id, outcome string }
	open, err := collect(ctx, db, "look for runs that were cut off",
		`SELECT id, outcome FROM runs WHERE outcome = '`+Importing+`' OR outcome = '' AND bundled = 0 ORDER BY started, id`, nil,
		func(r *run) []any { return []any{&r.id, &r.outcome} })
	if err != nil || len(open) == 0 {
		return nil, err
	}
	var ids []string
	for _, r := range open {
		ids = append(ids, r.id)
	}
	going, err := at.running(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, r := range open {
		if !going[r.id] {
			d := Dropped{Run: r.id, Imported: r.outcome == Importing}
			d.Err = tidyRun(ctx, db, at, &d)
			dropped = append(dropped, d)
		}
	}
	return dropped, nil
}

func tidyRun(ctx context.Context, db *database, at place, d *Dropped) error {
	if d.Imported {
		return errors.Join(removeRun(ctx, at, d.Run), at.drop(ctx, d))
	}
	if err := db.get(ctx, `SELECT count(*) FROM cells WHERE run_id = ?`, []any{d.Run}, &d.Cells); err != nil {
		return err
	}
	// Before the mark: a run that is marked is not looked at again.
	if err := at.drop(ctx, d); err != nil {
		return err
	}
	_, err := db.exec(ctx, `UPDATE runs SET outcome = ? WHERE id = ? AND outcome = ''`, died, d.Run)
	return err
}

// tidyStages removes what imports that were cut off have laid down, and the files of
// records that they had begun to keep.
func tidyStages(ctx context.Context, dir string, at place) (dropped []Dropped, err error) {
	stages, err := filepath.Glob(filepath.Join(dir, stagePrefix+"*"))
	if err != nil {
		return nil, err
	}
	for _, stage := range stages {
		d, err := tidyStage(ctx, stage, at)
		if d.Files > 0 {
			dropped = append(dropped, d)
		}
		if err != nil {
			return dropped, err
		}
	}
	return dropped, nil
}

func tidyStage(ctx context.Context, stage string, at place) (d Dropped, err error) {
	lock := flock.New(filepath.Join(stage, stageLock))
	got, err := lock.TryLock()
	if err != nil || !got { // somebody is at it
		return d, errors.Join(err, lock.Close())
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if run, err := os.ReadFile(filepath.Join(stage, stageRun)); err == nil && IsRunID(string(run)) {
		d = Dropped{Run: string(run), Imported: true}
		if err := at.drop(ctx, &d); err != nil {
			return Dropped{}, err
		}
	}
	return d, os.RemoveAll(stage)
}
