package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/testhost"
)

// faultLab is two engines with two cells each, so that something is done, under
// way and still to come wherever a fault strikes.
const faultLab = `
lab "fault" { lease = "%LEASE%" }
host "box" {
  %HOST%
}
model "m" { repo = "m" }
engine "vllm" "a" {
  host  = host.box
  model = model.m
  %IMAGE%
  env   = { HCL_SIM_TABLE = "1:5ms/5ms" }
  ready { stall = "20s" }
  container { stop_grace = "%GRACE%" }
}
engine "vllm" "b" {
  host  = host.box
  model = model.m
  %IMAGE%
  env   = { B = "b" }
  ready { stall = "20s" }
  container { stop_grace = "%GRACE%" }
}
dataset "random" "d" { input_tokens = 8 }
benchmark "b" {
  matrix {
    engine      = [engine.vllm.a, engine.vllm.b]
    concurrency = [1, 2]
  }
  engine   = matrix.engine
  dataset  = dataset.random.d
  requests = 8 * matrix.concurrency
  load {
    concurrency   = matrix.concurrency
    output_tokens = 20
    stall         = "5s"
  }
}`

const faultCells = 4

// faultGrace is how long its engines may take to stop, and with the lease how long
// after the loss of its caller a host may take to be clean.
const faultGrace = 10 * time.Second

// busyMachine is what all that may take longer where other tests have the processors.
const busyMachine = 30 * time.Second

// faultText is the lab with a lease, on a host with Docker or without.
func faultText(lease string, process bool) string {
	image, host := `image = "vllm/vllm-openai:v0.7.3"`, "%HOST%"
	if process {
		image, host = "", `%HOST%
  runtime = "process"`
	}
	return strings.NewReplacer("%LEASE%", lease, "%IMAGE%", image, "%HOST%", host, "%GRACE%", faultGrace.String()).Replace(faultLab)
}

// moment is when something of an apply has come for the nth time. Where the second text takes the place of the first in a
// lab, its first engine stays there for minutes: with its first cell, or while it loads.
type moment struct {
	name, kind, text string
	nth              int
	stays            [2]string
}

var (
	midPull  = moment{name: "in mid-pull", kind: "pull", nth: 2}
	midLoad  = moment{name: "in mid-load", kind: "waiting", nth: 1, stays: [2]string{"HCL_SIM_TABLE", `ENGINE_FAULT = "slow-start=2m", HCL_SIM_TABLE`}}
	midCell  = moment{name: "in mid-cell", kind: "progress", nth: 1, stays: [2]string{`"1:5ms/`, `"1:5ms/1s,2:5ms/`}}
	midStop  = moment{name: "while it stops", kind: "step", text: "stopping", nth: 1}
	lastStop = moment{name: "while it stops the last", kind: "step", text: "stopping", nth: 2}
)

// scene is a host, a user, and hcl apply under way.
type scene struct {
	*person
	hub    *testhost.Hub // nil: models come from nowhere
	host   *testhost.Host
	others []*testhost.Host // beside host
	looks  func() []string  // what is left where hosts are pods; nil: hosts are machines
	stays  bool             // a run that need not survive stays at the moment that it reaches
	stayed [2]string        // there
	lease  time.Duration
	clean  time.Duration // how long after the loss of its caller the host was clean; 0: it did not lose it
	cmd    *exec.Cmd
	said   bytes.Buffer // stderr, when it has ended

	mu    sync.Mutex
	seen  []applyEvent
	more  chan struct{} // closed and replaced at each event
	ended chan struct{}
	still sync.Mutex // who holds it keeps events from being read
	out   *os.File   // that they are read from
	kept  int        // cells that were measured, by all applies
	void  int        // of them, those that the next apply measures again, as on a busy machine
}

type applyEvent struct {
	Type    string
	Message string
	Number  int
	Summary *struct {
		Completed int
		Verdict   struct {
			Verdict string
			Reasons json.RawMessage
		}
	}
	Cells []struct{ Cell string }

	Progress *struct {
		Done, Total int
		Warmup      bool
	}
}

