package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hclbench/testhost"
	"hclbench/testhost/pypi"
)

// realLab is a real vLLM for each of its deployments, in a process of a host without Docker.
const realLab = `
lab "fault" { lease = "20s" }
host "box" {
  %HOST%
  runtime = "process"
}
model "tiny" { repo = "%MODEL%" }
engine "vllm" "all" {
  for_each = toset(["a", "b", "c", "d"])
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
    engine = [engine.vllm.all["a"], engine.vllm.all["b"], engine.vllm.all["c"], engine.vllm.all["d"]]
  }
  engine   = matrix.engine
  dataset  = dataset.random.d
  requests = 64
  load {
    concurrency   = 4
    output_tokens = 32
  }
}`

// newReal is somebody with that lab and a host for it.
func newReal(t *testing.T, engine pypi.Engine) *scene {
	t.Helper()
	host := testhost.New(t, testhost.Options{Namespace: true})
	var env []string
	for name, value := range engine.Env {
		env = append(env, name+" = "+strconv.Quote(value))
	}
	slices.Sort(env)
	lab := strings.NewReplacer("%MODEL%", engine.Model, "%VERSION%", engine.Version, "%BIN%", engine.Bin,
		"%ENV%", strings.Join(env, ", ")).Replace(realLab)
	s := &scene{person: newPerson(t, host, lab), host: host}
	s.lease = 40 * time.Second // and what an engine may take to stop, on a machine that does much else
	s.looks = func() []string { return append(s.leftOn(host), s.titles("")...) }
	return s
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
		ofEngine := strings.Contains(p.Command, "VLLM::") || strings.Contains(p.Command, "vllm serve") || strings.Contains(p.Command, "python")
		return !ofEngine || !strings.Contains(p.Command, word)
	})
}

// segments are what engines share in memory on this machine, which a host does not have of its own.
func segments(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("/dev/shm/psm_*")
	must(t, err)
	return paths
}

// TestPyPIVLLM has a real vLLM measured, then kills each kind of its processes in mid-cell, and hcl at last. Whoever
// is killed, all others have ended before the next engine is measured.
func TestPyPIVLLM(t *testing.T) {
	for _, version := range pypi.VersionsOr("0.32.0") {
		t.Run(version, func(t *testing.T) {
			s, shared := newReal(t, pypi.VLLM(t, version, tokenizerOfReal)), segments(t)
			s.begin()
			var killed []testhost.Process
			for i, victim := range []string{"", "vllm serve", "VLLM::EngineCore", "VLLM::Worker"} {
				under := func(e applyEvent) bool { return e.Type == "progress" && e.Number == i+1 }
				s.awaits(fmt.Sprintf("cell %d under way", i+1), under, 1)
				for _, p := range killed {
					if now := s.named(""); slices.Contains(now, p) {
						t.Errorf("%s of the engine before is still there: %+v", p.Command, now)
					}
				}
				if victim == "" {
					continue
				}
				killed = s.named("")
				victims := s.named(victim)
				if len(victims) != 1 {
					t.Fatalf("%d processes of %q: %q", len(victims), victim, s.titles(""))
				}
				must(t, syscall.Kill(victims[0].PID, syscall.SIGKILL))
			}
			if code := s.end(5 * time.Minute); code == exitDone {
				t.Errorf("nobody is told of the three that were lost:\n%s", s.told())
			}
			s.gone(0)
			whole := 0
			for _, e := range s.seen {
				if e.Type == "end" && e.Summary != nil && e.Summary.Completed == 64 {
					whole++
				}
			}
			if whole != 1 {
				t.Errorf("%d cells are whole, want that of the engine which was left alone:\n%s", whole, s.told())
			}
			s.reach(midLoad)
			s.abandon()
			if now := segments(t); !slices.Equal(now, shared) {
				t.Errorf("memory is left: %q, before %q", now, shared)
			}
		})
	}
}

// tokenizerOfReal is what the model of real engines is made for.
const tokenizerOfReal = "../../testdata/tokenizers/llama3-shaped.json"
