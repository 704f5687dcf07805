package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"hclbench/provision"
)

// processSpec is a process as the caller asks for it. It travels over the SSH
// connection and is not kept: it holds secrets in clear.
type processSpec struct {
	Argv       []string          `json:"argv"`
	Env        []string          `json:"env"` // "NAME=value", beside the agent's own environment
	Files      map[string]string `json:"files,omitempty"`
	Labels     map[string]string `json:"labels"`
	StopSignal string            `json:"stop_signal"`
	StopGrace  time.Duration     `json:"stop_grace"`
}

// process is a child in a process group of its own. What a later agent needs to
// find and stop it is kept in its directory.
type process struct {
	dir string
	kept
	oomKills int           // before it began, see [oomKills]
	done     chan struct{} // closed when it has ended
	stopping sync.Mutex    // held by who stops it: the stop signal is sent once
}

// kept is state.json in a process's directory.
type kept struct {
	Name string `json:"name"`
	identity
	Labels     map[string]string `json:"labels"`
	StopSignal string            `json:"stop_signal"`
	StopGrace  time.Duration     `json:"stop_grace"`
	Started    time.Time         `json:"started"`
	Finished   time.Time         `json:"finished,omitzero"`
	ExitCode   int               `json:"exit_code"`
	OOMKilled  bool              `json:"oom_killed,omitempty"`
}

type processes struct {
	dir string
	log *slog.Logger

	mu     sync.Mutex
	all    map[string]*process
	closed bool           // nothing is started any more
	wg     sync.WaitGroup // those who wait for the end of each
}

// Files in a process's directory, beside those that it is given.
const (
	logName   = "log"
	stateName = "state.json"
)

// orphanPoll is how often a process that is not our child is looked at.
const orphanPoll = 200 * time.Millisecond

// openProcesses finds what an agent that was killed has left running.
func openProcesses(dir string, log *slog.Logger) (*processes, error) {
	p := &processes{dir: dir, log: log, all: map[string]*process{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the processes: %w", err)
	}
	for _, e := range entries {
		pr := &process{dir: filepath.Join(dir, e.Name()), oomKills: oomKills(), done: make(chan struct{})}
		if pr.kept, err = openKept(pr.dir); err != nil {
			// The agent died before it could note the process that it started here.
			err = errors.Join(signalAll(marked(p.mark(e.Name())), syscall.SIGKILL), os.RemoveAll(pr.dir))
			if err != nil {
				log.Warn("clear what an earlier agent began", "name", e.Name(), "err", err)
			}
			continue
		}
		p.all[pr.Name] = pr
		if !pr.Finished.IsZero() {
			close(pr.done)
			continue
		}
		log.Warn("found a process of an earlier agent", "name", pr.Name, "pid", pr.PID)
		p.wg.Go(func() {
			for pr.alive() {
				time.Sleep(orphanPoll)
			}
			p.ended(pr, -1)
		})
	}
	return p, nil
}

func openKept(dir string) (k kept, err error) {
	err = readJSON(filepath.Join(dir, stateName), &k)
	return k, err
}

func (p *processes) start(name string, spec processSpec) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("the agent is ending")
	}
	if p.all[name] != nil {
		return fmt.Errorf("a process named %s is there already", name)
	}
	if len(spec.Argv) == 0 {
		return errors.New("the command is empty")
	}
	for name := range spec.Files {
		if name != filepath.Base(name) || name == logName || name == stateName || strings.HasPrefix(name, ".") {
			return fmt.Errorf("a file of the process cannot be named %q", name)
		}
	}
	argv := spec.Argv
	if argv[0] == provision.Self {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		argv = append([]string{self}, argv[1:]...)
	}
	pr := &process{dir: filepath.Join(p.dir, name), oomKills: oomKills(), done: make(chan struct{})}
	if err := os.Mkdir(pr.dir, 0o700); err != nil {
		return fmt.Errorf("make the process's directory: %w", err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(append(os.Environ(), spec.Env...), provision.ProcessMark+"="+p.mark(name))
	if err := pr.launch(cmd, spec.Files); err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", spec.Argv[0], err), os.RemoveAll(pr.dir))
	}
	pr.kept = kept{
		Name: name, identity: identityOf(cmd.Process.Pid), Labels: spec.Labels,
		StopSignal: spec.StopSignal, StopGrace: spec.StopGrace, Started: time.Now(),
	}
	p.all[name] = pr
	err := pr.save()
	p.wg.Go(func() {
		cmd.Wait() // the exit code is what counts
		p.ended(pr, exitCode(cmd.ProcessState))
	})
	if err != nil {
		err = errors.Join(err, p.kill(pr))
	}
	return err
}

