package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hclbench/accuracy"
	"hclbench/load"
	"hclbench/provision/look"
	"hclbench/results"
	"hclbench/testhost"
	"hclbench/testhost/pypi"
)

// realLab is a real vLLM for each of its deployments, in a process of a host without Docker. The second cell of each ends
// with its engine alone: it has millions of tokens to come.
const realLab = `
lab "fault" { lease = "30s" }
host "box" {
  %HOST%
  runtime = "process"
}
model "tiny" { repo = "%MODEL%" }
engine "vllm" "all" {
  for_each = toset(["a", "b", "c"])
  host     = host.box
  model    = model.tiny
  version  = "%VERSION%"
  env      = { PATH = "%BIN%:/usr/bin:/bin", SCENE = each.key, %ENV% }
  flags    = { enforce-eager = true, max-model-len = 4096 }
  container { stop_grace = "10s" }
}
dataset "random" "d" { input_tokens = 128 }
benchmark "b" {
  matrix {
    engine = values(engine.vllm.all)
    answer = [32, 3600]
  }
  engine   = matrix.engine
  dataset  = dataset.random.d
  requests = 2 * matrix.answer
  load {
    concurrency   = 2
    output_tokens = matrix.answer
  }
}`

// sglangLab is a real SGLang likewise.
var sglangLab = strings.NewReplacer(`engine "vllm" "all"`, `engine "sglang" "all"`, "engine.vllm.", "engine.sglang.",
	`flags    = { enforce-eager = true, max-model-len = 4096 }`,
	`flags    = { device = "cpu", max-total-tokens = 65536, mem-fraction-static = 0.3, enable-metrics = true, sleep-on-idle = true }`,
	`["a", "b", "c"]`, `["a", "b"]`).Replace(realLab)

// groupLab is a real vLLM for prefill and one for decode behind vLLM's router, and two that do both behind SGLang's.
// Their second cells are as those of [realLab].
const groupLab = `
lab "fault" { lease = "30s" }
host "box" {
  %HOST%
  runtime = "process"
}
model "tiny" { repo = "%MODEL%" }
engine "vllm" "one" {
  model   = model.tiny
  version = "%VERSION%"
  env     = { PATH = "%BIN%:/usr/bin:/bin", UCX_TLS = "tcp,self,sm", UCX_NET_DEVICES = "lo", %ENV% }
  flags   = { enforce-eager = true, max-model-len = 4096 }
  container { stop_grace = "10s" }
}
engine "vllm" "other" {
  inherits = engine.vllm.one
  env      = { VLLM_CPU_OMP_THREADS_BIND = "%SECOND%" }
}
group "split" {
  role "prefill" {
    engine = engine.vllm.one
    on     = [host.box]
  }
  role "decode" {
    engine = engine.vllm.other
    on     = [host.box]
  }
  router "vllm" {
    host = host.box
    env  = { PATH = "%ROUTERS%:/usr/bin:/bin" }
  }
  transfer = "nixl"
}
group "whole" {
  role "serve" {
    engine = engine.vllm.one
    on     = [host.box, host.box]
  }
  router "sglang" {
    host = host.box
    env  = { PATH = "%ROUTERS%:/usr/bin:/bin" }
  }
}
dataset "random" "d" { input_tokens = 256 }
benchmark "b" {
  matrix {
    engine = [group.split, group.whole]
    answer = [16, 3600]
  }
  engine   = matrix.engine
  dataset  = dataset.random.d
  requests = 2 * matrix.answer
  load {
    endpoint      = "chat"
    concurrency   = 4
    output_tokens = matrix.answer
  }
}`

// newReal is somebody with a lab of a real engine and a host for it, without Docker.
func newReal(t *testing.T, lab string, engine pypi.Engine) *scene {
	t.Helper()
	return newRealOn(t, testhost.New(t, testhost.Options{Namespace: true}), lab, engine)
}

