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
	"syscall"
	"testing"
	"time"
)

// Postgres is a PostgreSQL server of this process, on a unix socket alone.
type Postgres struct {
	dir string
	as  *syscall.SysProcAttr // who it runs as: it refuses to be root
	log *os.File

	mu        sync.Mutex
	cmd       *exec.Cmd
	ended     chan struct{} // closed when cmd has ended
	databases int
}

// postgresUser owns the test databases. There is no password: who can reach the
// socket may enter.
const postgresUser = "hcl"

// postgresWait bounds how long a server may need to start or to stop.
const postgresWait = time.Minute

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
	p := &Postgres{dir: dir, as: &syscall.SysProcAttr{Setpgid: true}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return nil, err
	}
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
	initdb := p.command("initdb", "--pgdata", p.data(), "--username", postgresUser, "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	initdb.SysProcAttr = p.as
	if err := run(initdb); err != nil {
		return nil, err
	}
	return p, p.start()
}

func (p *Postgres) data() string { return filepath.Join(p.dir, "data") }

// command is one of PostgreSQL's programs. Debian keeps most of them off the PATH.
func (p *Postgres) command(name string, args ...string) *exec.Cmd {
	path := name
	if _, err := exec.LookPath(name); err != nil {
		if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); len(found) > 0 {
			path = found[len(found)-1]
		}
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = p.dir
	return cmd
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
	p.mu.Lock()
	defer p.mu.Unlock()
	cmd := p.command("postgres", "-D", p.data(), "-k", p.dir, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=16MB")
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = p.log, p.log, p.as
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	p.cmd, p.ended = cmd, ended
	if !eventually(postgresWait, func() bool {
		select {
		case <-ended:
			return true
		default:
			return p.command("pg_isready", "--quiet", "--host", p.dir).Run() == nil
		}
	}) {
		return fmt.Errorf("it does not answer after %v%s", postgresWait, p.said())
	}
	select {
	case <-ended:
		return fmt.Errorf("it ended at once%s", p.said())
	default:
		return nil
	}
}

func (p *Postgres) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
	case <-time.After(postgresWait):
		p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("it was still there after %v%s", postgresWait, p.said())
	}
	p.cmd = nil
	return nil
}

// said is the end of the server's log.
func (p *Postgres) said() string {
	b, _ := os.ReadFile(p.log.Name())
	return ":\n" + string(b[max(0, len(b)-2000):])
}

func (p *Postgres) close() error {
	err := p.stop()
	if p.log != nil {
		err = errors.Join(err, p.log.Close())
	}
	return errors.Join(err, removeTree(p.dir))
}

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
	p.mu.Lock()
	defer p.mu.Unlock()
	p.databases++
	name := fmt.Sprintf("test%d", p.databases)
	if err := run(p.command("createdb", "--host", p.dir, "--username", postgresUser, name)); err != nil {
		return "", fmt.Errorf("make a database: %w", err)
	}
	return (&url.URL{Scheme: "postgres", Path: "/" + name, RawQuery: url.Values{"host": {p.dir}, "user": {postgresUser}}.Encode()}).String(), nil
}
