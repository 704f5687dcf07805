package results

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hclbench/load"
)

// Count is what a run holds.
type Count struct {
	Valid, Suspect, Void int
}

// Counts returns how many cells of each verdict every run holds, by its id.
func (s *Store) Counts(ctx context.Context) (map[string]Count, error) {
	type line struct {
		run, verdict string
		n            int
	}
	lines, err := collect(ctx, s.db, "count cells", `SELECT run_id, verdict, count(*) FROM cells GROUP BY run_id, verdict`, nil,
		func(scan func(...any) error) (l line, err error) {
			err = scan(&l.run, &l.verdict, &l.n)
			return l, err
		})
	if err != nil {
		return nil, err
	}
	counts := map[string]Count{}
	for _, l := range lines {
		c := counts[l.run]
		switch l.verdict {
		case load.Valid:
			c.Valid = l.n
		case load.Suspect:
			c.Suspect = l.n
		default:
			c.Void = l.n
		}
		counts[l.run] = c
	}
	return counts, nil
}

// Litter is something that a store can do without.
type Litter struct {
	Path  string // of a file, below the store's folder; empty for a run
	Run   string // of a run that goes with all that it holds; empty for a file
	Bytes int64  // of files
	Why   string // for people
}

// litterAge is how old a file must be before it is litter: records are written
// before the row that names them.
const litterAge = time.Hour

// Litter finds what can go: files of records that no cell names, which a killed
// process leaves behind, and journals of runs that are over. With before, also
// every run that ended before then, unless it holds the measurement that counts
// for a cell: removing it would make the cell be measured again.
func (s *Store) Litter(ctx context.Context, before time.Time) (_ []Litter, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("look for litter in store %s: %w", s.dir, err)
		}
	}()
	named, err := collect(ctx, s.db, "read records", `SELECT records, run_id FROM cells WHERE records IS NOT NULL`, nil,
		func(scan func(...any) error) (v [2]string, err error) {
			err = scan(&v[0], &v[1])
			return v, err
		})
	if err != nil {
		return nil, err
	}
	runOf := map[string]string{}
	for _, v := range named {
		runOf[v[0]] = v[1]
	}
	gone := map[string]int64{}
	if !before.IsZero() {
		if gone, err = s.outdated(ctx, before); err != nil {
			return nil, err
		}
	}

	var found []Litter
	entries, err := os.ReadDir(s.recordsDir())
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) || err == nil && e.IsDir() {
			continue // a file that was being written is whole now, under its own name
		}
		if err != nil {
			return nil, err
		}
		run, used := runOf[e.Name()]
		if _, goes := gone[run]; used && goes {
			gone[run] += info.Size()
		} else if !used && time.Since(info.ModTime()) > litterAge {
			found = append(found, Litter{Path: filepath.Join("records", e.Name()), Bytes: info.Size(), Why: "records of no cell"})
		}
	}
	runs, err := Journals(s.dir)
	if err != nil {
		return nil, err
	}
	for _, run := range runs {
		path := filepath.Join("journal", run+".jsonl")
		info, err := os.Stat(filepath.Join(s.dir, path))
		if err != nil {
			continue // somebody else was faster
		}
		if going, err := Running(s.dir, run); err == nil && !going && time.Since(info.ModTime()) > litterAge {
			found = append(found, Litter{Path: path, Bytes: info.Size(), Why: "journal of a run that is over"})
		}
	}
	for run, bytes := range gone {
		found = append(found, Litter{Run: run, Bytes: bytes, Why: "every cell of it was measured again since"})
	}
	slices.SortFunc(found, func(a, b Litter) int {
		return cmp.Or(strings.Compare(a.Run, b.Run), strings.Compare(a.Path, b.Path))
	})
	return found, nil
}

// outdated are the runs that ended before a time and hold no measurement that
// counts.
func (s *Store) outdated(ctx context.Context, before time.Time) (map[string]int64, error) {
	from, args := Query{Latest: true}.from()
	rehearsed, more := Query{Latest: true, Rehearsed: true}.from()
	runs, err := collect(ctx, s.db, "read runs", `SELECT id FROM runs WHERE bundled = 0 AND coalesce(finished, started) < ?
		AND id NOT IN (SELECT c.run_id`+from+`) AND id NOT IN (SELECT c.run_id`+rehearsed+`)`,
		slices.Concat([]any{stamp(before)}, args, more),
		func(scan func(...any) error) (id string, err error) {
			err = scan(&id)
			return id, err
		})
	gone := map[string]int64{}
	for _, id := range runs {
		gone[id] = 0
	}
	return gone, err
}

// Remove removes litter. What has gone meanwhile is no error.
func (s *Store) Remove(ctx context.Context, l Litter) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("remove %s%s: %w", l.Run, l.Path, err)
		}
	}()
	if l.Path != "" {
		if !filepath.IsLocal(l.Path) {
			return errors.New("it is not in the store")
		}
		if err := os.Remove(filepath.Join(s.dir, l.Path)); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	files, err := collect(ctx, s.db, "read records", `SELECT records FROM cells WHERE run_id = ? AND records IS NOT NULL`, []any{l.Run},
		func(scan func(...any) error) (name string, err error) {
			err = scan(&name)
			return name, err
		})
	if err != nil {
		return err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for _, statement := range []string{
		`DELETE FROM inputs WHERE run_id = ?`, `DELETE FROM events WHERE run_id = ?`, `DELETE FROM cells WHERE run_id = ?`,
		`DELETE FROM deployments WHERE run_id = ?`, `DELETE FROM runs WHERE id = ?`,
	} {
		if _, err := tx.ExecContext(ctx, statement, l.Run); err != nil {
			return errors.Join(err, ignoreDone(tx.Rollback()))
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	// The rows went first: a row without its file would be a lie.
	var errs []error
	for _, name := range files {
		if err := os.Remove(filepath.Join(s.recordsDir(), name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}
