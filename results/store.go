package results

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	_ "modernc.org/sqlite" // the "sqlite" driver

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
	dropped []Dropped
	refuses error // why nothing can be written in the folder; nil: it can

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
	s := &Store{dir: dir, begun: map[string]*flock.Flock{}}
	// Going over to write-ahead logging and migrating are two things that SQLite's
	// own locks do not order between processes.
	done, err := s.alone(ctx)
	if err == nil {
		defer done()
		err = s.openFolder(ctx, url.Values{
			"_journal_mode": {"WAL"},
			// Every commit is on disk before it is reported: cells take minutes to
			// measure, and a commit milliseconds.
			"_synchronous":  {"FULL"},
			"_foreign_keys": {"1"},
			// A transaction that begins by reading cannot wait for another writer.
			"_txlock": {"immediate"},
		})
	}
	if err != nil && ctx.Err() == nil {
		if why := s.unwritable(); why != nil {
			// What cannot be written can be read all the same.
			s.refuses = fmt.Errorf("the store can only be read: %w", why)
		}
	}
	if s.refuses != nil {
		only := url.Values{"mode": {"ro"}}
		if info, statErr := os.Stat(filepath.Join(dir, databaseFile+"-wal")); statErr != nil || info.Size() == 0 {
			only.Set("immutable", "1")
		}
		err = s.openFolder(ctx, only)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// databaseFile is the name of a folder's database.
const databaseFile = "results.db"

// openFolder opens the database of a folder.
func (s *Store) openFolder(ctx context.Context, options url.Values) error {
	if err := s.lostDatabase(); err != nil {
		return err
	}
	options.Set("_busy_timeout", "30000")
	options.Set("_error_rc", "1")
	name := url.URL{Scheme: "file", Path: filepath.Join(s.dir, databaseFile), RawQuery: options.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return err
	}
	// SQLite has one writer; a second connection would only wait for the first.
	db.SetMaxOpenConns(1)
	s.db = &database{DB: db, name: s.dir, refuses: s.refuses}
	if err := s.begin(ctx); err != nil {
		return errors.Join(err, db.Close())
	}
	return nil
}

// lostDatabase refuses a folder with records and without the database that knows of
// them: a new one would have everything measured again.
func (s *Store) lostDatabase() error {
	file := filepath.Join(s.dir, databaseFile)
	for _, name := range []string{file, file + "-wal"} {
		if info, err := os.Stat(name); err == nil && info.Size() > 0 {
			return nil
		}
	}
	entries, err := os.ReadDir(s.recordsDir())
	if err != nil || len(entries) == 0 {
		return err
	}
	return fmt.Errorf("%s is empty or gone, and there are %d files in %s: bring it back from a copy, or move %s away to begin anew",
		databaseFile, len(entries), s.recordsDir(), s.dir)
}

// unwritable says why nothing can be written in the folder; nil: it can.
func (s *Store) unwritable() error {
	f, err := os.CreateTemp(s.dir, ".writable-")
	if err == nil {
		_, err = f.Write(make([]byte, 1<<16))
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	for _, why := range []error{fs.ErrPermission, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(err, why) {
			return err
		}
	}
	return nil
}

// alone waits until no other process opens the folder, or changes more of it than its
// database. A shared store orders that itself.
func (s *Store) alone(ctx context.Context) (done func(), err error) {
	if s.Shared() {
		return func() {}, nil
	}
	opening := flock.New(filepath.Join(s.dir, "opening"))
	if _, err := opening.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return nil, errors.Join(err, opening.Close())
	}
	return func() { opening.Close() }, nil
}

// begin makes a store that was just opened usable.
func (s *Store) begin(ctx context.Context) error {
	if err := s.db.migrate(ctx); err != nil {
		return err
	}
	if err := s.db.get(ctx, `SELECT id FROM store`, nil, &s.id); err != nil {
		return fmt.Errorf("read the store's id: %w", err)
	}
	s.tidy(ctx)
	return ctx.Err()
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
func (s *Store) Shared() bool { return s.claims != nil }

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
		if err = putRun(ctx, statements{s.db.DB, s.db.shared}, r); err != nil {
			err = errors.Join(err, s.release(context.WithoutCancel(ctx), r.ID))
		}
	}
	if err != nil {
		return fmt.Errorf("store run %s: %w", r.ID, full(err))
	}
	return nil
}