// launch starts the command in the process's directory, with its log and the files that
// it is given.
func (pr *process) launch(cmd *exec.Cmd, files map[string]string) error {
	log, err := os.OpenFile(filepath.Join(pr.dir, logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(pr.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = pr.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd.Start()
}

// mark is what stands in the environment of a process and of all that it starts.
func (p *processes) mark(name string) string { return filepath.Join(filepath.Dir(p.dir), name) }

// kill ends a process, its group and what carries its mark: helpers that it forked may
// outlive it, and some leave the group.
func (p *processes) kill(pr *process) error {
	return signalAll(append(pr.group(), marked(p.mark(pr.Name))...), syscall.SIGKILL)
}

// exitCode is a shell's: 128 + n for a process that signal n ended.
func exitCode(s *os.ProcessState) int {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}

func (p *processes) ended(pr *process, code int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pr.Finished, pr.ExitCode = time.Now(), code
	pr.OOMKilled = code != 0 && oomKills() > pr.oomKills
	if err := pr.save(); err != nil && !errors.Is(err, os.ErrNotExist) {
		p.log.Error("keep the state of a process", "name", pr.Name, "err", err)
	}
	close(pr.done)
}

func (pr *process) save() error { return writeJSON(filepath.Join(pr.dir, stateName), pr.kept, 0o600) }

func (p *processes) get(name string) *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[name]
}

// stop sends the process group its stop signal, waits for the grace period,
// kills what is left, and forgets it. A process that is not there is stopped.
func (p *processes) stop(ctx context.Context, name string, grace time.Duration) error {
	pr := p.get(name)
	if pr == nil {
		return nil
	}
	pr.stopping.Lock()
	defer pr.stopping.Unlock()
	if p.get(name) != pr {
		return nil // who was quicker has stopped it
	}
	if grace <= 0 {
		grace = pr.StopGrace
	}
	signal := syscall.SIGTERM
	if pr.StopSignal == "SIGINT" {
		signal = syscall.SIGINT
	}
	if err := signalAll(pr.group(), signal); err != nil {
		p.log.Warn("stop a process", "name", name, "err", err)
	}
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case <-pr.done:
	case <-patience.C:
		p.log.Warn("killing a process that does not stop", "name", name, "grace", grace)
	case <-ctx.Done():
	}
	killed := p.kill(pr)
	select {
	case <-pr.done:
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("stop %s: %w", name, ctx.Err()), killed)
	}
	if err := p.kill(pr); err != nil { // what it had forked in that moment
		p.log.Warn("kill what a process has left", "name", name, "err", err)
	}
	p.mu.Lock()
	delete(p.all, name)
	p.mu.Unlock()
	return os.RemoveAll(pr.dir)
}

// stopAll stops everything, side by side. Nothing can be started after it.
func (p *processes) stopAll(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	var names []string
	for name := range p.all {
		names = append(names, name)
	}
	p.mu.Unlock()
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { errs[i] = p.stop(ctx, name, 0) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err // what cannot be stopped would be waited for in vain
	}
	p.wg.Wait()
	return nil
}

func (pr *process) found() provision.Found {
	f := provision.Found{ID: pr.Name, Name: pr.Name, Labels: pr.Labels, State: "running"}
	if !pr.Finished.IsZero() {
		f.State = "exited"
	}
	return f
}
