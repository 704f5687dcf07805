package main

import (
	"fmt"
	"math/rand/v2"
	"os"
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

// soaked is a lab with one cell of a real engine, which is applied again and again.
type soaked struct {
	*scene
	name     string
	requests int

	loads, measures time.Duration // how long it takes until it measures, and then; at first guesses
}

// soakSeed is the variable of the environment that repeats a soak: its rounds are the same, in whole or, by -run, in part.
const soakSeed = "HCL_SOAK_SEED"

// lostWithin is how long an apply may take to end after its engine has lost a process that it cannot do without: to see it,
// to stop what is left of the engine with the grace of its lab, and to tell. The machine does much else meanwhile.
const lostWithin = 45 * time.Second

// TestSoakPyPI kills hcl, its agent, a reaper, or a process of real prefill, decode, servers and routers, at a random moment
// while it loads or while it measures, one in each of many applies: each of them once, in an order drawn anew, before any is
// killed again. Whoever it is, nothing is left.
func TestSoakPyPI(t *testing.T) {
	pypi.Room(t, 2)
	soak := func(name string, loads time.Duration, lab string, engine pypi.Engine, oldnew ...string) *soaked {
		lab = strings.NewReplacer(append(oldnew, "%ROUTERS%", pypi.Routers(t), ", 3600]", "]", "2 * matrix.answer", "96", "= 2\n", "= 4\n")...).Replace(lab)
		return &soaked{newReal(t, lab, engine), name, 96, loads, 10 * time.Second}
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
	deck := []victim{
		{one, "hcl"}, {one, " agent "}, {one, " reaper "}, {one, "vllm serve"}, {one, "VLLM::EngineCore"}, {one, "VLLM::Worker"}, {one, "resource_tracker"},
		{split, "hcl"}, {split, " agent "}, {split, "vllm::router"}, {split, "--port 20000"}, {split, "--port 20064"}, {split, "VLLM::"},
		{routed, "hcl"}, {routed, "sglang::router"}, {routed, "VLLM::"},
		{alone, "hcl"}, {alone, " agent "}, {alone, " reaper "}, {alone, "launch_server"}, {alone, "sglang::scheduler"}, {alone, "sglang::detokenizer"},
	}
	seed, err := strconv.ParseUint(os.Getenv(soakSeed), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("%s=%d draws the same rounds", soakSeed, seed)
	order, count := rand.New(rand.NewPCG(seed, 0)), tallies(t)
	for round := range soaks(t, len(deck)) {
		if round%len(deck) == 0 {
			order.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		v, moment := deck[round%len(deck)], rand.New(rand.NewPCG(seed, uint64(round)+1))
		name := strings.TrimSpace(v.word) + " of " + v.of.name
		if !t.Run(fmt.Sprintf("%d/%s", round+1, name), func(t *testing.T) {
			v.of.T = t
			for !v.of.kills(v.word, moment, func(left []string, clean time.Duration) { count(t, name, left, clean) }) {
			} // it was gone, as the next moments are earlier
		}) {
			return
		}
	}
}

// kills applies the lab and kills a process whose title has a word, and counts what was left, and when no more. It returns
// false where that process had ended before.
func (s *soaked) kills(word string, moment *rand.Rand, count func(left []string, clean time.Duration)) bool {
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
	from, until := begun, &s.loads
	if moment.IntN(2) > 0 {
		eventually(s.T, "it measures", 10*time.Minute, func() bool { return s.phase() == "progress" || over() })
		from, until = time.Now(), &s.measures
	}
	select {
	case <-time.After(time.Duration(moment.Float64() * float64(*until-time.Since(from)))):
	case <-s.ended:
	}
	phase, after, dead, within := s.phase(), time.Since(begun), error(syscall.ESRCH), time.Duration(0)
	if word == "hcl" {
		dead, within = s.cmd.Process.Kill(), s.lease+time.Minute
	} else if now := alive(); len(now) > 0 {
		dead = syscall.Kill(now[moment.IntN(len(now))].PID, syscall.SIGKILL)
	}
	code := s.end(15 * time.Minute)
	took := time.Since(begun)
	measured := s.whole(s.requests)
	s.Logf("killed (%v) after %.1f s, in %s; exit %d %.1f s later, %d cells measured\n%s", dead, after.Seconds(), phase, code,
		(took - after).Seconds(), measured, &s.said)
	left := s.gone(within)
	clean := time.Since(begun)
	if code == exitDone && measured == 0 {
		s.Error("nothing is measured, and nobody is told")
	}
	dispensable := []string{" agent ", " reaper ", "resource_tracker"}
	if code == exitFailed && took-after > lostWithin && !slices.Contains(dispensable, word) {
		s.Errorf("apply has ended %s after its engine was lost", took-after)
	}
	if s.Failed() {
		s.Logf("apply has said:\n%s", s.told())
	}
	if dead != nil {
		*until = after - from.Sub(begun) // it had ended by then
		return s.Failed()
	}
	count(left, clean-after)
	return true
}
