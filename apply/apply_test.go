package apply_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hclbench/agent"
	"hclbench/apply"
	"hclbench/apply/place"
	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/hcl/lang"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/reach"
	"hclbench/results"
	"hclbench/testhost"
)

// bench is a lab directory and a host to apply labs to.
type bench struct {
	testing.TB
	host  *testhost.Host
	store *results.Store
	opt   apply.Options
}

// newBench uses a host with everything; tests of one host share it.
func newBench(t testing.TB, host *testhost.Host) *bench {
	t.Helper()
	store, err := results.Open(t.Context(), filepath.Join(t.TempDir(), ".hcl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	binaries, err := agent.ReadBinaries(testhost.HCL(t))
	if err != nil {
		t.Fatal(err)
	}
	return &bench{TB: t, host: host, store: store, opt: apply.Options{Options: place.Options{
		SSH:      reach.SSH{KnownHosts: []string{host.KnownHosts}},
		Binaries: binaries,
		Holder:   "the test",
	}}}
}

// engineOn is a host with an image of an engine that answers at once, or as env says.
func engineOn(t testing.TB, opt testhost.Options, env map[string]string) (host *testhost.Host, ref string) {
	t.Helper()
	opt.Docker, opt.Registry, opt.Namespace = true, true, true
	host = testhost.New(t, opt)
	ref = host.Registry + "/engine:1"
	host.PushEngine(t, ref, paced(env))
	return host, ref
}

// paced is an engine's environment with a pace, unless it has one.
func paced(env map[string]string) map[string]string {
	all := map[string]string{"ENGINE_TTFT": "2ms", "ENGINE_ITL": "1ms"}
	maps.Copy(all, env)
	return all
}

// reached are the arguments of a host block that reach a host.
func reached(h *testhost.Host) string {
	return fmt.Sprintf("address = %q\nuser = %q\nidentity_file = %q", h.Addr, h.User, h.IdentityFile)
}

// load reads the text of a lab on the host: %HOST% stands for the arguments that
// reach it.
func (b *bench) load(text string) *hcl.Config {
	b.Helper()
	text = strings.ReplaceAll(text, "%HOST%", reached(b.host))
	cfg, problems := hcl.Load(&lang.Source{Dir: b.TempDir(), Files: map[string][]byte{"lab.hcl": []byte(text)}}, lang.Vars{})
	if problems.HasErrors() {
		var s strings.Builder
		problems.Write(&s, 100, false)
		b.Fatal(s.String())
	}
	for _, e := range cfg.Engines {
		e.Ready.Stall = cmp.Or(e.Ready.Stall, time.Minute) // what hangs says so while the test has time left
		if engines.Runtime(e) == provision.Docker {        // the tests' machine may not raise it
			e.Container.Ulimits = append(e.Container.Ulimits, engines.Ulimit{Name: "memlock"})
		}
	}
	return cfg
}

func (b *bench) plan(text string) *plan.Plan {
	b.Helper()
	known, err := b.store.Known(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return plan.New(b.load(text), plan.Options{Known: known})
}

// ran is what came of an apply.
type ran struct {
	apply.Outcome
	err    error
	events []apply.Event
	rows   []results.Row
}

func (b *bench) apply(ctx context.Context, text string, watch func(apply.Event)) ran {
	b.Helper()
	return b.carryOut(ctx, b.plan(text), watch)
}

func (b *bench) carryOut(ctx context.Context, p *plan.Plan, watch func(apply.Event)) ran {
	b.Helper()
	var r ran
	opt := b.opt
	opt.Run = results.Run{ID: results.NewRunID(time.Now()), Lab: p.Lab.Name, Command: "apply"}
	opt.Events = func(e apply.Event) {
		r.events = append(r.events, e)
		if watch != nil {
			watch(e)
		}
	}
	r.Outcome, r.err = apply.Run(ctx, p, b.store, opt)
	var err error
	if r.rows, err = b.store.Rows(b.Context(), results.Query{Run: opt.Run.ID}); err != nil {
		b.Fatal(err)
	}
	return r
}

// interrupted applies a lab until its second cell begins.
func (b *bench) interrupted(text string) ran {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	return b.apply(ctx, text, func(e apply.Event) {
		if e.Type == apply.Begin && e.Number == 2 {
			cancel()
		}
	})
}

// clean checks that nothing of the lab is on the host any more: no container, no
// agent, no process of ours.
func (b *bench) clean() {
	b.Helper()
	left, err := b.host.Command("docker", "ps", "--all", "--format", "{{.Names}} {{.Status}}").CombinedOutput()
	if err != nil || len(left) > 0 {
		b.Errorf("containers are left: %s, %v", left, err)
	}
	b.noAgent()
}

// noAgent waits for the agent's process, which ends just after it has said so.
func (b *bench) noAgent() {
	b.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		ours := b.ours()
		if len(ours) == 0 {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("processes are left: %+v", ours)
		}
	}
}

// ours are the processes of ours on the host.
func (b *bench) ours() []testhost.Process {
	b.Helper()
	all, err := b.host.Processes()
	if err != nil {
		b.Fatal(err)
	}
	return slices.DeleteFunc(all, func(p testhost.Process) bool {
		return !strings.Contains(fmt.Sprint(p), ".cache/hcl") && !strings.Contains(fmt.Sprint(p), "launch_server")
	})
}

func (r ran) has(kind, text string) bool {
	return r.count(func(e apply.Event) bool { return e.Type == kind && strings.Contains(e.Message, text) }) > 0
}

// count is how many events are such.
func (r ran) count(such func(apply.Event) bool) (n int) {
	for _, e := range r.events {
		if such(e) {
			n++
		}
	}
	return n
}

// box is the beginning of a lab: a host with eight GPUs, a model and a data set.
const box = `
lab "boxed" { lease = "5m" }
host "box" {
  %HOST%
  gpus = "8xH200"
}
model "r1" { repo = "deepseek-ai/DeepSeek-R1" }
dataset "random" "short" { input_tokens = 32 }
`

// onBox is an engine there, of which more says the rest.
func onBox(kind, name, image, more string) string {
	return fmt.Sprintf("engine %q %q {\n  host  = host.box\n  model = model.r1\n  image = %q\n  %s\n}\n", kind, name, image, more)
}

var twoEngines = box + onBox("vllm", "box", "vllm/vllm-openai:v0.7.3", "flags = { tensor-parallel-size = var.tp }") +
	onBox("sglang", "box", "lmsysorg/sglang:v0.4.3.post2-cu124", "flags = { tp = 8 }") + `
variable "tp" { default = 8 }
benchmark "online" {
  matrix {
    engine      = [engine.vllm.box, engine.sglang.box]
    concurrency = [1, 4]
  }
  engine   = matrix.engine
  dataset  = dataset.random.short
  requests = 4 * matrix.concurrency
  load {
    concurrency   = matrix.concurrency
    output_tokens = 16
  }
}
`

// TestApply is the main job: two real images by their real names, pulled,
// started with GPUs, measured and taken down, and what the next plan says.
func TestApply(t *testing.T) {
	host := testhost.New(t, testhost.Options{Docker: true, Registry: true, Namespace: true, GPU: "8xH200"})
	b := newBench(t, host)
	digests := map[string]string{
		"vllm":   host.PushEngine(t, "vllm/vllm-openai:v0.7.3", map[string]string{"ENGINE_TTFT": "5ms", "ENGINE_ITL": "2ms"}),
		"sglang": host.PushEngine(t, "lmsysorg/sglang:v0.4.3.post2-cu124", map[string]string{"ENGINE_TTFT": "8ms", "ENGINE_ITL": "1ms"}),
	}

	r := b.apply(t.Context(), twoEngines, nil)
	if r.err != nil {
		t.Fatal(r.err)
	}
	if r.Planned != 4 || r.Valid+r.Suspect != 4 || len(r.rows) != 4 {
		t.Fatalf("outcome %+v with %d rows", r.Outcome, len(r.rows))
	}
	for i, row := range r.rows {
		kind, n := []string{"vllm", "vllm", "sglang", "sglang"}[i], []int{1, 4, 1, 4}[i]
		if row.Deployment.Kind != kind || row.Job.Workload.Concurrency != n {
			t.Errorf("row %d is %s at %d, want %s at %d", i, row.Deployment.Kind, row.Job.Workload.Concurrency, kind, n)
		}
		if row.Deployment.Digest != digests[kind] {
			t.Errorf("row %d ran %s, want %s", i, row.Deployment.Digest, digests[kind])
		}
		if row.Summary.Completed != 4*n || row.Summary.OutputTokens != int64(64*n) || row.Summary.InputTokens != int64(128*n) {
			t.Errorf("row %d: %+v", i, row.Summary)
		}
		if l, want := row.Deployment.Listener, fmt.Sprintf("only its container listens on port %d", []int{8000, 8000, 30000, 30000}[i]); l == nil || !l.Proved || l.By != want {
			t.Errorf("row %d: who listens: %+v, want %s", i, l, want)
		}
		if row.Deployment.Model != "deepseek-ai/DeepSeek-R1" || row.Deployment.Ready <= 0 || len(row.Deployment.Facts) == 0 {
			t.Errorf("row %d: deployment %+v", i, row.Deployment)
		}
	}
	if got := r.rows[2].CacheReset; got != "flushed" {
		t.Errorf("sglang's cache: %q, want flushed", got)
	}
	if got := r.rows[0].CacheReset; !strings.Contains(got, "VLLM_SERVER_DEV_MODE") {
		t.Errorf("vllm's cache: %q, want the reason why it is not flushed", got)
	}
	b.clean()

	// Everything is up to date, also in the eyes of a new process.
	p := b.plan(twoEngines)
	if !p.Empty() {
		t.Errorf("after apply the plan is %+v", p.Count())
	}

	// A changed flag makes exactly its cells stale, and only they are measured.
	changed := strings.Replace(twoEngines, "default = 8", "default = 4", 1)
	if n := b.plan(changed).Count(); n.Stale != 2 || n.Done != 2 {
		t.Errorf("after changing a flag: %+v, want 2 stale and 2 done", n)
	}
	r = b.apply(t.Context(), changed, nil)
	if r.err != nil || r.Planned != 2 || len(r.rows) != 2 || r.rows[0].Deployment.Kind != "vllm" {
		t.Errorf("apply of the change: %+v, %v", r.Outcome, r.err)
	}
	if !b.plan(changed).Empty() || !b.plan(twoEngines).Empty() {
		t.Error("the old or the new measurement is forgotten")
	}
	b.clean()
}

// one is a lab of one vLLM engine and one cell of 4 requests, 2 at a time; more
// is put into its blocks.
func one(image, engine, load string) string {
	return `
lab "one" { lease = "5m" }
host "box" {
  %HOST%
}
model "m" { repo = "m" }
engine "vllm" "e" {
  host  = host.box
  model = model.m
  image = "` + image + `"
  container { stop_grace = "2s" }
  ` + engine + `
}` + measuring("output_tokens = [4, 8]", "engine.vllm.e", "output_tokens = matrix.output_tokens\n"+load)
}

// measuring is a benchmark of 4 requests, 2 at a time.
func measuring(matrix, engine, load string) string {
	return fmt.Sprintf(`
dataset "random" "d" { input_tokens = 8 }
benchmark "b" {
  matrix { %s }
  engine   = %s
  dataset  = dataset.random.d
  requests = 4
  load {
    concurrency = 2
    %s
  }
}`, matrix, engine, load)
}

// TestBadEngines: whatever an engine does, the message says what happened, what
// was measured is kept, and nothing is left behind.
func TestBadEngines(t *testing.T) {
	host := testhost.New(t, testhost.Options{Docker: true, Registry: true, Namespace: true})
	push := func(t *testing.T, fault string) string {
		ref := host.Registry + "/engine:" + strings.NewReplacer("=", "-", ",", "-").Replace(fault)
		host.PushEngine(t, ref, paced(map[string]string{"ENGINE_FAULT": fault}))
		return ref
	}

	for name, c := range map[string]struct {
		fault, engine string
		says          []string
	}{
		"image not found":      {"", "", []string{"/engine:", "engine.vllm.e (lab.hcl:"}},
		"exits while starting": {"exit", "", []string{"exited with code 3", "last log lines:"}},
		"never ready":          {"never-ready", `ready { stall = "1s" }`, []string{"nothing has moved for 1s", "last probe: GET /health: 503"}},
		"not ready in time":    {"never-ready", `ready { timeout = "1s" }`, []string{"not ready after 1s", "last probe"}},
		"fatal log line":       {"fatal-log", "", []string{"out of GPU memory", "CUDA out of memory"}},
		// The server serves what its command line says, and it ignores its stop signal.
		"wrong model": {"ignore-term", "command = [\"vllm\", \"serve\", \"other\", \"--port\", \"8000\"]\nready { stall = \"1s\" }",
			[]string{"the model m is not listed, only other"}},
	} {
		t.Run(name, func(t *testing.T) {
			b, ref := newBench(t, host), host.Registry+"/engine:none"
			if c.fault != "" {
				ref = push(t, c.fault)
			}
			b.wantVoid(b.apply(t.Context(), one(ref, c.engine, ""), nil), 2, c.says...)
			b.clean()
		})
	}
	t.Run("slow start shows its phases", func(t *testing.T) {
		b := newBench(t, host)
		r := b.apply(t.Context(), one(push(t, "slow-start=1s"), "", ""), nil)
		if r.err != nil || r.Void != 0 {
			t.Errorf("%+v, %v", r.Outcome, r.err)
		}
		if !r.has(apply.Waiting, "loading weights") {
			t.Errorf("no event tells of the weights")
		}
		took := map[string]float64{}
		for _, p := range r.rows[0].Deployment.Phases {
			took[p.Name] = p.Seconds
		}
		if took["loading weights"] < 0.5 || took["loading weights"] > r.rows[0].Deployment.Ready || took["pulling"] == 0 {
			t.Errorf("the phases are %v", took)
		}
		d := r.rows[0].Deployment
		if d.Versions["vllm"] != "0.7.3" || !strings.Contains(string(d.Served), `"id":"m"`) {
			t.Errorf("the engine says of itself: versions %v, served %s", d.Versions, d.Served)
		}
		b.clean()
	})
	t.Run("serves with something else", func(t *testing.T) {
		b := newBench(t, host)
		r := b.apply(t.Context(), one(push(t, "slow-start=0s"), `env = { VLLM_SERVER_DEV_MODE = "1", HCL_SIM_LIE = "max-model-len=4096" }
  flags = { max-model-len = 8192, max-num-seqs = 64 }`, ""), nil)
		if r.err != nil || r.Suspect != 2 {
			t.Errorf("%+v, %v, want 2 suspect cells", r.Outcome, r.err)
		}
		const says = "--max-model-len asks for 8192, the engine serves with 4096 (model_config.max_model_len)"
		if !r.has(apply.Warning, says) {
			t.Errorf("no warning tells of it: %+v", r.events)
		}
		for _, row := range r.rows {
			if !slices.Contains(row.Summary.Verdict.Texts(), says) {
				t.Errorf("the reasons are %q", row.Summary.Verdict.Texts())
			}
		}
		b.clean()
	})
	t.Run("hangs in mid-cell", func(t *testing.T) {
		b := newBench(t, host)
		// The first cell has its 4 requests answered, with one for the proof before;
		// the second hangs. A start later there is nothing left to measure.
		r := b.apply(t.Context(), one(push(t, "hang-after=5"), "", `stall = "1s"`), nil)
		if r.err != nil || r.Valid+r.Suspect != 1 || r.Void != 1 {
			t.Fatalf("%+v, %v, want one measured and one void", r.Outcome, r.err)
		}
		if got := r.rows[1].Error; !strings.Contains(got, "no request was answered: stall") {
			t.Errorf("the hung cell says %q", got)
		}
		b.clean()
	})
	t.Run("exits in mid-cell", func(t *testing.T) {
		b := newBench(t, host)
		r := b.apply(t.Context(), one(push(t, "exit-after=2"), "", ""), nil)
		if r.err != nil || r.Void != 2 {
			t.Fatalf("%+v, %v, want two void cells", r.Outcome, r.err)
		}
		if starts := r.count(func(e apply.Event) bool { return e.Type == apply.Ready }); starts != 2 {
			t.Errorf("the engine was started %d times, want again for the second cell", starts)
		}
		b.clean()
	})
	t.Run("port taken", func(t *testing.T) {
		b := newBench(t, host)
		l, err := host.Listen("127.0.0.1:8000")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		r := b.apply(t.Context(), one(push(t, "slow-start=0s"), "", ""), nil)
		b.wantVoid(r, 2, "host box (lab.hcl:3): port 8000 is in use by a process of user root: stop that")
		b.clean()
	})
}

// TestStrangers: somebody else takes the port after it was seen to be free, beside
// the engine, which shares it as vLLM does: no cell is measured, and the message says
// who it is. It is the first server of the model that tells that name.
func TestStrangers(t *testing.T) {
	host := testhost.New(t, testhost.Options{Docker: true, Registry: true, Namespace: true})
	push := func(t *testing.T, tag string, env map[string]string) string {
		ref := host.Registry + "/engine:" + tag
		env = paced(env)
		env["HCL_SIM_SHARE_PORT"] = "true"
		host.PushEngine(t, ref, env)
		return ref
	}
	// against applies a lab, and starts the stranger at the first event of a kind.
	against := func(t *testing.T, b *bench, ref, kind string, stranger func()) ran {
		once := sync.OnceFunc(stranger)
		return b.apply(t.Context(), one(ref, "", ""), func(e apply.Event) {
			if e.Type == kind {
				once()
			}
		})
	}
	// theirs runs a container of somebody else's beside the engine, once that listens.
	theirs := func(t *testing.T, ref string) {
		listen := func(n int) []string {
			return []string{"timeout", "30", "sh", "-c", fmt.Sprintf("until [ $(ss -Hltn 'sport = :8000' | wc -l) = %d ]; do sleep 0.02; done", n)}
		}
		run := []string{"docker", "run", "--detach", "--name", "theirs", "--network", "host", "--entrypoint", "vllm",
			"--env", "ENGINE_FAULT=", "--env", "HCL_SIM_NOT_READY_FOR=0s", ref, "serve", "m", "--host", "127.0.0.1", "--port", "8000"}
		for _, words := range [][]string{listen(1), run, listen(2)} {
			if out, err := host.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", words, err, out)
			}
		}
	}
	end := func(t *testing.T) {
		if out, err := host.Command("docker", "rm", "--force", "theirs").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}

	t.Run("a process, in place of the engine", func(t *testing.T) {
		b := newBench(t, host)
		ref := push(t, "late", map[string]string{"ENGINE_FAULT": "slow-start=1m"})
		server := host.Command("sh", "-c", testhost.HCL(t)+" sim vllm serve m --port 8000 --share-port true & read end; kill $!")
		end, err := server.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		r := against(t, b, ref, apply.Waiting, func() {
			said, err := server.StderrPipe()
			if err == nil {
				err = server.Start()
			}
			if err != nil {
				t.Error(err)
				return
			}
			for lines := bufio.NewScanner(said); lines.Scan() && !strings.Contains(lines.Text(), "startup complete"); {
			}
		})
		b.wantVoid(r, 2, "host box (lab.hcl:3): port 8000: process ", "sim vllm serve m) of user root, which this run has not started, listens there in place of the engine", "`kill ")
		end.Close()
		server.Wait()
		b.clean()
	})
	t.Run("a container, beside the engine", func(t *testing.T) {
		b := newBench(t, host)
		ref := push(t, "slow", map[string]string{"ENGINE_FAULT": "slow-start=100ms", "HCL_SIM_NOT_READY_FOR": "5s"})
		r := against(t, b, ref, apply.Waiting, func() { theirs(t, ref) })
		b.wantVoid(r, 2, "host box (lab.hcl:3): port 8000: process ", "(vllm serve m) of user root in container theirs, which this run has not started, listens there beside the engine", "`docker stop theirs`")
		end(t)
		b.clean()
	})
	t.Run("a container that comes when the engine is measured", func(t *testing.T) {
		b := newBench(t, host)
		ref := push(t, "later", map[string]string{"ENGINE_ITL": "500ms"}) // long enough for it to come
		r := against(t, b, ref, apply.Begin, func() { theirs(t, ref) })
		if r.err != nil || r.Suspect != 2 || len(r.rows) != 2 {
			t.Fatalf("%+v, %v, want 2 suspect cells", r.Outcome, r.err)
		}
		for _, row := range r.rows {
			if !strings.Contains(strings.Join(row.Summary.Verdict.Texts(), "\n"), "in container theirs, which this run has not started, listens there beside the engine") {
				t.Errorf("the reasons are %q", row.Summary.Verdict.Texts())
			}
		}
		end(t)
		b.clean()
	})
	t.Run("nobody", func(t *testing.T) {
		b := newBench(t, host)
		r := b.apply(t.Context(), strings.Replace(one(push(t, "alone", nil), `ready { stall = "20s" }`, ""), `container { stop_grace = "2s"`, "container {\n  stop_grace = \"2s\"\n  network = \"bridge\"\n ", 1), nil)
		if r.err != nil || r.Void != 0 || !r.has(apply.Ready, "Docker gives port 8000 to its container alone") {
			t.Errorf("%+v, %v: %+v", r.Outcome, r.err, r.events)
		}
		b.clean()
	})
}

// wantVoid checks that no cell was measured and that the message of each says
// all of it.
func (b *bench) wantVoid(r ran, cells int, says ...string) {
	b.Helper()
	if r.err != nil {
		b.Errorf("Run = %v; an engine that fails is data, not an error", r.err)
	}
	if r.Void != cells || len(r.rows) != cells {
		b.Errorf("outcome %+v with %d rows, want %d void", r.Outcome, len(r.rows), cells)
	}
	for _, row := range r.rows {
		for _, s := range says {
			if !strings.Contains(row.Error, s) {
				b.Errorf("the message lacks %q:\n%s", s, row.Error)
			}
		}
	}
	if !r.has(apply.Failed, says[0]) {
		b.Errorf("no event says %q", says[0])
	}
}

// TestBadHosts: a host that cannot be used is an error, and the other hosts'
// work is done all the same.
func TestBadHosts(t *testing.T) {
	host := testhost.New(t, testhost.Options{Namespace: true, GPU: "8xH200"})
	two := func(args string) string {
		return `
host "bad" {
  ` + args + `
}
host "good" {
  %HOST%
  runtime = "process"
}
engine "sim" "good" { host = host.good }
engine "vllm" "bad" {
  host  = host.bad
  image = "vllm/vllm-openai:v1"
  model = model.m
}
model "m" { repo = "m" }` + measuring("engine = [engine.vllm.bad, engine.sim.good]", "matrix.engine", "output_tokens = 2")
	}
	key := fmt.Sprintf("\nuser = \"root\"\nidentity_file = %q", host.IdentityFile)
	stranger := filepath.Join(t.TempDir(), "id")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", stranger).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for name, c := range map[string]struct {
		host string
		err  error
		says string
	}{
		"unreachable":      {fmt.Sprintf("address = %q", closed.Addr()) + key, provision.ErrUnreachable, "host bad (lab.hcl:2)"},
		"no docker":        {fmt.Sprintf("address = %q", host.Addr) + key, provision.ErrNoDocker, "host bad (lab.hcl:2)"},
		"not what it says": {fmt.Sprintf("address = %q\nruntime = \"process\"\ngpus = \"8xMI300X\"", host.Addr) + key, place.ErrContract, "8xMI300X"},
		"too few":          {fmt.Sprintf("address = %q\nruntime = \"process\"\ngpus = \"16xH200\"", host.Addr) + key, place.ErrContract, "16xH200"},
		"no key of ours":   {fmt.Sprintf("address = %q\nuser = \"root\"\nidentity_file = %q", host.Addr, stranger), provision.ErrAuth, "host bad (lab.hcl:2)"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, host)
			text := two(c.host)
			if strings.Contains(c.host, "process") {
				text = strings.Replace(text, `image = "vllm/vllm-openai:v1"`, `command = ["vllm"]`, 1)
			}
			r := b.apply(t.Context(), text, nil)
			if r.err == nil || c.err != nil && !errors.Is(r.err, c.err) || !strings.Contains(r.err.Error(), c.says) {
				t.Errorf("Run = %v, want %v that says %q", r.err, c.err, c.says)
			}
			if r.Valid+r.Suspect != 1 {
				t.Errorf("outcome %+v: the good host's cell was not measured", r.Outcome)
			}
			b.noAgent()
		})
	}
}

