package agent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/provision"
	"hclbench/provision/reach"
	"hclbench/sim"
	"hclbench/telemetry"
	"hclbench/testhost"
)

// agentDir in the environment makes the test binary an agent, which can be
// killed without killing the test.
const (
	agentDir    = "AGENT_TEST_DIR"
	agentShared = "AGENT_TEST_SHARED" // directory of reservations, and what hcl has on the machine
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == ReaperVerb {
		if err := Reap(os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == branching {
		branch(os.Args[2], os.Args[3])
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == burning {
		burn(os.Args[2])
		os.Exit(0)
	}
	if dir := os.Getenv(agentDir); dir != "" {
		err := Serve(context.Background(), Config{Dir: dir, Cache: os.Getenv(agentShared), Binary: "test", Reservations: os.Getenv(agentShared), Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}, func() { fmt.Println("ready") })
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(testhost.Main(m))
}

// spawn starts an agent in a process of its own, which ends with the test.
func spawn(t *testing.T, dir, shared string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), agentDir+"="+dir, agentShared+"="+shared)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	waitFor(t, out, "ready")
	return cmd
}

// spawns starts another agent where none answers: requests that find none come side by side.
func spawns(t *testing.T, dir, shared string) func(context.Context) error {
	var one sync.Mutex
	return func(context.Context) error {
		one.Lock()
		defer one.Unlock()
		if !Answers(dir) {
			spawn(t, dir, shared)
		}
		return nil
	}
}

// shortDir is a directory whose path leaves room for a socket's name.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// local is a connection to this machine.
func local(t *testing.T) *reach.Conn {
	t.Helper()
	c, err := reach.Dial(t.Context(), &provision.Host{Name: "here", Address: provision.LocalAddress}, reach.SSH{}, slog.New(slog.DiscardHandler))
	check(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// serve runs an agent in this process. ended delivers what Serve returns.
func serve(t *testing.T, dir string) (a *Client, ended <-chan error) {
	t.Helper()
	return serveAs(t, Config{Dir: dir})
}

func serveAs(t *testing.T, cfg Config) (a *Client, ended <-chan error) {
	t.Helper()
	cfg.Binary, cfg.Reservations = "test", cfg.Dir
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.NewTextHandler(t.Output(), nil)))
	ready, done := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		done <- Serve(ctx, cfg, func() { close(ready) })
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	a = newClient(local(t), filepath.Join(cfg.Dir, "sock"))
	t.Cleanup(a.Close)
	return a, done
}

func lease(run, store string, ttl time.Duration) Lease {
	return Lease{Lab: "lab", Run: run, Store: store, Holder: "ada@laptop", TTL: load.Duration(ttl)}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hold takes a lease.
func hold(t *testing.T, a *Client, l Lease) {
	t.Helper()
	check(t, a.claim(t.Context(), l))
}

// stop stops a process.
func stop(a *Client, ctx context.Context, name string, grace time.Duration) error {
	_, err := a.Stop(ctx, name, grace)
	return err
}

// begin starts a process.
func begin(t *testing.T, a *Client, ct provision.Container) {
	t.Helper()
	_, err := (Processes{a}).Start(t.Context(), ct)
	check(t, err)
}

// beginUntil starts a script, and returns its log from where it has said a word.
func beginUntil(t *testing.T, a *Client, script, word string) (log io.Reader) {
	t.Helper()
	begin(t, a, shell(script))
	r, err := Processes{a}.Logs(t.Context(), "p", true, -1)
	check(t, err)
	t.Cleanup(func() { r.Close() })
	waitFor(t, r, word)
	return r
}

// eventually returns when something is so, which has to be soon.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); {
		if time.Now().After(end) {
			t.Fatalf("it does not come that %s", what)
		}
	}
}

// noted is the number that a process has written into a file.
func noted(t *testing.T, file string) (pid int) {
	t.Helper()
	eventually(t, "a process notes its number", func() bool {
		pid, _ = strconv.Atoi(strings.TrimSpace(text(file)))
		return pid != 0
	})
	return pid
}

// text is what a file holds; empty when it is not there.
func text(file string) string {
	b, _ := os.ReadFile(file)
	return string(b)
}

// leftBehind is a process that an agent has started and that has left its group, and goes
// on listening on a port.
func leftBehind(t *testing.T, dir string) (port, pid int) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer ln.Close()
	socket, err := ln.(*net.TCPListener).File()
	check(t, err)
	defer socket.Close()
	server := exec.CommandContext(t.Context(), "sleep", "1000")
	server.Env = append(os.Environ(), provision.ProcessMark+"="+dir+"/e")
	server.ExtraFiles = []*os.File{socket}
	check(t, server.Start())
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	return ln.Addr().(*net.TCPAddr).Port, server.Process.Pid
}

