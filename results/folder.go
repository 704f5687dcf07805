package results

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
	_ "modernc.org/sqlite" // the "sqlite" driver
)

// folder is a store of its own: a database, and beside it files of records. Locks are
// the file system's.
type folder struct {
	dir string
	db  *database

	mu    sync.Mutex
	begun map[string]*flock.Flock // of the runs that this process has begun, by id
}

// databaseFile is the name of a folder's database.
const databaseFile = "results.db"

// Open opens the store in dir, and makes it when there is none. It changes an
// older schema to this program's, and refuses a newer one with ErrNewer.
func Open(ctx context.Context, dir string) (_ *Store, err error) {
	f, err := newFolder(dir)
	if err == nil {
		err = os.MkdirAll(f.records(), 0o755)
	}
	var s *Store
	if err == nil {
		s, err = f.make(ctx)
	}
	return s, opening(dir, full(err))
}

func opening(dir string, err error) error {
	if err != nil {
		err = fmt.Errorf("open store %s: %w", dir, err)
	}
	return err
}

func newFolder(dir string) (*folder, error) {
	path, err := filepath.Abs(dir)
	return &folder{dir: path, begun: map[string]*flock.Flock{}}, err
}

func (f *folder) make(ctx context.Context) (*Store, error) {
	// Going over to write-ahead logging and migrating are two things that SQLite's
	// own locks do not order between processes.
	done, err := f.exclusively(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return f.store(ctx, nil, url.Values{
		"_journal_mode": {"WAL"},
		// Every commit is on disk before it is reported: cells take minutes to
		// measure, and a commit milliseconds.
		"_synchronous":  {"FULL"},
		"_foreign_keys": {"1"},
		// A transaction that begins by reading cannot wait for another writer.
		"_txlock": {"immediate"},
	})
}

// Look opens the store in dir to be read, whatever can be written there, and leaves it as it is,
// an older schema too. Where nothing was ever stored, the error is ErrNothing.
func Look(ctx context.Context, dir string) (*Store, error) {
	f, err := newFolder(dir)
	if err != nil {
		return nil, opening(dir, err)
	}
	if _, err := os.Stat(f.database()); errors.Is(err, fs.ErrNotExist) {
		return nil, opening(dir, cmp.Or(f.lostDatabase(), ErrNothing))
	}
	s, err := f.store(ctx, errReading, url.Values{"mode": {"ro"}})
	if info, look := os.Stat(f.database() + "-wal"); err != nil && (look != nil || info.Size() == 0) {
		// What stands beside a database in use cannot be made here, and nobody uses it.
		if still, e := f.store(ctx, errReading, url.Values{"mode": {"ro"}, "immutable": {"1"}}); e == nil {
			return still, nil
		}
	}
	return s, opening(dir, err)
}

// store opens the database. Refuses says why nothing can be written; nil: it can.
func (f *folder) store(ctx context.Context, refuses error, options url.Values) (*Store, error) {
	if err := f.lostDatabase(); err != nil {
		return nil, err
	}
	options.Set("_busy_timeout", "30000")
	options.Set("_error_rc", "1")
	name := url.URL{Scheme: "file", Path: f.database(), RawQuery: options.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	// SQLite has one writer; a second connection would only wait for the first.
	db.SetMaxOpenConns(1)
	f.db = &database{DB: db, name: f.dir, refuses: refuses}
	s, err := newStore(ctx, f.dir, f.db, f)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// records is the folder with one file of records per cell.
func (f *folder) records() string { return filepath.Join(f.dir, "records") }

func (f *folder) database() string { return filepath.Join(f.dir, databaseFile) }

// lostDatabase refuses a folder with records and without the database that knows of
// them: a new one would have everything measured again.
func (f *folder) lostDatabase() error {
	for _, name := range []string{f.database(), f.database() + "-wal"} {
		if info, err := os.Stat(name); err == nil && info.Size() > 0 {
			return nil
		}
	}
	entries, err := os.ReadDir(f.records())
	if err != nil || len(entries) == 0 {
		return removed(err)
	}
	return fmt.Errorf("%s is empty or gone, and there are %d files in %s: bring it back from a copy, or move %s away to begin anew",
		databaseFile, len(entries), f.records(), f.dir)
}

func (f *folder) exclusively(ctx context.Context) (done func(), err error) {
	opening := flock.New(filepath.Join(f.dir, "opening"))
	if _, err := opening.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return nil, errors.Join(err, opening.Close())
	}
	return func() { opening.Close() }, nil
}

func (f *folder) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, lock := range f.begun {
		errs = append(errs, lock.Close())
	}
	f.begun = nil
	return errors.Join(errs...)
}

// holder is what the lock file says about who has the lock.
type holder struct {
	PID   int       `json:"pid"`
	Who   string    `json:"who"`
	Since time.Time `json:"since"`
}

func (f *folder) lock(_ context.Context, _, who string) (unlock func() error, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("lock store %s: %w", f.dir, err)
		}
	}()
	path := filepath.Join(f.dir, "lock")
	lock := flock.New(path)
	got, err := lock.TryLock()
	if err != nil {
		return nil, err
	}
	if !got {
		var h holder
		if b, err := os.ReadFile(path); err != nil || json.Unmarshal(b, &h) != nil {
			return nil, ErrLocked
		}
		return nil, fmt.Errorf("%w by %s (process %d, since %s)", ErrLocked, h.Who, h.PID, h.Since.Local().Format(time.DateTime))
	}
	b, err := json.Marshal(holder{PID: os.Getpid(), Who: who, Since: time.Now().Truncate(time.Second)})
	if err == nil {
		// In place: a renamed file would be another lock.
		err = os.WriteFile(path, append(b, '\n'), 0o644)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return func() error { return errors.Join(os.Truncate(path, 0), lock.Close()) }, nil
}

