package results

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"hclbench/load"
	"hclbench/testhost"
)

// TestDamagedRecords: records that are not those that were stored are noticed, and no
// bundle is made of them.
func TestDamagedRecords(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, path string){
		"overwritten": func(t *testing.T, path string) { change(t, path, func(b []byte) []byte { b[len(b)/2] ^= 1; return b }) },
		"cut":         func(t *testing.T, path string) { change(t, path, func(b []byte) []byte { return b[:len(b)-5] }) },
		"emptied":     func(t *testing.T, path string) { change(t, path, func([]byte) []byte { return nil }) },
		"longer":      func(t *testing.T, path string) { change(t, path, func(b []byte) []byte { return append(b, 0) }) },
		"gone":        func(t *testing.T, path string) { check(t, os.Remove(path)) },
		"of another": func(t *testing.T, path string) {
			change(t, path, func([]byte) []byte { return zstdOf(t, `{"seq":1}`) })
		},
	} {
		for _, old := range []bool{false, true} { // an older hcl noted no sum
			t.Run(fmt.Sprintf("%s, old %v", name, old), func(t *testing.T) {
				s := open(t, t.TempDir())
				fill(t, s, testRun("r1"), testCell("r1", "c1"), testCell("r1", "c2"))
				if old {
					_, err := s.db.exec(t.Context(), `UPDATE cells SET records_sum = NULL, records_count = NULL`)
					check(t, err)
				}
				checkRecords(t, s, "r1", "c1")
				damage(t, filepath.Join(recordsDir(s), "r1-c1.jsonl.zst"))
				_, err := s.Records(t.Context(), "r1", "c1")
				if old && name == "of another" {
					check(t, err) // nothing says that it is
					return
				}
				if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "cell c1 in run r1") {
					t.Errorf("Records: %v; want ErrDamaged and the cell's name", err)
				}
				checkRecords(t, s, "r1", "c2")
			})
		}
	}
}

func change(t *testing.T, path string, to func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	check(t, err)
	check(t, os.WriteFile(path, to(b), 0o644))
}

// TestDamagedRow: a row that cannot be read is void and says so; the others are read.
func TestDamagedRow(t *testing.T) { everywhere(t, testDamagedRow) }

func testDamagedRow(t *testing.T, place string) {
	for _, column := range []string{"axes", "identity", "job", "summary", "telemetry", "origin", "started", "finished"} {
		t.Run(column, func(t *testing.T) {
			s := open(t, place)
			run := "r" + column
			fill(t, s, testRun(run), testCell(run, "c1"), testCell(run, "c2"))
			if s.Shared() { // whose view casts JSON, and nothing else
				_, err := s.db.exec(t.Context(), `DROP VIEW IF EXISTS results`)
				check(t, err)
			}
			_, err := s.db.exec(t.Context(), `UPDATE cells SET `+column+` = '{broken' WHERE run_id = ? AND id = 'c1'`, run)
			check(t, err)
			rows, err := s.Rows(t.Context(), Query{Run: run})
			check(t, err)
			if len(rows) != 2 {
				t.Fatalf("%d rows; want 2", len(rows))
			}
			for _, r := range rows {
				switch v := r.Verdict(); {
				case r.ID == "c2" && (r.Damaged != "" || v.Verdict != load.Suspect):
					t.Errorf("the other row: %q, %v", r.Damaged, v)
				case r.ID == "c1" && (!strings.Contains(r.Damaged, "its row is damaged in the store") || v.Verdict != load.Void || !strings.Contains(v.Reasons[0].Text, "damaged")):
					t.Errorf("the damaged row: %q, %v", r.Damaged, v)
				}
			}
			known, err := s.Known(t.Context())
			check(t, err)
			if damaged := column == "identity" || column == "started" || column == "finished"; damaged && known["c1"].Verdict == load.Suspect {
				t.Errorf("Known: %+v; want void", known["c1"])
			}
			check(t, s.Remove(t.Context(), Litter{Run: run}))
		})
	}
}

