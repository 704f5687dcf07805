package reach

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hclbench/provision"
	"hclbench/testhost"
)

func TestHostKey(t *testing.T) {
	alone(t)
	h := testhost.New(t, testhost.Options{})
	host, port, err := net.SplitHostPort(h.Addr)
	testhost.OK(t, err)
	name := fmt.Sprintf("[%s]:%s", host, port)
	stranger, err := os.ReadFile(keygen(t, filepath.Join(t.TempDir(), "stranger"), "-t", "ed25519", "-N", "") + ".pub")
	testhost.OK(t, err)
	strangerKey := strings.Join(strings.Fields(string(stranger))[:2], " ")
	file := func(t *testing.T, lines ...string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "known_hosts")
		testhost.OK(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
		return path
	}
	fingerprint := func(line string) string {
		t.Helper()
		cmd := exec.Command("ssh-keygen", "-lf", "-")
		cmd.Stdin = strings.NewReader(line)
		out, err := cmd.Output()
		testhost.OK(t, err)
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
		testhost.WantError(t, err, provision.ErrHostKeyUnknown, "host h200 (lab.hcl:12)", fingerprint(h.HostKeyLine),
			known, absent, "--accept-new-host-keys", `host_key = "`+h.HostKeyLine+`"`)
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
		testhost.WantError(t, err, provision.ErrHostKey, "host h200 (lab.hcl:12)", known+":2", fingerprint(strangerKey),
			fingerprint(h.HostKeyLine), "ssh-keygen -f "+known+" -R '"+name+"'")
		if errors.Is(err, provision.ErrHostKeyUnknown) {
			t.Error("a changed key is called unknown")
		}
	})
	t.Run("revoked", func(t *testing.T) {
		known := file(t, "@revoked * "+h.HostKeyLine, name+" "+h.HostKeyLine)
		testhost.WantError(t, dial(t, block(h), SSH{KnownHosts: []string{known}, AcceptNew: never}),
			provision.ErrHostKey, "revoked", known+":1")
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
		testhost.WantError(t, err, nil, "read known hosts")
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
	testhost.OK(t, err)
	text = bytes.ReplaceAll(text, []byte("HostKey "+h.Dir+"/ssh_host_ed25519_key\n"), nil)
	testhost.OK(t, os.WriteFile(config, text, 0o600))
	host := block(h)
	host.HostKey = h.HostKeyLine
	_, err = Dial(t.Context(), host, SSH{}, nil)
	testhost.WantError(t, err, provision.ErrHostKey, "host_key expects a key of type ssh-ed25519", "ecdsa-sha2-nistp256")
}