// simulated is an engine in this process.
func simulated(t *testing.T, cfg sim.Config) string {
	t.Helper()
	cfg.Model = "m"
	s := httptest.NewServer(sim.New(cfg))
	t.Cleanup(s.Close)
	return s.URL
}

func spec(url string, requests, tokens int) Job {
	return Job{Load: load.Job{
		Target: load.Target{BaseURL: url, Model: "m"},
		Workload: load.Workload{
			Dataset: load.Dataset{Kind: load.Random, InputTokens: 8}, Requests: requests, Concurrency: 2,
			OutputTokens: tokens, IgnoreEOS: true, Endpoint: load.Completions,
		},
	}}
}

func TestLeaseIsExclusive(t *testing.T) {
	ctx := t.Context()
	a, _ := serve(t, shortDir(t))
	hold(t, a, lease("run1", "storeA", time.Hour))
	if err := a.Lease(ctx, lease("run1", "storeA", time.Hour)); err != nil {
		t.Errorf("renew: %v", err)
	}
	var held *HeldError
	if err := a.Lease(ctx, lease("run2", "storeB", time.Hour)); !errors.As(err, &held) {
		t.Errorf("another store: %v, want a HeldError", err)
	} else if !strings.Contains(err.Error(), "ada@laptop") || !strings.Contains(err.Error(), "run1") {
		t.Errorf("the message does not say who: %v", err)
	}
	// The caller was killed and is back: its store proves that nobody else is.
	if err := a.Lease(ctx, lease("run3", "storeA", time.Hour)); err != nil {
		t.Errorf("the same store again: %v", err)
	}
	info, err := a.Info(ctx)
	if err != nil || info.Lease == nil || info.Lease.Run != "run3" {
		t.Errorf("Info = %+v, %v", info, err)
	}
}

func TestLeaseRunsOut(t *testing.T) {
	dir := shortDir(t)
	a, ended := serve(t, dir)
	hold(t, a, lease("run", "store", time.Hour))
	name, err := Processes{a}.Start(t.Context(), shell("trap 'exit 0' TERM; while :; do sleep 0.05; done"))
	check(t, err)
	hold(t, a, lease("run", "store", 300*time.Millisecond))
	pid := pidOf(t, dir, name)
	check(t, <-ended)
	if birth(pid) != "" {
		t.Errorf("process %d outlived the lease", pid)
	}
}

// TestUncleanWithoutCaller: the lease runs out, and something of the lab's, which has
// left its group, goes on listening where an engine did. The agent notes it on the
// host for whoever comes next.
func TestUncleanWithoutCaller(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	dir := shortDir(t)
	port, pid := leftBehind(t, dir)
	a, ended := serveAs(t, Config{Dir: dir, Release: 100 * time.Millisecond})
	hold(t, a, lease("run", "store", time.Hour))
	ct := shell("sleep 1000")
	ct.Listens = []int{port}
	begin(t, a, ct)
	hold(t, a, lease("run", "store", 300*time.Millisecond))
	unclean := new(provision.UncleanError)
	if err := <-ended; !errors.As(err, &unclean) {
		t.Errorf("Serve = %v, want that the host is unclean", err)
	}
	c := local(t)
	u, err := ReadUnclean(t.Context(), c)
	if err != nil || u == nil {
		t.Fatalf("the note: %+v, %v", u, err)
	}
	if want := fmt.Sprintf("process %d (sleep 1000) still listens on 127.0.0.1:%d", pid, port); len(u.Left) != 1 || u.Left[0] != want || u.Run != "run" || u.Holder != "ada@laptop" || !slices.Contains(u.Traces.Ports, port) {
		t.Errorf("the note: %+v", u)
	}
}