// begin starts hcl apply.
func (s *scene) begin(args ...string) {
	s.Helper()
	s.cmd = s.command(append([]string{"apply", "--json"}, args...)...)
	s.seen, s.more, s.ended, s.stayed = nil, make(chan struct{}), make(chan struct{}), [2]string{}
	s.said.Reset()
	s.cmd.Stderr = &s.said
	out, err := s.cmd.StdoutPipe()
	must(s, err)
	must(s, s.cmd.Start())
	s.out = out.(*os.File)
	go func() {
		defer close(s.ended)
		sc := bufio.NewScanner(out)
		sc.Buffer(nil, 1<<20)
		for {
			s.still.Lock()
			more := sc.Scan()
			s.still.Unlock()
			var e applyEvent
			if more && json.Unmarshal(sc.Bytes(), &e) != nil {
				continue // the last line of a caller that was killed
			}
			s.mu.Lock()
			if more {
				s.seen = append(s.seen, e)
				if e.Type == "end" && e.Summary != nil {
					s.kept++
					if e.Summary.Verdict.Verdict == load.Void {
						s.void++
					}
				}
			}
			close(s.more)
			s.more = make(chan struct{})
			s.mu.Unlock()
			if !more {
				break
			}
		}
		s.cmd.Wait()
	}()
}

// reach begins an apply, and returns when it has come to the moment, at which its first engine stays. Whoever reads the lab
// from then on has one that does not.
func (s *scene) reach(m moment) {
	s.Helper()
	if m == midPull {
		s.host.SlowRegistry(1 << 20)
	}
	if s.stays {
		s.edit(m.stays[0], m.stays[1])
	}
	s.begin()
	s.await(m.kind, m.text, m.nth)
	if s.stays {
		s.stayed = m.stays
		s.edit(m.stays[1], m.stays[0])
	}
}

// paused has something happen while the caller stands still: what it has on its host stays as it is.
func (s *scene) paused(happens func()) {
	s.Helper()
	must(s, s.cmd.Process.Signal(syscall.SIGSTOP))
	defer func() { must(s, s.cmd.Process.Signal(syscall.SIGCONT)) }()
	happens()
}

// await returns when an event of the type, whose message holds text, has come for the nth time.
func (s *scene) await(kind, text string, nth int) {
	s.Helper()
	s.awaits(kind+" "+text, func(e applyEvent) bool { return e.Type == kind && strings.Contains(e.Message, text) }, nth)
}

// awaits returns when such an event has come for the nth time.
func (s *scene) awaits(what string, is func(applyEvent) bool, nth int) {
	s.Helper()
	limit := time.After(10 * time.Minute)
	for {
		s.mu.Lock()
		n, more := 0, s.more
		for _, e := range s.seen {
			if is(e) {
				n++
			}
		}
		s.mu.Unlock()
		if n >= nth {
			return
		}
		select {
		case <-more:
		case <-s.ended:
			s.Fatalf("apply ended before %q came: %s", what, s.told())
		case <-limit:
			s.Fatalf("%q did not come within minutes", what)
		}
	}
}

// end waits for the apply's end and returns its exit code.
func (s *scene) end(within time.Duration) int {
	s.Helper()
	select {
	case <-s.ended:
	case <-time.After(within):
		s.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines say where it hangs
		<-s.ended
		s.Fatalf("apply has not ended after %s:\n%s", within, s.said.String())
	}
	return s.cmd.ProcessState.ExitCode()
}

// phase is what the apply was doing last.
func (s *scene) phase() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) == 0 {
		return "starting"
	}
	last := s.seen[len(s.seen)-1]
	if last.Type == "step" {
		word, _, _ := strings.Cut(last.Message, " ")
		return word
	}
	return last.Type
}

// engine is the container of ours that runs.
func (s *scene) engine() string {
	return inDocker(s.T, s.host, "ps", "--quiet", "--filter", "label=hcl.lab=fault")
}

// loseCaller takes the caller away from its host, as strike does, and waits until
// the host has cleaned itself: its lease later, and at most the engines' grace.
func (s *scene) loseCaller(strike func()) {
	s.Helper()
	start := time.Now()
	strike()
	eventually(s.T, "the host has cleaned itself", s.lease+faultGrace+busyMachine, func() bool { return len(s.left()) == 0 })
	s.clean = time.Since(start)
}

