package reach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hclbench/plain"
	"hclbench/provision"
	"hclbench/testhost"
)

// alone takes the caller's own keys and agent out of a test; it returns the
// home directory that the test has instead.
func alone(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("SSH_AUTH_SOCK", "")
	testhost.OK(t, os.Mkdir(filepath.Join(home, ".ssh"), 0o700))
	return home
}

func TestJump(t *testing.T) {
	bastion := testhost.New(t, testhost.Options{Name: "bastion"})
	inner := testhost.New(t, testhost.Options{Name: "inner"})
	host, gate := block(inner), block(bastion)
	gate.Name, gate.Pos = "bastion", "lab.hcl:3"
	host.Jump = gate
	opt := SSH{KnownHosts: []string{inner.KnownHosts, bastion.KnownHosts}}

	c := mustDial(t, host, opt)
	if got := mustRun(t, c, "hostname; who_asked=${SSH_CONNECTION%% *}; echo ${who_asked:+asked}"); got != "inner\nasked\n" {
		t.Errorf("behind the jump host: %q", got)
	}
	if open, _ := bastion.Connections(); open != 1 {
		t.Errorf("%d connections to the jump host, want 1", open)
	}
	bastion.Cut()
	if got := mustRun(t, c, "hostname"); got != "inner\n" {
		t.Errorf("after the jump host's connection was cut: %q", got)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}

	_, err := Dial(t.Context(), host, SSH{KnownHosts: []string{inner.KnownHosts}}, nil)
	testhost.WantError(t, err, provision.ErrHostKeyUnknown, "host h200 (lab.hcl:12): its jump host: host bastion (lab.hcl:3)")
	lost := *host
	lost.Address = closedPort(t)
	_, err = Dial(t.Context(), &lost, opt, nil)
	testhost.WantError(t, err, provision.ErrUnreachable, "host h200 (lab.hcl:12)", lost.Address)
	gate.Jump = host
	if _, err := Dial(t.Context(), host, opt, nil); err == nil || !strings.Contains(err.Error(), "circle") {
		t.Errorf("jump hosts in a circle: %v", err)
	}
}

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testhost.OK(t, err)
	defer l.Close()
	return l.Addr().String()
}

func TestUnreachable(t *testing.T) {
	alone(t)
	addr := closedPort(t)
	_, err := Dial(t.Context(), &provision.Host{Name: "h200", Address: addr, Pos: "lab.hcl:12"}, SSH{}, nil)
	testhost.WantError(t, err, provision.ErrUnreachable, "host h200 (lab.hcl:12)", addr, "connection refused")

	addr = serve(t, "tcp", "127.0.0.1:0", func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") })
	_, err = Dial(t.Context(), &provision.Host{Name: "web", Address: addr}, SSH{}, nil)
	testhost.WantError(t, err, provision.ErrUnreachable, "host web", "no SSH handshake")

	// A listener that says nothing: only the caller can end it soon.
	came := make(chan struct{}, 1)
	addr = serve(t, "tcp", "127.0.0.1:0", func(c net.Conn) {
		came <- struct{}{}
		io.Copy(io.Discard, c)
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := Dial(ctx, &provision.Host{Name: "silent", Address: addr}, SSH{}, nil)
		ended <- err
	}()
	<-came
	cancel()
	err = <-ended
	testhost.WantError(t, err, provision.ErrUnreachable, "host silent")
	testhost.WantError(t, err, context.Canceled)
}

// TestSessions runs far more commands at once than sshd allows sessions.
func TestSessions(t *testing.T) {
	h := testhost.New(t, testhost.Options{})
	c := connect(t, h)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			want := fmt.Sprintln(i)
			if got, err := c.Run(t.Context(), fmt.Sprint("echo ", i), nil); err != nil || got != want {
				t.Errorf("Run %d = %q, %v", i, got, err)
			}
		})
	}
	all.Wait()
	if _, accepted := h.Connections(); accepted != 1 {
		t.Errorf("%d connections, want 1", accepted)
	}
}

