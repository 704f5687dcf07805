package testhost

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Docker is the host's own daemon. It has nothing in common with one that the
// machine may have: not its configuration, directories, sockets or containerd.
type Docker struct {
	m      *machine
	images *registries // nil: the daemon finds no way to any registry
	socket string

	liveRestore bool
	daemon      *daemon
}

// Start starts the daemon, or starts it again with the images and containers it had.
func (d *Docker) Start() error {
	in := func(name string) string { return filepath.Join(d.m.dir, name) }
	// A daemon that was killed leaves its pidfile, and refuses to start where
	// the number in it happens to be alive.
	_ = os.Remove(in("docker.pid"))
	if err := os.WriteFile(in("daemon.json"), fmt.Appendf(nil, "{\"live-restore\": %t}\n", d.liveRestore), 0o600); err != nil {
		return fmt.Errorf("write dockerd's configuration: %w", err)
	}
	args := []string{
		"--config-file", in("daemon.json"),
		"--data-root", in("docker"),
		"--exec-root", in("exec"),
		"--pidfile", in("docker.pid"),
		"--host", "unix://" + d.socket,
		"--host", "unix:///run/docker.sock",
		// A control group of its own says whose a left-over is.
		"--cgroup-parent", "/" + d.m.name,
		"--exec-opt", "native.cgroupdriver=cgroupfs",
		"--insecure-registry", "198.18.0.0/15",
		"--log-level", "warn",
	}
	if d.m.shared {
		// The network is the machine's: leave no bridge and no rule in it.
		args = append(args, "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false")
	}
	env := append([]string{"PATH=" + in("sbin") + ":" + systemPath}, d.images.environment()...)
	var err error
	if d.daemon, err = d.m.start("dockerd", env, tool("dockerd"), args...); err != nil {
		return err
	}
	return d.daemon.answered(d.answers)
}

func (d *Docker) answers() bool {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", d.socket) },
	}}
	resp, err := client.Get("http://docker/_ping")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Stop stops the daemon in the ordinary way, which stops its containers.
func (d *Docker) Stop() error { return d.daemon.end(syscall.SIGTERM) }

// Kill kills the daemon; its containers run on.
func (d *Docker) Kill() error { return d.daemon.end(syscall.SIGKILL) }

// KeepContainers has the daemon, from its next start on, leave containers running
// while it is away, and find them again ("live-restore").
func (d *Docker) KeepContainers() { d.liveRestore = true }

// PID returns the daemon's process, as the test sees it.
func (d *Docker) PID() (int, error) { return d.daemon.pid() }
