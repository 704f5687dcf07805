package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"hclbench/plain"
)

// ReaperVerb is the verb of the hcl binary that runs [Reap].
const ReaperVerb = "reaper"

// reaperSays is the file by which a reaper says that its process runs, or why not.
const reaperSays = 3

// order is what a reaper is told to start. It travels through a pipe: it holds secrets in clear.
type order struct {
	Argv []string `json:"argv"`
	Kept kept     `json:"kept"`
}

// answer is what a reaper says of its order.
type answer struct {
	Kept  kept   `json:"kept"`
	Error string `json:"error,omitempty"`
}

// exitName is a file in a process's directory, by which its reaper tells how it has ended.
const exitName = "exit.json"

type exited struct {
	Code int `json:"code"`
}

// Reap starts the process that standard input names, in the directory that it is called in, and
// stays until nothing is left of what came of it. Engines write over their titles, and with these
// over their environments, leave their group and session, and outlive their first process. But
// every orphan among them becomes the reaper's child, whatever has become of the agent: as long as there is
// one, something is left, and when the reaper has ended, nothing. A signal has it kill them all.
func Reap(in io.Reader) error {
	syscall.CloseOnExec(reaperSays)
	says := os.NewFile(reaperSays, "agent")
	var o order
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	err := json.NewDecoder(in).Decode(&o)
	if err == nil {
		o.Kept.identity, err = o.begin()
	}
	said := answer{Kept: o.Kept}
	if err != nil {
		said.Error = err.Error()
	}
	_ = json.NewEncoder(says).Encode(said) // an agent that is gone reads nothing
	says.Close()

	children := func() []entry { return below(processTable(), os.Getpid()) }
	go func() {
		for <-signals; ; time.Sleep(time.Millisecond) { // what they fork meanwhile, too
			_ = signalAll(children(), syscall.SIGKILL) // the agent tells what does not end
		}
	}()
	if err != nil {
		signals <- syscall.SIGTERM
	}
	for {
		var status syscall.WaitStatus
		switch pid, failed := syscall.Wait4(-1, &status, 0, nil); {
		case failed == syscall.ECHILD:
			return err
		case failed == nil && pid == o.Kept.PID:
			if told := writeJSON(exitName, exited{exitCode(status)}, 0o600); told != nil { // then our own end tells
				err = errors.Join(err, told)
				_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
			}
		}
	}
}

// begin starts the process. Who it is, and who its reaper, is noted before anybody is told.
func (o *order) begin() (who identity, err error) {
	if err := adopt(); err != nil {
		return who, fmt.Errorf("become the parent of orphans: %w", err)
	}
	path, err := exec.LookPath(o.Argv[0]) // in the PATH that the process is given
	if errors.Is(err, exec.ErrNotFound) {
		err = fmt.Errorf("%w: it is %s", err, os.Getenv("PATH"))
	}
	if err != nil {
		return who, err
	}
	// Engines that are killed leave sockets and files there. It is not in this directory: a socket's path may have 107
	// characters.
	if o.Kept.Temporary, err = os.MkdirTemp("", "hcl-"); err != nil {
		return who, fmt.Errorf("make a directory for temporary files: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(o.Kept.Temporary))
		}
	}()
	if err := os.Setenv("TMPDIR", o.Kept.Temporary); err != nil {
		return who, err
	}
	o.Kept.Reaper, o.Kept.Started = identityOf(os.Getpid()), time.Now()
	if err := o.Kept.save("."); err != nil { // and when the agent has cleared up meanwhile, that is all
		return who, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return who, err
	}
	defer null.Close()
	pid, err := syscall.ForkExec(path, o.Argv, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{null.Fd(), os.Stdout.Fd(), os.Stderr.Fd()}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return who, unstarted(path, err)
	}
	o.Kept.identity = identityOf(pid)
	return o.Kept.identity, o.Kept.save(".")
}

// unstarted is why the kernel does not start a program. That something is missing may mean its
// interpreter, as after a virtual environment was moved.
func unstarted(path string, err error) error {
	failed := &os.PathError{Op: "exec", Path: path, Err: err}
	if _, gone := os.Stat(path); err != syscall.ENOENT || gone != nil {
		return failed
	}
	if by := interpreter(path); by != "" {
		return fmt.Errorf("%w: the program is there, but not %s, which its first line names to run it", failed, by)
	}
	return fmt.Errorf("%w: the program is there, but not the loader that it was built for", failed)
}

// interpreter is what the first line of a script names; empty: it is no script.
func interpreter(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _ := bufio.NewReader(io.LimitReader(f, 4<<10)).ReadString('\n')
	words := strings.Fields(strings.TrimPrefix(line, "#!"))
	if !strings.HasPrefix(line, "#!") || len(words) == 0 {
		return ""
	}
	return plain.Line(words[0])
}

// exitCode is a shell's: 128 + n for a process that signal n ended.
func exitCode(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

func (k kept) save(dir string) error { return writeJSON(filepath.Join(dir, stateName), k, 0o600) }
