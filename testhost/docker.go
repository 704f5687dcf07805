package testhost

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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
	cmd         *exec.Cmd
	exited      chan struct{}
}

// dockerStart is how long the daemon may take to answer; one to two seconds are
// usual, more on a busy machine.
const dockerStart = 60 * time.Second

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
	log, err := os.OpenFile(in("dockerd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open dockerd's log: %w", err)
	}
	defer log.Close()
	cmd := d.m.command(tool("dockerd"), args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(cmd.Env, "PATH="+in("sbin")+":"+systemPath)
	cmd.Env = append(cmd.Env, d.images.environment()...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start dockerd: %w", err)
	}
	exited := make(chan struct{})
	d.cmd, d.exited = cmd, exited
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	ended := func() bool {
		select {
		case <-exited:
			return true
		default:
			return false
		}
	}
	answered := eventually(dockerStart, func() bool { return ended() || d.answers() })
	if ended() {
		return fmt.Errorf("start dockerd: it ended (%s)", cmd.ProcessState)
	}
	if !answered {
		return fmt.Errorf("start dockerd: no answer on %s within %v", d.socket, dockerStart)
	}
	return nil
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

func (d *Docker) end(signal syscall.Signal) error {
	pid, err := d.PID()
	if err == nil {
		err = syscall.Kill(pid, signal)
	}
	if err != nil {
		return fmt.Errorf("stop dockerd: %w", err)
	}
	select {
	case <-d.exited:
		return nil
	case <-time.After(dockerStart):
		return fmt.Errorf("stop dockerd: still there %v after %v", dockerStart, signal)
	}
}

// Stop stops the daemon in the ordinary way, which stops its containers.
func (d *Docker) Stop() error { return d.end(syscall.SIGTERM) }

// Kill kills the daemon; its containers run on.
func (d *Docker) Kill() error { return d.end(syscall.SIGKILL) }

// KeepContainers has the daemon, from its next start on, leave containers running
// while it is away, and find them again ("live-restore").
func (d *Docker) KeepContainers() { d.liveRestore = true }

// PID returns the daemon's process, as the test sees it.
func (d *Docker) PID() (int, error) {
	for _, pid := range children(d.cmd.Process.Pid) {
		name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
		if err == nil && strings.TrimSpace(string(name)) == "dockerd" {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("find dockerd of %s: it does not run", d.m.name)
}