func TestMaxDurationEndsARenewedLease(t *testing.T) {
	a, ended := serve(t, shortDir(t))
	l := lease("run", "store", time.Hour)
	l.MaxDuration = load.Duration(400 * time.Millisecond)
	start := time.Now()
	for {
		if err := a.claim(t.Context(), l); err != nil {
			break // it has ended
		}
		select {
		case <-ended:
			if took := time.Since(start); took < 400*time.Millisecond {
				t.Errorf("ended after %s, before its time", took)
			}
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
	check(t, <-ended)
}

func TestReleaseStopsWhatRuns(t *testing.T) {
	dir := shortDir(t)
	a, ended := serve(t, dir)
	name, err := Processes{a}.Start(t.Context(), shell("sleep 1000"))
	check(t, err)
	pid := pidOf(t, dir, name)
	check(t, a.Release(t.Context(), 0))
	check(t, <-ended)
	if birth(pid) != "" {
		t.Errorf("process %d outlived the agent", pid)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "processes")); len(left) > 0 {
		t.Errorf("left in the directory: %v", left)
	}
}

func TestOneAgentPerDirectory(t *testing.T) {
	dir := shortDir(t)
	serve(t, dir)
	err := Serve(t.Context(), Config{Dir: dir, Log: slog.New(slog.DiscardHandler)}, func() {})
	if err == nil || !strings.Contains(err.Error(), "another agent works in") {
		t.Errorf("a second agent: %v", err)
	}
}

func TestJob(t *testing.T) {
	a, _ := serve(t, shortDir(t))
	var progress []load.Progress
	m, err := a.Run(t.Context(), "job", spec(simulated(t, sim.Config{TTFT: time.Millisecond, ITL: time.Millisecond}), 10, 16), func(p load.Progress) {
		progress = append(progress, p)
	})
	check(t, err)
	if m.Summary.Completed != 10 || m.Summary.OutputTokens != 160 || len(m.Records) != 10 {
		t.Errorf("summary %+v with %d records", m.Summary, len(m.Records))
	}
	if len(progress) == 0 || progress[len(progress)-1].Done != 10 {
		t.Errorf("progress = %+v", progress)
	}
	if _, err := a.records(t.Context(), "/v1/jobs/job"); !unknown(err) {
		t.Errorf("after its caller has taken the records: %v, want that there is no such job", err)
	}
}

// TestRunUntil: a job that tells of its requests ends once its caller knows enough.
func TestRunUntil(t *testing.T) {
	a, _ := serve(t, shortDir(t))
	over := 0
	m, err := a.RunUntil(t.Context(), "job", spec(simulated(t, sim.Config{TTFT: time.Millisecond}), 1_000_000, 1), func(load.Progress) {},
		func(r *load.Record) bool {
			over++
			return over == 20
		})
	check(t, err)
	if n := m.Summary.Completed; over != 20 || n < 20 || n >= 1_000_000 || len(m.Records) != n || m.Summary.Failed > 0 {
		t.Errorf("%d were told of, %d are over, %d records, %d failed", over, n, len(m.Records), m.Summary.Failed)
	}
}

// TestJobIsWatched: what the GPUs and the host say while a job runs comes with
// its end.
func TestJobIsWatched(t *testing.T) {
	bin := shortDir(t)
	smi := "#!/bin/sh\nwhile :; do echo \"$(date -u '+%Y/%m/%d %H:%M:%S.%3N'), 5, 650.5, 98, 1024, 61, 1755, 3201, 0x0000000000000040\"; sleep 0.02; done\n"
	check(t, os.WriteFile(filepath.Join(bin, "nvidia-smi"), []byte(smi), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	a, _ := serve(t, shortDir(t))
	job := spec(simulated(t, sim.Config{TTFT: time.Millisecond, ITL: 10 * time.Millisecond}), 4, 100)
	job.Telemetry = telemetry.Plan{Interval: 0.1, Host: true, GPUs: &telemetry.GPUs{Vendor: telemetry.NVIDIA, Count: 1}}
	m, err := a.Run(t.Context(), "job", job, func(load.Progress) {})
	check(t, err)
	r := m.Telemetry
	if r == nil || r.Expected != int(m.Summary.Duration/0.1) || r.Missing > r.Expected || len(r.Problems) > 0 {
		t.Fatalf("telemetry = %+v", r)
	}
	if want := 650.5 * m.Summary.Duration; r.Missing == 0 && (r.Energy < 0.99*want || r.Energy > 1.01*want) {
		t.Errorf("energy %v J, want about %v", r.Energy, want)
	}
	got := map[string]bool{}
	for _, s := range r.Series {
		got[s.Of+" "+s.Name] = true
		if n := len(s.At); s.At[0] < 0 || s.At[n-1] > m.Summary.Duration+0.1 {
			t.Errorf("%s of %s from %v to %v s, outside of the %v s that were measured", s.Name, s.Of, s.At[0], s.At[n-1], m.Summary.Duration)
		}
	}
	for _, want := range []string{"gpu5 power", "gpu5 throttled", "host cpu", "host memory"} {
		if !got[want] {
			t.Errorf("no series %s, but %v", want, got)
		}
	}
}

// TestJobSurvivesTheConnection cuts the caller off in mid-job, again and again:
// the job is run once, and nothing of it is lost.
func TestJobSurvivesTheConnection(t *testing.T) {
	dir := shortDir(t)
	_, _ = serve(t, dir)
	engine := sim.New(sim.Config{Model: "m", TTFT: time.Millisecond, ITL: 10 * time.Millisecond})
	s := httptest.NewServer(engine)
	defer s.Close()

	// The caller reaches the agent through a relay whose connections are cut.
	relay := filepath.Join(dir, "relay")
	cut := relayTo(t, relay, filepath.Join(dir, "sock"))
	a := newClient(local(t), relay)
	defer a.Close()
	seen := 0
	m, err := a.Run(t.Context(), "job", spec(s.URL, 8, 100), func(p load.Progress) {
		if seen++; seen <= 3 {
			cut()
		}
	})
	check(t, err)
	if seen < 3 {
		t.Errorf("the connection was cut %d times, want 3", seen)
	}
	if m.Summary.Completed != 8 || len(m.Records) != 8 {
		t.Errorf("completed %d with %d records, want 8", m.Summary.Completed, len(m.Records))
	}
	if got := engine.Truth().Requests; got != 8 {
		t.Errorf("the engine has seen %d requests, want 8: the job ran more than once", got)
	}
}

// relayTo relays connections and returns what cuts those that are open.
func relayTo(t *testing.T, from, to string) (cut func()) {
	t.Helper()
	ln, err := net.Listen("unix", from)
	check(t, err)
	var mu sync.Mutex
	var open []net.Conn
	var wg sync.WaitGroup
	cut = func() {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range open {
			c.Close()
		}
		open = nil
	}
	wg.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("unix", to)
			if err != nil {
				in.Close()
				continue
			}
			mu.Lock()
			open = append(open, in, out)
			mu.Unlock()
			wg.Go(func() { io.Copy(in, out); in.Close() })
			wg.Go(func() { io.Copy(out, in); out.Close() })
		}
	})
	t.Cleanup(func() { ln.Close(); cut(); wg.Wait() })
	return cut
}

