package results

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	_ "modernc.org/sqlite" // the "sqlite" driver

	"hclbench/load"
)

// Store is where results are kept: a folder with a database and one file of
// request records per cell beside it, or a PostgreSQL database that a team shares,
// which holds the records too. Its methods may be called at once from several
// goroutines and from several processes.
type Store struct {
	dir     string
	id      string
	db      *database
	dropped []Dropped

	claims *claims // of a shared store
	mu     sync.Mutex
	begun  map[string]*flock.Flock // in a folder: of the runs that this process has begun, by id
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

// ErrLocked says that somebody else holds the store's lock.
var ErrLocked = errors.New("the store is in use")

// Open opens the store in dir, and makes it when there is none. It changes an
// older schema to this program's, and refuses a newer one with ErrNewer.
func Open(ctx context.Context, dir string) (_ *Store, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open store %s: %w", dir, err)
		}
	}()
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "records"), 0o755); err != nil {
		return nil, err
	}

	// Going over to write-ahead logging and migrating are the two things that
	// SQLite's own locks do not order between processes.
	opening := flock.New(filepath.Join(dir, "opening"))
	if _, err := opening.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return nil, err
	}
	defer opening.Close()

	name := url.URL{Scheme: "file", Path: filepath.Join(dir, "results.db"), RawQuery: url.Values{
		"_busy_timeout": {"30000"},
		"_journal_mode": {"WAL"},
		// Every commit is on disk before it is reported: cells take minutes to
		// measure, and a commit milliseconds.
		"_synchronous":  {"FULL"},
		"_foreign_keys": {"1"},
		// A transaction that begins by reading cannot wait for another writer.
		"_txlock":   {"immediate"},
		"_error_rc": {"1"},
	}.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	// SQLite has one writer; a second connection would only wait for the first.
	db.SetMaxOpenConns(1)
	s := &Store{dir: dir, db: &database{DB: db, name: dir}, begun: map[string]*flock.Flock{}}
	if err := s.begin(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// begin makes a store that was just opened usable.
func (s *Store) begin(ctx context.Context) error {
	if err := s.db.migrate(ctx); err != nil {
		return err
	}
	if err := s.db.get(ctx, `SELECT id FROM store`, nil, &s.id); err != nil {
		return fmt.Errorf("read the store's id: %w", err)
	}
	return s.tidy(ctx)
}

// Close closes the database. A run that was begun and not finished counts as cut
// off from now on. In a folder, it does not give back a lock.
func (s *Store) Close() error {
	if s.claims != nil {
		s.claims.close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, lock := range s.begun {
		errs = append(errs, lock.Close())
	}
	s.begun = nil
	return errors.Join(append(errs, s.db.Close())...)
}

// Path is the store's folder; of a shared store, the one for what only this machine
// needs.
func (s *Store) Path() string { return s.dir }

// Name is where the store is, for people: its folder, or its URL without a password.
func (s *Store) Name() string { return s.db.name }

// Shared reports whether it is a store that a team shares.
func (s *Store) Shared() bool { return s.db.shared }

// ID is random and was made when the store was: it tells one store from another.
func (s *Store) ID() string { return s.id }

// holder is what the lock file says about who has the lock.
type holder struct {
	PID   int       `json:"pid"`
	Who   string    `json:"who"`
	Since time.Time `json:"since"`
}

// Lock takes a lab for one apply at a time; a store in a folder has one lab. Who is
// what others are told about it. It does not wait: when somebody else has the lock,
// the error is ErrLocked and names them. The lock goes with the process, however
// that ends.
func (s *Store) Lock(ctx context.Context, lab, who string) (unlock func() error, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.Shared() {
		return s.lockShared(ctx, "lab "+lab, who)
	}
	path := filepath.Join(s.dir, "lock")
	lock := flock.New(path)
	got, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock store %s: %w", s.dir, err)
	}
	if !got {
		var h holder
		if b, err := os.ReadFile(path); err != nil || json.Unmarshal(b, &h) != nil {
			return nil, fmt.Errorf("lock store %s: %w", s.dir, ErrLocked)
		}
		return nil, fmt.Errorf("lock store %s: %w by %s (process %d, since %s)",
			s.dir, ErrLocked, h.Who, h.PID, h.Since.Local().Format(time.DateTime))
	}
	b, err := json.Marshal(holder{PID: os.Getpid(), Who: who, Since: time.Now().Truncate(time.Second)})
	if err == nil {
		// In place: a renamed file would be another lock.
		err = os.WriteFile(path, append(b, '\n'), 0o644)
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("lock store %s: %w", s.dir, err)
	}
	return func() error {
		return errors.Join(os.Truncate(path, 0), lock.Close())
	}, nil
}

func (s *Store) lockShared(ctx context.Context, what, who string) (func() error, error) {
	got, err := s.claims.take(ctx, what, who)
	if err != nil {
		return nil, fmt.Errorf("lock %s in store %s: %w", what, s.Name(), err)
	}
	if !got {
		by, err := s.db.claimed(ctx)
		return nil, errors.Join(fmt.Errorf("lock %s in store %s: %w by %s", what, s.Name(), ErrLocked,
			cmp.Or(by[claimKey(what)], "somebody who has just given it back")), err)
	}
	return func() error { return s.claims.give(context.WithoutCancel(ctx), what) }, nil
}

// NewRunID makes an id for a run that starts at t, such as
// "20261121-142501-k3f9". Ids sort by start time, to the second.
func NewRunID(t time.Time) string {
	return t.UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:4])
}