// newBoxed is newReal with such a lab's engines in containers, which share the host's /dev/shm as those with GPUs do. The
// image has nothing but what a program of /usr needs, and its tag tells no version. The model comes from a hub. The
// engine is given a secret.
func newBoxed(t *testing.T, lab, image string, engine pypi.Engine) *scene {
	t.Helper()
	host := testhost.New(t, testhost.Options{Docker: true, Registry: true, Namespace: true})
	host.PushBare(t, image)
	files := map[string][]byte{}
	entries, err := os.ReadDir(engine.Model)
	must(t, err)
	for _, e := range entries {
		files[e.Name()], err = os.ReadFile(filepath.Join(engine.Model, e.Name()))
		must(t, err)
	}
	hub := testhost.NewHub(t, net.JoinHostPort(host.Outside(), "0"), files)
	environment := filepath.Dir(filepath.Dir(engine.Bin))
	s := newRealOn(t, host, strings.NewReplacer(
		`runtime = "process"`, "", `version  = "%VERSION%"`, fmt.Sprintf("image = %q", image),
		`{ repo = "%MODEL%" }`, fmt.Sprintf("{\n  repo     = %q\n  cache    = \"/root/models\"\n  download = true\n}", hub.Repo),
		"env      = {", `env      = { HF_TOKEN = var.token,`,
		`container { stop_grace = "10s" }`, fmt.Sprintf("container {\n    ipc        = \"host\"\n    mounts     = [\"/usr:/usr:ro\", %q]\n    stop_grace = \"10s\"\n  }", environment+":"+environment),
	).Replace(lab)+`
variable "token" {
  default   = "hf_canary"
  sensitive = true
}`, engine)
	s.env = append(s.env, "HF_ENDPOINT="+hub.URL)
	return s
}

func newRealOn(t *testing.T, host *testhost.Host, lab string, engine pypi.Engine) *scene {
	t.Helper()
	lab = strings.NewReplacer("%MODEL%", engine.Model, "%VERSION%", engine.Version, "%BIN%", engine.Bin,
		"%ENV%", inLab(engine.Env), "%SECOND%", pypi.Processor(t, 1)).Replace(lab)
	s := &scene{person: newPerson(t, host, lab), host: host}
	s.lease = 40 * time.Second // and what an engine may take to stop, on a machine that does much else
	before := listening(t, host)
	ofHost := func(port string) bool { return slices.Contains(before, port) }
	s.looks = func() []string {
		left := slices.Concat(s.leftOn(host), files(t, host, host.Temporary), slices.DeleteFunc(listening(t, host), ofHost))
		all, err := host.Processes()
		must(t, err)
		for _, p := range all {
			left = append(left, p.Command)
		}
		if host.Docker != nil {
			left = append(left, strings.Fields(inDocker(t, host, "volume", "ls", "--quiet"))...)
		}
		return left
	}
	return s
}

// inLab are variables as a lab has them.
func inLab(env map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		all = append(all, name+" = "+strconv.Quote(env[name]))
	}
	return strings.Join(all, ", ")
}

// listening are the ports of a host at which somebody listens.
func listening(t *testing.T, host *testhost.Host) (ports []string) {
	t.Helper()
	out, err := host.Command("ss", "-Hltun").Output()
	must(t, err)
	for line := range strings.Lines(string(out)) {
		ports = append(ports, "port "+strings.Fields(line)[4])
	}
	return ports
}

// titles are the processes of real engines that hold a word: those of Python, by whatever they call themselves.
func (s *scene) titles(word string) (titles []string) {
	s.Helper()
	for _, p := range s.named(word) {
		titles = append(titles, p.Command)
	}
	return titles
}

func (s *scene) named(word string) []testhost.Process {
	s.Helper()
	all, err := s.host.Processes()
	must(s, err)
	return slices.DeleteFunc(all, func(p testhost.Process) bool {
		ofEngine := func(name string) bool { return strings.Contains(strings.ToLower(p.Command), name) }
		return !slices.ContainsFunc([]string{"vllm", "sglang", "python"}, ofEngine) || !strings.Contains(p.Command, word)
	})
}

