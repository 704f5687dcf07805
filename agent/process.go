package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"hclbench/flow"
	"hclbench/provision"
)

// process is what a reaper has started, in a process group of its own, and all that comes of it:
// its tree. What a later agent needs to find and stop it is kept in its directory.
type process struct {
	dir string
	kept
	oomKills int           // before it began, see [oomKills]
	done     chan struct{} // closed when it has ended
	gone     chan struct{} // closed when nothing of its tree is left
	stopping sync.Mutex    // held by who stops it: the stop signal is sent once
}

// kept is state.json in a process's directory.
type kept struct {
	Name string `json:"name"`
	identity
	Reaper     identity          `json:"reaper"`    // it leads the session
	Temporary  string            `json:"temporary"` // directory of what it and its tree put there for a while
	Labels     map[string]string `json:"labels"`
	StopSignal string            `json:"stop_signal"`
	StopGrace  time.Duration     `json:"stop_grace"`
	Started    time.Time         `json:"started"`
	Finished   time.Time         `json:"finished,omitzero"`
	ExitCode   int               `json:"exit_code"`
	OOMKilled  bool              `json:"oom_killed,omitempty"`
}

type processes struct {
	dir     string
	release time.Duration // how long drivers may keep what was killed
	log     *slog.Logger

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

// processPoll is how often it is looked whether a process has ended.
const processPoll = 50 * time.Millisecond

// leastKill is how long the kernel has at least for what was killed, on a busy machine.
const leastKill = 5 * time.Second

// openProcesses finds what an agent that was killed has left running.
func openProcesses(dir string, release time.Duration, log *slog.Logger) (*processes, error) {
	p := &processes{dir: dir, release: max(release, leastKill), log: log, all: map[string]*process{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the processes: %w", err)
	}
	for _, e := range entries {
		pr := p.new(e.Name())
		if pr.kept, err = openKept(pr.dir); err != nil {
			// The agent died before the process was noted that it had begun to start here.
			if err := p.clear(pr, e.Name()); err != nil {
				log.Warn("clear what an earlier agent began", "name", e.Name(), "err", err)
			}
			continue
		}
		p.all[pr.Name] = pr
		log.Warn("found a process of an earlier agent", "name", pr.Name, "pid", pr.PID)
		p.wg.Go(func() { p.watch(pr) })
	}
	return p, nil
}

// clear forgets a process that was not noted. Its reaper, if there is one yet, cannot note it any more.
func (p *processes) clear(pr *process, name string) error {
	return errors.Join(os.RemoveAll(pr.dir), signalAll(marked(processTable(), p.mark(name)), syscall.SIGKILL))
}

func (p *processes) new(name string) *process {
	return &process{dir: filepath.Join(p.dir, name), oomKills: oomKills(), done: make(chan struct{}), gone: make(chan struct{})}
}

func openKept(dir string) (k kept, err error) {
	err = readJSON(filepath.Join(dir, stateName), &k)
	return k, err
}

// start starts a container's command as a process.
func (p *processes) start(name string, ct provision.Container) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("the agent is ending")
	}
	if p.all[name] != nil {
		return fmt.Errorf("a process named %s is there already", name)
	}
	var argv []string
	for _, w := range slices.Concat(ct.Entrypoint, ct.Command) {
		argv = append(argv, w.Reveal())
	}
	if len(argv) == 0 {
		return errors.New("the command is empty")
	}
	for _, f := range ct.Files {
		if f.Name != filepath.Base(f.Name) || f.Name == logName || f.Name == stateName || f.Name == exitName || strings.HasPrefix(f.Name, ".") {
			return fmt.Errorf("a file of the process cannot be named %q", f.Name)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	command := argv[0]
	if command == provision.Self {
		argv[0] = self
	}
	pr := p.new(name)
	if err := os.Mkdir(pr.dir, 0o700); err != nil {
		return fmt.Errorf("make the process's directory: %w", err)
	}
	reaper := exec.Command(self, ReaperVerb, name)
	reaper.Env = os.Environ()
	for _, v := range ct.Env {
		reaper.Env = append(reaper.Env, v.Name+"="+v.Value.Reveal())
	}
	reaper.Env = append(reaper.Env, provision.ProcessMark+"="+p.mark(name))
	pr.kept = kept{Name: name, Labels: ct.Labels, StopSignal: ct.StopSignal, StopGrace: ct.StopGrace}
	if err := pr.launch(reaper, argv, ct.Files); err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", command, err), p.clear(pr, name))
	}
	p.all[name] = pr
	p.wg.Go(func() { reaper.Wait() }) // it has nothing more to say
	p.wg.Go(func() { p.watch(pr) })
	return nil
}

// launch has the reaper start the command in the process's directory, with its log and the
// files that it is given.
func (pr *process) launch(reaper *exec.Cmd, argv []string, files []provision.File) error {
	log, err := os.OpenFile(filepath.Join(pr.dir, logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(pr.dir, f.Name), []byte(f.Text.Reveal()), 0o600); err != nil {
			return err
		}
	}
	told, err := json.Marshal(order{argv, pr.kept})
	if err != nil {
		return err
	}
	hears, says, err := os.Pipe()
	if err != nil {
		return err
	}
	defer hears.Close()
	reaper.Dir, reaper.Stdin, reaper.Stdout, reaper.Stderr = pr.dir, bytes.NewReader(told), log, log
	reaper.ExtraFiles = []*os.File{says} // the first is [reaperSays]
	reaper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = reaper.Start()
	says.Close()
	if err != nil {
		return err
	}
	var said answer
	if err = json.NewDecoder(hears).Decode(&said); err == nil && said.Error == "" {
		pr.kept = said.Kept
		return nil
	}
	if said.Error != "" {
		err = errors.New(said.Error)
	}
	reaper.Wait() // it has killed what it had started, and says why again
	return err
}

// watch waits for the end of a process, and then of its tree.
func (p *processes) watch(pr *process) {
	tick := time.NewTicker(processPoll)
	defer tick.Stop()
	for pr.alive() {
		<-tick.C
	}
	if pr.Finished.IsZero() {
		code := exited{-1}
		// Its threads may take long to end after its first; then its reaper tells, if nobody kills that.
		for last := false; readJSON(filepath.Join(pr.dir, exitName), &code) != nil && !last; <-tick.C {
			last = !pr.Reaper.alive() // what it has told meanwhile is read once more
		}
		p.ended(pr, code.Code)
	}
	close(pr.done)
	for pr.Reaper.alive() {
		<-tick.C
	}
	for tick.Reset(time.Second); len(p.tree(pr)) > 0; { // somebody has killed the reaper
		<-tick.C
	}
	close(pr.gone)
}

// tree are all that came of a process and have not ended, itself among them, whatever they call
// themselves and whoever is their parent now. Should somebody have killed their reaper, those are
// found that are in its session or have the mark: the number of a session, or of a group, is
// nobody else's while one of its members lives.
func (p *processes) tree(pr *process) []entry {
	table := processTable()
	if pr.Reaper.alive() {
		return below(table, pr.Reaper.PID)
	}
	all := marked(table, p.mark(pr.Name))
	has := func(number int, i identity) bool {
		who, ok := table[number]
		return number == i.PID && number > 1 && i.Boot == boot() && (!ok || who.identity == i)
	}
	for _, e := range table {
		if !e.ended && (has(e.session, pr.Reaper) || has(e.group, pr.identity)) && !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	return all
}

// mark is what stands in the environment of a process and of all that it starts.
func (p *processes) mark(name string) string { return filepath.Join(filepath.Dir(p.dir), name) }

func (p *processes) ended(pr *process, code int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pr.Finished, pr.ExitCode = time.Now(), code
	pr.OOMKilled = code != 0 && oomKills() > pr.oomKills
	if err := pr.save(pr.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		p.log.Error("keep the state of a process", "name", pr.Name, "err", err)
	}
}

func (p *processes) get(name string) *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[name]
}

// stop sends the process group its stop signal, and its first process again, waits for the grace period, kills what is left of
// the tree, and forgets it when nothing is. A process that is not there is stopped.
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
	asked, ended := p.tree(pr), pr.done
	if pr.alive() {
		asked = slices.DeleteFunc(asked, func(e entry) bool { return e.group != pr.PID })
	} else {
		ended = nil // by itself: what it has left has the grace
	}
	if err := signalAll(asked, signal); err != nil {
		p.log.Warn("stop a process", "name", name, "err", err)
	}
	patience, again := time.NewTimer(grace), time.NewTicker(provision.AskedAgain(grace))
	defer patience.Stop()
	defer again.Stop()
	for asking := true; asking; {
		asking = false
		select {
		case <-ended:
		case <-pr.gone:
		case <-again.C:
			asking = true
			_ = pr.signal(signal) // what others of it do about the first they do
		case <-patience.C:
			p.log.Warn("killing a process that does not stop", "name", name, "grace", grace)
		case <-ctx.Done():
		}
	}
	if err := p.kill(ctx, pr); err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	p.mu.Lock()
	delete(p.all, name)
	p.mu.Unlock()
	return errors.Join(os.RemoveAll(pr.Temporary), os.RemoveAll(pr.dir))
}