// hang leaves the host on its own for good, and waits for the caller to give up.
func (s *scene) hang() {
	s.Helper()
	s.loseCaller(func() { must(s, s.host.Link(false)) })
	s.end(10 * time.Minute)
	must(s, s.host.Link(true))
}

// kill ends the caller as nothing can be caught.
func (s *scene) kill() {
	s.Helper()
	must(s, s.cmd.Process.Kill())
	<-s.ended
}

// killAtRandom applies the lab, and kills the caller at a random moment of so long as an apply takes. It
// returns what was under way; where the apply had ended before, killed is false and takes is less.
func (s *scene) killAtRandom(takes *time.Duration) (phase string, killed bool) {
	s.Helper()
	start := time.Now()
	s.begin()
	select {
	case <-time.After(time.Duration(rand.Float64() * float64(*takes))):
		killed = true
	case <-s.ended:
		*takes = time.Since(start)
	}
	s.cmd.Process.Kill() // it may have ended
	<-s.ended
	return s.phase(), killed
}

// abandon leaves the host on its own for good, the caller killed.
func (s *scene) abandon() {
	s.Helper()
	s.loseCaller(s.kill)
}

// killAgent ends a host's agents likewise.
func (s *scene) killAgent(host *testhost.Host) {
	s.Helper()
	for _, p := range agents(s.T, host) {
		if strings.Contains(p.Command, " agent") {
			must(s, syscall.Kill(p.PID, syscall.SIGKILL))
		}
	}
}

// signalEngine sends a signal to the engine's process on a host without Docker.
func (s *scene) signalEngine(signal syscall.Signal) {
	s.Helper()
	for _, p := range s.processes() {
		must(s, syscall.Kill(p.PID, signal))
	}
}

// processes are the engines that run as such.
func (s *scene) processes() []testhost.Process {
	all, err := s.host.Processes()
	must(s, err)
	return slices.DeleteFunc(all, func(p testhost.Process) bool { return !strings.Contains(p.Command, " sim ") })
}

// left is what is on the hosts that should not be there: containers, processes, files of ours.
func (s *scene) left() []string {
	if s.looks != nil {
		return s.looks()
	}
	left := s.leftOn(s.host)
	for _, h := range s.others {
		left = append(left, s.leftOn(h)...)
	}
	return left
}

func (s *scene) leftOn(host *testhost.Host) []string {
	var left []string
	if host.Socket != "" {
		out, err := host.Command("docker", "ps", "--all", "--format", "{{.Names}}", "--filter", "label=hcl.lab").CombinedOutput()
		if err != nil {
			left = append(left, "docker does not answer: "+string(out))
		} else {
			left = append(left, strings.Fields(string(out))...)
		}
	}
	for _, p := range append(agents(s.T, host), s.processes()...) {
		left = append(left, p.Command)
	}
	// Of shared memory nothing may stay. What may is binaries, placed files, and of an agent that has ended its
	// lock, its log, and whose leases were ended by force.
	out, err := host.Command("sh", "-c", `ls /dev/shm; for home in /root /home/*; do
cd "$home/.cache/hcl" 2>/dev/null || continue
find . -type f ! -path './bin/*' ! -path './files/*' ! -name lock ! -name agent.log ! -name ended.json -o -name '*.part' -o -name '.*.hcl-*'; find . -path './agents/*/processes/*'
done`).CombinedOutput()
	if err != nil {
		left = append(left, "find: "+string(out))
	}
	return append(left, strings.Fields(string(out))...)
}

// gone waits until nothing is left on the hosts, and says what is where that takes longer.
func (s *scene) gone(within time.Duration) (left []string) {
	s.Helper()
	defer func() {
		if len(left) > 0 {
			s.Errorf("left after %s: %q", within, left)
		}
	}()
	eventually(s.T, "nothing is left", within, func() bool { left = s.left(); return len(left) == 0 })
	return left
}

