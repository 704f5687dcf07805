package reach

import (
	"bytes"
	cmp2 "cmp"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
	"hclbench/testhost"
)

// writeConfig writes an SSH configuration.
func writeConfig(t *testing.T, format string, args ...any) SSH {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	testhost.OK(t, os.WriteFile(file, fmt.Appendf(nil, format, args...), 0o600))
	return SSH{Config: []string{"/nonexistent/config", file}}
}

// TestSSHConfig reaches a host, behind another, by what the SSH configuration alone says.
func TestSSHConfig(t *testing.T) {
	bastion := testhost.New(t, testhost.Options{Name: "bastion"})
	inner := testhost.New(t, testhost.Options{Name: "inner"})
	innerHost, innerPort, err := net.SplitHostPort(inner.Addr)
	testhost.OK(t, err)
	gate, gatePort, err := net.SplitHostPort(bastion.Addr)
	testhost.OK(t, err)
	opt := writeConfig(t, `
Host gpu-box
  HostName %s
  Port %s
  IdentityFile %s
  IdentitiesOnly yes
  UserKnownHostsFile %s
  ProxyJump gate

Host gate
  HostName %s
  Port %s
  IdentityFile /nonexistent/key
  IdentityFile "%s"
  UserKnownHostsFile %s

Host *
  User %s
  ProxyJump gate
`, innerHost, innerPort, inner.IdentityFile, inner.KnownHosts, gate, gatePort, bastion.IdentityFile, bastion.KnownHosts, inner.User)
	c := mustDial(t, &provision.Host{Name: "h200", Address: "gpu-box", Pos: "lab.hcl:12"}, opt)
	if got := mustRun(t, c, "hostname"); got != "inner\n" {
		t.Errorf("hostname = %q", got)
	}
	if open, _ := bastion.Connections(); open != 1 {
		t.Errorf("%d connections to the jump host, want 1", open)
	}
}

// TestAsSSHReadsIt holds what we make of configurations against what ssh does.
func TestAsSSHReadsIt(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		testhost.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600))
	}
	write("one.conf", "User one\nHost inner\n  Port 1\n  HostName one.example\nMatch exec true host none\n  Port 99\n")
	write("two.conf", "User two\nIdentityFile /k/two\n")
	configs := []string{
		"",
		"Host box\n  HostName first\n  Port 1\nHost *\n  HostName second\n  Port 2\n  User star\n",
		"Port 7\nHost box\n  Port 8\n",
		"host=box\n  hostname = \"a.example\"\n  PORT\t=\t9 # why\n",
		"Host b?x *.example !no.example\n  User pattern\nHost !box *\n  User other\nHost inner # the other\n  Port 5\n",
		"Match all\n  User all\n",
		"Match host box,other\n  User matched\nMatch !host box\n  User unmatched\n",
		"Host box\n  HostName real.example\nMatch host real.example\n  User byreal\nMatch originalhost box\n  Port 44\nMatch host box\n  Port 55\n",
		"Host box\n  User ada\nMatch user ada\n  Port 11\nMatch user bob\n  Port 12\n",
		"Match localuser nobodyatall\n  User x\nMatch localuser root,nobody user *\n  Port 3\n",
		"Match host *.example\n  User x\nMatch host \"box\" user *\n  Port 17\n",
		"Match final\n  User y\nMatch canonical all\n  User z\n",
		"Include DIR/one.conf\nHost *\n  User star\n  Port 6\n",
		"Include DIR/*.conf\n",
		"Host other\n  Include DIR/one.conf\nHost *\n  Include DIR/two.conf\n",
		"Include DIR/missing DIR/two.conf\n",
		"IdentityFile /k/a\nHost box\n  IdentityFile \"/k/b c\"\n  IdentityFile /k/a\n  CertificateFile /k/cert\nHost *\n  IdentityFile /k/d\n  IdentitiesOnly yes\n",
		"UserKnownHostsFile /k/one \"/k/t w o\"\nStrictHostKeyChecking accept-new\n",
		"StrictHostKeyChecking no\nHost *\n  StrictHostKeyChecking yes\n",
		"Host box\n  ProxyJump ada@gate:2222\nHost *\n  ProxyJump gate2\n",
		"Host box\n  ProxyJump none\nHost *\n  ProxyJump gate2\n",
		"Host box\n  ProxyCommand none\nHost *\n  ProxyJump gate2\n",
		"Host box\n  ProxyJump gate\nHost *\n  ProxyCommand nc %h %p\n",
		"Host box inner\n  HostName %h.example\nHost *.example\n  User example\n",
		"Host  'box'\n  User \"two words\"\n\n# Host box\n   # more\nHost *\n\tPort 66\n",
	}
	for _, text := range configs {
		write("config", text)
		for _, name := range []string{"box", "inner", "no.example", "other"} {
			out, err := exec.Command("ssh", "-G", "-F", filepath.Join(dir, "config"), name).CombinedOutput()
			if err != nil {
				t.Fatalf("ssh -G: %v: %s\n%s", err, out, text)
			}
			want := map[string][]string{}
			for line := range strings.Lines(string(out)) {
				key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
				want[key] = append(want[key], value)
			}
			said, err := readSSHFiles([]string{filepath.Join(dir, "config")}, name, "")
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			got := map[string][]string{
				"hostname": {said.hostName()}, "user": {said.user()}, "port": {cmp2.Or(said.one("Port"), "22")},
			}
			for key, word := range map[string]string{"identitiesonly": said.one("IdentitiesOnly"), "stricthostkeychecking": said.one("StrictHostKeyChecking"), "proxyjump": said.one("ProxyJump")} {
				if was := map[string]string{"yes": "true", "no": "false"}[word]; key == "stricthostkeychecking" && was != "" {
					word = was
				}
				if word != "" && word != "none" {
					got[key] = []string{word}
				}
			}
			if files := said.values("IdentityFile"); len(files) > 0 {
				got["identityfile"] = files
			}
			if files := said.values("CertificateFile"); len(files) > 0 {
				got["certificatefile"] = files
			}
			if files := said.said["userknownhostsfile"]; len(files) > 0 {
				got["userknownhostsfile"] = []string{strings.Join(files[0], " ")}
			}
			for key := range want {
				unset := got[key] == nil && (key == "proxyjump" || key == "certificatefile")
				if diff := cmp.Diff(want[key], got[key]); (got[key] != nil || unset) && diff != "" {
					t.Errorf("%s of %s (-ssh +hcl):\n%s\n%s", key, name, diff, text)
				}
			}
			if got["proxyjump"] != nil && want["proxyjump"] == nil {
				t.Errorf("%s jumps to %v, ssh does not:\n%s", name, got["proxyjump"], text)
			}
		}
	}
}

