// Package testhost makes the hosts that the tests of all rooms provision: a
// real sshd, a real dockerd and a registry behind it, on this machine.
//
// A [Host] is a small machine made of Linux namespaces: mounts, processes and
// host name are its own, and with [Options.Namespace] its network too. Its
// root's home is an empty directory, /run is its own (so /var/run/docker.sock is
// its own daemon and never the machine's), and everything that runs on it, be it
// detached ever so well, dies in the same instant as its first process. That
// process waits for the test's end of a pipe, so a host does not outlive the
// test process even when that is killed.
//
// The package knows nothing of what is tested with it: no lab, no engine kinds,
// none of our other rooms. It is imported by tests only and needs root.
package testhost

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Options say what a host has. The zero value is a host with sshd alone, that
// shares the machine's network.
type Options struct {
	Name     string // host name it reports; empty: "testhost"
	Docker   bool   // a dockerd of its own
	Registry bool   // image registries, see [Host.PushEngine]; without, every pull fails as on a host without a way out

	// NoWayOut keeps the host's daemon from every registry with a name, although
	// there are some: the test reaches them, see [Host.RegistryClient].
	NoWayOut bool

	// Namespace gives the host a network of its own, reached at an address of
	// its own. Without it the host is 127.0.0.1 and its containers share ports
	// with the machine and with hosts of other tests: use it wherever an engine
	// listens on its usual port. Docker's bridge network and published ports
	// exist only with it. There is no way from such a host to the world.
	Namespace bool

	// Login is who logs in; empty: root. Such a user belongs to no group of use:
	// not to Docker's, nor to those of the GPUs.
	Login string

	// Other is somebody else who may log in, by the same key, with a home of their own.
	Other string

	// Sudo lets Login and Other become root without a password.
	Sudo bool

	// SSHD are lines of the server's configuration: "AllowStreamLocalForwarding no".
	SSHD []string

	// GPU puts recorded tools and device nodes of that make on the host, and for
	// NVIDIA lets the daemon grant GPU requests: "8xH200" or "8xMI300X". Empty: none.
	GPU string
}

// Host is a running test host.
type Host struct {
	Name         string
	Addr         string // of sshd, "IP:port", as the test reaches it
	IP           string // of the host, as the test reaches it
	User         string
	IdentityFile string   // private key that User logs in with
	KnownHosts   string   // file with all the host's keys
	HostKeyLine  string   // its ed25519 key, "ssh-ed25519 AAAA…"
	HostKeys     []string // all its keys, each "type base64"
	Socket       string   // Docker's socket, valid on the host and for the test; on the host also /var/run/docker.sock
	Docker       *Docker  // its daemon; nil without one
	Registry     string   // "IP:port" of a plain HTTP registry, as the test and the daemon reach it
	Home         string   // User's home directory, as the test sees it
	Temporary    string   // the TMPDIR of those who log in
	Dir          string   // all its files

	machine *machine
	sshd    *sshd
	images  *registries
}

// New starts a host and stops it when the test ends, however it ends. It fails
// the test when the machine lacks something, with what to do.
func New(t testing.TB, opt Options) *Host {
	t.Helper()
	if err := ready(opt); err != nil {
		t.Fatal(err)
	}
	sweepOnce()
	h, err := start(t, opt)
	if err != nil {
		t.Fatalf("start test host: %v", err)
	}
	return h
}

// sweepOnce clears once per process what interrupted earlier runs left.
var sweepOnce = sync.OnceFunc(func() { _ = Sweep() })