// TestDamagedRunAndDeployment: what is damaged beside the cells does not stop either.
func TestDamagedRunAndDeployment(t *testing.T) {
	s := open(t, t.TempDir())
	fill(t, s, testRun("r1"), testCell("r1", "c1"))
	fill(t, s, testRun("r2"), testCell("r2", "c2"))
	fill(t, s, testRun("r3"), testCell("r3", "c3"))
	for _, statement := range []string{`UPDATE runs SET started = 'noon' WHERE id = 'r1'`, `UPDATE deployments SET versions = '{' WHERE run_id = 'r2'`} {
		_, err := s.db.exec(t.Context(), statement)
		check(t, err)
	}
	rows, err := s.Rows(t.Context(), Query{Latest: true})
	check(t, err)
	got := map[string]string{}
	for _, r := range rows {
		got[r.ID] = r.Damaged
	}
	if len(got) != 3 || !strings.Contains(got["c1"], "the row of its run") || !strings.Contains(got["c2"], "the row of its deployment d1") || got["c3"] != "" {
		t.Errorf("damaged: %q", got)
	}
}

// TestLostDatabase: a store whose database is empty or gone is no new one.
func TestLostDatabase(t *testing.T) {
	for name, lose := range map[string]func(string) error{
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"gone":    os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			fill(t, s, testRun("r1"), testCell("r1", "c1"))
			check(t, s.Close())
			check(t, lose(filepath.Join(dir, databaseFile)))
			_, err := Open(t.Context(), dir)
			if err == nil || !strings.Contains(err.Error(), "results.db is empty or gone, and there are 1 files in "+filepath.Join(dir, "records")) {
				t.Errorf("Open: %v", err)
			}
			check(t, os.Remove(filepath.Join(dir, "records", "r1-c1.jsonl.zst")))
			open(t, dir) // with nothing to lose
		})
	}
}

// TestEventTwice: an event is one, however often the statement is run that stores it.
func TestEventTwice(t *testing.T) { everywhere(t, testEventTwice) }

func testEventTwice(t *testing.T, place string) {
	s := open(t, place)
	check(t, s.BeginRun(t.Context(), testRun("r1")))
	check(t, (&Rows{ctx: t.Context(), on: twice{s.db}, run: "r1"}).Event(Event{Time: noon, Level: "warn", Message: "hot \x1b[2J"}))
	check(t, s.Event(t.Context(), "r1", Event{Time: noon, Level: "warn", Message: "hot "}))
	events, err := s.Events(t.Context(), "r1")
	check(t, err)
	if len(events) != 2 || events[0].Message != "hot " {
		t.Errorf("events %+v; want two that say the same", events)
	}
}

// readOnly is a process that looks at a store that was cut off, on a file system
// that cannot be written.
func readOnly(ctx context.Context, dir string, args []string) error {
	if err := syscall.Mount("hcl-test", dir, "tmpfs", 0, "size=8m"); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	s, err := begin(ctx, dir, "r1")
	if err != nil {
		return err
	}
	if err := s.PutCell(ctx, testCell("r1", "c1"), testRecords()); err != nil {
		return err
	}
	copied := dir + "-copy" // what is there now: the log of the database, and a run that goes on
	defer os.RemoveAll(copied)
	err = exec.Command("cp", "-r", dir, copied).Run()
	if err = errors.Join(err, s.Close()); err == nil && args[0] == "killed" {
		err = exec.Command("sh", "-c", "rm -rf "+dir+"/* && cp -r "+copied+"/* "+dir).Run()
	}
	if err != nil {
		return err
	}
	full := args[1] == "full"
	if full {
		fillUp(dir)
	} else if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("remount: %w", err)
	}

	s, err = Look(ctx, dir)
	if err != nil {
		return err
	}
	defer s.Close()
	rows, err := s.Rows(ctx, Query{Latest: true})
	if err != nil || len(rows) != 1 {
		return fmt.Errorf("%d rows, %v; want 1", len(rows), err)
	}
	if _, err := s.Records(ctx, "r1", "c1"); err != nil {
		return err
	}
	if _, err := s.Known(ctx); err != nil {
		return err
	}
	w, err := Open(ctx, dir)
	if err == nil {
		defer w.Close()
		err = w.PutCell(ctx, testCell("r1", "c2"), crashRecords("c2", 100))
	}
	if err == nil {
		return errors.New("a cell was stored")
	} else if full && !errors.Is(err, ErrFull) {
		return fmt.Errorf("to write: %w; want ErrFull", err)
	}
	return nil
}