func TestJobIsStoppedWithItsCaller(t *testing.T) {
	a, _ := serve(t, shortDir(t))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := a.Run(ctx, "job", spec(simulated(t, sim.Config{TTFT: time.Millisecond, ITL: time.Second}), 8, 1000), func(load.Progress) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want canceled", err)
	}
	if _, err := a.records(t.Context(), "/v1/jobs/job"); !unknown(err) {
		t.Errorf("after the caller has gone: %v, want that there is no such job", err)
	}
}

// TestJobOfAnEarlierRun: a job whose caller was killed ends when the next run begins, and one of the run itself does not.
func TestJobOfAnEarlierRun(t *testing.T) {
	a, _ := serve(t, shortDir(t))
	hold(t, a, lease("first", "store", time.Minute))
	url := simulated(t, sim.Config{TTFT: time.Millisecond, ITL: time.Minute})
	endless := jobOrder{Job: spec(url, 1000, 1000), Secrets: nil}
	check(t, a.call(t.Context(), "PUT", jobPath("old"), endless, nil))
	hold(t, a, lease("second", "store", time.Minute))
	check(t, a.call(t.Context(), "PUT", jobPath("new"), endless, nil))
	_, err := a.Begin(t.Context())
	check(t, err)
	if _, err := a.records(t.Context(), jobPath("old")); !unknown(err) {
		t.Errorf("of the earlier run: %v, want that there is no such job", err)
	}
	if _, err := a.records(t.Context(), jobPath("new")); err == nil || unknown(err) {
		t.Errorf("of the run itself: %v, want that it has no records yet", err)
	}
	a.forget(t.Context(), jobPath("new"))
}