// files are what is in a directory of a host.
func files(t *testing.T, host *testhost.Host, dir string) []string {
	t.Helper()
	out, err := host.Command("ls", dir).Output()
	must(t, err)
	return strings.Fields(string(out))
}

// TestPyPIVLLM has a real vLLM measured, then kills each kind of its processes in mid-cell, and hcl at last. Whoever
// is killed, all others have ended before the next engine is measured. Other verbs look on.
func TestPyPIVLLM(t *testing.T) {
	t.Parallel()
	victims := []victim{
		{"bin/vllm serve", "exited with code 137 (killed)"},
		{"VLLM::EngineCore", "EngineDeadError"},
		{"VLLM::Worker", "one of its processes has ended: Worker proc"},
	}
	for _, version := range pypi.VersionsOr(pypi.Versions, pypi.VLLMVersion) {
		engine := pypi.VLLM(t, version, tokenizerOfReal)
		t.Run(version+"/process", func(t *testing.T) {
			s := newReal(t, realLab, engine)
			s.killed("vllm", victims...)
			s.interrupted()
			s.reach(midLoad)
			s.tells("destroy", exitFailed, "Stop it with Ctrl-C")
			s.abandon()
		})
		t.Run(version+"/container", func(t *testing.T) {
			lab := strings.Replace(realLab, "env      = {", `env      = { VLLM_USE_V1 = "1",`, 1) // which vLLM had once
			s := newBoxed(t, lab, "vllm/vllm-openai:latest", engine)
			s.killed("vllm", victims...)
			s.served(len(victims), engine)
			if told := s.told(); !strings.Contains(told, "has no variable VLLM_USE_V1 any more") {
				t.Errorf("it has a variable that the engine, by its own word, has not:\n%s", told)
			}
			s.reach(midLoad)
			s.abandon()
		})
	}
}

// TestPyPISGLang has the same of a real SGLang, which is destroyed at last while it loads.
func TestPyPISGLang(t *testing.T) {
	t.Parallel()
	for _, version := range pypi.VersionsOr(pypi.SGLangVersions, pypi.SGLangVersion) {
		engine := pypi.SGLang(t, version, tokenizerOfReal)
		t.Run(version+"/process", func(t *testing.T) {
			s := newReal(t, sglangLab, engine)
			s.killed("sglang", victim{"launch_server", ""}, victim{"sglang::scheduler", ""})
			s.reach(midLoad)
			s.other().tells("destroy --force", exitDone, "Removed 1 engine")
			if code := s.end(time.Minute); code != exitFailed {
				t.Errorf("the apply whose engine was destroyed: exit %d\n%s", code, s.told())
			}
			s.gone(0)
		})
		t.Run(version+"/container", func(t *testing.T) {
			s := newBoxed(t, strings.Replace(sglangLab, `["a", "b"]`, `["a"]`, 1), "lmsysorg/sglang:latest", engine)
			s.killed("sglang", victim{"sglang::detokenizer", "one of its processes has ended: Subprocess detokenizer"})
			s.served(1, engine)
			s.reach(midLoad)
			s.abandon()
		})
	}
}

// interrupted presses Ctrl-C while an engine core of vLLM loads, which loses the first stop signal: what is left of it does not take
// the whole grace, which is the usual one, to end.
func (s *scene) interrupted() {
	s.Helper()
	const ours, usual = `stop_grace = "10s"`, `stop_grace = "1m"`
	s.edit(ours, usual)
	s.begin()
	s.await("waiting", "", 1)
	eventually(s.T, "an engine core loads", 10*time.Minute, func() bool {
		log, _, _ := s.run("logs", `vllm.all["a"]`)
		return strings.Contains(log, "Initializing a V1 LLM engine")
	})
	must(s, s.cmd.Process.Signal(os.Interrupt))
	if code := s.end(50 * time.Second); code != exitInterrupted {
		s.Errorf("interrupted: exit %d\n%s", code, s.told())
	}
	s.gone(0)
	s.edit(usual, ours)
}

