package main

import (
	"encoding/json"
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

	"hclbench/load"
	"hclbench/provision/rent"
	"hclbench/provision/rent/protocol"
	"hclbench/results"
	"hclbench/testhost/provider"
)

// Whom a round kills, and how.
const (
	killCaller  = "the caller"
	killMachine = "the caller's machine" // with the plugin that works there
	killPlugin  = "the plugin at work"
	killAgent   = "the agent on the box"
	rebootBox   = "the box, which starts anew"
	takeBox     = "the box, which its provider has taken away"
)

var rentVictims = []string{killCaller, killPlugin, killAgent, killMachine, rebootBox, killPlugin, takeBox}

// What becomes of the lab after that.
const (
	appliedNext = "the next apply"
	nobody      = "hcl sweep"           // when its time is over
	elsewhere   = "hcl sweep elsewhere" // likewise, by somebody who has neither lab nor journal
	destroyed   = "hcl destroy"
)

// The money of a round. Where nothing else ends a box, it is swept half a minute after its hard end, which has to be within what the plan says.
const (
	rentKillCells = 4
	rentKillPrice = 24 // USD an hour
	rentKillMost  = 25 // what the plan says: an hour at the highest price
	rentKillMoney = 80 // of the lab: a request of which nobody knows whether it made a box is paid for too
)

// rentRound is what is drawn for one round.
type rentRound struct {
	victim, after string
	can           protocol.Capabilities
	forgets, keep bool
	slow          time.Duration
	strikes       []strike // in one apply after the other
}

// strike is when somebody is killed.
type strike struct {
	moment float64 // of the time that an apply takes; it does not count where there is a verb
	verb   string  // when the plugin is at work on that; empty: whatever is done
	late   float64 // of the time that the plugin works
}

// rentVerbs are those at which somebody is killed. A box is asked for once in an apply: hardly ever at a random moment.
var rentVerbs = []string{protocol.Create, protocol.Create, protocol.Capable, protocol.Offers, protocol.Status, protocol.List, protocol.Delete, protocol.Extend, protocol.Cost}

func drawRentRound(seed uint64, round int) (d rentRound) {
	r := rand.New(rand.NewPCG(seed, uint64(round)))
	d.victim = rentVictims[round%len(rentVictims)]
	d.after = []string{appliedNext, appliedNext, appliedNext, nobody, elsewhere, destroyed}[r.IntN(6)]
	is := func() bool { return r.IntN(2) == 0 }
	d.can = protocol.Capabilities{Deadline: is(), OffIsFree: is(), List: r.IntN(4) > 0, Extend: is(), Cost: is()}
	d.forgets, d.keep = is(), r.IntN(3) == 0
	d.slow = time.Duration(r.IntN(3)) * 100 * time.Millisecond
	for range 1 + r.IntN(2) {
		s := strike{moment: r.Float64(), late: r.Float64()}
		if verb := rentVerbs[r.IntN(len(rentVerbs))]; is() && slices.Contains([]string{killCaller, killMachine, killPlugin}, d.victim) {
			s.verb = verb
		}
		d.strikes = append(d.strikes, s)
	}
	if d.after == elsewhere && !d.can.List {
		d.after = nobody // where a provider cannot list its boxes, only the lab's own journal has them
	}
	return d
}

// rentScene is somebody who rents boxes of a provider, and who has one killed at any moment.
type rentScene struct {
	*scene
	rented  *rented
	fresh   provider.Account
	orphans []int // of a caller that was killed
}

// TestSlowRentedKills kills who rents a box, the program that does it for them, the agent on the box, or the box, at random moments of an
// apply. Afterwards no box has run beyond its hard end, none was made twice, none of others was deleted, no cell is lost or measured
// twice, and no run has cost more than its plan said. `make soak` does so more often.
func TestSlowRentedKills(t *testing.T) {
	t.Parallel()
	seed, err := strconv.ParseUint(os.Getenv(soakSeed), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("%s=%d draws the same rounds", soakSeed, seed)
	count := tallies(t)
	rounds := soaks(t, 8)
	lanes := min(rounds, 4)
	for lane := range lanes {
		t.Run(fmt.Sprintf("lane-%d", lane+1), func(t *testing.T) {
			t.Parallel()
			s := newRentScene(t)
			takes := s.undisturbed()
			for round := lane; round < rounds; round += lanes {
				d := drawRentRound(seed, round)
				t.Run(strconv.Itoa(round+1), func(t *testing.T) {
					s.scene.T, s.rented.T = t, t
					killed := s.kills(d, takes)
					for _, k := range killed {
						count(t, k, nil, 0)
					}
					if t.Failed() {
						t.Logf("%+v: %q", d, killed)
					}
				})
			}
		})
	}
}

func newRentScene(t *testing.T) *rentScene {
	t.Helper()
	r := newRented(t)
	r.edit("max_money = 30", fmt.Sprintf("max_money = %d", rentKillMoney), "[1, 2]", "[1, 2, 3, 4]", "requests = 8", "requests = 4 * matrix.concurrency", `"20s"`, `"10s"`)
	must(t, r.host.Install("shutdown", "#!/bin/sh\n")) // what the account knows of a box's own end is from its user data
	s := &rentScene{scene: &scene{person: r.person, host: r.host, lease: 10 * time.Second}, rented: r}
	r.changes(func(a *provider.Account) {
		a.Boots, a.Price = 0, rentKillPrice
		others := protocol.Box{ID: "of-another-lab", State: protocol.Running, PricePerHour: 1, Labels: map[string]string{
			protocol.LabelLab: "another", protocol.LabelRun: "r", protocol.LabelRequest: "hcl-another", protocol.LabelExpires: time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339),
		}}
		a.Boxes = append(a.Boxes, provider.Box{Box: others})
		s.fresh = *a
	})
	return s
}