func TestUnknownMembersAreRefused(t *testing.T) {
	a, _ := serve(t, shortDir(t))
	err := a.call(t.Context(), "PUT", "/v1/jobs/x", map[string]any{"surprise": 1}, nil)
	if err == nil || !strings.Contains(err.Error(), "surprise") {
		t.Errorf("an unknown member: %v", err)
	}
	if err := a.call(t.Context(), "PUT", "/v1/jobs/..%2Fx", Job{}, nil); err == nil {
		t.Error("a path is accepted as the id of a job")
	}
}

// shell is a process that runs a script.
func shell(script string) provision.Container {
	return provision.Container{
		Name:       "p",
		Entrypoint: []provision.Text{provision.Plain("/bin/sh")},
		Command:    []provision.Text{provision.Plain("-c"), provision.Plain(script)},
		Env:        []provision.EnvVar{{Name: "TOKEN", Value: provision.Secret("canary")}},
		Labels:     map[string]string{provision.LabelLab: "lab"},
		StopSignal: "SIGTERM",
		StopGrace:  10 * time.Second,
	}
}

func pidOf(t *testing.T, dir, name string) int {
	t.Helper()
	p, err := openKept(filepath.Join(dir, "processes", name))
	check(t, err)
	return p.PID
}

func logsOf(t *testing.T, a *Client, follow bool, tail int) string {
	t.Helper()
	r, err := Processes{a}.Logs(t.Context(), "p", follow, tail)
	check(t, err)
	defer r.Close()
	b, err := io.ReadAll(r)
	check(t, err)
	return string(b)
}