// served holds what is kept of the first cells of so many engines to what was asked, and to what they are.
func (s *scene) served(engines int, of pypi.Engine) {
	s.Helper()
	store, err := results.Open(s.Context(), storeDir(s.lab))
	must(s, err)
	defer store.Close()
	rows, err := store.Rows(s.Context(), results.Query{})
	must(s, err)
	rows = slices.DeleteFunc(rows, func(r results.Row) bool { return r.Summary == nil || r.Summary.Completed != 64 })
	if len(rows) != engines {
		s.Errorf("%d cells are kept whole, want %d", len(rows), engines)
	}
	for _, r := range rows {
		if in, out := r.Summary.InputTokens, r.Summary.OutputTokens; in != 64*128 || out != 64*32 {
			s.Errorf("64 prompts of 128 tokens, answered with 32: %d and %d tokens", in, out)
		}
		d := r.Deployment
		if !strings.HasPrefix(d.Versions[d.Kind], of.Version) || len(d.Served) == 0 || len(d.Phases) < 3 || !d.Listener.Proved {
			s.Errorf("version %q, serves with %.60s, phases %v, %+v", d.Versions[d.Kind], d.Served, d.Phases, d.Listener)
		}
		mean := map[string]float64{}
		for _, series := range r.Telemetry.Series {
			for _, v := range series.Value {
				mean[series.Of+" "+series.Name] += v / float64(len(series.Value))
			}
		}
		s.Logf("ready after %.0f s, of the processors %.0f %% are busy, %.0f %% for others: %v", d.Ready, mean["host cpu"], mean["host cpu_others"], r.Summary.Verdict)
		if others, known := mean["host cpu_others"]; !known || others > mean["host cpu"]-1 || others < -10 {
			s.Errorf("%.0f %% of the processors are busy, %.0f %% for others: %v", mean["host cpu"], others, r.Telemetry.Problems)
		}
	}
	if strings.Contains(s.told(), "the engine serves with") {
		s.Errorf("what was asked is not what is served:\n%s", s.told())
	}
}

// victim is a process, by a word of its title, and what is told, among other words, when it was killed.
type victim struct{ word, cause string }

// killed measures the engines of a lab one after another, and kills a process of each in its second cell. The first is
// looked at from another terminal while it loads, and while it serves.
func (s *scene) killed(kind string, victims ...victim) {
	s.Helper()
	pypi.Room(s.T, 1)
	s.begin()
	first := kind + `.all["a"]`
	s.await("waiting", "", 1)
	s.tells("status", exitDone, first, "running", "leased by")
	s.tells("check", exitDone, "model tiny", "whole, 5 files")
	s.await("progress", "", 1)
	s.tells("status", exitDone, first, "running", "leased by")
	s.tells("logs "+first, exitDone, "Application startup complete")
	var killed []testhost.Process
	for i, victim := range victims {
		under := func(e applyEvent) bool { return e.Type == "progress" && e.Number == 2*i+2 }
		s.awaits(fmt.Sprintf("cell %d under way", 2*i+2), under, 1)
		for _, p := range killed {
			if now := s.named(""); slices.Contains(now, p) {
				s.Errorf("%s of the engine before is still there: %+v", p.Command, now)
			}
		}
		killed = s.named("")
		s.kills(victim.word)
		s.lost(2*i+2, victim)
	}
	if code := s.end(5 * time.Minute); code == exitDone {
		s.Errorf("nobody is told of those that were lost:\n%s", s.told())
	}
	s.gone(0)
	if whole := s.whole(64); whole != len(victims) {
		s.Errorf("%d cells are whole, want the first of each engine:\n%s", whole, s.told())
	}
}

// kills ends the one process of an engine that has a word in its title.
func (s *scene) kills(word string) {
	s.Helper()
	victims := s.named(word)
	if len(victims) != 1 {
		s.Fatalf("%d processes of %q: %q", len(victims), word, s.titles(""))
	}
	must(s, syscall.Kill(victims[0].PID, syscall.SIGKILL))
}