// held is ctx: the lock of a folder goes with the process alone.
func (f *folder) held(ctx context.Context) (held context.Context, stop func()) { return ctx, func() {} }

// runningFile is locked by the process that is at a run.
func (f *folder) runningFile(run string) string { return filepath.Join(f.dir, "running", run) }

func (f *folder) begin(_ context.Context, run string) error {
	path := f.runningFile(run)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	lock := flock.New(path)
	got, err := lock.TryLock()
	if err == nil && !got {
		err = busy(run)
	}
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun[run] = lock
	return nil
}

func (f *folder) end(_ context.Context, run string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	lock := f.begun[run]
	if lock == nil {
		return nil
	}
	delete(f.begun, run)
	return errors.Join(os.Remove(lock.Path()), lock.Close())
}

func (f *folder) running(_ context.Context, runs []string) (map[string]bool, error) {
	going := map[string]bool{}
	for _, run := range runs {
		path := f.runningFile(run)
		if _, err := os.Stat(path); err != nil {
			path = journalFile(f.dir, run) // an older hcl shows it by the run's journal alone
		}
		over, err := abandoned(path)
		if err != nil {
			return nil, err
		}
		going[run] = !over
	}
	return going, nil
}

// keep has files come first: a file without a row is litter, a row without its file
// would be a lie.
func (f *folder) keep(
	ctx context.Context, of scope, records map[string]packed, rows func(tx statements, names map[string]string) error,
) error {
	if f.db.refuses != nil {
		return f.db.refuses
	}
	before, err := f.named(ctx, of)
	if err != nil {
		return err
	}
	names, err := f.layDown(of.run, records)
	if err == nil {
		err = f.db.change(ctx, func(tx statements) error { return rows(tx, names) })
	}
	// An error does not always mean that the rows are not there: ctx may have ended
	// just after the commit. So they are asked which files may go.
	now, lookErr := f.named(context.WithoutCancel(ctx), of)
	if lookErr != nil {
		return errors.Join(err, lookErr)
	}
	for _, name := range names {
		before[name] = of.run
	}
	for name := range before {
		if now[name] == "" {
			os.Remove(filepath.Join(f.records(), name)) // else it is litter, which hurts nobody
		}
	}
	return err
}

// layDown gives records their files, and returns the names of those that are there,
// by cell, also with an error.
func (f *folder) layDown(run string, records map[string]packed) (names map[string]string, err error) {
	names = map[string]string{}
	for cell, p := range records {
		if p.mark.count == 0 {
			continue
		}
		name := newRecordsFile(f.records(), run, cell)
		if err := p.moveTo(filepath.Join(f.records(), name)); err != nil {
			return names, fmt.Errorf("write its records: %w", err)
		}
		names[cell] = name
	}
	if len(names) == 0 {
		return names, nil
	}
	return names, syncDir(f.records())
}

// named are the files that rows name, each with its run.
func (f *folder) named(ctx context.Context, of scope) (map[string]string, error) {
	query, args := `SELECT records, run_id FROM cells WHERE records IS NOT NULL`, []any{}
	if of.run != "" {
		query, args = query+` AND run_id = ?`, append(args, of.run)
	}
	if of.cell != "" {
		query, args = query+` AND id = ?`, append(args, of.cell)
	}
	type named struct{ file, run string }
	all, err := collect(ctx, f.db, "read records", query, args, func(n *named) []any { return []any{&n.file, &n.run} })
	runs := map[string]string{}
	for _, n := range all {
		runs[n.file] = n.run
	}
	return runs, err
}

func (f *folder) open(_ context.Context, _, _, name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(f.records(), name))
}

// drop removes files of records that no cell names, whole or begun, and what showed
// that the run went on.
func (f *folder) drop(ctx context.Context, d *Dropped) error {
	keep, err := f.named(ctx, scope{})
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(f.records())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if keep[e.Name()] != "" || !isRecordsOf(d.Run, e.Name()) {
			continue
		}
		if info, err := e.Info(); err == nil {
			d.Files, d.Bytes = d.Files+1, d.Bytes+info.Size()
		}
		if err := removed(os.Remove(filepath.Join(f.records(), e.Name()))); err != nil {
			return err
		}
	}
	return removed(os.Remove(f.runningFile(d.Run)))
}

// removed is err, unless somebody else was faster.
func removed(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (f *folder) measure(ctx context.Context, runs map[string]int64) (lost []Litter, err error) {
	runOf, err := f.named(ctx, scope{})
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(f.records())
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil && e.IsDir() {
			continue // a file that was being written is whole now, under its own name
		}
		if err != nil {
			return nil, err
		}
		run, used := runOf[e.Name()]
		if _, goes := runs[run]; used && goes {
			runs[run] += info.Size()
		} else if !used && time.Since(info.ModTime()) > litterAge {
			lost = append(lost, Litter{Path: filepath.Join("records", e.Name()), Bytes: info.Size(), Why: "records of no cell"})
		}
	}
	return lost, nil
}
