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
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"hclbench/testhost"
)

// soakRuns in the environment asks for every fault, and says how often the caller
// is killed at a random moment; `make soak` sets it.
const soakRuns = "HCL_SOAK"

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

// faultText is the lab with a lease, on a host with Docker or without.
func faultText(lease string, process bool) string {
	image, host := `image = "vllm/vllm-openai:v0.7.3"`, "%HOST%"
	if process {
		image, host = "", `%HOST%
  runtime = "process"`
	}
	return strings.NewReplacer("%LEASE%", lease, "%IMAGE%", image, "%HOST%", host, "%GRACE%", faultGrace.String()).Replace(faultLab)
}

// fault is something that goes wrong while a lab is applied.
type fault struct {
	name    string
	soak    bool              // only when soaking: it takes long, or is much like another
	lease   time.Duration     // of the lab; 0: 10m
	engine  map[string]string // environment of the engine's image
	process bool              // the host has no Docker
	hub     bool              // the model is downloaded to the host
	sender  bool              // the load is sent from another host, by a cable between the two
	opt     testhost.Options
	strike  func(s *scene)
	whole   bool   // the run itself survives: it ends well, with every cell measured
	says    string // what the user reads
}

// scene is a host, a user, and hcl apply under way.
type scene struct {
	*person
	hub    *testhost.Hub // nil: models come from nowhere
	host   *testhost.Host
	sender *testhost.Host // of the load; nil: host
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
}

type applyEvent struct {
	Type    string
	Message string
	Number  int
	Summary *struct{ Completed int }
	Cells   []struct{ Cell string }
}

// begin starts hcl apply.
func (s *scene) begin(args ...string) {
	s.Helper()
	s.cmd = s.command(append([]string{"apply", "--json"}, args...)...)
	s.seen, s.more, s.ended = nil, make(chan struct{}), make(chan struct{})
	s.said.Reset()
	s.cmd.Stderr = &s.said
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.Fatal(err)
	}
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