func start(t testing.TB, opt Options) (*Host, error) {
	dir, err := newDir()
	if err != nil {
		return nil, err
	}
	h := &Host{Name: cmp.Or(opt.Name, "testhost"), User: cmp.Or(opt.Login, "root"), Dir: dir}
	t.Cleanup(func() {
		if t.Failed() {
			h.logTails(t)
		}
		if err := h.stop(); err != nil {
			t.Errorf("stop test host: %v", err)
		}
	})
	h.Home = filepath.Join(dir, "home")
	if err := os.MkdirAll(h.Home, 0o700); err != nil {
		return nil, fmt.Errorf("make home: %w", err)
	}
	h.Temporary = filepath.Join(dir, "tmp")
	if err := errors.Join(os.Mkdir(h.Temporary, 0o777), os.Chmod(h.Temporary, 0o777|os.ModeSticky)); err != nil {
		return nil, fmt.Errorf("make directory for temporary files: %w", err)
	}
	if err := h.installTools(opt.GPU); err != nil {
		return nil, err
	}
	if h.machine, err = startMachine(h.Name, dir, opt); err != nil {
		return nil, err
	}
	h.IP = h.machine.ip
	if h.sshd, err = startSSHD(h.machine, opt.SSHD); err != nil {
		return nil, err
	}
	h.Addr = h.sshd.addr
	h.IdentityFile = filepath.Join(dir, "id_ed25519")
	h.KnownHosts = filepath.Join(dir, "known_hosts")
	h.HostKeys = h.sshd.hostKeys
	h.HostKeyLine = h.HostKeys[0]
	if opt.Registry {
		if h.images, err = startRegistries(h.machine); err != nil {
			return nil, err
		}
		h.Registry = h.images.addr
	}
	if opt.Docker {
		reached := h.images
		if opt.NoWayOut {
			reached = nil
		}
		h.Docker = &Docker{m: h.machine, images: reached, socket: filepath.Join(dir, "docker.sock")}
		h.Socket = h.Docker.socket
		if err := h.Docker.Start(); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (h *Host) stop() error {
	if h.sshd != nil {
		h.sshd.close()
	}
	if h.images != nil {
		h.images.close()
	}
	if h.machine != nil {
		h.machine.kill()
	}
	return removeDir(h.Dir)
}

// logTails shows the end of the host's own logs beside a failure: short, so that the failure
// itself is still seen where somebody shows only a part of the output.
func (h *Host) logTails(t testing.TB) {
	logs, _ := filepath.Glob(filepath.Join(h.Dir, "*.log"))
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil || len(text) == 0 {
			continue
		}
		t.Logf("%s of %s ends:\n%s", filepath.Base(path), h.Name, text[max(0, len(text)-240):])
	}
}

func ready(opt Options) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("test hosts are made of namespaces and need root: run the tests with sudo, such as `sudo make test`")
	}
	need := map[string]string{"sshd": "openssh-server", "ssh-keygen": "openssh-client", "nsenter": "util-linux", "mount": "mount"}
	if opt.Namespace {
		need["ip"] = "iproute2"
	}
	if opt.Sudo {
		need["sudo"] = "sudo"
	}
	if opt.Docker {
		need["dockerd"], need["iptables"] = "docker.io", "iptables"
	}
	return lacking(need)
}

// lacking says which programs this machine has not, by the packages that bring them.
func lacking(need map[string]string) error {
	var missing []string
	for name, pkg := range need {
		if tool(name) == name {
			missing = append(missing, name+" (package "+pkg+")")
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("this machine lacks %s: run scripts/prepare", strings.Join(missing, ", "))
	}
	return nil
}

// systemPath is where the host's daemons and logins find programs. It is not
// the caller's PATH: what a host has must not depend on who tests.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// tool is the path of a program, or only its name where it is not there. It is looked
// up in systemPath, which, unlike the caller's own PATH, always has the sbin directories.
func tool(name string) string {
	for _, dir := range filepath.SplitList(systemPath) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return name // whoever runs it gets the error
}

// eventually calls ok until it is true, or the time is over.
func eventually(within time.Duration, ok func() bool) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.Now().Add(within)
	for !ok() {
		if time.Now().After(end) {
			return false
		}
		<-tick.C
	}
	return true
}

// OK ends a test when there is an error.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// WantError checks an error's kind, where nil is any, and that its text helps.
func WantError(t *testing.T, err, kind error, texts ...string) {
	t.Helper()
	if err == nil || kind != nil && !errors.Is(err, kind) {
		t.Fatalf("error = %v, want %v", err, kind)
	}
	t.Log(err)
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error does not say %q: %v", text, err)
		}
	}
}

// Do runs a shell command on a host as root; it has to succeed.
func Do(t *testing.T, h *Host, command string) {
	t.Helper()
	if out, err := h.Command("sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}
