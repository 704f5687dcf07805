package testhost

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// Postgres is a PostgreSQL server of this process, on a unix socket alone.
type Postgres struct {
	dir       string
	as        *syscall.SysProcAttr // who it runs as: it refuses to be root
	databases atomic.Int32
}

// postgresUser owns the test databases. There is no password: who can reach the socket may enter.
const postgresUser = "hcl"

// StartPostgres starts a server that goes with the test.
func StartPostgres(t testing.TB) *Postgres {
	t.Helper()
	p, err := newPostgres()
	if err != nil {
		t.Fatalf("start PostgreSQL: %v", err)
	}
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Errorf("stop PostgreSQL: %v", err)
		}
	})
	return p
}

// shared is the server of this process that all tests may use; Main stops it.
var shared struct {
	sync.Mutex
	server *Postgres
}

// Database makes an empty database on a server that the tests of this process
// share, and returns its URL.
func Database(t testing.TB) string {
	t.Helper()
	place, err := NewDatabase()
	if err != nil {
		t.Fatal(err)
	}
	return place
}

// NewDatabase is Database for those who have no test.
func NewDatabase() (string, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		p, err := newPostgres()
		if err != nil {
			return "", fmt.Errorf("start PostgreSQL: %w", err)
		}
		shared.server = p
	}
	return shared.server.newDatabase()
}

func stopShared() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		return nil
	}
	return shared.server.close()
}

func newPostgres() (_ *Postgres, err error) {
	dir, err := newDir()
	if err != nil {
		return nil, err
	}
	p := &Postgres{dir: dir, as: &syscall.SysProcAttr{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if os.Geteuid() == 0 {
		nobody, err := user.Lookup("nobody")
		if err != nil {
			return nil, err
		}
		uid, _ := strconv.Atoi(nobody.Uid)
		gid, _ := strconv.Atoi(nobody.Gid)
		p.as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); err != nil {
			return nil, err
		}
	}
	err = p.run("initdb", "--pgdata", p.data(), "--username", postgresUser, "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	if err != nil {
		return nil, err
	}
	return p, p.start()
}

func (p *Postgres) data() string { return filepath.Join(p.dir, "data") }

// run runs one of PostgreSQL's programs. Debian keeps most of them off the PATH.
func (p *Postgres) run(name string, args ...string) error {
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); len(found) > 0 {
		name = found[len(found)-1]
	}
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.SysProcAttr = p.dir, p.as
	return run(cmd)
}

// Start starts the server again after Stop.
func (p *Postgres) Start(t testing.TB) {
	t.Helper()
	if err := p.start(); err != nil {
		t.Fatalf("start PostgreSQL: %v", err)
	}
}

// Stop stops the server at once: its connections are closed, and what it has
// committed is there when it starts again.
func (p *Postgres) Stop(t testing.TB) {
	t.Helper()
	if err := p.stop(); err != nil {
		t.Fatalf("stop PostgreSQL: %v", err)
	}
}

func (p *Postgres) start() error {
	log := filepath.Join(p.dir, "log")
	err := p.run("pg_ctl", "start", "--wait", "--pgdata", p.data(), "--log", log,
		"--options", "-k "+p.dir+" -c listen_addresses= -c fsync=off -c shared_buffers=16MB")
	if err != nil {
		said, _ := os.ReadFile(log)
		return fmt.Errorf("%w\n%s", err, said[max(0, len(said)-2000):])
	}
	return nil
}

func (p *Postgres) stop() error {
	if _, err := os.Stat(filepath.Join(p.data(), "postmaster.pid")); err != nil {
		return nil // it does not run
	}
	return p.run("pg_ctl", "stop", "--wait", "--mode", "fast", "--pgdata", p.data())
}

func (p *Postgres) close() error { return errors.Join(p.stop(), os.RemoveAll(p.dir)) }

// Database makes an empty database and returns its URL.
func (p *Postgres) Database(t testing.TB) string {
	t.Helper()
	place, err := p.newDatabase()
	if err != nil {
		t.Fatal(err)
	}
	return place
}

func (p *Postgres) newDatabase() (string, error) {
	name := fmt.Sprintf("test%d", p.databases.Add(1))
	if err := p.run("createdb", "--host", p.dir, "--username", postgresUser, name); err != nil {
		return "", fmt.Errorf("make a database: %w", err)
	}
	return (&url.URL{Scheme: "postgres", Path: "/" + name, RawQuery: url.Values{"host": {p.dir}, "user": {postgresUser}}.Encode()}).String(), nil
}