// TestSSHConfigHostKey is StrictHostKeyChecking, which may let a new key in and never a changed one.
func TestSSHConfigHostKey(t *testing.T) {
	h := testhost.New(t, testhost.Options{})
	known := filepath.Join(t.TempDir(), "known_hosts")
	var told bytes.Buffer
	dial := func(how string) error {
		opt := writeConfig(t, "Host *\n  StrictHostKeyChecking %s\n  UserKnownHostsFile %s\n", how, known)
		opt.AcceptNew = func(*provision.Host, string) bool {
			t.Errorf("%s: somebody was asked", how)
			return true
		}
		c, err := Dial(t.Context(), block(h), opt, slog.New(slog.NewTextHandler(&told, nil)))
		if err != nil {
			return err
		}
		return c.Close()
	}
	testhost.WantError(t, dial("yes"), provision.ErrHostKeyUnknown)
	testhost.OK(t, dial("accept-new"))
	if !strings.Contains(told.String(), "accepting a new host key") || !strings.Contains(told.String(), "SHA256:") {
		t.Errorf("told: %s", told.String())
	}
	if err := dial("yes"); err != nil {
		t.Errorf("a key that was accepted before: %v", err)
	}
	text, err := os.ReadFile(known)
	testhost.OK(t, err)
	other := testhost.New(t, testhost.Options{})
	_, key, _ := strings.Cut(other.HostKeyLine, " ")
	name, _, _ := strings.Cut(string(text), " ")
	if strings.HasPrefix(other.HostKeyLine, "ssh-") {
		key = other.HostKeyLine
	}
	testhost.OK(t, os.WriteFile(known, []byte(name+" "+strings.TrimSpace(key)+"\n"), 0o600))
	testhost.WantError(t, dial("no"), provision.ErrHostKey, "has changed")
}

// TestHostKeyChangesInMidRun is a host that becomes another machine while we are
// connected: whatever accepts new keys, a changed one is refused, and said to be.
func TestHostKeyChangesInMidRun(t *testing.T) {
	for _, how := range []string{"pinned", "known", "accept-new", "no"} {
		t.Run(how, func(t *testing.T) {
			h := testhost.New(t, testhost.Options{})
			host, opt := block(h), strict(h)
			says := "the host key of "
			switch how {
			case "pinned":
				host.HostKey, opt.KnownHosts, says = h.HostKeyLine, nil, "the host presents the key"
			case "accept-new", "no":
				opt = writeConfig(t, "Host *\n  StrictHostKeyChecking %s\n  UserKnownHostsFile %s\n", how,
					filepath.Join(t.TempDir(), "known_hosts"))
				opt.AcceptNew = func(*provision.Host, string) bool { return true }
			}
			c := mustDial(t, host, opt)
			mustRun(t, c, "true")
			testhost.OK(t, h.ChangeHostKeys(true))
			h.Cut()
			for range 2 {
				_, err := c.Run(t.Context(), "true", nil)
				testhost.WantError(t, err, provision.ErrHostKey, says)
				_, err = c.Dial(t.Context(), "unix", "/run/nobody")
				testhost.WantError(t, err, provision.ErrHostKey, says)
			}
			testhost.OK(t, h.ChangeHostKeys(false))
			mustRun(t, c, "true")
		})
	}
}

