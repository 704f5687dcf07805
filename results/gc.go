package results

import (
	"cmp"
	"context"
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
	Valid, Imported, Suspect, Void int
}

// Cells is how many there are.
func (c Count) Cells() int { return c.Valid + c.Imported + c.Suspect + c.Void }

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
		case load.Imported:
			c.Imported = l.n
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

// Outdated says which runs are litter as well. Never is one that goes on, that came
// in a bundle, or that holds the measurement that counts for a cell of its lab:
// removing it would make the cell be measured again. The zero value names none.
type Outdated struct {
	Before time.Time // those that ended before; zero: whenever they ended
	Keep   int       // beyond the newest so many of their lab, rehearsals counted apart; 0: whatever their place
	Lab    string    // of this lab only, where a store has several
}

// Litter finds what can go: files of records that no cell names, which a killed
// process leaves behind, journals of runs that are over, and outdated runs.
func (s *Store) Litter(ctx context.Context, which Outdated) (_ []Litter, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("look for litter in store %s: %w", s.Name(), err)
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
	if !which.Before.IsZero() || which.Keep > 0 {
		if gone, err = s.outdated(ctx, which); err != nil {
			return nil, err
		}
	}

	var found []Litter
	var entries []os.DirEntry
	if s.Shared() { // its records are in its own tables
		err = s.sizes(ctx, gone)
	} else {
		entries, err = os.ReadDir(s.recordsDir())
	}
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
		if going, err := journalHeld(s.dir, run); err == nil && !going && time.Since(info.ModTime()) > litterAge {
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

// outdated are the runs that which names, with no size yet.
func (s *Store) outdated(ctx context.Context, which Outdated) (map[string]int64, error) {
	all, err := s.Runs(ctx)
	if err != nil {
		return nil, err
	}
	// Where a measurement counts: labs that share a store have each their own.
	type place struct {
		lab       string
		rehearsed bool
	}
	of := map[string]place{}
	var open []string
	for _, r := range all {
		of[r.ID] = place{r.Lab, r.Command == "rehearse"}
		if r.Outcome == "" {
			open = append(open, r.ID)
		}
	}
	going, err := s.Running(ctx, open)
	if err != nil {
		return nil, err
	}
	type cell struct {
		id, run, verdict string
		finished         time.Time
	}
	cells, err := collect(ctx, s.db, "read cells", `SELECT id, run_id, verdict, finished FROM cells ORDER BY finished, rowid`, nil,
		func(scan func(...any) error) (c cell, err error) {
			err = scan(&c.id, &c.run, &c.verdict, timeColumn{&c.finished, nil})
			return c, err
		})
	if err != nil {
		return nil, err
	}
	type key struct {
		place
		cell string
	}
	counts := map[key]cell{}
	bundled := map[string]bool{}
	for _, r := range all {
		bundled[r.ID] = r.Bundled
	}
	for _, c := range cells {
		k := key{of[c.run], c.id}
		if old, ok := counts[k]; !bundled[c.run] && (!ok || c.verdict != load.Void || old.verdict == load.Void) {
			counts[k] = c
		}
	}
	needed := map[string]bool{}
	for _, c := range counts {
		needed[c.run] = true
	}
	gone := map[string]int64{}
	newer := map[place]int{}
	for _, r := range slices.Backward(all) {
		if r.Bundled {
			continue
		}
		ended := r.Finished
		if ended.IsZero() {
			ended = r.Started
		}
		newer[of[r.ID]]++
		if (which.Lab == "" || r.Lab == which.Lab) && !needed[r.ID] && !going[r.ID] &&
			newer[of[r.ID]] > which.Keep && (which.Before.IsZero() || ended.Before(which.Before)) {
			gone[r.ID] = 0
		}
	}
	return gone, nil
}

// sizes adds up the records of runs in a shared database.
func (s *Store) sizes(ctx context.Context, runs map[string]int64) error {
	for run := range runs {
		var bytes int64
		err := s.db.get(ctx, `SELECT coalesce(sum(length(content)), 0) FROM records WHERE run_id = ?`, []any{run}, &bytes)
		if err != nil {
			return fmt.Errorf("read the size of run %s: %w", run, err)
		}
		runs[run] = bytes
	}
	return nil
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
	files, err := s.recordsFiles(ctx, l.Run)
	if err != nil {
		return err
	}
	err = s.db.change(ctx, func(tx statements) error { return forget(ctx, tx, l.Run) })
	if err != nil || s.Shared() {
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

// forget removes the rows of a run.
func forget(ctx context.Context, on executor, run string) error {
	for _, statement := range []string{
		`DELETE FROM inputs WHERE run_id = ?`, `DELETE FROM events WHERE run_id = ?`, `DELETE FROM cells WHERE run_id = ?`,
		`DELETE FROM deployments WHERE run_id = ?`, `DELETE FROM runs WHERE id = ?`,
	} {
		if _, err := on.exec(ctx, statement, run); err != nil {
			return err
		}
	}
	return nil
}
