package main

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hclbench/testhost"
	"hclbench/testhost/pypi"
)

// TestSoakPyPI kills hcl or a process of real prefill, decode and router at random moments, once in each of many applies.
// Whoever it is, nothing is left.
func TestSoakPyPI(t *testing.T) {
	pypi.Room(t, 2)
	lab := strings.NewReplacer("%ROUTERS%", pypi.Routers(t), "[group.split, group.whole]", "[group.split]",
		`UCX_NET_DEVICES = "lo"`, `UCX_NET_DEVICES = "lo", ROUND = "0"`).Replace(groupLab)
	s := newReal(t, lab, pypi.VLLM(t, pypi.VLLMVersion, tokenizerOfReal))
	takes, times := 90*time.Second, map[string]int{}
	for round := range soaks(t, 10) {
		s.edit(`ROUND = "`+strconv.Itoa(round)+`"`, `ROUND = "`+strconv.Itoa(round+1)+`"`) // other engines, with nothing measured
		begun := time.Now()
		s.begin()
		select {
		case <-time.After(time.Duration(rand.Float64() * float64(takes))):
		case <-s.ended:
			takes = time.Since(begun)
		}
		kinds, alive := []string{"hcl"}, map[string][]testhost.Process{}
		for _, kind := range []string{"--port 20000", "--port 20064", "VLLM::EngineCore", "VLLM::Worker", "vllm::router"} {
			if alive[kind] = s.named(kind); len(alive[kind]) > 0 {
				kinds = append(kinds, kind)
			}
		}
		victim, phase, at := kinds[rand.IntN(len(kinds))], s.phase(), time.Now()
		if victim == "hcl" {
			s.cmd.Process.Kill() // it may have ended
			<-s.ended
			s.gone(s.lease + time.Minute)
		} else {
			of := alive[victim]
			syscall.Kill(of[rand.IntN(len(of))].PID, syscall.SIGKILL) // so may it
			s.end(15 * time.Minute)                                   // an engine that was lost is started again
			s.gone(0)
		}
		times[victim]++
		t.Logf("round %d: %s killed after %.0f s, in %s; exit %d, all gone %.0f s later", round+1, victim, at.Sub(begun).Seconds(), phase,
			s.cmd.ProcessState.ExitCode(), time.Since(at).Seconds())
		if t.Failed() {
			t.Fatalf("what apply has said:\n%s", s.told())
		}
	}
	t.Logf("killed, by kind: %v", times)
}