// BeginRun stores a run that has started. Until FinishRun or Close, others see that
// it goes on.
func (s *Store) BeginRun(ctx context.Context, r Run) error {
	if err := checkID(r.ID); err != nil {
		return fmt.Errorf("store run: %w", err)
	}
	err := s.hold(ctx, r.ID)
	if err == nil {
		// Not patiently: nobody can tell whose row a second try would find.
		_, err = statements{s.db.DB, s.db.shared}.exec(ctx,
			`INSERT INTO runs (id, lab, command, version, started, finished, outcome, bundled) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			r.ID, r.Lab, r.Command, r.Version, stamp(r.Started), optionalStamp(r.Finished), r.Outcome, truth(r.Bundled))
		if err != nil {
			err = errors.Join(err, s.release(context.WithoutCancel(ctx), r.ID))
		}
	}
	if err != nil {
		return fmt.Errorf("store run %s: %w", r.ID, err)
	}
	return nil
}

// FinishRun stores how and when a run ended.
func (s *Store) FinishRun(ctx context.Context, id, outcome string, at time.Time) error {
	res, err := s.db.exec(ctx, `UPDATE runs SET finished = ?, outcome = ? WHERE id = ?`, optionalStamp(at), outcome, id)
	if err == nil {
		if n, err := res.RowsAffected(); err == nil && n == 0 {
			return fmt.Errorf("finish run %s: there is no such run", id)
		}
		err = s.release(ctx, id)
	}
	if err != nil {
		return fmt.Errorf("finish run %s: %w", id, err)
	}
	return nil
}

// PutDeployment stores a deployment of a run, in place of what was stored about
// it before.
func (s *Store) PutDeployment(ctx context.Context, d Deployment) error {
	var text [5]string
	for i, v := range []any{d.Command, d.Identity, d.Versions, d.Phases, d.Listener} {
		b, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("store deployment %s: %w", d.ID, err)
		}
		text[i] = string(b)
	}
	_, err := s.db.exec(ctx, upsert("deployments", 2, `run_id, id, engine, kind, host, gpus, model, image, digest,
		command, identity, facts, started, ready_s, gpu_count, price_per_hour, versions, served, phases, stopped,
		compile_cache, listener`),
		d.RunID, d.ID, d.Engine, d.Kind, d.Host, d.GPUs, d.Model, d.Image, d.Digest,
		text[0], text[1], optional(d.Facts), stamp(d.Started), d.Ready,
		d.GPUCount, d.PricePerHour, text[2], optional(d.Served), text[3], optionalStamp(d.Stopped),
		d.CompileCache, text[4])
	if err != nil {
		return fmt.Errorf("store deployment %s: %w", d.ID, err)
	}
	return nil
}

// PutCell stores a cell and the records of its requests, in place of what the
// same run stored about it before. When it returns nil, both are on disk; when
// it does not, the cell is not stored.
func (s *Store) PutCell(ctx context.Context, c Cell, records []load.Record) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("store cell %s: %w", c.ID, err)
		}
	}()
	for _, id := range []string{c.ID, c.RunID} {
		if err := checkID(id); err != nil {
			return err
		}
	}
	var text [6]string
	for i, v := range []any{c.Axes, c.Identity, c.Job, c.Summary, c.Telemetry, c.Origin} {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		text[i] = string(b)
	}
	axes, identity, job, summary, telemetry, origin := text[0], text[1], text[2], text[3], text[4], text[5]
	if c.Summary == nil {
		summary = ""
	}
	if c.Telemetry == nil {
		telemetry = ""
	}
	if c.Origin == nil {
		origin = ""
	}

	statement := upsert("cells", 2, `run_id, id, deployment_id, benchmark, axes, repetition, identity, job,
		started, finished, cache_reset, error, verdict, summary, records, telemetry, origin`)
	args := func(records string) []any {
		return []any{c.RunID, c.ID, c.DeploymentID, c.Benchmark, axes, c.Repetition, identity, job,
			stamp(c.Started), stamp(c.Finished), c.CacheReset, c.Error, c.Verdict().Verdict,
			optional(summary), optional(records), optional(telemetry), optional(origin)}
	}
	if s.Shared() {
		return s.db.change(ctx, func(tx statements) error {
			name := ""
			if len(records) > 0 {
				name = sharedRecords
			}
			if _, err := tx.exec(ctx, statement, args(name)...); err != nil {
				return err
			}
			return putRecords(ctx, tx, c.RunID, c.ID, records)
		})
	}

	// The file comes first: a file without a row is litter, a row without its
	// file would be a lie.
	before, err := s.recordsFile(ctx, c.RunID, c.ID)
	if err != nil && !errors.Is(err, ErrNoCell) {
		return err
	}
	var file string
	if len(records) > 0 {
		file = newRecordsFile(s.recordsDir(), c.RunID, c.ID)
		if err := writeRecords(filepath.Join(s.recordsDir(), file), records); err != nil {
			return fmt.Errorf("write its records: %w", err)
		}
	}
	_, err = s.db.exec(ctx, statement, args(file)...)

	// An error does not always mean that the row is not there: ctx may have ended
	// just after the commit. So the row is asked which file may go.
	now, lookErr := s.recordsFile(context.WithoutCancel(ctx), c.RunID, c.ID)
	for _, name := range []string{before, file} {
		if name != "" && name != now && (lookErr == nil || errors.Is(lookErr, ErrNoCell)) {
			os.Remove(filepath.Join(s.recordsDir(), name)) // else it is litter, which hurts nobody
		}
	}
	return err
}

// Event stores something that happened in a run.
func (s *Store) Event(ctx context.Context, run string, e Event) error {
	_, err := s.db.exec(ctx,
		`INSERT INTO events (run_id, time, level, host, engine, cell, message) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		run, stamp(e.Time), e.Level, e.Host, e.Engine, e.Cell, e.Message)
	if err != nil {
		return fmt.Errorf("store event of run %s: %w", run, err)
	}
	return nil
}

// checkID refuses ids that cannot be part of a file name.
func checkID(id string) error {
	if id == "" || strings.HasPrefix(id, ".") || strings.ContainsAny(id, "/\\\x00") {
		return fmt.Errorf("%q is not an id", id)
	}
	return nil
}

// timeFormat has a fixed width, so that texts sort as the times do.
const timeFormat = "2006-01-02T15:04:05.000000000Z"

func stamp(t time.Time) string { return t.UTC().Format(timeFormat) }

func optionalStamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return stamp(t)
}

// truth is a yes or no as SQLite keeps it.
func truth(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// optional is text for a column that is null when there is none.
func optional[T ~string | ~[]byte](v T) any {
	if len(v) == 0 {
		return nil
	}
	return string(v)
}
