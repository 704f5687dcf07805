package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"hclbench/testhost"
)

// claimFaults are those of what a run has on its hosts: that is made, and ended, though who asks for it or who does
// it is away just then; and it is nobody else's.
func claimFaults() (all []fault) {
	for _, long := range []time.Duration{1, 90, 300} {
		d := long * time.Second
		for _, at := range []struct{ name, event string }{
			{"is created", "create"}, {"is started", "start"}, {"is stopped", "kill"}, {"is removed", "destroy"},
		} {
			when := fmt.Sprintf(" for %d s as a container %s", long, at.name)
			soak := long > 100
			all = append(all,
				fault{name: "network cut" + when, soak: soak, whole: true, strike: atContainer(at.event, cutFor(d))},
				fault{name: "dockerd away" + when, soak: soak, strike: atContainer(at.event, func(s *scene) {
					must(s, s.host.Docker.Stop())
					<-time.After(d)
					must(s, s.host.Docker.Start())
				})})
		}
	}
	return append(all,
		fault{name: "another login with a lab of the same name", at: midCell, whole: true, engine: map[string]string{"ENGINE_ITL": "50ms"},
			opt: testhost.Options{Login: "ada", Other: "bob", Sudo: true}, strike: func(s *scene) { s.paused(func() { otherLogin(s) }) }},
		fault{name: "caller suspended past its lease, with locked clocks", lease: 6 * time.Second, opt: testhost.Options{GPU: "8xH200"},
			strike: func(s *scene) {
				s.forGPUs()
				s.reach(midCell)
				s.loseCaller(func() { must(s, s.cmd.Process.Signal(syscall.SIGSTOP)) })
				if got := s.clocks(); got != "free" {
					s.Errorf("after the lease the clocks are %s", got)
				}
				s.holds(func() { must(s, s.cmd.Process.Signal(syscall.SIGCONT)) })
			}},
		fault{name: "host reboots in mid-cell", at: midCell, strike: func(s *scene) { must(s, s.host.Reboot()) }},
		fault{name: "host reboots in mid-cell, with locked clocks", opt: testhost.Options{GPU: "8xH200"}, strike: func(s *scene) {
			s.forGPUs()
			s.reach(midCell)
			s.holds(func() { must(s, s.host.Reboot()) })
		}},
		fault{name: "interrupted between the last answer and the proof", says: "interrupted; what ran is taken down", strike: func(s *scene) {
			const of, endless = `{ B = "b" }`, `{ B = "b", HCL_SIM_TABLE = "1:5ms/1s" }`
			s.edit(of, endless) // so that there is something to interrupt, however late
			defer s.edit(endless, of)
			s.begin()
			s.awaits("the last answer", func(e applyEvent) bool {
				return e.Progress != nil && !e.Progress.Warmup && e.Progress.Total > 0 && e.Progress.Done == e.Progress.Total
			}, 1)
			must(s, s.cmd.Process.Signal(os.Interrupt))
			if code := s.end(time.Minute); code != exitInterrupted {
				s.Errorf("exit %d, want %d", code, exitInterrupted)
			}
			if got := faultCells - s.todo(); got != s.kept-s.void {
				s.Errorf("%d cells are told and %d are kept", s.kept, got)
			}
			s.gone(5 * time.Second)
		}},
	)
}

// atContainer begins an apply, and strikes when the daemon says this of one of its containers first.
func atContainer(event string, strike func(*scene)) func(*scene) {
	return func(s *scene) {
		s.Helper()
		events := s.host.Command("docker", "events", "--since", fmt.Sprint(time.Now().Unix()), "--filter", "label=hcl.lab", "--filter", "event="+event)
		out, err := events.StdoutPipe()
		must(s, err)
		must(s, events.Start())
		s.Cleanup(func() { _ = events.Process.Kill(); _ = events.Wait() })
		happens := make(chan error, 1)
		go func() {
			_, err := bufio.NewReader(out).ReadString('\n')
			happens <- err
		}()
		s.begin()
		select {
		case err := <-happens:
			must(s, err)
		case <-s.ended:
			s.Fatalf("apply ended before %q came: %s", event, s.told())
		}
		strike(s)
	}
}