// TestReadingWithoutWriting: where nothing can be written, because the disk is full or
// is read only, what was measured is read, also after a run that was killed.
func TestReadingWithoutWriting(t *testing.T) {
	for _, how := range []string{"closed full", "killed full", "closed readonly", "killed readonly"} {
		t.Run(how, func(t *testing.T) { check(t, mounting(t, "look "+how).Run()) })
	}
}

// look opens a store to be read.
func look(t *testing.T, place string) (*Store, error) {
	t.Helper()
	s, err := Look(t.Context(), place)
	if IsShared(place) {
		s, err = LookShared(t.Context(), place, t.TempDir(), slog.New(slog.DiscardHandler))
	}
	if err == nil {
		t.Cleanup(func() { s.Close() })
	}
	return s, err
}

// TestLook: who reads a store changes nothing of it.
func TestLook(t *testing.T) { everywhere(t, testLook) }

func testLook(t *testing.T, place string) {
	if _, err := look(t, place); !errors.Is(err, ErrNothing) {
		t.Errorf("of nothing: %v", err)
	}
	if there, err := os.ReadDir(place); err == nil && len(there) > 0 {
		t.Errorf("looking has made %v", there)
	}
	s := open(t, place)
	check(t, s.BeginRun(t.Context(), testRun("r1")))
	check(t, s.PutDeployment(t.Context(), testDeployment("r1")))
	check(t, s.PutCell(t.Context(), testCell("r1", "c1"), testRecords()))
	reader, err := look(t, place) // while the run goes on
	check(t, err)
	check(t, s.PutCell(t.Context(), testCell("r1", "c2"), testRecords()))
	checkRecords(t, reader, "r1", "c1")
	checkRecords(t, reader, "r1", "c2")
	check(t, s.Close()) // and now it is cut off
	reader, err = look(t, place)
	check(t, err)
	runs, err := reader.Runs(t.Context())
	check(t, err)
	if runs[0].Outcome != "" || len(reader.Dropped()) > 0 {
		t.Errorf("looking has seen to %+v: %v", runs[0], reader.Dropped())
	}
	for what, err := range map[string]error{
		"a cell": reader.PutCell(t.Context(), testCell("r1", "c3"), testRecords()), "a run": reader.BeginRun(t.Context(), testRun("r2")),
		"an end": reader.FinishRun(t.Context(), "r1", "done", noon), "a lock": second(reader.Lock(t.Context(), "lab", "me")),
	} {
		if !errors.Is(err, errReading) {
			t.Errorf("%s was stored: %v", what, err)
		}
	}
}

func second(_ any, err error) error { return err }

// TestLookAtOldStore: a store of an older hcl is read as it is, and stays so.
func TestLookAtOldStore(t *testing.T) { everywhere(t, testLookAtOldStore) }

func testLookAtOldStore(t *testing.T, place string) {
	s := open(t, place)
	fill(t, s, testRun("r1"), testCell("r1", "c1"))
	older := func(version int, statements ...string) {
		t.Helper()
		set := fmt.Sprintf("PRAGMA user_version = %d", version)
		if s.Shared() {
			set = fmt.Sprintf("UPDATE schema_version SET version = %d", version)
		}
		for _, statement := range append(statements, set) {
			_, err := s.db.Exec(statement)
			check(t, err)
		}
	}
	older(5, `DROP TABLE noise`, `DROP TABLE stays`, `ALTER TABLE deployments DROP COLUMN begun`, `DROP INDEX events_by_id`, `ALTER TABLE events DROP COLUMN id`, `ALTER TABLE cells DROP COLUMN records_sum`,
		`ALTER TABLE cells DROP COLUMN records_count`, `ALTER TABLE deployments DROP COLUMN members`, `ALTER TABLE deployments DROP COLUMN clients`,
		`ALTER TABLE deployments DROP COLUMN compile_cache`, `ALTER TABLE deployments DROP COLUMN listener`, `DROP TABLE capacities`)
	reader, err := look(t, place)
	check(t, err)
	rows, err := reader.Rows(t.Context(), Query{Latest: true})
	check(t, err)
	if len(rows) != 1 || rows[0].Damaged != "" || rows[0].Deployment.Engine != "vllm.h200" || rows[0].Summary == nil {
		t.Errorf("rows %+v", rows)
	}
	checkRecords(t, reader, "r1", "c1")
	_, err = reader.Known(t.Context())
	check(t, err)
	_, err = reader.Seen(t.Context())
	check(t, err)
	_, err = reader.Capacities(t.Context(), Query{})
	check(t, err)
	_, err = reader.Stays(t.Context(), "")
	check(t, err)
	_, err = reader.Litter(t.Context(), Outdated{Keep: 1})
	check(t, err)
	if version, err := s.db.version(t.Context()); err != nil || version != 5 {
		t.Errorf("the schema has version %d, %v", version, err)
	}
	older(3)
	if _, err := look(t, place); err == nil || !strings.Contains(err.Error(), "schema version 3, which is too old") {
		t.Errorf("of version 3: %v", err)
	}
}

