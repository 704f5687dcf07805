package provision

import (
	"io"
	"net"
	"strings"
	"testing"

	"hclbench/testhost"
)

// TestDockerAccess are the ways to the daemon of a host whose login is not root: a
// socket of its own, that of root by sudo, each also where sshd forwards nothing.
func TestDockerAccess(t *testing.T) {
	h := testhost.New(t, testhost.Options{Docker: true, Login: "ada", Sudo: true})
	open := testhost.New(t, testhost.Options{Docker: true, SSHD: []string{"DisableForwarding yes"}})
	host := func(h *testhost.Host, socket string) *Host {
		b := block(h)
		b.Docker = socket
		return b
	}
	works := func(c *Conn, want string) {
		t.Helper()
		if _, err := c.DockerVersion(t.Context()); err != nil {
			t.Error(err)
			return
		}
		if f, err := c.Facts(t.Context()); err != nil || f.DockerBy != want || f.NoDocker != "" {
			t.Errorf("Facts = %+v, %v, want access by %q", f, err, want)
		}
	}

	const system = "/var/run/docker.sock"
	works(mustDial(t, host(h, ""), strict(h)), "sudo -n docker -H unix://"+system+" system dial-stdio")

	// With a socket of the login's own, as a daemon without root has.
	const own = "/run/user/61000/docker.sock"
	on(t, h, "mkdir -p /run/user/61000 && chown ada "+h.Socket+" && ln -s "+h.Socket+" "+own)
	c := mustDial(t, host(h, ""), strict(h))
	works(c, own)
	if _, address, err := c.DockerAccess(t.Context()); err != nil || address != own {
		t.Errorf("DockerAccess = %q, %v", address, err)
	}
	on(t, h, "rm "+own)
	works(mustDial(t, host(h, h.Socket), strict(h)), h.Socket)
	works(mustDial(t, host(h, system), strict(h)), "sudo -n docker -H unix://"+system+" system dial-stdio")

	works(mustDial(t, host(open, ""), strict(open)), "docker -H unix://"+system+" system dial-stdio")
	open.Install("docker", "#!/bin/sh\necho no plugin here >&2\nexit 1\n")
	_, err := mustDial(t, host(open, ""), strict(open)).DockerVersion(t.Context())
	wantError(t, err, ErrNoDocker, system+" is there, but nobody answers", system+" (no answer)", "system dial-stdio (no plugin here)")

	h.Install("sudo", "#!/bin/sh\necho sudo: a password is required >&2\nexit 1\n")
	_, err = mustDial(t, host(h, ""), strict(h)).DockerVersion(t.Context())
	wantError(t, err, ErrNoDocker, "ada may not use "+system, "usermod -aG docker ada", "sudo: a password is required")
}

// on runs a shell command on a test host as root.
func on(t *testing.T, h *testhost.Host, command string) {
	t.Helper()
	if out, err := h.Command("sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}

// TestBridge connects by a command where sshd forwards nothing.
func TestBridge(t *testing.T) {
	h := testhost.New(t, testhost.Options{SSHD: []string{"DisableForwarding yes"}})
	c := connect(t, h)
	l, err := h.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
	if _, err := c.Dial(t.Context(), "tcp", l.Addr().String()); !isRefused(err) {
		t.Fatalf("Dial = %v, want it refused", err)
	}
	c.UseHCL(testhost.HCL(t))
	var open []net.Conn
	for range many {
		conn, err := c.Dial(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
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
		if _, err := c.Dial(t.Context(), network, addr); !isRefused(err) || !strings.Contains(err.Error(), addr) {
			t.Errorf("Dial(%s) = %v, want it refused", addr, err)
		}
	}
}