func putRun(ctx context.Context, on executor, r Run) error {
	_, err := on.exec(ctx, `INSERT INTO runs (id, lab, command, version, started, finished, outcome, bundled) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		r.ID, r.Lab, r.Command, r.Version, stamp(r.Started), optionalStamp(r.Finished), r.Outcome, truth(r.Bundled))
	return err
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
		return fmt.Errorf("finish run %s: %w", id, full(err))
	}
	return nil
}

// PutDeployment stores a deployment of a run, in place of what was stored about
// it before.
func (s *Store) PutDeployment(ctx context.Context, d Deployment) error {
	if err := putDeployment(ctx, s.db, d); err != nil {
		return fmt.Errorf("store deployment %s: %w", d.ID, full(err))
	}
	return nil
}

func putDeployment(ctx context.Context, on executor, d Deployment) error {
	var text [6]string
	for i, v := range []any{d.Command, d.Identity, d.Versions, d.Phases, d.Listener, d.Members} {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		text[i] = string(printableJSON(b))
	}
	_, err := on.exec(ctx, upsert("deployments", 2, `run_id, id, engine, kind, host, gpus, model, image, digest,
		command, identity, facts, started, ready_s, gpu_count, price_per_hour, versions, served, phases, stopped,
		compile_cache, listener, members`),
		d.RunID, d.ID, d.Engine, d.Kind, d.Host, d.GPUs, d.Model, d.Image, d.Digest,
		text[0], text[1], optional(printableJSON(d.Facts)), stamp(d.Started), d.Ready,
		d.GPUCount, d.PricePerHour, text[2], optional(printableJSON(d.Served)), text[3], optionalStamp(d.Stopped),
		d.CompileCache, text[4], text[5])
	return err
}

// PutCell stores a cell and the records of its requests, in place of what the
// same run stored about it before. When it returns nil, both are on disk; when
// it does not, the cell is not stored.
func (s *Store) PutCell(ctx context.Context, c Cell, records []load.Record) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("store cell %s: %w", c.ID, full(err))
		}
	}()
	for _, id := range []string{c.ID, c.RunID} {
		if err := checkID(id); err != nil {
			return err
		}
	}
	if s.Shared() {
		return s.db.change(ctx, func(tx statements) error {
			name := ""
			if len(records) > 0 {
				name = sharedRecords
			}
			if err := putCell(ctx, tx, c, name, recordsMark{}); err != nil {
				return err
			}
			return putRecords(ctx, tx, c.RunID, c.ID, records)
		})
	}

	// The file comes first: a file without a row is litter, a row without its
	// file would be a lie.
	before, _, err := s.recordsFile(ctx, c.RunID, c.ID)
	if err != nil && !errors.Is(err, ErrNoCell) {
		return err
	}
	var file string
	var mark recordsMark
	if len(records) > 0 {
		file = newRecordsFile(s.recordsDir(), c.RunID, c.ID)
		if mark, err = writeRecords(filepath.Join(s.recordsDir(), file), records); err != nil {
			return fmt.Errorf("write its records: %w", err)
		}
	}
	err = putCell(ctx, s.db, c, file, mark)

	// An error does not always mean that the row is not there: ctx may have ended
	// just after the commit. So the row is asked which file may go.
	now, _, lookErr := s.recordsFile(context.WithoutCancel(ctx), c.RunID, c.ID)
	for _, name := range []string{before, file} {
		if name != "" && name != now && (lookErr == nil || errors.Is(lookErr, ErrNoCell)) {
			os.Remove(filepath.Join(s.recordsDir(), name)) // else it is litter, which hurts nobody
		}
	}
	return err
}

// putCell stores the row of a cell, with the name of the file of its records.
func putCell(ctx context.Context, on executor, c Cell, file string, mark recordsMark) error {
	var text [6]string
	for i, v := range []any{c.Axes, c.Identity, c.Job, c.Summary, c.Telemetry, c.Origin} {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if text[i] = string(printableJSON(b)); text[i] == "null" && i > 2 {
			text[i] = "" // there is none
		}
	}
	_, err := on.exec(ctx, upsert("cells", 2, `run_id, id, deployment_id, benchmark, axes, repetition, identity, job,
		started, finished, cache_reset, error, verdict, summary, records, records_sum, records_count, telemetry, origin`),
		c.RunID, c.ID, c.DeploymentID, c.Benchmark, text[0], c.Repetition, text[1], text[2],
		stamp(c.Started), stamp(c.Finished), plain.Line(c.CacheReset), plain.Text(c.Error), c.Verdict().Verdict,
		optional(text[3]), optional(file), optional(mark.sum), mark.count, optional(text[4]), optional(text[5]))
	return err
}

// Event stores something that happened in a run.
func (s *Store) Event(ctx context.Context, run string, e Event) error {
	if err := putEvent(ctx, s.db, run, e); err != nil {
		return fmt.Errorf("store event of run %s: %w", run, full(err))
	}
	return nil
}

// putEvent gives the event an id, so that a statement that is run twice, because
// nobody could tell whether it was, stores it once.
func putEvent(ctx context.Context, on executor, run string, e Event) error {
	_, err := on.exec(ctx,
		`INSERT INTO events (run_id, time, level, host, engine, cell, message, id) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
		run, stamp(e.Time), e.Level, e.Host, e.Engine, e.Cell, plain.Text(e.Message), rand.Text())
	return err
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
