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
	"os/exec"
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
	if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	return home
}

// keygen makes a key, or changes one; it returns the file.
func keygen(t *testing.T, file string, args ...string) string {
	t.Helper()
	out, err := exec.Command("ssh-keygen", append([]string{"-q", "-f", file}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ssh-keygen %q: %v: %s", args, err, out)
	}
	return file
}

// copyKey copies a private key to where it may be changed.
func copyKey(t *testing.T, from, to string) string {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// sshAgent runs the real ssh-agent with some keys.
func sshAgent(t *testing.T, keys ...string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "agent.sock")
	// With a command the agent lives as long as that does.
	cmd := exec.Command("ssh-agent", "-a", socket, "sh", "-c", "echo ready; cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatalf("start ssh-agent: %v", err)
	}
	t.Setenv("SSH_AUTH_SOCK", socket)
	for _, key := range keys {
		if out, err := exec.Command("ssh-add", "-q", key).CombinedOutput(); err != nil {
			t.Fatalf("ssh-add: %v: %s", err, out)
		}
	}
}

func TestAuth(t *testing.T) {
	h := testhost.New(t, testhost.Options{})
	words := func(string) (string, error) { return "open sesame", nil }
	locked := func(t *testing.T, dir string) string {
		// -a 1: the usual rounds of key derivation take seconds under the race detector.
		return keygen(t, copyKey(t, h.IdentityFile, filepath.Join(dir, "locked")), "-p", "-P", "", "-N", "open sesame", "-a", "1")
	}
	in := func(t *testing.T, host *provision.Host, opt SSH) {
		t.Helper()
		opt.KnownHosts = []string{h.KnownHosts}
		mustRun(t, mustDial(t, host, opt), "true")
	}
	out := func(t *testing.T, host *provision.Host, opt SSH, texts ...string) {
		t.Helper()
		opt.KnownHosts = []string{h.KnownHosts}
		c, err := Dial(t.Context(), host, opt, nil)
		if err == nil {
			c.Close()
		}
		testhost.WantError(t, err, provision.ErrAuth, append(texts, "host h200 (lab.hcl:12)")...)
	}
	with := func(identity string) *provision.Host {
		host := block(h)
		host.IdentityFile = identity
		return host
	}

	t.Run("identity file", func(t *testing.T) {
		home := alone(t)
		in(t, with(h.IdentityFile), SSH{})
		copyKey(t, h.IdentityFile, filepath.Join(home, ".ssh", "mine"))
		in(t, with("~/.ssh/mine"), SSH{})
	})
	t.Run("usual file", func(t *testing.T) {
		home := alone(t)
		keygen(t, filepath.Join(home, ".ssh", "id_ecdsa"), "-t", "ecdsa", "-N", "")
		keygen(t, filepath.Join(home, ".ssh", "id_rsa"), "-t", "ed25519", "-a", "1", "-N", "secret") // locked, must not be in the way
		out(t, with(""), SSH{}, "id_ed25519 is not there", "id_ecdsa (SHA256:", "id_rsa not used: the key is encrypted")
		copyKey(t, h.IdentityFile, filepath.Join(home, ".ssh", "id_ed25519"))
		in(t, with(""), SSH{})
	})
	t.Run("agent", func(t *testing.T) {
		home := alone(t)
		sshAgent(t, keygen(t, filepath.Join(home, "other"), "-t", "ed25519", "-N", ""), h.IdentityFile)
		in(t, with(""), SSH{})
	})
	t.Run("agent without the right key", func(t *testing.T) {
		home := alone(t)
		sshAgent(t, keygen(t, filepath.Join(home, "other"), "-t", "ed25519", "-N", ""))
		out(t, with(""), SSH{}, "Tried: keys of the SSH agent: 1", "identity_file")
	})
	t.Run("agent with too many keys", func(t *testing.T) {
		home := alone(t)
		var keys []string
		for i := range 7 {
			keys = append(keys, keygen(t, filepath.Join(home, fmt.Sprint("key", i)), "-t", "ed25519", "-N", ""))
		}
		sshAgent(t, append(keys, h.IdentityFile)...)
		out(t, with(""), SSH{}, "keys of the SSH agent: 8", "gives up after 6 keys")
		in(t, with(h.IdentityFile), SSH{}) // a named file is offered alone
	})
	t.Run("no agent, no file", func(t *testing.T) {
		alone(t)
		out(t, with(""), SSH{}, "no SSH agent", "id_ed25519 is not there", "name the key to use with identity_file")
	})
	t.Run("agent gone", func(t *testing.T) {
		alone(t)
		t.Setenv("SSH_AUTH_SOCK", "/nonexistent/agent")
		out(t, with(""), SSH{}, "the SSH agent does not answer")
	})
	t.Run("wrong key", func(t *testing.T) {
		home := alone(t)
		wrong := keygen(t, filepath.Join(home, "wrong"), "-t", "ed25519", "-N", "")
		out(t, with(wrong), SSH{}, "does not let root in", "identity_file "+wrong, "authorized_keys")
	})
	t.Run("no such file", func(t *testing.T) {
		alone(t)
		out(t, with("~/.ssh/absent"), SSH{}, "~/.ssh/absent", "no such file")
	})
	t.Run("not a key", func(t *testing.T) {
		home := alone(t)
		file := filepath.Join(home, "text")
		if err := os.WriteFile(file, []byte("hello"), 0o600); err != nil {
			t.Fatal(err)
		}
		out(t, with(file), SSH{}, "not a private key")
	})
	t.Run("encrypted key", func(t *testing.T) {
		file := locked(t, alone(t))
		asked := 0
		in(t, with(file), SSH{Passphrase: func(f string) (string, error) {
			asked++
			if f != file {
				t.Errorf("asked for the passphrase of %s, want %s", f, file)
			}
			return words(f)
		}})
		if asked != 1 {
			t.Errorf("asked %d times, want once", asked)
		}
	})
	t.Run("encrypted key of an old kind", func(t *testing.T) {
		home := alone(t)
		old := keygen(t, filepath.Join(home, "old"), "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "open sesame")
		out(t, with(old), SSH{Passphrase: words}, "does not let root in") // opened, and not the right one
	})
	t.Run("encrypted key, nobody to ask", func(t *testing.T) {
		out(t, with(locked(t, alone(t))), SSH{}, "encrypted", "ssh-add")
	})
	t.Run("encrypted key, wrong passphrase", func(t *testing.T) {
		out(t, with(locked(t, alone(t))), SSH{Passphrase: func(string) (string, error) { return "wrong", nil }}, "decrypt")
	})
	t.Run("encrypted key, user gives up", func(t *testing.T) {
		file := locked(t, alone(t))
		no := errors.New("no")
		_, err := Dial(t.Context(), with(file), SSH{KnownHosts: []string{h.KnownHosts}, Passphrase: func(string) (string, error) { return "", no }}, nil)
		testhost.WantError(t, err, no)
	})
	t.Run("encrypted key that is in the agent", func(t *testing.T) {
		file := locked(t, alone(t))
		sshAgent(t, h.IdentityFile)
		in(t, with(file), SSH{})
	})
}

func TestHostKey(t *testing.T) {
	alone(t)
	h := testhost.New(t, testhost.Options{})
	host, port, err := net.SplitHostPort(h.Addr)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("[%s]:%s", host, port)
	stranger, err := os.ReadFile(keygen(t, filepath.Join(t.TempDir(), "stranger"), "-t", "ed25519", "-N", "") + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	strangerKey := strings.Join(strings.Fields(string(stranger))[:2], " ")
	file := func(t *testing.T, lines ...string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "known_hosts")
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fingerprint := func(line string) string {
		t.Helper()
		cmd := exec.Command("ssh-keygen", "-lf", "-")
		cmd.Stdin = strings.NewReader(line)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))[1]
	}
	never := func(*provision.Host, string) bool {
		t.Error("asked about a key that is refused or known")
		return true
	}
	dial := func(t *testing.T, host *provision.Host, opt SSH) error {
		t.Helper()
		c, err := Dial(t.Context(), host, opt, nil)
		if err == nil {
			c.Close()
		}
		return err
	}
	pinned := func(key string) *provision.Host {
		host := block(h)
		host.HostKey = key
		return host
	}

	t.Run("unknown", func(t *testing.T) {
		known, absent := file(t, "example.com "+strangerKey), filepath.Join(t.TempDir(), "absent")
		err := dial(t, block(h), SSH{KnownHosts: []string{known, absent}})
		testhost.WantError(t, err, provision.ErrHostKeyUnknown, "host h200 (lab.hcl:12)", fingerprint(h.HostKeyLine), known, absent, "--accept-new-host-keys", `host_key = "`+h.HostKeyLine+`"`)
		err = dial(t, block(h), SSH{KnownHosts: []string{known}, AcceptNew: func(*provision.Host, string) bool { return false }})
		testhost.WantError(t, err, provision.ErrHostKeyUnknown)
		testhost.WantError(t, dial(t, block(h), SSH{KnownHosts: []string{}}), provision.ErrHostKeyUnknown, "no known_hosts file was given")
	})
	t.Run("usual files", func(t *testing.T) {
		home := alone(t)
		testhost.WantError(t, dial(t, block(h), SSH{}), provision.ErrHostKeyUnknown, home+"/.ssh/known_hosts and /etc/ssh/ssh_known_hosts")
		copyKey(t, h.KnownHosts, filepath.Join(home, ".ssh", "known_hosts"))
		if err := dial(t, block(h), SSH{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("accepted", func(t *testing.T) {
		for name, known := range map[string]string{
			"no file":         filepath.Join(t.TempDir(), "folder", "known_hosts"),
			"no line end":     file(t, "example.com "+strangerKey),
			"lines before it": file(t, "# ours", "example.com "+strangerKey, ""),
		} {
			var asked []string
			accept := func(host *provision.Host, fingerprint string) bool {
				asked = append(asked, host.Name+" "+fingerprint)
				return true
			}
			if err := dial(t, block(h), SSH{KnownHosts: []string{known}, AcceptNew: accept}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if want := "h200 " + fingerprint(h.HostKeyLine); len(asked) != 1 || asked[0] != want {
				t.Errorf("%s: asked about %q, want %q", name, asked, want)
			}
			if err := dial(t, block(h), SSH{KnownHosts: []string{known}, AcceptNew: never}); err != nil {
				t.Errorf("%s: once accepted: %v", name, err)
			}
			// OpenSSH itself finds the line, too.
			if out, err := exec.Command("ssh-keygen", "-F", fmt.Sprintf("[%s]:%s", host, port), "-f", known).CombinedOutput(); err != nil {
				t.Errorf("%s: ssh-keygen -F: %v: %s", name, err, out)
			}
		}
	})
	t.Run("changed", func(t *testing.T) {
		known := file(t, "# ours", name+" "+strangerKey)
		err := dial(t, block(h), SSH{KnownHosts: []string{known}, AcceptNew: never})
		testhost.WantError(t, err, provision.ErrHostKey, "host h200 (lab.hcl:12)", known+":2", fingerprint(strangerKey), fingerprint(h.HostKeyLine), "ssh-keygen -f "+known+" -R '"+name+"'")
		if errors.Is(err, provision.ErrHostKeyUnknown) {
			t.Error("a changed key is called unknown")
		}
	})
	t.Run("revoked", func(t *testing.T) {
		known := file(t, "@revoked * "+h.HostKeyLine, name+" "+h.HostKeyLine)
		testhost.WantError(t, dial(t, block(h), SSH{KnownHosts: []string{known}, AcceptNew: never}), provision.ErrHostKey, "revoked", known+":1")
	})
	t.Run("known by another type than the host would present", func(t *testing.T) {
		for _, key := range h.HostKeys {
			if err := dial(t, block(h), SSH{KnownHosts: []string{file(t, name+" "+key)}, AcceptNew: never}); err != nil {
				t.Errorf("%.20s…: %v", key, err)
			}
		}
	})
	t.Run("hashed", func(t *testing.T) {
		known := file(t, name+" "+h.HostKeyLine, "")
		keygen(t, known, "-H")
		if err := dial(t, block(h), SSH{KnownHosts: []string{known}}); err != nil {
			t.Error(err)
		}
	})
	t.Run("broken file", func(t *testing.T) {
		err := dial(t, block(h), SSH{KnownHosts: []string{file(t, "nonsense")}})
		if err == nil || !strings.Contains(err.Error(), "read known hosts") {
			t.Errorf("Dial = %v, want a complaint about the file", err)
		}
	})
	t.Run("pinned", func(t *testing.T) {
		known := SSH{KnownHosts: []string{}, AcceptNew: never}
		for _, key := range h.HostKeys {
			if err := dial(t, pinned(key), known); err != nil {
				t.Errorf("%.20s…: %v", key, err)
			}
		}
		err := dial(t, pinned(strangerKey), strict(h)) // the pin outweighs the file
		testhost.WantError(t, err, provision.ErrHostKey, fingerprint(strangerKey), fingerprint(h.HostKeyLine), "host_key")
		testhost.WantError(t, dial(t, pinned("SHA256:abc"), known), provision.ErrHostKey, "not a public key")
	})
}

// TestHostKeyTypeGone is a host that has no key of the type that is known.
func TestHostKeyTypeGone(t *testing.T) {
	h := testhost.New(t, testhost.Options{})
	config := filepath.Join(h.Dir, "sshd_config")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte("HostKey "+h.Dir+"/ssh_host_ed25519_key\n"), nil)
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	host := block(h)
	host.HostKey = h.HostKeyLine
	_, err = Dial(t.Context(), host, SSH{}, nil)
	testhost.WantError(t, err, provision.ErrHostKey, "host_key expects a key of type ssh-ed25519", "ecdsa-sha2-nistp256")
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
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestUnreachable(t *testing.T) {
	alone(t)
	addr := closedPort(t)
	_, err := Dial(t.Context(), &provision.Host{Name: "h200", Address: addr, Pos: "lab.hcl:12"}, SSH{}, nil)
	testhost.WantError(t, err, provision.ErrUnreachable, "host h200 (lab.hcl:12)", addr, "connection refused")

	// serve answers every connection in some way, and says when one has come.
	serve := func(answer func(net.Conn)) (addr string, came chan struct{}) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		came = make(chan struct{}, 1)
		var all sync.WaitGroup
		all.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				came <- struct{}{}
				all.Go(func() {
					defer conn.Close()
					answer(conn)
				})
			}
		})
		t.Cleanup(func() {
			l.Close()
			all.Wait()
		})
		return l.Addr().String(), came
	}
	addr, _ = serve(func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") })
	_, err = Dial(t.Context(), &provision.Host{Name: "web", Address: addr}, SSH{}, nil)
	testhost.WantError(t, err, provision.ErrUnreachable, "host web", "no SSH handshake")

	// A listener that says nothing: only the caller can end it soon.
	addr, came := serve(func(c net.Conn) { io.Copy(io.Discard, c) })
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
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	h.Cut()
	if got := mustRun(t, c, "echo again"); got != "again\n" {
		t.Errorf("Run after a cut = %q", got)
	}
	if !strings.Contains(told.String(), `msg="connection lost, dialling again" host=h200`) {
		t.Errorf("nothing was logged: %s", told.String())
	}
	if err := h.Restart(); err != nil {
		t.Fatal(err)
	}
	addr := echo(t, "tcp", "127.0.0.1:0")
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
	if _, err := c.Run(t.Context(), "true", nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Run after Close = %v, want net.ErrClosed", err)
	}
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
	link, err := dialSSH(t.Context(), block(h), strict(h), slog.New(slog.DiscardHandler), 25*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer link.close()
	first := link.current
	h.Stall(true)
	<-first.dead
	var out strings.Builder
	if err := link.run(t.Context(), "echo again", nil, &out, io.Discard); err != nil || out.String() != "again\n" {
		t.Errorf("run after the silence = %q, %v", out.String(), err)
	}
	h.Stall(false)
}

// TestCloseOfASilentStream: who waits for news from a host that has fallen silent
// is not kept until the connection counts as dead.
func TestCloseOfASilentStream(t *testing.T) {
	h := testhost.New(t, testhost.Options{})
	ln, err := h.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c := connect(t, h)
	conn, err := c.Dial(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
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
		if err := os.WriteFile(filepath.Join(h.Home, ".bashrc"), []byte(greeting+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c := connect(t, h)
		if got := mustRun(t, c, "echo out"); got != "out\n" || c.Home() != "/root" {
			t.Errorf("%s: Run = %q, Home = %q", name, got, c.Home())
		}
	}
}