// otherLogin has somebody use the same machine by another login, for a lab that has the name and the ports of this one.
func otherLogin(s *scene) {
	other := s.other()
	other.edit(`user = "ada"`, `user = "bob"`)
	ours := s.engine()
	for _, c := range []struct {
		command string
		codes   []int
	}{
		{"status", []int{exitDone}},
		{"destroy", []int{exitDone, exitFailed}},
		{"apply", []int{exitFailed}},
	} {
		out, said, code := other.run(strings.Fields(c.command)...)
		if !slices.Contains(c.codes, code) {
			s.Errorf("the other's %s: exit %d, want one of %v\n%s%s", c.command, code, c.codes, out, said)
		}
		if got := s.engine(); got != ours {
			s.Errorf("after the other's %s the engine is %q, and was %q\n%s%s", c.command, got, ours, out, said)
		}
	}
}

// holds sees to it that in whatever begins to be measured after something has befallen the run clocks are held, and that
// at its end they are free.
func (s *scene) holds(befalls func()) {
	s.Helper()
	s.mu.Lock()
	before := len(s.seen)
	s.mu.Unlock()
	befalls()
	measuring := func() bool { // something that began since
		s.mu.Lock()
		defer s.mu.Unlock()
		since := s.seen[before:]
		return len(since) > 1 && since[len(since)-1].Type == "progress" && slices.ContainsFunc(since, func(e applyEvent) bool { return e.Type == "begin" })
	}
	for over := false; !over; {
		select {
		case <-s.ended:
			over = true
		case <-time.After(100 * time.Millisecond):
			if measuring() {
				if got := s.clocks(); got != "held" && measuring() {
					s.Errorf("a cell is measured, and the clocks are %s\n%s", got, s.told())
					over = true
				}
			}
		}
	}
	s.end(3 * time.Minute)
	if got := s.clocks(); got != "free" {
		s.Errorf("at the end the clocks are %s", got)
	}
}

// TestSlowTurns: labs that need the same hosts together, and wait for them, get them one after the other.
func TestSlowTurns(t *testing.T) {
	t.Parallel()
	a, text := newWhole(t)
	b := &nodes{scene: scene{person: newPerson(t, a.hosts[0], strings.Replace(text, `lab "nodes"`, `lab "others"`, 1)),
		host: a.host, others: a.others, lease: a.lease}, hosts: a.hosts}
	b.env = a.env
	// The third has the middle one of the hosts, when the others come.
	third := &scene{person: newPerson(t, a.hosts[1], faultText("10m", false)), host: a.hosts[1], lease: 10 * time.Minute}
	third.edit("user =", "gpus = \"8xH200\"\n  user =", "container {", "container {\n    ulimits = { memlock = null }\n   ", `"10s" }`, "\"10s\"\n  }")
	third.push(nil)
	for _, h := range a.others {
		b.knows(h)
	}
	for round := range 3 {
		for _, n := range []*nodes{a, b} {
			must(t, os.RemoveAll(n.lab+"/.hcl"))
			n.kept, n.void = 0, 0
		}
		if round == 2 {
			third.reach(midCell)
		}
		a.begin("--wait", "5m")
		b.begin("--wait", "5m")
		for _, n := range []*nodes{a, b} {
			if code := n.end(6 * time.Minute); code != exitDone && code != exitCells || n.kept != 1 {
				t.Errorf("round %d: exit %d with %d cells\n%s", round, code, n.kept, n.told())
			}
		}
		a.gone(30 * time.Second)
	}
	third.finishes("the third")
	a.gone(30 * time.Second)
}