// TestInterrupt: Ctrl-C in the middle of a cell takes everything down and keeps
// what was measured; the next apply measures only the rest.
func TestInterrupt(t *testing.T) {
	host, ref := engineOn(t, testhost.Options{}, map[string]string{"ENGINE_ITL": "5ms"})
	b := newBench(t, host)
	text := one(ref, "", "")
	r := b.interrupted(text)
	if !errors.Is(r.err, context.Canceled) {
		t.Errorf("Run = %v, want canceled", r.err)
	}
	if len(r.rows) != 1 || r.rows[0].Summary == nil {
		t.Errorf("%d cells are kept, want the one that was measured", len(r.rows))
	}
	b.clean()
	if n := b.plan(text).Count(); n.Done != 1 || n.Measure != 1 {
		t.Errorf("after the interrupt: %+v, want one done and one to measure", n)
	}
	if r := b.apply(t.Context(), text, nil); r.err != nil || r.Planned != 1 {
		t.Errorf("the next apply: %+v, %v", r.Outcome, r.err)
	}
	b.clean()
}

// TestMovedTag: half of the cells were measured when the tag meant another
// image. That must not go unseen.
func TestMovedTag(t *testing.T) {
	host, ref := engineOn(t, testhost.Options{}, nil)
	before := host.PushEngine(t, ref, paced(map[string]string{"ENGINE_ITL": "5ms"}))
	b := newBench(t, host)
	b.interrupted(one(ref, "", ""))
	after := host.PushEngine(t, ref, paced(nil))
	r := b.apply(t.Context(), one(ref, "", ""), nil)
	if r.err != nil || r.Planned != 1 {
		t.Fatalf("%+v, %v", r.Outcome, r.err)
	}
	if !r.has(apply.Warning, before) || !r.has(apply.Warning, after) {
		t.Errorf("no warning names both digests: %+v", r.events)
	}
}