// lost returns when it is told that a cell's engine was lost, and why, which has to be within seconds.
func (s *scene) lost(number int, of victim) {
	s.Helper()
	at, said := time.Now(), ""
	s.awaits("the loss of "+of.word, func(e applyEvent) bool {
		is := e.Type == "end" && e.Number == number && e.Summary == nil
		if is {
			said = e.Message
		}
		return is
	}, 1)
	if took := time.Since(at); took > lostWithin || !strings.Contains(said, of.cause) {
		s.Errorf("that %s was killed is told after %s, want %q: %s", of.word, took, of.cause, said)
	}
}

// whole is how many cells have ended with all of their requests, and are not void: of prefill and decode those whose
// KV cache has moved, by the engines' own counts.
func (s *scene) whole(requests int) (whole int) {
	for _, e := range s.seen {
		if e.Type == "end" && e.Summary != nil && e.Summary.Completed == requests && e.Summary.Verdict.Verdict != load.Void {
			whole++
		}
	}
	return whole
}

// TestPyPIGroups has prefill and decode measured, whose KV cache NIXL moves, behind vLLM's router, and two vLLM behind
// SGLang's. In the second cell of each a member is killed, which is told within seconds.
func TestPyPIGroups(t *testing.T) {
	for _, version := range pypi.VersionsOr(pypi.Versions, pypi.VLLMVersion) {
		t.Run(version, func(t *testing.T) {
			pypi.Room(t, 2)
			lab := strings.ReplaceAll(groupLab, "%ROUTERS%", pypi.Routers(t))
			s := newReal(t, lab, pypi.VLLM(t, version, tokenizerOfReal))
			s.begin()
			for i, victim := range []victim{{"--port 20064", ""}, {"sglang::router", ""}} {
				under := func(e applyEvent) bool { return e.Type == "progress" && e.Number == 2*i+2 }
				s.awaits(fmt.Sprintf("cell %d under way", 2*i+2), under, 1)
				s.kills(victim.word)
				s.lost(2*i+2, victim)
			}
			if code := s.end(5 * time.Minute); code == exitDone {
				t.Errorf("nobody is told of those that were lost:\n%s", s.told())
			}
			s.gone(0)
			want := 2
			if strings.Contains(s.told(), "as its lease was over") { // on a busy machine decode says too late what it has
				want = 1
			}
			if whole := s.whole(32); whole != want {
				t.Errorf("%d cells are whole, want those before anything was killed:\n%s", whole, s.told())
			}
		})
	}
}

// tokenizerOfReal is what the model of real engines is made for.
const tokenizerOfReal = "../../testdata/tokenizers/llama3-shaped.json"

// TestPyPIGPUSpeeds: what measures GPUs runs with a real PyTorch, whose processor stands in for two of them; where PyTorch has no GPU, it measures
// nothing.
func TestPyPIGPUSpeeds(t *testing.T) {
	python := filepath.Join(pypi.VLLM(t, pypi.VLLMVersion, tokenizerOfReal).Bin, "python3")
	said, err := exec.CommandContext(t.Context(), python, "-c", look.GPUSpeeds, "cpu", strconv.Itoa(8<<20)).Output()
	must(t, err)
	gpus, err := look.ReadGPUSpeeds(string(said))
	if err != nil || len(gpus) != 2 || gpus[0].Memory < 1e6 || gpus[1].Peers[0] < 1e6 {
		t.Errorf("%+v, %v\n%s", gpus, err, said)
	}
	if said, err := exec.CommandContext(t.Context(), python, "-c", look.GPUSpeeds, "cuda", "8").CombinedOutput(); err == nil {
		t.Errorf("without a GPU it says %s", said)
	}
}

