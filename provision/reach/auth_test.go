package reach

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"hclbench/provision"
	"hclbench/testhost"
)

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
	testhost.OK(t, err)
	testhost.OK(t, os.WriteFile(to, text, 0o600))
	return to
}

// sshAgent runs the real ssh-agent with some keys.
func sshAgent(t *testing.T, keys ...string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "agent.sock")
	// With a command the agent lives as long as that does.
	cmd := exec.Command("ssh-agent", "-a", socket, "sh", "-c", "echo ready; cat")
	in, err := cmd.StdinPipe()
	testhost.OK(t, err)
	out, err := cmd.StdoutPipe()
	testhost.OK(t, err)
	testhost.OK(t, cmd.Start())
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
		testhost.OK(t, os.WriteFile(file, []byte("hello"), 0o600))
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
		_, err := Dial(t.Context(), with(file),
			SSH{KnownHosts: []string{h.KnownHosts}, Passphrase: func(string) (string, error) { return "", no }}, nil)
		testhost.WantError(t, err, no)
	})
	t.Run("encrypted key that is in the agent", func(t *testing.T) {
		file := locked(t, alone(t))
		sshAgent(t, h.IdentityFile)
		in(t, with(file), SSH{})
	})
}
