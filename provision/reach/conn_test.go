package reach

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/plain"
	"hclbench/provision"
	"hclbench/testhost"
)

func TestMain(m *testing.M) { os.Exit(testhost.Main(m)) }

// block is the host block of a test host.
func block(h *testhost.Host) *provision.Host {
	return &provision.Host{Name: "h200", Address: h.Addr, User: h.User, IdentityFile: h.IdentityFile, Docker: h.Socket, Pos: "lab.hcl:12"}
}

// strict knows a test host's keys and nobody else's.
func strict(h *testhost.Host) SSH { return SSH{KnownHosts: []string{h.KnownHosts}} }

// connect dials a test host and closes the connection when the test ends.
func connect(t *testing.T, h *testhost.Host) *Conn {
	t.Helper()
	return mustDial(t, block(h), strict(h))
}

func mustDial(t *testing.T, h *provision.Host, opt SSH) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), h, opt, nil)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// mustRun runs a command that has to succeed.
func mustRun(t *testing.T, c *Conn, command string) string {
	t.Helper()
	out, err := c.Run(t.Context(), command, nil)
	if err != nil {
		t.Fatalf("Run(%s): %v", command, err)
	}
	return out
}

// places runs a test against a host behind SSH and against the local machine,
// which must not be told apart. home is a place that test and host share.
func places(t *testing.T, test func(t *testing.T, c *Conn, home string)) {
	t.Run("ssh", func(t *testing.T) {
		h := testhost.New(t, testhost.Options{})
		test(t, connect(t, h), h.Home)
	})
	t.Run("local", func(t *testing.T) {
		home := t.TempDir()
		t.Setenv("HOME", home)
		test(t, mustDial(t, &provision.Host{Name: "here", Address: provision.LocalAddress}, SSH{}), home)
	})
}

func TestRun(t *testing.T) {
	places(t, func(t *testing.T, c *Conn, home string) {
		got, err := c.Run(t.Context(), `read -r line; echo "$line" "it's" \
"$((1+1))"`, strings.NewReader("first\nsecond\n"))
		if want := "first it's 2\n"; err != nil || got != want {
			t.Errorf("Run = %q, %v, want %q", got, err, want)
		}
		if got := mustRun(t, c, `cd && pwd && printf %s "$0"`); got != c.Home()+"\nsh" {
			t.Errorf("commands run as %q, want sh in %q", got, c.Home())
		}

		out, err := c.Run(t.Context(), "echo said; seq 1 9 >&2; exit 7", nil)
		var failed *CommandError
		if !errors.As(err, &failed) {
			t.Fatalf("Run = %v, want a CommandError", err)
		}
		want := &CommandError{Host: c.Host().String(), Command: "echo said; seq 1 9 >&2; exit 7", ExitCode: 7,
			Stderr: "1\n2\n3\n4\n5\n6\n7\n8\n9\n"}
		if diff := cmp.Diff(want, failed); diff != "" {
			t.Errorf("CommandError (-want +got):\n%s", diff)
		}
		if out != "said\n" {
			t.Errorf("stdout of a failed command = %q", out)
		}
		if got, want := failed.Error(), c.Host().String()+": `echo said; seq 1 9 >&2; exit 7` exited with 7: 5 / 6 / 7 / 8 / 9"; got != want {
			t.Errorf("Error() = %q, want %q", got, want)
		}

		_, err = c.Run(t.Context(), "kill -9 $$", nil)
		if !errors.As(err, &failed) || failed.Signal == "" || failed.ExitCode != -1 {
			t.Errorf("a killed command = %v, want a signal and exit code -1", err)
		}
	})
}

// TestRunCancelled shows that a cancelled command is gone with its children:
// none of them holds the pipe any more.
func TestRunCancelled(t *testing.T) {
	places(t, func(t *testing.T, c *Conn, home string) {
		for name, command := range map[string]string{
			"obedient":  "sleep 1000; true",
			"reluctant": "trap '' TERM; sleep 1000; true",
		} {
			t.Run(name, func(t *testing.T) {
				pipe := newPipe(t, home, name)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				go func() {
					_, err := c.Run(ctx, "exec 3>"+plain.Quote(pipe.path)+"; echo begun >&3; "+command, nil)
					ended <- err
				}()
				pipe.expect(t, "begun")
				cancel()
				testhost.WantError(t, <-ended, context.Canceled)
				pipe.expectEnd(t)
			})
		}
	})
}

