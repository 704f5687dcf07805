package results

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gofrs/flock"

	"hclbench/accuracy"
	"hclbench/load"
	"hclbench/plain"
)

// Stage is a folder beside the store in which a run from elsewhere is laid down, until
// all of it was looked at. The store knows nothing of it yet. It is of no use to two
// goroutines at once.
type Stage struct {
	store   *Store
	dir     string
	lock    *flock.Flock
	records map[string]packed // by cell
	answers map[string]packed
	files   int
}

// The folder's name begins so; while it is in use, somebody holds its lock. It says
// of which run it is once files of it may be among the store's.
const (
	stagePrefix = "import-"
	stageLock   = "lock"
	stageRun    = "run"
)

// Stage makes a folder for a run from elsewhere. Close it in any case.
func (s *Store) Stage(ctx context.Context) (*Stage, error) {
	if s.db.refuses != nil {
		return nil, s.db.refuses
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, err
	}
	done, err := s.place.exclusively(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	dir, err := os.MkdirTemp(s.dir, stagePrefix)
	if err != nil {
		return nil, err
	}
	g := &Stage{store: s, dir: dir, lock: flock.New(filepath.Join(dir, stageLock)), records: map[string]packed{}, answers: map[string]packed{}}
	if err := g.lock.Lock(); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Close removes what is laid down.
func (g *Stage) Close() error {
	err := errors.Join(os.RemoveAll(g.dir), g.lock.Close())
	if g.store.Shared() {
		os.Remove(g.store.dir) // where it was made for this alone
	}
	return err
}

// File is a path in the folder that no file has yet.
func (g *Stage) File() string {
	g.files++
	return filepath.Join(g.dir, strconv.Itoa(g.files))
}

// Records lays down the records of a cell: all hands them over one after the other.
func (g *Stage) Records(cell string, all func(put func(*load.Record) error) error) error {
	return layDown(g, g.records, cell, all)
}

// Answers lays down the answers of a cell, as Records does its records.
func (g *Stage) Answers(cell string, all func(put func(*accuracy.Answer) error) error) error {
	return layDown(g, g.answers, cell, all)
}

func layDown[T load.Record | accuracy.Answer](g *Stage, to map[string]packed, cell string, all func(put func(*T) error) error) error {
	f, err := os.Create(g.File())
	if err != nil {
		return err
	}
	mark, err := writeRecords(f, all)
	if err == nil {
		err = f.Sync()
	}
	to[cell] = packed{mark: mark, file: f.Name()}
	return errors.Join(err, f.Close())
}

// Recorded are how many records of each cell are laid down.
func (g *Stage) Recorded() map[string]int {
	counts := map[string]int{}
	for cell, p := range g.records {
		counts[cell] = p.mark.count
	}
	return counts
}

// Rows take the rows of a run that is kept.
type Rows struct {
	ctx   context.Context
	on    executor
	run   string
	stage *Stage
	names map[string]string
}

// Deployment keeps a deployment.
func (r *Rows) Deployment(d Deployment) error {
	return deploymentTable(&d).put(r.ctx, r.on, "deployments", 2)
}

// Cell keeps a cell, with the records and the answers that are laid down of it.
func (r *Rows) Cell(c Cell) error {
	if answers, ok := r.stage.answers[c.ID]; ok && c.Accuracy != nil {
		var err error
		if c.Accuracy.packed, err = answers.bytes(); err != nil {
			return err
		}
	}
	return putCell(r.ctx, r.on, c, r.names[c.ID], r.stage.records[c.ID].mark)
}

// Event keeps something that happened, under an id, so that a statement that is run twice,
// because nobody could tell whether it was, stores it once.
func (r *Rows) Event(e Event) error {
	_, err := r.on.exec(r.ctx, `INSERT INTO events (run_id, time, level, host, engine, cell, message, id)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
		r.run, e.Time.UTC().Format(timeFormat), e.Level, e.Host, e.Engine, e.Cell, plain.Text(e.Message), rand.Text())
	return err
}

// Input keeps something that the run was made from.
func (r *Rows) Input(name string, content []byte) error {
	return table{{"run_id", &r.run, false}, {"name", &name, false}, {"content", &content, false}}.put(r.ctx, r.on, "inputs", 2)
}

// Keep puts the run into the store, whole or not at all, with the rows that put hands
// over, which must bear being called twice. One that is Bundled stands apart from what was
// measured here: only a query for this run finds it, and no plan takes its cells for done.
// The same run from an earlier bundle makes room; one that was measured here is not touched.
func (g *Stage) Keep(ctx context.Context, run Run, put func(*Rows) error) error {
	err := g.keep(ctx, run, put)
	if err != nil {
		return fmt.Errorf("import run %s: %w", run.ID, full(err))
	}
	return nil
}

func (g *Stage) keep(ctx context.Context, run Run, put func(*Rows) error) error {
	s := g.store
	done, err := s.place.exclusively(ctx)
	if err != nil {
		return err
	}
	defer done()
	var bundled bool
	switch err := s.db.get(ctx, `SELECT bundled FROM runs WHERE id = ?`, []any{run.ID}, &bundled); {
	case err == nil && !bundled:
		return errors.New("it was measured here")
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return err
	}
	if err := os.WriteFile(filepath.Join(g.dir, stageRun), []byte(run.ID), 0o644); err != nil {
		return err
	}
	return s.place.keep(ctx, scope{run: run.ID}, g.records, func(tx statements, names map[string]string) error {
		if err := forget(ctx, tx, run.ID); err != nil {
			return err
		}
		if err := runTable(&run).put(ctx, tx, "runs", 0); err != nil {
			return err
		}
		return put(&Rows{ctx, tx, run.ID, g, names})
	})
}