// kill kills what is left of a process's tree until nothing is.
func (p *processes) kill(ctx context.Context, pr *process) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.release, fmt.Errorf("killed %s ago", p.release))
	defer cancel()
	again := time.NewTicker(processPoll)
	defer again.Stop()
	for {
		if errors.Is(pr.Reaper.signal(syscall.SIGTERM), os.ErrProcessDone) {
			_ = signalAll(p.tree(pr), syscall.SIGKILL) // what is left is told below
		}
		select {
		case <-pr.gone:
			return nil
		case <-again.C:
			continue
		case <-ctx.Done():
		}
		var left []string
		for _, e := range p.tree(pr) {
			left = append(left, e.String())
		}
		return fmt.Errorf("%s not gone: %w", cmp.Or(strings.Join(left, ", "), fmt.Sprintf("its reaper, process %d,", pr.Reaper.PID)), context.Cause(ctx))
	}
}

// stopAll stops everything, side by side. Nothing can be started after it.
func (p *processes) stopAll(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	names := slices.Collect(maps.Keys(p.all))
	p.mu.Unlock()
	if err := flow.Each(names, func(_ int, name string) error { return p.stop(ctx, name, 0) }); err != nil {
		return err // what cannot be stopped would be waited for in vain
	}
	p.wg.Wait()
	return nil
}

// found are all of them, each with what is left of its tree.
func (p *processes) found() []provision.Found {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := []provision.Found{}
	for _, pr := range p.all {
		f := provision.Found{ID: pr.Name, Name: pr.Name, Labels: pr.Labels, State: "running"}
		if !pr.Finished.IsZero() {
			f.State = "exited"
			if left := p.tree(pr); len(left) > 0 {
				f.State = fmt.Sprintf("exited, but %s lives", left[0])
			}
		}
		all = append(all, f)
	}
	return all
}