// pipe is a named pipe by which a command on a host says how far it is.
type pipe struct {
	path  string
	file  *os.File
	lines *bufio.Reader
}

func newPipe(t *testing.T, home, name string) *pipe {
	t.Helper()
	p := &pipe{path: filepath.Join(home, name+".pipe")}
	testhost.OK(t, syscall.Mkfifo(p.path, 0o600))
	return p
}

func (p *pipe) expect(t *testing.T, want string) {
	t.Helper()
	if p.file == nil {
		var err error
		if p.file, err = os.Open(p.path); err != nil { // waits for the writer
			t.Fatal(err)
		}
		t.Cleanup(func() { p.file.Close() })
		p.lines = bufio.NewReader(p.file)
	}
	if got, err := p.lines.ReadString('\n'); err != nil || got != want+"\n" {
		t.Fatalf("the command says %q, %v, want %q", got, err, want)
	}
}

func (p *pipe) expectEnd(t *testing.T) {
	t.Helper()
	if rest, err := io.ReadAll(p.lines); err != nil || len(rest) > 0 {
		t.Errorf("the command also says %q, %v", rest, err)
	}
}

func TestDialFromHost(t *testing.T) {
	places(t, func(t *testing.T, c *Conn, home string) {
		for _, network := range []string{"unix", "tcp"} {
			at := "127.0.0.1:0"
			if network == "unix" {
				at = filepath.Join(home, "echo.sock")
			}
			addr := serve(t, network, at, back)
			// Far more at once than sessions are allowed.
			const streams = 200
			var all sync.WaitGroup
			conns := make([]net.Conn, streams)
			for i := range conns {
				all.Go(func() {
					conn, err := c.Dial(t.Context(), network, addr)
					if err != nil {
						t.Errorf("Dial(%s, %s): %v", network, addr, err)
						return
					}
					conns[i] = conn
				})
			}
			all.Wait()
			for _, conn := range conns {
				if conn == nil {
					continue
				}
				all.Go(func() {
					defer conn.Close()
					got := make([]byte, 5)
					_, err := io.WriteString(conn, "hello")
					if err == nil {
						_, err = io.ReadFull(conn, got)
					}
					if err != nil || string(got) != "hello" {
						t.Errorf("echo over %s = %q, %v", network, got, err)
					}
				})
			}
			all.Wait()
		}
		if _, err := c.Dial(t.Context(), "unix", filepath.Join(home, "absent.sock")); err == nil || errors.Is(err, provision.ErrUnreachable) {
			t.Errorf("Dial of a socket that is not there = %v, want an error that is not ErrUnreachable", err)
		}
		mustRun(t, c, "true")
	})
}

// back sends back what comes.
func back(conn net.Conn) { _, _ = io.Copy(conn, conn) }