// TestLookWithoutRights: a role that may read and nothing else reads a team's store.
func TestLookWithoutRights(t *testing.T) {
	place := testhost.Database(t)
	s := open(t, place)
	fill(t, s, testRun("r1"), testCell("r1", "c1"))
	role := fmt.Sprintf("reader_%d", os.Getpid())
	for _, statement := range []string{`CREATE ROLE ` + role + ` LOGIN`, `GRANT SELECT ON ALL TABLES IN SCHEMA public TO ` + role} {
		_, err := s.db.Exec(statement)
		check(t, err)
	}
	t.Cleanup(func() {
		_, err := s.db.ExecContext(context.Background(), `DROP OWNED BY `+role+`; DROP ROLE `+role)
		check(t, err)
	})
	u, err := url.Parse(place)
	check(t, err)
	u.User = url.User(role)
	reader, err := look(t, u.String())
	check(t, err)
	if rows, err := reader.Rows(t.Context(), Query{Latest: true}); err != nil || len(rows) != 1 {
		t.Errorf("rows %v, %v", rows, err)
	}
	checkRecords(t, reader, "r1", "c1")
}

// TestOldStore: a store of before is brought up to date with all that it has.
func TestOldStore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	fill(t, s, testRun("r1"), testCell("r1", "c1"))
	check(t, s.Event(t.Context(), "r1", Event{Time: noon, Level: "warn", Message: "hot"}))
	check(t, s.FinishRun(t.Context(), "r1", "done", noon.Add(time.Hour)))
	want := everything(t, s, "r1")
	for _, statement := range []string{
		`DROP INDEX events_by_id`, `ALTER TABLE events DROP COLUMN id`,
		`ALTER TABLE cells DROP COLUMN records_sum`, `ALTER TABLE cells DROP COLUMN records_count`, `ALTER TABLE deployments DROP COLUMN members`, `ALTER TABLE deployments DROP COLUMN clients`, `DROP TABLE capacities`, `DROP TABLE noise`, `ALTER TABLE cells DROP COLUMN accuracy`, `DROP TABLE answers`, `DROP TABLE stays`, `ALTER TABLE deployments DROP COLUMN begun`, `PRAGMA user_version = 6`,
	} {
		_, err := s.db.Exec(statement)
		check(t, err)
	}
	check(t, s.Close())
	s = open(t, dir)
	checkRecords(t, s, "r1", "c1")
	if diff := cmp.Diff(want, everything(t, s, "r1")); diff != "" {
		t.Errorf("the old store (-want +got):\n%s", diff)
	}
	check(t, s.Event(t.Context(), "r1", Event{Time: noon, Level: "warn", Message: "hotter"}))
}

// twice runs each statement twice.
type twice struct{ *database }

func (d twice) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if res, err := d.database.exec(ctx, query, args...); err != nil {
		return res, err
	}
	return d.database.exec(ctx, query, args...)
}

// checkRecords holds that the records of a cell are those that were stored.
func checkRecords(t *testing.T, s *Store, run, cell string) {
	t.Helper()
	_, err := s.Records(t.Context(), run, cell)
	check(t, err)
}

// zstdOf is a text, compressed.
func zstdOf(t *testing.T, text string) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	check(t, err)
	return z.EncodeAll([]byte(text), nil)
}

// everything is all that a store has of a run.
func everything(t *testing.T, s *Store, run string) (all []any) {
	t.Helper()
	rows, err := s.Rows(t.Context(), Query{Run: run})
	check(t, err)
	deployments, err := s.Deployments(t.Context(), run)
	check(t, err)
	events, err := s.Events(t.Context(), run)
	check(t, err)
	for _, row := range rows {
		records, err := s.Records(t.Context(), run, row.ID)
		check(t, err)
		all = append(all, row, records)
	}
	return append(all, deployments, events)
}