// undisturbed is how long an apply takes with which nobody interferes.
func (s *rentScene) undisturbed() time.Duration {
	s.Helper()
	s.anew(rentRound{can: protocol.Capabilities{List: true}})
	start := time.Now()
	s.begin()
	if code := s.end(5 * time.Minute); code != exitDone && code != exitCells {
		s.Fatalf("undisturbed: exit %d\n%s", code, s.told())
	}
	return time.Since(start)
}

// anew begins with a new account, a store in which nothing is, and a machine on which nothing is.
func (s *rentScene) anew(d rentRound) {
	s.Helper()
	must(s, os.RemoveAll(filepath.Join(s.lab, ".hcl")))
	must(s, s.host.Reboot())
	must(s, os.RemoveAll(filepath.Join(s.host.Home, ".cache", "hcl", "agents")))
	s.rented.changes(func(a *provider.Account) {
		*a = s.fresh
		a.Can, a.Forgets, a.Slow = d.can, d.forgets, d.slow
	})
	const kept = "\n keep = \"20m\""
	s.edit(kept, "")
	if d.keep {
		s.edit(`ttl       = "1h"`, `ttl       = "1h"`+kept)
	}
	s.kept, s.void, s.orphans = 0, 0, nil
}

// kills plays a round, and returns who was killed in what.
func (s *rentScene) kills(d rentRound, takes time.Duration) (killed []string) {
	s.Helper()
	takes += 20 * d.slow // for each question to the provider
	s.anew(d)
	for i, of := range d.strikes {
		s.begin()
		what := s.strikes(d.victim, d.slow, of, takes)
		code := s.end(10 * time.Minute)
		if s.cmd.ProcessState.Exited() {
			s.endedByItself(code)
		}
		switch {
		case what != "":
			killed = append(killed, what)
		case i == 0 && (of.moment > 0.01 || of.verb != "") && !s.Failed(): // whom it was about was not there any more
			d.strikes[0] = strike{moment: of.moment * 0.8, late: of.late / 2}
			return s.kills(d, takes-20*d.slow)
		case i == 0:
			s.Errorf("nobody was killed\n%s", s.told())
		}
	}
	told := s.kept - s.void
	if stored := s.measured(); stored < told {
		s.Errorf("%d cells are stored, and %d were told", stored, told)
	}
	s.comesBack(d)
	s.settled(d)
	return killed
}

// strikes kills somebody at a moment of an apply, and returns whom; empty: that one was not there any more.
func (s *rentScene) strikes(victim string, slow time.Duration, at strike, takes time.Duration) (whom string) {
	s.Helper()
	if at.verb == "" && !s.lasts(time.Duration(at.moment*float64(takes))) {
		return ""
	}
	for tick := time.NewTicker(2 * time.Millisecond); ; {
		select {
		case <-tick.C:
		case <-s.ended:
			return ""
		}
		plugin, verb := s.working()
		if at.verb != "" && verb != at.verb || plugin == 0 && victim == killPlugin {
			continue
		}
		if plugin != 0 && (at.verb != "" || victim == killPlugin) {
			s.lasts(time.Duration(at.late * float64(slow+50*time.Millisecond)))
			at.late /= 2 // if that was too late
		}
		switch victim {
		case killCaller, killMachine:
			if s.cmd.Process.Signal(syscall.SIGSTOP) != nil { // so that it starts nobody more
				return ""
			}
			phase := s.phase()
			if _, verb := s.working(); verb != "" {
				phase = verb
			}
			s.orphans = s.children()
			if victim == killMachine {
				for _, pid := range s.orphans {
					must(s, syscall.Kill(pid, syscall.SIGKILL)) // whom nobody has waited for
				}
			}
			must(s, s.cmd.Process.Kill())
			return victim + ", " + phase
		case killPlugin:
			if now, verb := s.working(); now == plugin && syscall.Kill(plugin, syscall.SIGKILL) == nil {
				return victim + ", " + verb
			}
		case killAgent:
			for _, p := range agents(s.T, s.host) {
				if strings.Contains(p.Command, " agent") && syscall.Kill(p.PID, syscall.SIGKILL) == nil {
					return victim + ", " + s.phase()
				}
			}
		case rebootBox, takeBox:
			there, phase := false, s.phase()
			s.rented.taken(func(b *provider.Box) {
				if there = true; victim == takeBox {
					b.End(time.Now())
				}
			})
			if there {
				must(s, s.host.Reboot())
				return victim + ", " + phase
			}
		}
	}
}