// TestPyPIAccuracy: of questions whose right answers are a real vLLM's own first tokens, weights with three bits of mantissa, as those of an 8-bit
// float have, lose enough to be worse, and the same engine under another name holds. Its prompts have as many tokens as the model's files say. It tells
// how likely the tokens of texts are: its next token lies near that of the same weights in another precision or in SGLang, and far from that of the
// coarse weights. A random model takes all tokens for nearly as likely, so these are of one whose logits are 16 times as large. PyTorch, which knows the
// probabilities of all tokens, has 0.0006 nats for the one and 0.037 for the other, and the likeliest token the same at 95 % and 88 % of the 162
// positions.
func TestPyPIAccuracy(t *testing.T) {
	t.Parallel()
	engine := pypi.VLLM(t, pypi.VLLMVersion, tokenizerOfReal)
	sharp := func(tensor string, weight uint16) uint16 {
		if tensor == "model.norm.weight" {
			return weight + 4<<7 // to its exponent
		}
		return weight
	}
	coarse := reweighed(t, engine.Model, func(tensor string, weight uint16) uint16 {
		if !strings.Contains(tensor, "norm") {
			return (weight + 8) &^ 15
		}
		return sharp(tensor, weight)
	})
	engine.Model = reweighed(t, engine.Model, sharp)
	other := pypi.SGLang(t, pypi.SGLangVersion, tokenizerOfReal)
	begin, _, _ := strings.Cut(realLab, "dataset ")
	lab := strings.NewReplacer(`["a", "b", "c"]`, `["bfloat16", "float32"]`, "max-model-len = 4096", "max-model-len = 4096, dtype = each.key").Replace(begin) + `
model "coarse" { repo = "` + coarse + `" }
engine "vllm" "coarse" {
  inherits = engine.vllm.all["bfloat16"]
  model    = model.coarse
}
engine "vllm" "again" { inherits = engine.vllm.all["bfloat16"] }
engine "sglang" "other" {
  host    = host.box
  model   = model.tiny
  version = "` + other.Version + `"
  env     = { PATH = "` + other.Bin + `:/usr/bin:/bin", ` + inLab(other.Env) + ` }
  flags   = { device = "cpu", dtype = "bfloat16", max-total-tokens = 65536, mem-fraction-static = 0.3, sleep-on-idle = true }
}
accuracy "near" {
  engine   = concat(values(engine.vllm.all), [engine.vllm.coarse, engine.sglang.other])
  task     = "next-token"
  path     = "texts.jsonl"
  baseline = engine.vllm.all["bfloat16"]
  at       = [1]
}
accuracy "prompts" {
  engine     = engine.vllm.all["bfloat16"]
  task       = "prompt-tokens"
  path       = "` + engine.Model + `/tokenizer_config.json"
  shots_path = "` + engine.Model + `/tokenizer.json"
}
accuracy "right" {
  engine     = [engine.vllm.all["bfloat16"], engine.vllm.again, engine.vllm.coarse]
  task       = "jsonl"
  path       = "questions.jsonl"
  scoring    = "exact"
  max_tokens = 2
  baseline   = engine.vllm.all["bfloat16"]
  margin     = 0.03
  at         = [1]
}`
	s := newReal(t, lab, engine)
	var texts strings.Builder
	for i := range 6 {
		fmt.Fprintf(&texts, `{"question": "What is %d plus %d?", "answer": "It is %d, as anybody can count on the fingers of some hands."}`+"\n", i, 2*i, 3*i)
	}
	must(t, os.WriteFile(filepath.Join(s.lab, "texts.jsonl"), []byte(texts.String()), 0o644))
	asks := func(number int) string { return fmt.Sprintf("What comes after %d in the book of all numbers?", number) }
	const questions = 200
	write := func(right []string) {
		var all strings.Builder
		for i, answer := range right {
			if answer == "" { // a blank, which is none
				continue
			}
			line, err := json.Marshal(map[string]string{"question": asks(i), "answer": answer})
			must(t, err)
			all.Write(append(line, '\n'))
		}
		must(t, os.WriteFile(filepath.Join(s.lab, "questions.jsonl"), []byte(all.String()), 0o644))
	}
	apply := func(args ...string) (scores []results.Scored, answers []accuracy.Answer) {
		// Answers of two tokens are cut, so that those that are not right are a doubt.
		if out, said, code := s.run(append([]string{"apply", "--auto-approve"}, args...)...); code != exitCells {
			t.Fatalf("exit code %d:\n%s%s", code, out, said)
		}
		store, err := results.Look(t.Context(), filepath.Join(s.lab, ".hcl"))
		must(t, err)
		defer store.Close()
		scores, err = store.Scored(t.Context(), results.Query{Latest: true}, nil)
		must(t, err)
		for _, x := range scores {
			if x.Benchmark == "right" {
				answers, err = store.Answers(t.Context(), x.RunID, x.ID)
				must(t, err)
			}
		}
		return scores, answers
	}
	write(slices.Repeat([]string{"unknown"}, questions))
	_, answers := apply("--target", `engine.vllm.all["bfloat16"]`)
	var right []string
	for _, a := range answers {
		right = append(right, a.Extracted)
	}
	write(right)
	scores, _ := apply("--rerun")
	held := map[string]accuracy.Comparison{}
	for _, x := range scores {
		verdicts := map[string]accuracy.Verdict{"vllm.again": accuracy.Holds, "vllm.coarse": accuracy.Worse}
		switch want := verdicts[x.Deployment.Engine]; {
		case x.Benchmark == "near":
			held[x.Deployment.Engine] = x.Held
		case x.Benchmark == "prompts" && (x.Accuracy.Score.Right != x.Accuracy.Score.Asked || x.Summary.Verdict.Verdict != load.Valid):
			t.Errorf("prompts: %s, %s", x.Accuracy.Score, x.Summary.Verdict)
		case x.Benchmark == "right" && want != "" && x.Held.Verdict != want:
			t.Errorf("%s: %s", x.Deployment.Engine, x.Held)
		}
		t.Logf("%s %s: %s; %s", x.Benchmark, x.Deployment.Engine, x.Accuracy.Score, x.Held)
	}
	for _, x := range []struct {
		engine                     string
		least, most, same, sameAll float64
	}{{`vllm.all["float32"]`, 0.0001, 0.002, 0.9, 0.99}, {"sglang.other", 0.0001, 0.002, 0.9, 1}, {"vllm.coarse", 0.02, 0.04, 0.8, 0.92}} {
		d, again := held[x.engine].Divergence, held[x.engine].Floor
		if d == nil || again == nil || d.Positions != 162 || d.Texts != 6 {
			t.Errorf("%s: %+v, and of another start of the baseline %+v", x.engine, d, again)
		} else if d.Mean < x.least || d.Mean > x.most || d.Same < x.same || d.Same > x.sameAll || again.Mean > 0.00001 {
			t.Errorf("%s lies %v, want %v to %v nats, and %v to %v the same; another start %v", x.engine, d, x.least, x.most, x.same, x.sameAll, again)
		}
	}
}

// reweighed is a copy of a model each of whose weights, which are bfloat16, was changed.
func reweighed(t *testing.T, model string, change func(tensor string, weight uint16) uint16) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	must(t, os.CopyFS(dir, os.DirFS(model)))
	name := filepath.Join(dir, "model.safetensors")
	file, err := os.ReadFile(name)
	must(t, err)
	data := 8 + binary.LittleEndian.Uint64(file)
	var tensors map[string]struct {
		Offsets [2]uint64 `json:"data_offsets"`
	}
	must(t, json.Unmarshal(file[8:data], &tensors))
	for tensor, of := range tensors {
		for i := data + of.Offsets[0]; i < data+of.Offsets[1]; i += 2 {
			binary.LittleEndian.PutUint16(file[i:], change(tensor, binary.LittleEndian.Uint16(file[i:])))
		}
	}
	must(t, os.WriteFile(name, file, 0o644))
	return dir
}