// TestLostConnection: sshd drops the connection in mid-cell; the measurement
// goes on, and its result arrives.
func TestLostConnection(t *testing.T) {
	host, ref := engineOn(t, testhost.Options{}, map[string]string{"ENGINE_TTFT": "50ms", "ENGINE_ITL": "50ms"})
	b := newBench(t, host)
	cuts := 0
	r := b.apply(t.Context(), one(ref, "", ""), func(e apply.Event) {
		if e.Type == apply.Progress && cuts < 2 && e.Progress.Done < 4 {
			cuts++
			host.Cut()
		}
	})
	if r.err != nil || r.Void != 0 || r.Valid+r.Suspect != 2 {
		t.Errorf("%+v, %v", r.Outcome, r.err)
	}
	for _, row := range r.rows {
		if row.Summary == nil || row.Summary.Completed != 4 || row.Summary.Failed != 0 {
			t.Errorf("row %v: %s %+v", row.Axes, row.Error, row.Summary)
		}
	}
	if cuts == 0 {
		t.Error("the connection was never cut")
	}
	b.clean()
}

// TestTwoCallers: while one applies a lab, another with a store of its own is
// told who is at work, and touches nothing.
func TestTwoCallers(t *testing.T) {
	host, ref := engineOn(t, testhost.Options{}, map[string]string{"ENGINE_ITL": "400ms"})
	first, second := newBench(t, host), newBench(t, host)
	second.opt.Holder = "somebody else"
	var other ran
	asked := false
	r := first.apply(t.Context(), one(ref, "", ""), func(e apply.Event) {
		if e.Type == apply.Begin && !asked {
			asked = true
			other = second.apply(t.Context(), one(ref, "", ""), nil)
		}
	})
	var held *agent.HeldError
	if !errors.As(other.err, &held) || held.Lease.Holder != "the test" {
		t.Errorf("the second caller: %v, want who holds the lease", other.err)
	}
	if r.err != nil || r.Valid+r.Suspect != 2 {
		t.Errorf("the first caller: %+v, %v", r.Outcome, r.err)
	}
	first.clean()
}