// lasts returns after a while whether the apply has not ended before.
func (s *rentScene) lasts(while time.Duration) bool {
	select {
	case <-time.After(while):
		return true
	case <-s.ended:
		return false
	}
}

// children are the processes that the caller has started and waits for.
func (s *rentScene) children() (pids []int) {
	all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.cmd.Process.Pid))
	for _, path := range all {
		text, _ := os.ReadFile(path)
		for _, child := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(child)
			must(s, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// commandOf are the words of a process; none: it has ended.
func commandOf(pid int) []string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.FieldsFunc(string(line), func(r rune) bool { return r == 0 })
}

// working is the plugin's process that the caller waits for, and its verb; 0: none.
func (s *rentScene) working() (pid int, verb string) {
	self, err := os.Executable()
	must(s, err)
	for _, child := range s.children() {
		if words := commandOf(child); len(words) == 2 && words[0] == self {
			return child, words[1]
		}
	}
	return 0, ""
}

// endedByItself: a caller that was not killed leaves no box but one that is kept.
func (s *rentScene) endedByItself(code int) {
	s.Helper()
	if !slices.Contains([]int{exitDone, exitCells, exitFailed, exitUnclean}, code) {
		s.Errorf("exit %d\n%s", code, s.told())
	}
	for _, b := range s.account().Boxes {
		kept := func(t *rent.Rental) bool { return t.Request == b.Request && t.Stage == rent.Kept }
		if b.Request != "" && b.GoneAt.IsZero() && !slices.ContainsFunc(s.rentals(), kept) {
			s.Errorf("exit %d, and box %s is left\n%s", code, b.ID, s.told())
		}
	}
}

func (s *rentScene) rentals() []*rent.Rental {
	s.Helper()
	all, err := rent.NewJournal(rentDir(s.lab)).Rentals()
	must(s, err)
	return all
}

// measured is how many cells are stored that need not be measured again, of which none may be stored twice.
func (s *rentScene) measured() int {
	s.Helper()
	if _, err := os.Stat(storeDir(s.lab)); err != nil {
		return 0
	}
	store, err := results.Open(s.Context(), storeDir(s.lab))
	must(s, err)
	defer store.Close()
	rows, err := store.Rows(s.Context(), results.Query{})
	must(s, err)
	cells := map[string]int{}
	for _, r := range rows {
		if r.Summary != nil && r.Summary.Verdict.Verdict != load.Void {
			if cells[r.ID]++; cells[r.ID] > 1 {
				s.Errorf("cell %s was measured %d times", r.ID, cells[r.ID])
			}
		}
	}
	return len(cells)
}

// comesBack is what happens after the kill.
func (s *rentScene) comesBack(d rentRound) {
	s.Helper()
	switch d.after {
	case appliedNext: // at once: what the killed one has asked for may be under way
		for try := 0; s.measured() < rentKillCells && try < 5; try++ { // a busy machine may have made a cell void
			s.begin()
			if code := s.end(10 * time.Minute); code != exitDone && code != exitCells {
				s.Errorf("the next apply: exit %d\n%s", code, s.told())
				return
			}
		}
		if n := s.measured(); n != rentKillCells {
			s.Errorf("%d cells are measured, want %d", n, rentKillCells)
		}
		s.upToDate("apply") // and gives back what is left
		s.paid(d)
	case destroyed:
		s.upToDate("destroy")
	}
}

// upToDate runs a verb that has nothing to do but to give back boxes. It says so where nobody knows whether there is one.
func (s *rentScene) upToDate(verb string) {
	s.Helper()
	_, said, code := s.run(verb)
	if code != exitDone && !(code == exitUnclean && strings.Contains(said, "nobody knows whether there is a box")) {
		s.Errorf("%s: exit %d\n%s", verb, code, said)
	}
}

// later has the provider's clock at half a minute after the last hard end.
func (s *rentScene) later() {
	s.Helper()
	s.rented.changes(func(a *provider.Account) {
		for _, b := range a.Boxes[len(s.fresh.Boxes):] {
			a.Ahead = max(a.Ahead, time.Until(b.Hard)+30*time.Second)
		}
	})
}

// settled: when its time is over no box lives, and what they were and cost is as was said.
func (s *rentScene) settled(d rentRound) {
	s.Helper()
	eventually(s.T, "what a killed caller has asked for is done", time.Minute, func() bool {
		return !slices.ContainsFunc(s.orphans, func(pid int) bool { return len(commandOf(pid)) > 0 })
	})
	account := s.account()
	lives := func(b provider.Box) bool { return b.GoneAt.IsZero() }
	if boxes := account.Boxes[len(s.fresh.Boxes):]; slices.ContainsFunc(boxes, lives) || d.after == nobody || d.after == elsewhere {
		for _, b := range boxes {
			if lives(b) && d.after == destroyed && !s.unsure(b.Request) {
				s.Errorf("box %s is there after destroy", b.ID)
			}
		}
		s.later()
		if d.after == elsewhere {
			s.sweepsElsewhere()
		} else {
			s.tells("sweep", exitDone)
		}
	}
	account = s.account()
	requests, cost := map[string]int{}, map[string]float64{}
	for _, b := range account.Boxes[len(s.fresh.Boxes):] {
		end := b.GoneAt
		if lives(b) {
			s.Errorf("box %s is there when its time is over: %+v", b.ID, b)
			end = time.Now().Add(account.Ahead)
		}
		if account.Can.OffIsFree && (b.OffAt.IsZero() || b.OffAt.Sub(b.BilledFrom) > time.Hour) {
			s.Errorf("box %s shuts itself down at %s: %+v", b.ID, b.OffAt, b)
		}
		if account.Can.Deadline && end.After(b.Hard) {
			s.Errorf("box %s was gone at %s, after its hard end: %+v", b.ID, end, b)
		}
		if requests[b.Request]++; requests[b.Request] > 1 {
			s.Errorf("there were two boxes of request %s", b.Request)
		}
		cost[b.Labels[protocol.LabelRun]] += end.Sub(b.BilledFrom).Hours() * b.PricePerHour
	}
	total := 0.
	for run, usd := range cost {
		if total += usd; usd > rentKillMost {
			s.Errorf("boxes of run %s have cost $%.2f, and the plan said $%d at most", run, usd, rentKillMost)
		}
	}
	if total > rentKillMoney {
		s.Errorf("the lab has cost $%.2f of $%d", total, rentKillMoney)
	}
}

// unsure reports whether nobody knows if a request has made a box.
func (s *rentScene) unsure(request string) bool {
	return slices.ContainsFunc(s.rentals(), func(t *rent.Rental) bool { return t.Request == request && t.Stage == rent.Asked })
}

func (s *rentScene) account() (now provider.Account) {
	s.Helper()
	s.rented.changes(func(a *provider.Account) { now = *a })
	return now
}

// sweepsElsewhere is somebody who has the key of the account, and neither lab nor journal.
func (s *rentScene) sweepsElsewhere() {
	s.Helper()
	sweep := s.command("sweep", "--plugin=fake", "--env="+provider.EnvAccount, "--env="+provider.EnvFaults, "--env="+provider.EnvToken)
	sweep.Dir = s.TempDir()
	sweep.Env = append(sweep.Env, provider.EnvAccount+"="+s.rented.account, provider.EnvFaults+"=", provider.EnvToken+"="+s.fresh.Token)
	if out, err := sweep.CombinedOutput(); err != nil {
		s.Errorf("sweep: %v\n%s", err, out)
	}
}

// paid: each second that the provider bills is of one run, and none costs more than its plan says.
func (s *rentScene) paid(d rentRound) {
	s.Helper()
	store, err := results.Open(s.Context(), storeDir(s.lab))
	must(s, err)
	defer store.Close()
	stays, err := store.Stays(s.Context(), "")
	must(s, err)
	held, open, cost := map[string]time.Duration{}, map[string]bool{}, map[string]float64{}
	for _, stay := range stays {
		held[stay.Box] += stay.Ended.Sub(stay.Began)
		open[stay.Box] = open[stay.Box] || !stay.Closed
		if cost[stay.RunID] += max(stay.Cost, stay.Told); cost[stay.RunID] > rentKillMost {
			s.Errorf("run %s has cost $%.2f, and its plan said $%d at most", stay.RunID, cost[stay.RunID], rentKillMost)
		}
	}
	account := s.account()
	for _, b := range account.Boxes[len(s.fresh.Boxes):] {
		of, known := held[b.ID]
		if off := of - b.GoneAt.Sub(b.BilledFrom); !b.GoneAt.IsZero() && known && !open[b.ID] && (off < -time.Second || off > time.Second && !d.forgets) {
			text, _ := json.Marshal(stays)
			s.Errorf("box %s was billed for %s, and runs have had it for %s: %s", b.ID, b.GoneAt.Sub(b.BilledFrom), of, text)
		}
	}
}
