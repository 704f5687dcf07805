package docker

import (
	"testing"

	"hclbench/provision"
	"hclbench/provision/reach/reachtest"
	"hclbench/testhost"
)

// TestDockerAccess are the ways to the daemon of a host whose login is not root: a
// socket of its own, that of root by sudo, each also where sshd forwards nothing.
func TestDockerAccess(t *testing.T) {
	h := testhost.New(t, testhost.Options{Docker: true, Login: "ada", Sudo: true})
	open := testhost.New(t, testhost.Options{Docker: true, SSHD: []string{"DisableForwarding yes"}})
	host := func(h *testhost.Host, socket string) *provision.Host {
		b := reachtest.Block(h)
		b.Docker = socket
		return b
	}
	works := func(c *Daemon, want string) {
		t.Helper()
		if _, err := c.Version(t.Context()); err != nil {
			t.Error(err)
			return
		}
		if by, _, err := c.Access(t.Context()); err != nil || by != want {
			t.Errorf("access by %q, %v, want %q", by, err, want)
		}
	}

	const system = "/var/run/docker.sock"
	works(New(reachtest.Dial(t, host(h, ""), reachtest.Strict(h)), nil), "sudo -n docker -H unix://"+system+" system dial-stdio")

	// With a socket of the login's own, as a daemon without root has.
	const own = "/run/user/61000/docker.sock"
	testhost.Do(t, h, "mkdir -p /run/user/61000 && chown ada "+h.Socket+" && ln -s "+h.Socket+" "+own)
	c := New(reachtest.Dial(t, host(h, ""), reachtest.Strict(h)), nil)
	works(c, own)
	if _, address, err := c.Access(t.Context()); err != nil || address != own {
		t.Errorf("DockerAccess = %q, %v", address, err)
	}
	testhost.Do(t, h, "rm "+own)
	works(New(reachtest.Dial(t, host(h, h.Socket), reachtest.Strict(h)), nil), h.Socket)
	works(New(reachtest.Dial(t, host(h, system), reachtest.Strict(h)), nil), "sudo -n docker -H unix://"+system+" system dial-stdio")

	works(New(reachtest.Dial(t, host(open, ""), reachtest.Strict(open)), nil), "docker -H unix://"+system+" system dial-stdio")
	open.Install("docker", "#!/bin/sh\necho no plugin here >&2\nexit 1\n")
	_, err := New(reachtest.Dial(t, host(open, ""), reachtest.Strict(open)), nil).Version(t.Context())
	testhost.WantError(t, err, provision.ErrNoDocker, system+" is there, but nobody answers", system+" (no answer)",
		"system dial-stdio (no plugin here)")

	h.Install("sudo", "#!/bin/sh\necho sudo: a password is required >&2\nexit 1\n")
	_, err = New(reachtest.Dial(t, host(h, ""), reachtest.Strict(h)), nil).Version(t.Context())
	testhost.WantError(t, err, provision.ErrNoDocker, "ada may not use "+system, "usermod -aG docker ada", "sudo: a password is required")
}
