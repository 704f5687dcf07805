package results

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"hclbench/load"
	"hclbench/plain"
)

// Store is where results are kept: a folder with a database and one file of
// request records per cell beside it, or a PostgreSQL database that a team shares,
// which holds the records too. Its methods may be called at once from several
// goroutines and from several processes.
type Store struct {
	dir     string
	id      string
	db      *database
	place   place
	dropped []Dropped
}

// place is what differs between a folder and a database that a team shares: who holds
// what, and where the records of cells are.
type place interface {
	// lock takes a lab for one apply at a time; it is ErrLocked, with who has it, when
	// somebody else does.
	lock(ctx context.Context, lab, who string) (unlock func() error, err error)
	// held is ctx until somebody else has what is locked.
	held(ctx context.Context) (held context.Context, stop func())
	// begin shows others that a run goes on, for as long as this process lives, or until
	// end.
	begin(ctx context.Context, run string) error
	end(ctx context.Context, run string) error
	running(ctx context.Context, runs []string) (map[string]bool, error)
	// exclusively waits until no other process opens the store, or changes more of it than its
	// database.
	exclusively(ctx context.Context) (done func(), err error)

	// keep stores rows in a transaction, and the records of cells with them, whole or not
	// at all: names is what their rows say of where they are. Of records that had their
	// place before, nothing is left. Rows must bear being stored twice.
	keep(ctx context.Context, of scope, records map[string]packed, rows func(tx statements, names map[string]string) error) error
	// open reads the compressed records of a cell, which its row names.
	open(ctx context.Context, run, cell, name string) ([]byte, error)
	// drop removes what a run that was cut off has left half done beside the database.
	drop(ctx context.Context, d *Dropped) error
	// measure adds the bytes of records to the runs that are named, and finds records
	// that no cell names.
	measure(ctx context.Context, runs map[string]int64) (lost []Litter, err error)

	close() error
}

// scope is a cell of a run, or all of them.
type scope struct{ run, cell string }

func busy(run string) error { return fmt.Errorf("%w: another process is at run %s", ErrLocked, run) }

// errReading is why nothing can be written in a store that was opened with [Look].
var errReading = errors.New("the store was opened to be read")

// ErrLocked says that somebody else holds the store's lock.
var ErrLocked = errors.New("the store is in use")

func newStore(ctx context.Context, dir string, db *database, at place) (*Store, error) {
	s := &Store{dir: dir, db: db, place: at}
	prepare := db.migrate
	if db.refuses != nil {
		prepare = db.readable
	}
	if err := prepare(ctx); err != nil {
		return nil, err
	}
	if err := db.get(ctx, `SELECT id FROM store`, nil, &s.id); err != nil {
		return nil, fmt.Errorf("read the store's id: %w", err)
	}
	if db.refuses == nil {
		tidy(ctx, s)
	}
	return s, ctx.Err()
}

// Close closes the database. A run that was begun and not finished counts as cut
// off from now on. In a folder, it does not give back a lock.
func (s *Store) Close() error { return errors.Join(s.place.close(), s.db.Close()) }

// Path is the store's folder; of a shared store, the one for what only this machine
// needs.
func (s *Store) Path() string { return s.dir }

// Name is where the store is, for people: its folder, or its URL without a password.
func (s *Store) Name() string { return s.db.name }

// Shared reports whether it is a store that a team shares.
func (s *Store) Shared() bool { return s.db.shared }

// ID is random and was made when the store was: it tells one store from another.
func (s *Store) ID() string { return s.id }

// Lock takes a lab for one apply at a time; a store in a folder has one lab. Who is
// what others are told about it. It does not wait: when somebody else has the lock,
// the error is ErrLocked and names them. The lock goes with the process, however
// that ends.
func (s *Store) Lock(ctx context.Context, lab, who string) (unlock func() error, err error) {
	if err := cmp.Or(ctx.Err(), s.db.refuses); err != nil {
		return nil, err
	}
	return s.place.lock(ctx, lab, who)
}

// Held is ctx until somebody else has what this store has locked, which happens when
// the connection to a shared store is lost for long enough; its cause is then ErrLocked,
// and says who. Whoever measures under a lock measures under this.
func (s *Store) Held(ctx context.Context) (held context.Context, stop func()) {
	return s.place.held(ctx)
}

// Running reports of each of these runs whether a process is at it.
func (s *Store) Running(ctx context.Context, runs []string) (map[string]bool, error) {
	return s.place.running(ctx, runs)
}

// NewRunID makes an id for a run that starts at t, such as
// "20261121-142501-k3f9". Ids sort by start time, to the second.
func NewRunID(t time.Time) string {
	return t.UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:4])
}

