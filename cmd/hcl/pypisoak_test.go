package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"hclbench/testhost"
	"hclbench/testhost/pypi"
)

// soaked is a lab with one cell of a real engine, which is applied again and again.
type soaked struct {
	*scene
	name     string
	requests int
	takes    time.Duration // until its processes end; at first a guess
}

// TestSoakPyPI kills hcl, its agent, a reaper, or a process of real prefill, decode, servers and routers, at a random moment
// of its life, one in each of many applies. Whoever it is, nothing is left.
func TestSoakPyPI(t *testing.T) {
	pypi.Room(t, 2)
	soak := func(name string, takes time.Duration, lab string, engine pypi.Engine, oldnew ...string) *soaked {
		lab = strings.NewReplacer(append(oldnew, "%ROUTERS%", pypi.Routers(t), "[2, 4]", "[4]", "= 64", "= 96", "= 24", "= 96")...).Replace(lab)
		s := &soaked{newReal(t, lab, engine), name, 96, takes}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("%s: what the last apply has said:\n%s", name, s.told())
			}
		})
		return s
	}
	vllm, sglang := pypi.VLLM(t, pypi.VLLMVersion, tokenizerOfReal), pypi.SGLang(t, pypi.SGLangVersion, tokenizerOfReal)
	one := soak("vLLM", time.Minute, realLab, vllm, `["a", "b", "c"]`, `["a"]`)
	split := soak("prefill and decode", 2*time.Minute, groupLab, vllm, "[group.split, group.whole]", "[group.split]")
	routed := soak("vLLM behind SGLang's router", time.Minute, groupLab, vllm, "[group.split, group.whole]", "[group.whole]", "[host.box, host.box]", "[host.box]")
	alone := soak("SGLang", time.Minute, sglangLab, sglang, `["a", "b"]`, `["a"]`)
	type victim struct {
		of   *soaked
		word string // in its title
	}
	victims := []victim{
		{one, "hcl"}, {one, " agent "}, {one, " reaper "}, {one, "vllm serve"}, {one, "VLLM::EngineCore"}, {one, "VLLM::Worker"},
		{split, "hcl"}, {split, "vllm::router"}, {split, "--port 20000"}, {split, "--port 20064"}, {split, "VLLM::"},
		{routed, "hcl"}, {routed, "sglang::router"}, {routed, "VLLM::"},
		{alone, "hcl"}, {alone, " agent "}, {alone, " reaper "}, {alone, "launch_server"}, {alone, "sglang::scheduler"}, {alone, "sglang::detokenizer"},
	}
	killed := map[string]int{}
	for round, rounds := 0, soaks(t, 6); round < rounds; {
		if round%len(victims) == 0 {
			rand.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
		}
		v := victims[round%len(victims)]
		if !v.of.kills(v.word) {
			continue // it was gone, as the next moments are earlier
		}
		round++
		killed[strings.TrimSpace(v.word)]++
		t.Logf("round %d of %d, nothing is left; killed so far: %v", round, rounds, killed)
	}
}

// kills applies the lab and kills a process whose title has a word. It returns false where that had ended before.
func (s *soaked) kills(word string) bool {
	s.Helper()
	must(s, os.RemoveAll(filepath.Join(s.lab, ".hcl"))) // of the last round, so that it measures anew
	begun := time.Now()
	s.begin()
	alive := func() []testhost.Process {
		all, err := s.host.Processes()
		must(s, err)
		return slices.DeleteFunc(all, func(p testhost.Process) bool { return !strings.Contains(p.Command, word) })
	}
	over := func() bool {
		select {
		case <-s.ended:
			return true
		default:
			return false
		}
	}
	if word != "hcl" {
		eventually(s.T, word+" is there", 5*time.Minute, func() bool { return len(alive()) > 0 || over() })
	}
	born := time.Since(begun)
	select {
	case <-time.After(time.Duration(rand.Float64() * float64(s.takes-born))):
	case <-s.ended:
	}
	phase, after, dead, within := s.phase(), time.Since(begun), error(syscall.ESRCH), time.Duration(0)
	if word == "hcl" {
		dead, within = s.cmd.Process.Kill(), s.lease+time.Minute
	} else if now := alive(); len(now) > 0 {
		dead = syscall.Kill(now[rand.IntN(len(now))].PID, syscall.SIGKILL)
	}
	code := s.end(15 * time.Minute)
	took := time.Since(begun)
	s.gone(within)
	measured := s.whole(s.requests)
	if dead != nil {
		s.takes = after // it had ended by then
	}
	s.Logf("%s: %s killed (%v) after %.1f s, in %s; exit %d after %.1f s, %d cells measured, all gone after %.1f s\n%s", s.name, word, dead,
		after.Seconds(), phase, code, took.Seconds(), measured, time.Since(begun).Seconds(), &s.said)
	if code == exitDone && measured == 0 {
		s.Fatal("nothing is measured, and nobody is told")
	}
	return dead == nil
}