// serve answers connections.
func serve(t *testing.T, network, addr string, answer func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen(network, addr)
	testhost.OK(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
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
	return l.Addr().String()
}

func TestUpload(t *testing.T) {
	places(t, func(t *testing.T, c *Conn, home string) {
		local := filepath.Join(t.TempDir(), "local")
		write := func(text string) { testhost.OK(t, os.WriteFile(local, []byte(text), 0o600)) }
		script := "#!/bin/sh\nread -r line <&4\necho done >&3\n"
		write(script)
		if err := c.Upload(t.Context(), local, "~/.cache/hcl/bin/tool", 0o750); err != nil {
			t.Fatalf("Upload: %v", err)
		}
		there := filepath.Join(home, ".cache/hcl/bin/tool")
		check := func(want string, mode fs.FileMode) {
			t.Helper()
			got, err := os.ReadFile(there)
			if err != nil || string(got) != want {
				t.Errorf("uploaded file has %d bytes, %v, want %d", len(got), err, len(want))
			}
			if info, err := os.Stat(there); err != nil || info.Mode() != mode {
				t.Errorf("uploaded file: %v, %v, want mode %v", info, err, mode)
			}
			if left, err := os.ReadDir(filepath.Dir(there)); err != nil || len(left) != 1 {
				t.Errorf("its folder holds %v, %v, want the file alone", left, err)
			}
		}
		check(script, 0o750)

		// A program that runs is replaced under it.
		said := newPipe(t, home, "said")
		told := newPipe(t, home, "told")
		ended := make(chan error, 1)
		go func() {
			_, err := c.Run(t.Context(),
				"exec 3>"+plain.Quote(said.path)+"; echo begun >&3; exec 4<"+plain.Quote(told.path)+"; ~/.cache/hcl/bin/tool", nil)
			ended <- err
		}()
		said.expect(t, "begun")
		big := strings.Repeat("0123456789abcdef", 1<<17)
		write(big)
		if err := c.Upload(t.Context(), local, there, 0o600); err != nil {
			t.Fatalf("Upload over a program that runs: %v", err)
		}
		check(big, 0o600)
		tell, err := os.OpenFile(told.path, os.O_WRONLY, 0)
		testhost.OK(t, err)
		tell.Close()
		<-ended // with which version of the script does not matter here

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		write("never")
		testhost.WantError(t, c.Upload(ctx, local, there, 0o600), context.Canceled)
		check(big, 0o600)
		testhost.WantError(t, c.Upload(t.Context(), local+".absent", there, 0o600), fs.ErrNotExist)
		if err := c.Upload(t.Context(), local, filepath.Join(there, "below"), 0o600); err == nil {
			t.Error("Upload below a file succeeded")
		}
		check(big, 0o600)
	})
}

// TestUploadDiskFull shows that a copy that does not fit, or for which there is no number
// of a file left, leaves no trace.
func TestUploadDiskFull(t *testing.T) {
	h := testhost.New(t, testhost.Options{})
	c := connect(t, h)
	testhost.Do(t, h, "cd /root && mkdir small few && mount -t tmpfs -o size=64k tmpfs small && "+
		"mount -t tmpfs -o nr_inodes=1 tmpfs few && echo old >small/file")
	local := filepath.Join(t.TempDir(), "local")
	testhost.OK(t, os.WriteFile(local, make([]byte, 1<<20), 0o600))
	for remote, says := range map[string][]string{
		"~/small/file":      {"No space left on device", "the disk with /root/small is full", " kB free, of 1024 kB that are needed"},
		"~/few/file":        {"takes no more files"},
		"~/few/folder/file": {"cannot create directory", "the disk with /root/few is full", "takes no more files"},
	} {
		testhost.WantError(t, c.Upload(t.Context(), local, remote, 0o600), nil, says...)
	}
	if got, want := mustRun(t, c, "cat small/file; ls -A small few"), "old\nfew:\n\nsmall:\nfile\n"; got != want {
		t.Errorf("after the uploads: %q, want %q", got, want)
	}
}

// TestBridge connects by a command where sshd forwards nothing.
func TestBridge(t *testing.T) {
	h := testhost.New(t, testhost.Options{SSHD: []string{"DisableForwarding yes"}})
	c := connect(t, h)
	l, err := h.Listen("127.0.0.1:0")
	testhost.OK(t, err)
	const many = 20 // more than sshd allows sessions
	served := make(chan error, many)
	for range many {
		go func() {
			conn, err := l.Accept()
			if err == nil {
				_, err = io.Copy(conn, conn)
				conn.Close()
			}
			served <- err
		}()
	}
	if _, err := c.Dial(t.Context(), "tcp", l.Addr().String()); !Refused(err) {
		t.Fatalf("Dial = %v, want it refused", err)
	}
	c.UseHCL(testhost.HCL(t))
	var open []net.Conn
	for range many {
		conn, err := c.Dial(t.Context(), "tcp", l.Addr().String())
		testhost.OK(t, err)
		open = append(open, conn)
	}
	for _, conn := range open {
		go io.WriteString(conn, "there and back\n")
		if line, err := readLine(conn); err != nil || line != "there and back" {
			t.Errorf("read %q, %v", line, err)
		}
		conn.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
	l.Close()
	for network, addr := range map[string]string{"tcp": l.Addr().String(), "unix": "/nobody/here"} {
		if _, err := c.Dial(t.Context(), network, addr); !Refused(err) || !strings.Contains(err.Error(), addr) {
			t.Errorf("Dial(%s) = %v, want it refused", addr, err)
		}
	}
}