// IsRunID knows what [NewRunID] makes.
func IsRunID(id string) bool { return runID.MatchString(id) }

var runID = regexp.MustCompile(`^[0-9]{8}-[0-9]{6}-[0-9a-z]{4}$`)

// checkID refuses ids that cannot be part of a file name.
func checkID(ids ...string) error {
	for _, id := range ids {
		if id == "" || strings.HasPrefix(id, ".") || strings.ContainsAny(id, "/\\\x00") {
			return fmt.Errorf("%q is not an id", id)
		}
	}
	return nil
}

// BeginRun stores a run that has started. Until FinishRun or Close, others see that
// it goes on.
func (s *Store) BeginRun(ctx context.Context, r Run) error {
	err := cmp.Or(checkID(r.ID), s.db.refuses)
	if err == nil {
		err = s.place.begin(ctx, r.ID)
	}
	if err == nil {
		// Not patiently: nobody can tell whose row a second try would find.
		if err = runTable(&r).put(ctx, statements{s.db.DB, s.db.shared}, "runs", 0); err != nil {
			err = errors.Join(err, s.place.end(context.WithoutCancel(ctx), r.ID))
		}
	}
	return storing(err, "run", r.ID)
}

func storing(err error, what ...string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("store %s: %w", strings.TrimSpace(strings.Join(what, " ")), full(err))
}

// FinishRun stores how and when a run ended.
func (s *Store) FinishRun(ctx context.Context, id, outcome string, at time.Time) error {
	finished, _ := column{at: &at, optional: true}.value()
	res, err := s.db.exec(ctx, `UPDATE runs SET finished = ?, outcome = ? WHERE id = ?`, finished, outcome, id)
	if err == nil {
		if n, err := res.RowsAffected(); err == nil && n == 0 {
			return fmt.Errorf("finish run %s: there is no such run", id)
		}
		err = s.place.end(ctx, id)
	}
	if err != nil {
		return fmt.Errorf("finish run %s: %w", id, full(err))
	}
	return nil
}

// PutDeployment stores a deployment of a run, in place of what was stored about
// it before.
func (s *Store) PutDeployment(ctx context.Context, d Deployment) error {
	return storing((&Rows{ctx: ctx, on: s.db}).Deployment(d), "deployment", d.ID)
}

// PutCell stores a cell and the records of its requests, in place of what the
// same run stored about it before. When it returns nil, both are on disk; when
// it does not, the cell is not stored.
func (s *Store) PutCell(ctx context.Context, c Cell, records []load.Record) error {
	err := checkID(c.ID, c.RunID)
	var p packed
	if err == nil {
		p, err = pack(records)
	}
	if err == nil {
		err = s.place.keep(ctx, scope{c.RunID, c.ID}, map[string]packed{c.ID: p}, func(tx statements, names map[string]string) error {
			return putCell(ctx, tx, c, names[c.ID], p.mark)
		})
	}
	return storing(err, "cell", c.ID)
}

func putCell(ctx context.Context, on executor, c Cell, records string, mark recordsMark) error {
	c.CacheReset, c.Error = plain.Line(c.CacheReset), plain.Text(c.Error)
	verdict := c.Verdict().Verdict
	if c.Accuracy != nil {
		if err := putAnswers(ctx, on, c); err != nil {
			return err
		}
	}
	return append(cellTable(&c), column{"verdict", &verdict, false}, column{"records", &records, true},
		column{"records_sum", &mark.sum, true}, column{"records_count", &mark.count, false}).put(ctx, on, "cells", 2)
}

// Event is something worth keeping that happened in a run.
type Event struct {
	Time    time.Time `json:"time"`
	Level   string    `json:"level"` // "info", "warn", "error"
	Host    string    `json:"host,omitempty"`
	Engine  string    `json:"engine,omitempty"`
	Cell    string    `json:"cell,omitempty"`
	Message string    `json:"message"`
}

// Event stores something that happened in a run.
func (s *Store) Event(ctx context.Context, run string, e Event) error {
	return storing((&Rows{ctx: ctx, on: s.db, run: run}).Event(e), "event of run", run)
}

// PutInputs keeps what a run was made from, by name: the lab's text, its lock,
// the plan; and below "logs/" what its engines said. What must not be shown has to be
// gone from it.
func (s *Store) PutInputs(ctx context.Context, run string, inputs map[string][]byte) error {
	for name, content := range inputs {
		if err := (&Rows{ctx: ctx, on: s.db, run: run}).Input(name, content); err != nil {
			return storing(err, "input", name, "of run", run)
		}
	}
	return nil
}