func TestConnectionLost(t *testing.T) {
	h := testhost.New(t, testhost.Options{})
	var told bytes.Buffer
	c, err := Dial(t.Context(), block(h), strict(h), slog.New(slog.NewTextHandler(&told, nil)))
	testhost.OK(t, err)
	defer c.Close()

	h.Cut()
	if got := mustRun(t, c, "echo again"); got != "again\n" {
		t.Errorf("Run after a cut = %q", got)
	}
	if !strings.Contains(told.String(), `msg="connection lost, dialling again" host=h200`) {
		t.Errorf("nothing was logged: %s", told.String())
	}
	testhost.OK(t, h.Restart())
	addr := serve(t, "tcp", "127.0.0.1:0", back)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			conn, err := c.Dial(t.Context(), "tcp", addr)
			if err != nil {
				t.Errorf("Dial after a restart: %v", err)
				return
			}
			conn.Close()
		})
	}
	all.Wait()
	if _, accepted := h.Connections(); accepted != 3 {
		t.Errorf("%d connections, want 3: one more for each loss", accepted)
	}

	// A command whose connection is lost has run once, and is not run again.
	said := newPipe(t, h.Home, "said")
	stdin, end := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), "exec 3>"+plain.Quote(said.path)+"; echo begun >&3; echo x >>ran; read -r never", stdin)
		ended <- err
	}()
	said.expect(t, "begun")
	h.Cut()
	end.Close()
	testhost.WantError(t, <-ended, provision.ErrUnreachable, "host h200 (lab.hcl:12)", "read -r never")
	if got := mustRun(t, c, "cat ran"); got != "x\n" {
		t.Errorf("the command ran %q, want once", got)
	}

	// A host that stays away ends with the caller's patience.
	h.Refuse(true)
	h.Cut()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = c.Run(ctx, "true", nil)
	testhost.WantError(t, err, provision.ErrUnreachable, "dial again")
	testhost.WantError(t, err, context.DeadlineExceeded)
	h.Refuse(false)
	mustRun(t, c, "true")

	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	_, err = c.Run(t.Context(), "true", nil)
	testhost.WantError(t, err, net.ErrClosed)
}

// TestOpenOnDyingConnection is a library call that never returns, which is what
// happens to one that is made just as the connection ends.
func TestOpenOnDyingConnection(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	open := func() (io.Closer, error) {
		<-never
		return nil, io.EOF
	}
	link := &sshLink{dead: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrUnexpectedEOF)
	if _, err := opened(ctx, link, open); err != io.ErrUnexpectedEOF {
		t.Errorf("opened when its context has ended = %v, want the cause", err)
	}
	close(link.dead)
	if _, err := opened(t.Context(), link, open); err != net.ErrClosed {
		t.Errorf("opened when the connection has ended = %v, want net.ErrClosed", err)
	}
}

// TestKeepalive is a host that falls silent without ending the connection.
func TestKeepalive(t *testing.T) {
	h := testhost.New(t, testhost.Options{})
	opt := strict(h)
	opt.keepalive = 25 * time.Millisecond
	link, err := dialSSH(t.Context(), block(h), opt, slog.New(slog.DiscardHandler))
	testhost.OK(t, err)
	defer link.Close()
	first := link.current
	h.Stall(true)
	<-first.dead
	var out strings.Builder
	if err := link.Run(t.Context(), "echo again", nil, &out, io.Discard); err != nil || out.String() != "again\n" {
		t.Errorf("run after the silence = %q, %v", out.String(), err)
	}
	h.Stall(false)
}

// TestCloseOfASilentStream: who waits for news from a host that has fallen silent
// is not kept until the connection counts as dead.
func TestCloseOfASilentStream(t *testing.T) {
	h := testhost.New(t, testhost.Options{})
	ln, err := h.Listen("127.0.0.1:0")
	testhost.OK(t, err)
	defer ln.Close()
	c := connect(t, h)
	conn, err := c.Dial(t.Context(), "tcp", ln.Addr().String())
	testhost.OK(t, err)
	h.Stall(true)
	defer h.Stall(false)
	read := make(chan error, 1)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		read <- err
	}()
	conn.Close()
	select {
	case err := <-read:
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Read = %v, want io.ErrClosedPipe", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Read goes on 10 s after Close")
	}
}

// TestGreeting is a login whose shell says something before each command.
func TestGreeting(t *testing.T) {
	h := testhost.New(t, testhost.Options{})
	for name, greeting := range map[string]string{"line": "echo 'Welcome, it is late'", "no line end": "printf 'Welcome'"} {
		testhost.OK(t, os.WriteFile(filepath.Join(h.Home, ".bashrc"), []byte(greeting+"\n"), 0o600))
		c := connect(t, h)
		if got := mustRun(t, c, "echo out"); got != "out\n" || c.Home() != "/root" {
			t.Errorf("%s: Run = %q, Home = %q", name, got, c.Home())
		}
	}
}
