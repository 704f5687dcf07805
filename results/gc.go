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
)

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
func (s *Store) Litter(ctx context.Context, which Outdated) (found []Litter, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("look for litter in store %s: %w", s.Name(), err)
		}
	}()
	sizes := map[string]int64{} // of outdated runs
	if !which.Before.IsZero() || which.Keep > 0 {
		if sizes, err = outdated(ctx, s, which); err != nil {
			return nil, err
		}
	}
	lost, err := s.place.measure(ctx, sizes)
	if err != nil {
		return nil, err
	}
	journals, err := oldJournals(s.dir)
	if err != nil {
		return nil, err
	}
	for run, bytes := range sizes {
		found = append(found, Litter{Run: run, Bytes: bytes, Why: "every cell of it was measured again since"})
	}
	found = slices.Concat(found, lost, journals)
	slices.SortFunc(found, func(a, b Litter) int {
		return cmp.Or(strings.Compare(a.Run, b.Run), strings.Compare(a.Path, b.Path))
	})
	return found, nil
}

func oldJournals(dir string) (found []Litter, err error) {
	runs, err := Journals(dir)
	if err != nil {
		return nil, err
	}
	for _, run := range runs {
		info, err := os.Stat(journalFile(dir, run))
		if err != nil {
			continue // somebody else was faster
		}
		over, err := abandoned(journalFile(dir, run))
		if err == nil && over && time.Since(info.ModTime()) > litterAge {
			path := filepath.Join("journal", run+".jsonl")
			found = append(found, Litter{Path: path, Bytes: info.Size(), Why: "journal of a run that is over"})
		}
	}
	return found, nil
}

// outdated are the runs that which names, with no size yet.
func outdated(ctx context.Context, s *Store, which Outdated) (gone map[string]int64, err error) {
	runs, err := s.Runs(ctx)
	if err != nil {
		return nil, err
	}
	spared, err := needed(ctx, s.db)
	if err != nil {
		return nil, err
	}
	var open []string
	for _, r := range runs {
		if r.Outcome == "" {
			open = append(open, r.ID)
		}
	}
	going, err := s.place.running(ctx, open)
	if err != nil {
		return nil, err
	}
	type group struct { // where measurements count for each other
		lab               string
		rehearsed, proved bool
	}
	gone = map[string]int64{}
	newer := map[group]int{}
	for _, r := range slices.Backward(runs) {
		if r.Bundled {
			continue
		}
		g := group{r.Lab, r.Command == "rehearse", r.Command == Proving}
		newer[g]++
		ended := r.Finished
		if ended.IsZero() {
			ended = r.Started
		}
		if (which.Lab == "" || r.Lab == which.Lab) && !slices.Contains(spared, r.ID) && !going[r.ID] &&
			newer[g] > which.Keep && (which.Before.IsZero() || ended.Before(which.Before)) {
			gone[r.ID] = 0
		}
	}
	return gone, nil
}

// needed are the runs that hold the measurement that counts for a cell, or the answer of a search: labs that share a
// store have each their own, and rehearsals count apart.
func needed(ctx context.Context, db *database) (runs []string, err error) {
	of := func(table, latest string) string {
		return `SELECT c.run_id, row_number() OVER (PARTITION BY r.lab, r.command = 'rehearse', c.id ORDER BY ` + latest + `) AS place
			FROM ` + table + ` c JOIN runs r ON r.id = c.run_id WHERE r.bundled = 0 AND r.command <> '` + Proving + `'`
	}
	from := of("cells", whatCounts)
	if !db.lacks["capacities"] {
		from += ` UNION ALL ` + of("capacities", foundLast)
	}
	return collect(ctx, db, "read cells", `SELECT DISTINCT run_id FROM (`+from+`) AS ranked WHERE place = 1`, nil, only[string])
}

// Remove removes litter. What has gone meanwhile is no error.
func (s *Store) Remove(ctx context.Context, l Litter) error {
	var err error
	switch {
	case l.Path == "":
		err = removeRun(ctx, s.place, l.Run)
	case !filepath.IsLocal(l.Path):
		err = errors.New("it is not in the store")
	default:
		err = removed(os.Remove(filepath.Join(s.dir, l.Path)))
	}
	if err != nil {
		return fmt.Errorf("remove %s%s: %w", l.Run, l.Path, err)
	}
	return nil
}

func removeRun(ctx context.Context, at place, run string) error {
	return at.keep(ctx, scope{run: run}, nil, func(tx statements, _ map[string]string) error { return forget(ctx, tx, run) })
}

func forget(ctx context.Context, on executor, run string) error {
	for _, statement := range []string{
		`DELETE FROM capacities WHERE run_id = ?`, `DELETE FROM stays WHERE run_id = ?`, `DELETE FROM answers WHERE run_id = ?`, `DELETE FROM inputs WHERE run_id = ?`, `DELETE FROM events WHERE run_id = ?`, `DELETE FROM cells WHERE run_id = ?`,
		`DELETE FROM deployments WHERE run_id = ?`, `DELETE FROM runs WHERE id = ?`,
	} {
		if _, err := on.exec(ctx, statement, run); err != nil {
			return err
		}
	}
	return nil
}
