package testhost

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// daemon is a program that runs on a host until it is ended, with the host at the latest.
type daemon struct {
	name   string
	m      *machine
	cmd    *exec.Cmd
	exited chan struct{}
}

// daemonWait is how long a daemon may take to answer or to end; a second or two are
// usual, more on a busy machine.
const daemonWait = 60 * time.Second

// start starts a program on the host that goes on running. What it says goes to the end of
// NAME.log in the host's directory; env comes after root's clean environment.
func (m *machine) start(name string, env []string, program string, args ...string) (*daemon, error) {
	d := &daemon{name: name, m: m, cmd: m.command(program, args...)}
	d.cmd.Env = append(d.cmd.Env, env...)
	if err := d.start(); err != nil {
		return nil, err
	}
	m.daemons = append(m.daemons, d)
	return d, nil
}

func (d *daemon) start() error {
	log, err := os.OpenFile(filepath.Join(d.m.dir, d.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log of %s: %w", d.name, err)
	}
	defer log.Close()
	d.cmd.Stdout, d.cmd.Stderr = log, log
	if err := d.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", d.name, err)
	}
	cmd, exited := d.cmd, make(chan struct{})
	d.exited = exited
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	return nil
}

// again starts a daemon that has ended.
func (d *daemon) again() error {
	next := exec.Command(d.cmd.Path, d.cmd.Args[1:]...)
	next.Env, next.Dir = d.cmd.Env, d.cmd.Dir
	d.cmd = next
	return d.start()
}

// answered waits until the daemon answers, or has ended.
func (d *daemon) answered(answers func() bool) error {
	answered := eventually(daemonWait, func() bool { return d.ended() || answers() })
	if d.ended() {
		return fmt.Errorf("start %s: it ended (%s)", d.name, d.cmd.ProcessState)
	}
	if !answered {
		return fmt.Errorf("start %s: no answer within %v", d.name, daemonWait)
	}
	return nil
}

func (d *daemon) ended() bool {
	select {
	case <-d.exited:
		return true
	default:
		return false
	}
}

// pid returns the daemon's process, as the test sees it: what entered the host for it
// has that one child.
func (d *daemon) pid() (int, error) {
	for _, pid := range children(d.cmd.Process.Pid) {
		return pid, nil
	}
	return 0, fmt.Errorf("find %s: it does not run", d.name)
}

func (d *daemon) end(signal syscall.Signal) error {
	pid, err := d.pid()
	if err == nil {
		err = syscall.Kill(pid, signal)
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", d.name, err)
	}
	select {
	case <-d.exited:
		return nil
	case <-time.After(daemonWait):
		return fmt.Errorf("stop %s: still there %v after %v", d.name, daemonWait, signal)
	}
}
