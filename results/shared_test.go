package results

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"hclbench/testhost"
)

// TestServerRestart: a server that is restarted in the middle of a run costs it
// nothing, neither cells nor its lock.
func TestServerRestart(t *testing.T) {
	server := testhost.StartPostgres(t)
	place := server.Database(t)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	check(t, err)
	defer log.Close()
	s, err := OpenShared(t.Context(), place, t.TempDir(), slog.New(slog.NewTextHandler(log, nil)))
	check(t, err)
	defer s.Close()
	_, err = s.Lock(t.Context(), "lab", "hcl apply lab/")
	check(t, err)
	check(t, s.BeginRun(t.Context(), testRun("r1")))
	check(t, s.PutDeployment(t.Context(), testDeployment("r1")))

	const cells = 30
	stored := make(chan string, cells)
	ended := make(chan error, 1)
	go func() {
		defer close(stored)
		for i := range cells {
			c := testCell("r1", fmt.Sprint("c", i))
			if err := s.PutCell(t.Context(), c, crashRecords(c.ID, perCell)); err != nil {
				ended <- err
				return
			}
			stored <- c.ID
		}
		ended <- s.FinishRun(t.Context(), "r1", "done", noon.Add(time.Hour))
	}()
	var done []string
	for id := range stored {
		done = append(done, id)
		if len(done) == 3 {
			server.Stop(t)
			server.Start(t)
		}
	}
	check(t, <-ended)
	if len(done) != cells {
		t.Errorf("%d cells were stored; want %d", len(done), cells)
	}
	checkCells(t, s, Query{Run: "r1"}, done)
	said, err := os.ReadFile(log.Name())
	check(t, err)
	for _, want := range []string{"the store does not answer", "the store answers again"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("the log lacks %q:\n%s", want, said)
		}
	}

	// The lock went with the server, and is taken again.
	other := open(t, place)
	by := map[int64]string{}
	for deadline := time.Now().Add(time.Minute); by[claimKey("lab lab")] == "" && time.Now().Before(deadline); {
		by, err = other.db.claimed(t.Context())
		check(t, err)
	}
	if _, err := other.Lock(t.Context(), "lab", "hcl apply other/"); !errors.Is(err, ErrLocked) {
		t.Errorf("Lock after a restart: %v; want ErrLocked", err)
	}
}

// TestServerGone: a server that stays away ends in an error that names it.
func TestServerGone(t *testing.T) {
	server := testhost.StartPostgres(t)
	place := server.Database(t)
	s := open(t, place)
	check(t, s.BeginRun(t.Context(), testRun("r1")))
	server.Stop(t)
	s.db.patience = 200 * time.Millisecond
	err := s.PutCell(t.Context(), testCell("r1", "c1"), testRecords())
	if want := "the store " + s.Name() + " was away for too long"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("PutCell: %v; want %q", err, want)
	}
	if _, err := openPlace(t.Context(), place); err == nil || !strings.Contains(err.Error(), "open store "+s.Name()) {
		t.Errorf("OpenShared: %v", err)
	}
}

// TestPasswordIsNotSaid: neither a store's name nor an error has the password.
func TestPasswordIsNotSaid(t *testing.T) {
	for place, want := range map[string]string{
		"postgres://ada:s3cr3t@127.0.0.1:5433/bench?sslmode=disable":      "postgres://ada@127.0.0.1:5433/bench",
		"postgresql://ada@db.example/bench?password=s3cr3t":               "postgres://ada@db.example/bench",
		"postgres:///bench?host=/run/postgresql&user=ada&password=s3cr3t": "postgres://ada@/bench?host=/run/postgresql",
	} {
		cfg, err := pgx.ParseConfig(place)
		check(t, err)
		if got := sharedName(cfg); got != want {
			t.Errorf("sharedName(%q) = %q; want %q", place, got, want)
		}
	}
	for _, place := range []string{
		"postgres://ada:s3cr3t@127.0.0.1:1/bench?sslmode=disable", // nobody listens
		"postgres://ada:s3cr3t@127.0.0.1:notaport/bench",
		"postgres://ada@127.0.0.1:1/bench?password=s3cr3t&sslmode=nonsense",
		"postgres://ada:s3cr3t@[::1/bench",
	} {
		_, err := openPlace(t.Context(), place)
		if err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("OpenShared(%q): %v", place, err)
		}
	}
}

// TestTextThatPostgresRefuses: what a broken server has answered is stored all the
// same.
func TestTextThatPostgresRefuses(t *testing.T) {
	s := open(t, testhost.Database(t))
	check(t, s.BeginRun(t.Context(), testRun("r1")))
	check(t, s.Event(t.Context(), "r1", Event{Time: noon, Level: "warn", Message: "a\x00b\xffc"}))
	events, err := s.Events(t.Context(), "r1")
	check(t, err)
	if len(events) != 1 || events[0].Message != "ab\uFFFDc" {
		t.Errorf("Events = %q", events)
	}
	cell := testCell("r1", "c1")
	cell.Error = "\x00\xff"
	cell.Summary.ErrorSamples = []string{"\x00\xff"}
	check(t, s.PutCell(t.Context(), cell, testRecords()))
	var throughput float64
	check(t, s.db.QueryRow(`SELECT output_throughput FROM results`).Scan(&throughput)) // the view reads it too
}

// TestLockAfterLostConnection: a new connection takes all claims of the one that was lost, whoever makes it.
func TestLockAfterLostConnection(t *testing.T) {
	place := testhost.Database(t)
	a, b := open(t, place), open(t, place)
	_, err := a.Lock(t.Context(), "lab", "hcl apply mine/")
	check(t, err)
	_, err = b.db.ExecContext(t.Context(), `SELECT pg_terminate_backend(pid, 60000) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()`)
	check(t, err)
	check(t, a.BeginRun(t.Context(), testRun("r1")))
	if _, err := b.Lock(t.Context(), "lab", "hcl apply theirs/"); !errors.Is(err, ErrLocked) {
		t.Errorf("somebody else locks the lab: %v", err)
	}
}

// TestLostLock: a lock that somebody else has taken, while the connection to the server
// was lost, ends what is done under it.
func TestLostLock(t *testing.T) {
	place := testhost.Database(t)
	a, b := open(t, place), open(t, place)
	_, err := a.Lock(t.Context(), "lab", "hcl apply mine/")
	check(t, err)
	held, stop := a.Held(t.Context())
	defer stop()
	locked := func() error {
		_, err := b.db.ExecContext(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()`)
		check(t, err)
		_, err = b.Lock(t.Context(), "lab", "hcl apply theirs/")
		return err
	}
	for err = locked(); errors.Is(err, ErrLocked); err = locked() {
	}
	check(t, err)
	select {
	case <-held.Done():
	case <-time.After(time.Minute):
		t.Fatal("the lock was lost, and nothing has ended")
	}
	if cause := context.Cause(held); !errors.Is(cause, ErrLocked) || !strings.Contains(cause.Error(), "lab lab is hcl apply theirs/ (process ") {
		t.Errorf("cause: %v", cause)
	}
}