func TestProcess(t *testing.T) {
	ctx := t.Context()
	dir := shortDir(t)
	a, _ := serve(t, dir)
	p := Processes{a}
	ct := shell(`echo one; echo two >&2; echo "has $TOKEN"; exit 7`)
	begin(t, a, ct)
	if got, want := logsOf(t, a, true, -1), "one\ntwo\nhas canary\n"; got != want {
		t.Errorf("log = %q, want %q", got, want)
	}
	if got, want := logsOf(t, a, false, 2), "two\nhas canary\n"; got != want {
		t.Errorf("last two lines = %q, want %q", got, want)
	}
	if st, err := p.State(ctx, "p"); err != nil || st.Running || st.ExitCode != 7 {
		t.Errorf("State = %+v, %v, want exit code 7", st, err)
	}
	if id, err := p.Start(ctx, ct); err != nil || id != "p" {
		t.Errorf("asked for again, as after a lost answer: %s, %v", id, err)
	}
	if _, err := p.Start(ctx, shell("exit 8")); err == nil || !strings.Contains(err.Error(), "there already") {
		t.Errorf("another of the same name: %v", err)
	}
	if found, err := p.List(ctx, map[string]string{provision.LabelLab: "lab"}); err != nil || len(found) != 1 || found[0].State != "exited" {
		t.Errorf("List = %+v, %v", found, err)
	}
	if found, err := p.List(ctx, map[string]string{provision.LabelLab: "other"}); err != nil || len(found) != 0 {
		t.Errorf("List of another lab = %+v, %v", found, err)
	}
	state, err := os.ReadFile(filepath.Join(dir, "processes", "p", "state.json"))
	if err != nil || bytes.Contains(state, []byte("canary")) {
		t.Errorf("state.json holds a secret, or is not there: %s, %v", state, err)
	}
	if err := stop(a, ctx, "p", time.Second); err != nil {
		t.Errorf("stop one that has ended: %v", err)
	}
	if err := stop(a, ctx, "p", time.Second); err != nil {
		t.Errorf("stop one that is not there: %v", err)
	}
	if _, err := p.Start(ctx, provision.Container{Name: "none", Entrypoint: []provision.Text{provision.Plain("/no/such/program")}}); err == nil {
		t.Error("a program that is not there was started")
	}
	if found, err := p.List(ctx, nil); err != nil || len(found) != 0 {
		t.Errorf("at the end: %+v, %v", found, err)
	}
}

func TestStopIsGraceful(t *testing.T) {
	ctx := t.Context()
	a, _ := serve(t, shortDir(t))
	r := beginUntil(t, a, `trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.02; done`, "up")
	stopped := make(chan error, 1)
	go func() { stopped <- stop(a, ctx, "p", time.Minute) }()
	waitFor(t, r, "bye")
	check(t, <-stopped)
}

// TestStopAsksAgain: an engine that has lost its stop signal, as vLLM does that loads, ends within its grace.
func TestStopAsksAgain(t *testing.T) {
	a, _ := serve(t, shortDir(t))
	r := beginUntil(t, a, `trap 'trap "echo bye; exit 0" TERM' TERM; echo up; while :; do sleep 0.02; done`, "up")
	stopped := make(chan error, 1)
	go func() { stopped <- stop(a, t.Context(), "p", 20*time.Second) }()
	waitFor(t, r, "bye")
	check(t, <-stopped)
}

// TestStopOutlivesItsCaller: an engine has its grace also when the connection is lost on
// which it was told to stop.
func TestStopOutlivesItsCaller(t *testing.T) {
	a, _ := serve(t, shortDir(t))
	r := beginUntil(t, a, `trap 'echo term; sleep 0.5; echo bye; exit 0' TERM; echo up; while :; do sleep 0.02; done`, "up")
	ctx, leave := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- stop(a, ctx, "p", time.Minute) }()
	waitFor(t, r, "term")
	leave()
	if err := <-stopped; err == nil {
		t.Error("the caller did not leave")
	}
	waitFor(t, r, "bye")
	if err := stop(a, t.Context(), "p", time.Minute); err != nil {
		t.Errorf("told again: %v", err)
	}
}

// TestSecretsOfAJob: what a job must not repeat is neither in the agent's log nor in what
// it says of a failure.
func TestSecretsOfAJob(t *testing.T) {
	var log bytes.Buffer
	a, ended := serveAs(t, Config{Dir: shortDir(t), Log: slog.New(slog.NewTextHandler(&log, nil))})
	job := spec("http://ada:canary-password@127.0.0.1:1", 1, 1)
	job.Load.Secrets = map[string]string{"api_key": "canary-token"}
	job.Load.Workload.Dataset = load.Dataset{Kind: load.Text, Path: "/none/canary-token", InputTokens: 8}
	if _, err := a.Run(t.Context(), "job", job, func(load.Progress) {}); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("Run = %v", err)
	}
	check(t, a.Release(t.Context(), 0))
	check(t, <-ended)
	if said := log.String(); strings.Contains(said, "canary") || !strings.Contains(said, "job started") {
		t.Errorf("the agent's log:\n%s", said)
	}
}

