package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hclbench/load"
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
	var env []string
	for name, value := range engine.Env {
		env = append(env, name+" = "+strconv.Quote(value))
	}
	slices.Sort(env)
	lab = strings.NewReplacer("%MODEL%", engine.Model, "%VERSION%", engine.Version, "%BIN%", engine.Bin,
		"%ENV%", strings.Join(env, ", "), "%SECOND%", pypi.Processor(t, 1)).Replace(lab)
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