// await returns when an event of the type, whose message holds text, has come for
// the nth time.
func (s *scene) await(kind, text string, nth int) {
	s.Helper()
	limit := time.After(time.Minute)
	for {
		s.mu.Lock()
		n, more := 0, s.more
		for _, e := range s.seen {
			if e.Type == kind && strings.Contains(e.Message, text) {
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
			s.Fatalf("apply ended before %q came: %s", kind+" "+text, s.said.String())
		case <-limit:
			s.Fatalf("%q did not come within a minute", kind+" "+text)
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

func (s *scene) link(up bool) {
	s.Helper()
	if err := s.host.Link(up); err != nil {
		s.Fatal(err)
	}
}

// cut takes the network away for so long.
func (s *scene) cut(d time.Duration) {
	s.link(false)
	<-time.After(d)
	s.link(true)
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
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
	eventually(s.T, "the host has cleaned itself", s.lease+faultGrace, func() bool { return len(s.left()) == 0 })
	s.clean = time.Since(start)
}

// hang leaves the host on its own for good, and waits for the caller to give up.
func (s *scene) hang() {
	s.Helper()
	s.loseCaller(func() { s.link(false) })
	s.end(3 * time.Minute)
	s.link(true)
}

// kill ends the caller as nothing can be caught.
func (s *scene) kill() {
	s.Helper()
	s.must(s.cmd.Process.Kill())
	<-s.ended
}

// killAgent ends a host's agents likewise.
func (s *scene) killAgent(host *testhost.Host) {
	s.Helper()
	for _, p := range agents(s.T, host) {
		if strings.Contains(p.Command, " agent") {
			s.must(syscall.Kill(p.PID, syscall.SIGKILL))
		}
	}
}

// killEngine ends the engine's process on a host without Docker likewise.
func (s *scene) killEngine() {
	s.Helper()
	for _, p := range s.processes() {
		s.must(syscall.Kill(p.PID, syscall.SIGKILL))
	}
}

// processes are the engines that run as such.
func (s *scene) processes() []testhost.Process {
	all, err := s.host.Processes()
	s.must(err)
	return slices.DeleteFunc(all, func(p testhost.Process) bool { return !strings.Contains(p.Command, " sim vllm ") })
}

// left is what is on the hosts that should not be there: containers, processes,
// files of ours.
func (s *scene) left() []string {
	left := s.leftOn(s.host)
	if s.sender != nil {
		left = append(left, s.leftOn(s.sender)...)
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
	// What may stay is binaries, placed files, and of an agent that has ended its
	// lock, its log, and whose leases were ended by force.
	out, err := host.Command("sh", "-c", `cd /root/.cache/hcl 2>/dev/null || exit 0
find . -type f ! -path './bin/*' ! -path './files/*' ! -name lock ! -name agent.log ! -name ended.json -o -name '*.part' -o -name '.*.hcl-*'; find . -path './agents/*/processes/*'`).CombinedOutput()
	if err != nil {
		left = append(left, "find: "+string(out))
	}
	return append(left, strings.Fields(string(out))...)
}

// tally is one line of the table.
type tally struct {
	fault           string
	tried, survived int
	left            []string
	clean           time.Duration // the longest time from the loss of the caller to a clean host; 0: it was not lost
}

// survives applies the lab again until the matrix is finished, and holds what was
// done to what was to be done: nothing measured twice, nothing left.
func (s *scene) survives() (left []string) {
	s.Helper()
	kept := s.kept
	s.begin()
	if code := s.end(3 * time.Minute); code != exitDone && code != exitCells {
		s.Errorf("the next apply: exit %d\n%s", code, s.said.String())
	}
	begun := 0
	for _, e := range s.seen {
		if e.Type == "begin" {
			begun++
		}
	}
	// A caller that was killed may have stored one more than it could tell.
	if todo := faultCells - kept; begun > todo || begun < todo-1 {
		s.Errorf("the next apply measured %d cells, with %d of %d done before", begun, kept, faultCells)
	}
	if out, said, code := s.run("plan", "--detailed-exitcode"); code != 0 {
		s.Errorf("the plan at the end: exit %d\n%s%s", code, out, said)
	}
	eventually(s.T, fmt.Sprintf("nothing is left; now %v", s.left()), 10*time.Second, func() bool { left = s.left(); return len(left) == 0 })
	return left
}

// TestFaults breaks everything that can break while a lab is applied. After each,
// the next apply finishes the matrix and nothing is left anywhere.
func TestFaults(t *testing.T) {
	t.Parallel()
	soak, err := strconv.Atoi(os.Getenv(soakRuns))
	if err != nil && os.Getenv(soakRuns) != "" {
		t.Fatalf("%s: %v", soakRuns, err)
	}
	var mu sync.Mutex
	var rows []tally
	t.Cleanup(func() {
		slices.SortFunc(rows, func(a, b tally) int { return strings.Compare(a.fault, b.fault) })
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "FAULT\tTRIED\tSURVIVED\tLEFT\tCLEAN AFTER")
		tried, survived := 0, 0
		for _, r := range rows {
			tried, survived = tried+r.tried, survived+r.survived
			left, clean := "nothing", ""
			if len(r.left) > 0 {
				left = strings.Join(r.left, " ")
			}
			if r.clean > 0 {
				clean = fmt.Sprintf("%.1f s", r.clean.Seconds())
			}
			fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", r.fault, r.tried, r.survived, left, clean)
		}
		fmt.Fprintf(w, "all\t%d\t%d\t\t\n", tried, survived)
		w.Flush()
	})
	table := func(t *testing.T, name string, left []string, clean time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		i := slices.IndexFunc(rows, func(r tally) bool { return r.fault == name })
		if i < 0 {
			i, rows = len(rows), append(rows, tally{fault: name})
		}
		rows[i].tried++
		if !t.Failed() {
			rows[i].survived++
		}
		rows[i].clean = max(rows[i].clean, clean)
		rows[i].left = append(rows[i].left, left...)
	}

	for _, f := range slices.Concat(faults, agentFaults, hostFaults, leftFaults) {
		if f.soak && soak == 0 {
			continue
		}
		t.Run(strings.ReplaceAll(f.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			var left []string
			s := &scene{}
			defer func() { table(t, f.name, left, s.clean) }()
			s = newScene(t, f)
			f.strike(s)
			code := s.end(5 * time.Minute)
			if f.whole && (code != exitDone && code != exitCells || s.kept != faultCells) {
				t.Errorf("exit %d with %d cells of %d\n%s", code, s.kept, faultCells, s.told())
			}
			if f.says != "" && !strings.Contains(s.told(), f.says) {
				t.Errorf("nobody is told %q: exit %d\n%s", f.says, code, s.told())
			}
			left = s.survives()
		})
	}

	// The caller is killed at random moments, each time with a store of its own.
	kills := max(soak, 4)
	lanes := min(kills, 4)
	for lane := range lanes {
		t.Run(fmt.Sprintf("kill-%d", lane), func(t *testing.T) {
			t.Parallel()
			f := fault{name: "kill -9 of the caller", engine: map[string]string{"ENGINE_FAULT": "slow-start=500ms"}}
			s := newScene(t, f)
			s.begin()
			start := time.Now()
			if code := s.end(2 * time.Minute); code != exitDone && code != exitCells {
				t.Fatalf("undisturbed: exit %d\n%s", code, s.said.String())
			}
			takes := time.Since(start)
			for i := lane; i < kills; i += lanes {
				s.must(os.RemoveAll(filepath.Join(s.lab, ".hcl")))
				s.kept = 0
				start := time.Now()
				s.begin()
				at := time.Duration(rand.Float64() * float64(takes))
				select {
				case <-time.After(at):
				case <-s.ended: // it was quicker than the last, which had to pull
					takes = time.Since(start)
					i -= lanes
					continue
				}
				s.cmd.Process.Kill() // it may have ended
				<-s.ended
				phase := s.phase()
				left := s.survives()
				table(t, f.name+", while "+phase, left, 0)
				if t.Failed() {
					t.Fatalf("killed after %s of %s, while %s", at, takes, phase)
				}
			}
		})
	}
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
	s := &scene{host: host, lease: lease}
	lab := faultText(lease.String(), f.process)
	if f.sender {
		s.sender = testhost.New(t, testhost.Options{Name: "client", Namespace: true})
		at, _, err := host.Cable(s.sender)
		if err != nil {
			t.Fatal(err)
		}
		// Of the engines' cells, those of the first have their load sent from there.
		begin := strings.Index(lab, "benchmark ")
		engine := strings.NewReplacer("engine.vllm.a, engine.vllm.b", "engine.vllm.b", `"b"`, `"here"`).Replace(lab[begin:])
		lab = strings.NewReplacer("ready {", fmt.Sprintf("flags = { host = %q }\n  ready {", at), "load {", "load {\n    from = host.client",
			"engine.vllm.a, engine.vllm.b", "engine.vllm.a").Replace(lab) + "\n" + engine +
			fmt.Sprintf("\nhost \"client\" {\n  address = %q\n  user = %q\n  identity_file = %q\n  runtime = \"process\"\n}\n", s.sender.Addr, s.sender.User, s.sender.IdentityFile)
	}
	if f.hub {
		s.hub = testhost.NewHub(t, net.JoinHostPort(host.Outside(), "0"), map[string][]byte{"config.json": []byte("{}"), fetchedFile: fetched})
		lab = strings.Replace(lab, `{ repo = "m" }`, fmt.Sprintf("{\n  repo     = \"org/model\"\n  cache    = %q\n  download = true\n}", t.TempDir()), 1)
	}
	s.person = newPerson(t, host, lab)
	if f.sender {
		s.knows(s.sender)
	}
	if f.hub {
		s.env = append(s.env, "HF_ENDPOINT="+s.hub.URL)
	}
	if f.process {
		s.must(host.Install("vllm", fmt.Sprintf("#!/bin/sh\nexec %s sim vllm \"$@\" --ttft 5ms --itl 5ms\n", s.hcl)))
		return s
	}
	env := map[string]string{"ENGINE_TTFT": "5ms", "ENGINE_ITL": "5ms"}
	maps.Copy(env, f.engine)
	host.PushEngine(t, "vllm/vllm-openai:v0.7.3", env)
	return s
}

var faults = []fault{
	{name: "network cut for 5 s in mid-pull", whole: true, strike: func(s *scene) {
		s.host.SlowRegistry(1 << 20)
		s.begin()
		s.await("pull", "", 2)
		s.cut(5 * time.Second)
		s.host.SlowRegistry(0)
	}},
	{name: "network cut for 5 s in mid-load", whole: true, engine: map[string]string{"ENGINE_FAULT": "slow-start=3s"}, strike: func(s *scene) {
		s.begin()
		s.await("waiting", "", 1)
		s.cut(5 * time.Second)
	}},
	{name: "network cut for 5 s in mid-cell", whole: true, strike: func(s *scene) {
		s.begin()
		s.await("progress", "", 1)
		s.cut(5 * time.Second)
	}},
	{name: "network cut for 5 s in mid-download, without Docker", process: true, hub: true, whole: true, strike: func(s *scene) {
		half, gone := make(chan struct{}), make(chan struct{})
		var begun atomic.Bool
		s.hub.Before(func(w http.ResponseWriter, r *http.Request, name string) bool {
			if name != fetchedFile || !begun.CompareAndSwap(false, true) {
				return false
			}
			w.Header().Set("Content-Length", strconv.Itoa(len(fetched)))
			w.Write(fetched[:len(fetched)/2])
			w.(http.Flusher).Flush()
			close(half)
			<-gone
			panic(http.ErrAbortHandler) // the hub has lost patience meanwhile
		})
		s.begin()
		leave := sync.OnceFunc(func() { close(gone) })
		defer leave()
		select {
		case <-half:
		case <-s.ended:
			s.Fatalf("apply ended before its download began: %s", s.said.String())
		}
		s.await("download", "", 1)
		s.cut(5 * time.Second)
		leave()
		s.end(2 * time.Minute)
		want := []string{"config.json", fetchedFile, fmt.Sprintf("%s@%d", fetchedFile, len(fetched)/2)}
		if got := slices.Sorted(slices.Values(s.hub.Asked())); !slices.Equal(got, want) {
			s.Errorf("asked for %v, want %v", got, want)
		}
	}},
	{name: "network cut for 60 s in mid-pull", soak: true, whole: true, strike: func(s *scene) {
		s.host.SlowRegistry(1 << 20)
		s.begin()
		s.await("pull", "", 2)
		s.cut(time.Minute)
		s.host.SlowRegistry(0)
	}},
	{name: "network cut for 60 s in mid-load", soak: true, whole: true, engine: map[string]string{"ENGINE_FAULT": "slow-start=3s"}, strike: func(s *scene) {
		s.begin()
		s.await("waiting", "", 1)
		s.cut(time.Minute)
	}},
	{name: "network cut for 60 s in mid-cell", soak: true, whole: true, strike: func(s *scene) {
		s.begin()
		s.await("progress", "", 1)
		s.cut(time.Minute)
	}},
	{name: "network cut for good in mid-cell", lease: 5 * time.Second, says: "out of reach", strike: func(s *scene) {
		s.begin()
		s.await("progress", "", 1)
		s.hang()
	}},
	{name: "network cut for good in mid-load", soak: true, lease: 5 * time.Second, says: "out of reach", engine: map[string]string{"ENGINE_FAULT": "slow-start=5s"}, strike: func(s *scene) {
		s.begin()
		s.await("waiting", "", 1)
		s.hang()
	}},
	{name: "network cut for good in mid-pull", soak: true, lease: 5 * time.Second, says: "out of reach", strike: func(s *scene) {
		s.host.SlowRegistry(1 << 20)
		s.begin()
		s.await("pull", "", 2)
		s.hang()
		s.host.SlowRegistry(0)
	}},
	{name: "sender of the load cut off for good in mid-cell", sender: true, lease: 5 * time.Second, says: "its load is sent no more", strike: func(s *scene) {
		s.begin()
		s.await("progress", "", 1)
		s.must(s.sender.Link(false))
		s.end(time.Minute)
		if s.kept != 2 {
			s.Errorf("%d cells are measured, want the 2 whose load needs no other host\n%s", s.kept, s.told())
		}
		s.must(s.sender.Link(true))
	}},
	{name: "sender of the load cut off for 5 s in mid-cell", sender: true, soak: true, whole: true, strike: func(s *scene) {
		s.begin()
		s.await("progress", "", 1)
		s.must(s.sender.Link(false))
		<-time.After(5 * time.Second)
		s.must(s.sender.Link(true))
	}},
	{name: "agent of the load's sender killed in mid-cell", sender: true, soak: true, whole: true, strike: func(s *scene) {
		s.begin()
		s.await("progress", "", 1)
		s.killAgent(s.sender)
	}},
	{name: "kill -9 of the caller in mid-pull", soak: true, strike: func(s *scene) {
		s.host.SlowRegistry(1 << 20)
		s.begin()
		s.await("pull", "", 2)
		s.kill()
		s.host.SlowRegistry(0)
	}},
	{name: "kill -9 of the caller in mid-load, and nobody comes", soak: true, lease: 5 * time.Second, engine: map[string]string{"ENGINE_FAULT": "slow-start=3s"}, strike: func(s *scene) {
		s.begin()
		s.await("waiting", "", 1)
		s.loseCaller(s.kill)
	}},
	{name: "kill -9 of the caller in mid-cell, and nobody comes", lease: 5 * time.Second, strike: func(s *scene) {
		s.begin()
		s.await("progress", "", 1)
		s.loseCaller(s.kill)
	}},
	{name: "kill -9 of the caller while it stops the last engine", strike: func(s *scene) {
		s.begin()
		s.await("step", "stopping", 2)
		s.kill()
	}},
	{name: "kill -9 of the caller while stopping, and nobody comes", soak: true, lease: 5 * time.Second, strike: func(s *scene) {
		s.begin()
		s.await("step", "stopping", 1)
		s.loseCaller(s.kill)
	}},
	{name: "sshd restarted in mid-cell", whole: true, strike: func(s *scene) {
		s.begin()
		s.await("progress", "", 1)
		s.must(s.host.Restart())
	}},
	{name: "sshd restarted in mid-load", whole: true, engine: map[string]string{"ENGINE_FAULT": "slow-start=1s"}, strike: func(s *scene) {
		s.begin()
		s.await("waiting", "", 1)
		s.must(s.host.Restart())
	}},
	{name: "dockerd restarted in mid-cell", strike: func(s *scene) {
		s.begin()
		s.await("progress", "", 1)
		s.must(s.host.Docker.Stop())
		s.must(s.host.Docker.Start())
	}},
	{name: "dockerd restarted in mid-cell, with live-restore", whole: true, strike: func(s *scene) {
		s.host.Docker.KeepContainers()
		s.must(s.host.Docker.Stop())
		s.must(s.host.Docker.Start())
		s.begin()
		s.await("progress", "", 1)
		s.must(s.host.Docker.Stop())
		s.await("step", "stopping", 1) // the engine serves on; taking it down takes the daemon
		s.must(s.host.Docker.Start())
	}},
	{name: "agent killed in mid-cell", whole: true, strike: func(s *scene) {
		s.begin()
		s.await("progress", "", 1)
		s.killAgent(s.host)
	}},
	{name: "agent and caller killed in mid-cell", soak: true, strike: func(s *scene) {
		s.begin()
		s.await("progress", "", 1)
		s.killAgent(s.host)
		s.kill()
	}},
	{name: "container exits in mid-cell", says: "exited with code 137", engine: map[string]string{"ENGINE_FAULT": "exit-after=12"}, strike: func(s *scene) {
		s.begin()
		s.end(2 * time.Minute)
		s.repair()
	}},
	{name: "container hangs in mid-cell", soak: true, says: "suspect", engine: map[string]string{"ENGINE_FAULT": "hang-after=12"}, strike: func(s *scene) {
		s.begin()
		s.end(2 * time.Minute)
		s.repair()
	}},
	{name: "container OOM-killed in mid-cell", says: "out of memory", engine: map[string]string{"ENGINE_FAULT": "grow-after=12"}, strike: func(s *scene) {
		s.begin()
		s.await("ready", "", 1)
		inDocker(s.T, s.host, "update", "--memory", "128m", "--memory-swap", "128m", s.engine())
		s.await("warning", "the engine is lost", 1)
		s.cmd.Process.Signal(os.Interrupt)
		s.end(time.Minute)
		s.repair()
	}},
	{name: "disk full on the host in mid-cell", says: "no space left", strike: func(s *scene) {
		s.must(os.MkdirAll(filepath.Join(s.host.Home, ".cache"), 0o700))
		s.must(s.host.Command("mount", "-t", "tmpfs", "-o", "size=128m", "tmpfs", "/root/.cache").Run())
		s.begin()
		s.await("progress", "", 1)
		s.host.Command("dd", "if=/dev/zero", "of=/root/.cache/filler", "bs=64k").Run() // it ends for lack of space
		s.end(time.Minute)
		s.must(s.host.Command("rm", "/root/.cache/filler").Run())
	}},
	{name: "disk full on the caller in mid-cell", says: "no space left", strike: func(s *scene) {
		// The caller is a machine of its own, whose lab lies on a small disk.
		s.on = testhost.New(s.T, testhost.Options{Name: "caller"})
		text, err := os.ReadFile(filepath.Join(s.lab, "lab.hcl"))
		s.must(err)
		s.must(s.on.Command("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", s.lab).Run())
		write := s.on.Command("tee", filepath.Join(s.lab, "lab.hcl"))
		write.Stdin = bytes.NewReader(text)
		s.must(write.Run())
		s.begin()
		s.await("progress", "", 1)
		filler := filepath.Join(s.lab, "filler")
		s.on.Command("dd", "if=/dev/zero", "of="+filler, "bs=4k").Run()
		s.end(time.Minute)
		s.must(s.on.Command("rm", filler).Run())
	}},
	{name: "caller suspended past its lease", lease: 3 * time.Second, strike: func(s *scene) {
		s.begin()
		s.await("progress", "", 1)
		s.loseCaller(func() { s.must(s.cmd.Process.Signal(syscall.SIGSTOP)) })
		s.must(s.cmd.Process.Signal(syscall.SIGCONT))
	}},
	{name: "two callers at once", whole: true, strike: func(s *scene) {
		other := newPerson(s.T, s.host, faultText("10m", false))
		s.begin()
		s.await("progress", "", 1)
		if _, said, code := other.run("apply"); code != exitFailed || !strings.Contains(said, "is in use by") {
			s.Errorf("the second caller: exit %d\n%s", code, said)
		}
	}},
	{name: "somebody's container on the port and the GPU", says: "port 8000 is in use by process", opt: testhost.Options{GPU: "8xH200"}, strike: func(s *scene) {
		s.must(s.host.UseGPUs(testhost.GPUUse{GPU: 0, PID: 1, MiB: 5000, Name: "python3"}))
		inDocker(s.T, s.host, "run", "--detach", "--name", "theirs", "--network", "host", "--entrypoint", "vllm", "vllm/vllm-openai:v0.7.3", "serve", "x", "--port", "8000")
		eventually(s.T, "theirs listens", 20*time.Second, func() bool { return strings.Contains(inDocker(s.T, s.host, "logs", "theirs"), "startup complete") })
		s.begin()
		s.end(time.Minute)
		if !strings.Contains(s.told(), "somebody else uses its GPUs") {
			s.Errorf("nobody is told of the GPU:\n%s", s.told())
		}
		if got := inDocker(s.T, s.host, "ps", "--format", "{{.Names}}"); got != "theirs" {
			s.Errorf("their container: %q", got)
		}
		inDocker(s.T, s.host, "rm", "--force", "theirs")
		s.must(s.host.UseGPUs())
	}},
	{name: "process killed in mid-cell, without Docker", process: true, says: "the engine was lost in mid-cell", strike: func(s *scene) {
		s.begin()
		s.await("progress", "", 1)
		s.killEngine()
	}},
	{name: "process hangs in mid-cell, without Docker", process: true, soak: true, says: "of the 4 cells, ", strike: func(s *scene) {
		s.begin()
		s.await("progress", "", 1)
		for _, p := range s.processes() {
			s.must(syscall.Kill(p.PID, syscall.SIGSTOP))
		}
	}},
	{name: "caller killed in mid-cell, without Docker, and nobody comes", process: true, lease: 5 * time.Second, strike: func(s *scene) {
		s.begin()
		s.await("progress", "", 1)
		s.loseCaller(s.kill)
	}},
	{name: "network cut for 5 s in mid-cell, without Docker", process: true, soak: true, whole: true, strike: func(s *scene) {
		s.begin()
		s.await("progress", "", 1)
		s.cut(5 * time.Second)
	}},
	{name: "agent killed in mid-cell, without Docker", process: true, whole: true, strike: func(s *scene) {
		s.begin()
		s.await("progress", "", 1)
		s.killAgent(s.host)
	}},
}

// repair gives the engine's image, under the tag that the lab names, no fault any
// more.
func (s *scene) repair() {
	s.host.PushEngine(s.T, "vllm/vllm-openai:v0.7.3", map[string]string{"ENGINE_TTFT": "5ms", "ENGINE_ITL": "5ms"})
}