// TestCertificate logs in with a key that the host knows only by who signed it.
func TestCertificate(t *testing.T) {
	h := testhost.New(t, testhost.Options{})
	dir := t.TempDir()
	keygen := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ssh-keygen", append([]string{"-q"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen %v: %v: %s", args, err, out)
		}
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	keygen("-t", "ed25519", "-N", "", "-f", in("authority"))
	keygen("-t", "ed25519", "-N", "", "-f", in("id"))
	public, err := os.ReadFile(in("authority.pub"))
	testhost.OK(t, err)
	testhost.OK(t, os.WriteFile(h.IdentityFile+".pub", append([]byte("cert-authority "), public...), 0o600))
	host := block(h)
	host.IdentityFile = in("id")
	_, err = Dial(t.Context(), host, strict(h), nil)
	testhost.WantError(t, err, provision.ErrAuth)

	keygen("-s", in("authority"), "-I", "ada", "-n", h.User, in("id.pub"))
	mustRun(t, mustDial(t, host, strict(h)), "true") // id-cert.pub, beside the key

	testhost.OK(t, os.Rename(in("id-cert.pub"), in("elsewhere.pub")))
	host.IdentityFile = ""
	opt := writeConfig(t, "Host *\n  IdentityFile %s\n  CertificateFile %s\n", in("id"), in("elsewhere.pub"))
	opt.KnownHosts = []string{h.KnownHosts}
	mustRun(t, mustDial(t, host, opt), "true")
}

func TestConfigure(t *testing.T) {
	opt := writeConfig(t, `
Host a
  HostName %%h.example
  IdentityFile ~/keys/%%r@%%h
Host b
  ProxyJump ada@one:2222, ssh://two
Host c
  ProxyCommand nc %%h %%p
Host d
  ProxyCommand none
  ProxyJump none
Host e
  ProxyJump f
Host f
  ProxyJump e
`)
	type got struct{ Address, User, Jump, Identities string }
	for address, want := range map[string]got{
		"a":       {"a.example:22", "", "", "~/keys/%r@a.example"},
		"a:77":    {"a.example:77", "", "", "~/keys/%r@a.example"},
		"b":       {"b:22", "", "two@ via one:2222@ada", ""},
		"d":       {"d:22", "", "", ""},
		"[::1]":   {"[::1]:22", "", "", ""},
		"unknown": {"unknown:22", "", "", ""},
	} {
		h, o, err := configure(&provision.Host{Name: "h", Address: address}, opt)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		var jumps []string
		for j := h.Jump; j != nil; j = j.Jump {
			jumps = append(jumps, j.Address+"@"+j.User)
		}
		me, err := loginName(&provision.Host{})
		testhost.OK(t, err)
		identities := strings.ReplaceAll(strings.Join(o.from.identities, " "), "/"+me+"@", "/%r@")
		if diff := cmp.Diff(want, got{h.Address, h.User, strings.Join(jumps, " via "), identities}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", address, diff)
		}
	}
	_, _, err := configure(&provision.Host{Name: "h", Address: "c", Pos: "lab.hcl:1"}, opt)
	testhost.WantError(t, err, provision.ErrUnreachable, "host h (lab.hcl:1)", "ProxyCommand, which hcl does not run")
	_, err = Dial(t.Context(), &provision.Host{Name: "h", Address: "e"}, opt, nil)
	testhost.WantError(t, err, provision.ErrUnreachable, "circle")
	h, _, err := configure(&provision.Host{Name: "h", Address: "c"},
		writeConfig(t, "Match exec \"true\"\n  User nobody\nMatch host c\n  Port 7\nHost c\n  User me\n"))
	if err != nil || h.Address != "c:7" || h.User != "me" {
		t.Errorf("a configuration with Match: %+v, %v", h, err)
	}
	_, _, err = configure(&provision.Host{Name: "h", Address: "c"}, writeConfig(t, "Include %s/[\n", t.TempDir()))
	testhost.WantError(t, err, nil, "read the SSH configuration")

	own := &provision.Host{Name: "h", Address: "b", User: "me", IdentityFile: "~/mine", Jump: &provision.Host{Name: "j", Address: "j"}}
	h, _, err = configure(own, opt)
	if err != nil || h.User != "me" || h.IdentityFile != "~/mine" || h.Jump != own.Jump {
		t.Errorf("what the block says: %+v, %v", h, err)
	}
}