// TestStopKillsTheGroup: a process that ignores its stop signal is killed after
// the grace period, and so is what it has forked.
func TestStopKillsTheGroup(t *testing.T) {
	ctx := t.Context()
	dir := shortDir(t)
	a, _ := serve(t, dir)
	beginUntil(t, a, `trap '' TERM; (trap '' TERM; echo child $(exec sh -c 'echo $PPID'); while :; do sleep 0.02; done) & while :; do sleep 0.02; done`, "child")
	group := pidOf(t, dir, "p")
	start := time.Now()
	check(t, stop(a, ctx, "p", 200*time.Millisecond))
	if took := time.Since(start); took < 200*time.Millisecond {
		t.Errorf("stopped after %s, before the grace period", took)
	}
	eventually(t, "init has reaped the whole group", func() bool { return syscall.Kill(-group, 0) != nil })
}

// waitFor reads until a text has come.
func waitFor(t *testing.T, r io.Reader, text string) {
	t.Helper()
	var got strings.Builder
	buf := make([]byte, 256)
	for !strings.Contains(got.String(), text) {
		n, err := r.Read(buf)
		got.Write(buf[:n])
		if err != nil && !strings.Contains(got.String(), text) {
			t.Fatalf("waiting for %q: %v after %q", text, err, got.String())
		}
	}
}

// TestStopFindsWhatLeft: a helper that made itself a session of its own is found
// by its environment.
func TestStopFindsWhatLeft(t *testing.T) {
	dir := shortDir(t)
	a, _ := serve(t, dir)
	file := filepath.Join(dir, "helper")
	begin(t, a, shell("setsid sh -c 'echo $$ >"+file+".new; mv "+file+".new "+file+"; exec sleep 1000' & wait"))
	pid := noted(t, file)
	check(t, stop(a, t.Context(), "p", time.Second))
	eventually(t, "the helper ends with its engine", func() bool { return birth(pid) == "" })
}

// TestKilledAgent: the next agent finds what one that was killed has left, and
// stops it.
func TestKilledAgent(t *testing.T) {
	ctx := t.Context()
	dir := shortDir(t)
	cmd := spawn(t, dir, dir)
	a := newClient(local(t), filepath.Join(dir, "sock"))
	defer a.Close()
	ct := shell("while :; do sleep 0.02; done")
	ct.Files = []provision.File{{Name: "config.yaml", Text: provision.Secret("canary")}}
	begin(t, a, ct)
	file := filepath.Join(dir, "processes", "p", "config.yaml")
	if text, err := os.ReadFile(file); err != nil || string(text) != "canary" {
		t.Errorf("the process has %q, %v", text, err)
	}
	pid := pidOf(t, dir, "p")
	check(t, cmd.Process.Kill())
	cmd.Wait()
	if birth(pid) == "" {
		t.Fatal("the process died with its agent: there is nothing to find")
	}

	b, ended := serve(t, dir)
	st, err := Processes{b}.State(ctx, "p")
	if err != nil || !st.Running {
		t.Errorf("the next agent says %+v, %v", st, err)
	}
	check(t, stop(b, ctx, "p", time.Second))
	if birth(pid) != "" {
		t.Error("the process is still there")
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its secret is still there: %v", err)
	}
	check(t, b.Release(ctx, 0))
	check(t, <-ended)
}

// TestKilledBeforeItNoted: a process whose agent was killed between starting it
// and noting it is found all the same.
func TestKilledBeforeItNoted(t *testing.T) {
	dir := shortDir(t)
	work := filepath.Join(dir, "processes", "p")
	check(t, os.MkdirAll(work, 0o700))
	check(t, os.WriteFile(filepath.Join(work, "config.yaml"), []byte("canary"), 0o600))
	cmd := exec.Command("sleep", "1000")
	cmd.Dir = work
	cmd.Env = append(os.Environ(), provision.ProcessMark+"="+filepath.Join(dir, "p"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check(t, cmd.Start())
	serve(t, dir)
	err := cmd.Wait()
	if err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process ended with %v, want killed", err)
	}
	if _, err := os.Stat(work); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what it was given is still there: %v", err)
	}
}