// survives applies the lab again until the matrix is finished, and holds what was
// done to what was to be done: nothing measured twice, nothing left.
func (s *scene) survives() (left []string) {
	s.Helper()
	s.edit(s.stayed[0], s.stayed[1])
	// A caller that was killed may have stored one more than it could tell.
	if todo, kept := s.todo(), s.kept-s.void; todo > faultCells-kept || todo < faultCells-kept-1 {
		s.Errorf("%d cells are to be measured, with %d of %d done before", todo, kept, faultCells)
	}
	s.edit(s.stayed[1], s.stayed[0])
	for todo, tries := s.todo(), 0; tries == 0 || todo > 0 && tries < 5; tries++ { // a busy machine makes cells void, which are to be measured again
		void := s.void
		s.begin()
		if code := s.end(10 * time.Minute); code != exitDone && code != exitCells {
			s.Errorf("the next apply: exit %d\n%s", code, s.said.String())
		}
		begun := 0
		for _, e := range s.seen {
			if e.Type == "begin" {
				begun++
			}
		}
		if begun != todo {
			s.Errorf("the next apply measured %d cells, want %d\n%s", begun, todo, s.told())
		}
		todo = s.void - void
	}
	s.tells("plan --detailed-exitcode", exitDone)
	return s.gone(30 * time.Second)
}

// told is everything that apply has said.
func (s *scene) told() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, e := range s.seen {
		if e.Message != "" {
			b.WriteString(e.Message + "\n")
		}
		if e.Summary != nil && e.Type == "end" {
			fmt.Fprintf(&b, "cell %d: %d completed, %s %s\n", e.Number, e.Summary.Completed, e.Summary.Verdict.Verdict, e.Summary.Verdict.Reasons)
		}
	}
	return b.String() + s.said.String()
}

// fetched is what the hub of a scene has beside a config.json.
var fetched = bytes.Repeat([]byte("weights."), 1<<19)

const fetchedFile = "model.bin"

func newScene(t *testing.T, f fault) *scene {
	t.Helper()
	opt := f.opt
	opt.Docker, opt.Registry, opt.Namespace = !f.process, !f.process, true
	host := testhost.New(t, opt)
	lease := cmp.Or(f.lease, 10*time.Minute)
	s := &scene{host: host, lease: lease, stays: !f.whole}
	lab := faultText(lease.String(), f.process)
	if f.sender {
		client := testhost.New(t, testhost.Options{Name: "client", Namespace: true})
		s.others = []*testhost.Host{client}
		at, err := testhost.Cable(host, client)
		must(t, err)
		// Of the engines' cells, those of the first have their load sent from there.
		begin := strings.Index(lab, "benchmark ")
		engine := strings.NewReplacer("engine.vllm.a, engine.vllm.b", "engine.vllm.b", `"b"`, `"here"`).Replace(lab[begin:])
		lab = strings.NewReplacer("ready {", fmt.Sprintf("flags = { host = %q }\n  ready {", at[0]), "load {", "load {\n    from = host.client",
			"engine.vllm.a, engine.vllm.b", "engine.vllm.a").Replace(lab) + "\n" + engine +
			"\nhost \"client\" {\n" + reached(client) + "\n  runtime = \"process\"\n}\n"
	}
	if f.hub {
		s.hub = testhost.NewHub(t, net.JoinHostPort(host.Outside(), "0"), map[string][]byte{"config.json": []byte("{}"), fetchedFile: fetched})
		lab = strings.Replace(lab, `{ repo = "m" }`, fmt.Sprintf("{\n  repo     = \"org/model\"\n  cache    = %q\n  download = true\n}", t.TempDir()), 1)
	}
	s.person = newPerson(t, host, lab)
	for _, h := range s.others {
		s.knows(h)
	}
	if f.hub {
		s.env = append(s.env, "HF_ENDPOINT="+s.hub.URL)
	}
	if f.process {
		must(s, host.Install("vllm", fmt.Sprintf("#!/bin/sh\nexec %s sim vllm \"$@\" --table ${HCL_SIM_TABLE:-1:5ms/5ms}\n", s.hcl)))
		return s
	}
	s.push(f.engine)
	return s
}

// push gives the engine's image, under the tag that the lab names, this environment: with none it has no fault any more.
func (s *scene) push(more map[string]string) {
	env := map[string]string{"ENGINE_TTFT": "5ms", "ENGINE_ITL": "5ms"}
	maps.Copy(env, more)
	s.host.PushEngine(s.T, "vllm/vllm-openai:v0.7.3", env)
}
