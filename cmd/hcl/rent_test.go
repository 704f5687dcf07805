package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"hclbench/hcl"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/rent"
	"hclbench/provision/rent/protocol"
	"hclbench/testhost"
	"hclbench/testhost/provider"
)

const rentLab = `
lab "rented" {
  lease     = "20s"
  max_money = 30
}
host "box" {
  runtime = "process"
  rent {
    plugin    = "fake"
    ttl       = "1h"
    max_price = 25
    spec      = { size = "large" }
    env       = { PROVIDER_ACCOUNT = "%ACCOUNT%", PROVIDER_FAULTS = "%FAULTS%", PROVIDER_TOKEN = var.token }
  }
}
variable "token" {
  default   = "token-canary"
  sensitive = true
}
engine "sim" "s" {
  host  = host.box
  flags = { ttft = "5ms", itl = "5ms" }
}
dataset "random" "d" { input_tokens = 8 }
benchmark "b" {
  matrix { concurrency = [1, 2] }
  engine   = engine.sim.s
  dataset  = dataset.random.d
  requests = 8
  load {
    concurrency   = matrix.concurrency
    output_tokens = 8
  }
}`

// rented is somebody who rents a real host of a provider that is none.
type rented struct {
	*person
	account string
	host    *testhost.Host // that all boxes are
}

func newRented(t *testing.T, faults ...string) *rented {
	t.Helper()
	return newRentedOn(t, []*testhost.Host{testhost.New(t, testhost.Options{Namespace: true})}, faults...) // for a port of its own
}

// newRentedOn is somebody to whom the provider gives these hosts, one after the other.
func newRentedOn(t *testing.T, hosts []*testhost.Host, faults ...string) *rented {
	t.Helper()
	r := &rented{account: filepath.Join(t.TempDir(), "account"), host: hosts[0]}
	var addresses, letIn []string
	for _, h := range hosts {
		addresses, letIn = append(addresses, h.Addr), append(letIn, h.IdentityFile+".pub")
	}
	_, err := provider.New(r.account, provider.Account{
		Token: "token-canary", Address: strings.Join(addresses, ","), User: hosts[0].User, LetIn: strings.Join(letIn, ","), Price: 20, Boots: 1,
		Can: protocol.Capabilities{List: true, Extend: true, Cost: true}, Boxes: []provider.Box{{Box: protocol.Box{ID: "of-others", State: protocol.Running}}},
	})
	must(t, err)
	r.person = newLocal(t, strings.NewReplacer("%ACCOUNT%", r.account, "%FAULTS%", strings.Join(faults, ",")).Replace(rentLab))
	self, err := os.Executable()
	must(t, err)
	bin := t.TempDir()
	for _, plugin := range []string{"fake", "other"} {
		must(t, os.WriteFile(filepath.Join(bin, "hcl-rent-"+plugin), []byte("#!/bin/sh\nexec "+plain.Quote(self)+" \"$@\"\n"), 0o755))
	}
	r.env = append(r.env, "PATH="+bin+":"+os.Getenv("PATH"))
	return r
}

// boxes are those of ours that were made, and that live.
func (r *rented) boxes() (made, live int) {
	r.Helper()
	must(r.T, provider.Change(r.account, func(a *provider.Account) {
		for _, b := range a.Boxes {
			switch {
			case b.Request == "" && (b.Deletes > 0 || !b.GoneAt.IsZero()):
				r.Errorf("a box of others was deleted: %+v", b)
			case b.Request == "":
			case b.GoneAt.IsZero():
				live++
				fallthrough
			default:
				made++
			}
		}
	}))
	return made, live
}

func (r *rented) want(made, live int) {
	r.Helper()
	if m, l := r.boxes(); m != made || l != live {
		r.Errorf("%d boxes were made and %d live, want %d and %d", m, l, made, live)
	}
}

// TestRented: a host is rented for what is to be measured, measured on, given back and paid; kept where that is said; used
// again after a kill; and swept.
func TestRented(t *testing.T) {
	t.Parallel()
	r := newRented(t)
	r.tells("plan", exitDone, "rented of fake for 1h00m at most, at $25.00 an hour at most", "$20.00 an hour: cheap", "this machine gives it back; `hcl sweep` deletes it, anywhere",
		"Until their hard ends they cost at most $25.00")
	r.want(0, 0)
	r.tells("apply", applied, "renting", "is gone; it has cost $0.")
	for try := 0; !strings.Contains(r.tells("plan", exitDone), "all 2 cells are measured") && try < 5; try++ {
		r.tells("apply", applied) // a busy machine may have made a cell void
	}
	made, _ := r.boxes()
	r.want(made, 0)
	r.tells("apply", exitDone, "Up to date") // and nothing to rent
	r.want(made, 0)
	r.tells("status", exitDone, "not rented now")
	r.tells("report", exitDone, "USD per million") // by the price that the provider told

	r.edit(`ttl       = "1h"`, "ttl = \"1h\"\n keep = \"20m\"")
	r.tells("apply --rerun", applied, "stays until", "hcl destroy")
	r.want(made+1, 1)
	r.tells("status", exitDone, "rented at $20.00 an hour", fmt.Sprintf("box box-%d of fake", made+2), "has cost $0.", "kept for the next run")
	r.edit("requests = 8", "requests = 20000")
	killed := r.until("progress")
	must(t, killed.Process.Kill())
	killed.Wait()
	r.want(made+1, 1)
	r.edit("requests = 20000", "requests = 9")
	r.tells("apply", applied, "of an earlier run is there")
	r.want(made+1, 1)
	r.tells("sweep", exitDone, "its time is not over", "not hcl's, and not touched")
	r.want(made+1, 1)
	must(t, provider.Change(r.account, func(a *provider.Account) { a.Ahead = 2 * time.Hour }))
	r.tells("sweep --dry-run", exitDone, "over, to be deleted")
	r.want(made+1, 1)
	r.tells("sweep", exitDone, "HAS COST", "deleted", "$40.") // for two hours, by the provider's clock
	r.want(made+1, 0)
	r.tells("destroy", exitDone, "Nothing of lab rented is on its hosts")
	text, err := os.ReadFile(filepath.Join(r.lab, ".hcl", "rent", "rentals.jsonl"))
	must(t, err)
	if strings.Contains(string(text), "token-canary") {
		t.Errorf("a secret is kept:\n%s", text)
	}
}

// ledger is what a run had of its host, as the report of it tells it.
type ledger struct {
	Run, Host, Box string
	Price          float64 `json:"price_per_hour"`
	Held           float64 `json:"held_s"`
	Booting        float64 `json:"booting_s"`
	Preparing      float64 `json:"preparing_s"`
	Starting       float64 `json:"starting_s"`
	Measuring      float64 `json:"measuring_s"`
	Idle           float64 `json:"idle_s"`
	Cost           float64 `json:"cost_usd"`
	Told           float64 `json:"provider_cost_usd"`
	Open           bool
}

// ledgers are those of a lab, or of one run, whose parts have to be their whole.
func (r *rented) ledgers(args ...string) (all []ledger) {
	r.Helper()
	var shown struct{ Spending []ledger }
	r.json(&shown, append([]string{"report", "--json"}, args...)...)
	for _, l := range shown.Spending {
		parts := l.Booting + l.Preparing + l.Starting + l.Measuring + l.Idle
		if math.Abs(parts-l.Held) > 1e-6 || math.Abs(l.Cost-l.Price*l.Held/3600) > 1e-9 {
			r.Errorf("%+v: its parts are %v s, its cost is not price by time", l, parts)
		}
	}
	return shown.Spending
}

// TestRentedLedger: each second that the provider bills is of one run, in one part; a box that is kept, or was left by a run that was
// killed, is of the run that has left it until the next takes it; and no run costs more than its plan says.
func TestRentedLedger(t *testing.T) {
	t.Parallel()
	r := newRented(t)
	const most = 25
	r.tells("plan", exitDone, "cost at most $25.00", "What they cost at least is not known")
	said := r.tells("apply", applied)
	all := r.ledgers()
	if len(all) != 1 || all[0].Open || all[0].Told <= 0 || min(all[0].Booting, all[0].Preparing, all[0].Starting, all[0].Measuring) <= 0 {
		t.Fatalf("%+v", all)
	}
	if line := fmt.Sprintf("run %s rented box-2 of fake as host box for", all[0].Run); !strings.Contains(said, line) || !strings.Contains(said, "USD by its provider") {
		t.Errorf("%q is not in\n%s", line, said)
	}
	bill := func(box string) (b provider.Box) {
		must(t, provider.Change(r.account, func(a *provider.Account) {
			b = a.Boxes[slices.IndexFunc(a.Boxes, func(b provider.Box) bool { return b.ID == box })]
		}))
		return b
	}
	if b := bill("box-2"); math.Abs(all[0].Held-b.GoneAt.Sub(b.BilledFrom).Seconds()) > exactly {
		t.Errorf("held %v s, billed %v", all[0].Held, b.GoneAt.Sub(b.BilledFrom))
	}

	r.edit(`ttl       = "1h"`, "ttl = \"1h\"\n keep = \"20m\"")
	var planned struct{ Rented plan.Rented }
	r.json(&planned, "plan", "--rerun", "--json")
	if p := planned.Rented; len(p.Hosts) != 1 || p.Most != most || p.Hosts[0].Chosen != "cheap" || p.Hosts[0].Box != nil || p.Least != p.Hosts[0].Least ||
		p.Least < 20./3 || p.Least > 8 || !slices.Equal(p.Hosts[0].Ends, []string{plan.EndHere, plan.EndSweep}) {
		t.Errorf("%+v, want at least what it is kept for", p)
	}
	r.tells("apply --rerun", applied, "it was rented still")
	r.json(&planned, "plan", "--rerun", "--json")
	var status struct {
		Hosts []struct{ Rented plan.RentedBox }
	}
	r.json(&status, "status", "--json")
	if b := status.Hosts[0].Rented; b.Box != "box-3" || !b.Kept || b.Cost <= 0 || b.Cost > 10 || b.Price != 20 || time.Until(b.Until) > 20*time.Minute ||
		time.Since(b.Since) > 10*time.Minute || planned.Rented.Hosts[0].Box == nil || planned.Rented.Hosts[0].Box.Box != "box-3" {
		t.Errorf("%+v, and the plan has %+v", b, planned.Rented)
	}
	r.edit("requests = 8", "requests = 20000")
	killed := r.until("progress")
	must(t, killed.Process.Kill())
	killed.Wait()
	r.edit("requests = 20000", "requests = 8", "keep = \"20m\"", "")
	r.tells("apply --rerun", applied, "is gone")
	all = r.ledgers()
	if len(all) != 1 { // of the cells of the last run, and nothing before
		t.Errorf("%+v", all)
	}
	var runs struct{ Runs []struct{ ID string } }
	r.json(&runs, "runs", "--json")
	var held, told float64
	for _, run := range runs.Runs[1:] {
		all := r.ledgers("--run", run.ID)
		if len(all) != 1 || all[0].Open || all[0].Box != "box-3 of fake" || all[0].Held <= 0 || all[0].Idle <= 0 || all[0].Cost > most {
			t.Fatalf("%+v of run %s", all, run.ID)
		}
		held, told = held+all[0].Held, told+all[0].Told
	}
	b := bill("box-3")
	if took := b.GoneAt.Sub(b.BilledFrom).Seconds(); len(runs.Runs) != 4 || math.Abs(held-took) > exactly || told > b.PricePerHour*took/3600*1.0001 || told < b.PricePerHour*took/3600*0.9999 {
		t.Errorf("%d runs: held %v s of %v, told %v USD", len(runs.Runs), held, took, told)
	}
}

// exactly is how far a ledger may be from what the provider bills, in seconds: both have the same two moments, as the provider tells them.
const exactly = 1e-3

// TestRentedQuickstart: the quickstart's lab with rent in place of its address, in one command: a box comes, is checked, measured on and
// gone, and what it has cost is told to the second; and again with --keep, and with the box that is kept.
func TestRentedQuickstart(t *testing.T) {
	t.Parallel()
	r := newRented(t)
	text, err := os.ReadFile("../../examples/quickstart/lab.hcl")
	must(t, err)
	whole := r.text()
	rents, variable := whole[strings.Index(whole, "  rent {"):strings.Index(whole, "variable")], whole[strings.Index(whole, "variable"):strings.Index(whole, "engine")]
	const address = "  address = \"local\"\n"
	if strings.Count(string(text), address) != 1 {
		t.Fatalf("not one %q is in\n%s", address, text)
	}
	rents = strings.TrimSuffix(strings.TrimSpace(rents), "}") // which ends the host
	r.write(strings.Replace(string(text), address, rents, 1) + variable)

	var planned struct{ Rented plan.Rented }
	r.json(&planned, "plan", "--json")
	said := r.tells("apply", applied, "box box-2 of fake boots", "box box-2 is gone; it has cost $0.", "rented box-2 of fake as host here for")
	r.want(1, 0)
	if n := strings.Count(said, "sim.steady ") + strings.Count(said, "sim.batching "); n < 6 {
		t.Errorf("%d cells are told:\n%s", n, said)
	}
	r.paid("box-2", planned.Rented.Most)

	r.tells("apply --rerun --keep 20m", applied, "box box-3 stays until", "it was rented still")
	r.want(2, 1)
	r.tells("apply --rerun", applied, "box box-3 of an earlier run is there", "box box-3 is gone; it has cost $0.")
	r.want(2, 0)
	r.paid("box-3", planned.Rented.Most)
	r.edit(rents, address)
	r.tells("apply --rerun --keep 20m", exitUsage, "--keep says how long rented boxes stay, and lab quickstart rents 0 hosts")
}

// TestKeepTooLong: --keep is held to what keep in a block is: a box has its hard end.
func TestKeepTooLong(t *testing.T) {
	t.Parallel()
	o := applyOptions{keep: span(time.Hour), said: func(string) bool { return true }}
	cfg := &hcl.Config{Lab: hcl.Lab{Name: "lab"}, Hosts: []*provision.Host{{Name: "box", Rent: &provision.Rent{TTL: time.Hour}}}}
	if _, err := o.draft(cfg); err == nil || !strings.Contains(err.Error(), "--keep 1h") || !strings.Contains(err.Error(), "host box") {
		t.Error(err)
	}
}

// paid is that what runs have had of a box is what the provider has billed, to the second and to the cent, and that no run has cost more
// than its plan said.
func (r *rented) paid(box string, most float64) {
	r.Helper()
	var runs struct{ Runs []struct{ ID string } }
	r.json(&runs, "runs", "--json")
	var held, cost, told float64
	for _, run := range runs.Runs {
		for _, l := range r.ledgers("--run", run.ID) {
			if l.Box != box+" of fake" {
				continue
			}
			if held, cost, told = held+l.Held, cost+l.Cost, told+l.Told; l.Open || max(l.Cost, l.Told) > most || min(l.Booting, l.Preparing, l.Starting, l.Measuring) <= 0 {
				r.Errorf("run %s: %+v, which may cost %v USD", run.ID, l, most)
			}
		}
	}
	r.changes(func(a *provider.Account) {
		b := a.Boxes[slices.IndexFunc(a.Boxes, func(b provider.Box) bool { return b.ID == box })]
		billed := b.GoneAt.Sub(b.BilledFrom).Seconds()
		if usd := b.PricePerHour * billed / 3600; math.Abs(held-billed) > exactly || math.Abs(cost-usd) > 1e-4 || math.Abs(told-usd) > 1e-4 {
			r.Errorf("%s was billed for %v s and %v USD; runs have had it for %v s, %v USD, and %v USD as was told", box, billed, usd, held, cost, told)
		}
	})
}

// TestRentedDestroyed: who gives a box back says what it has cost, and the run that kept it has it to that moment.
func TestRentedDestroyed(t *testing.T) {
	t.Parallel()
	r := newRented(t)
	r.edit(`ttl       = "1h"`, "ttl = \"1h\"\n keep = \"20m\"")
	r.tells("apply", applied, "it was rented still")
	r.tells("destroy", exitDone, "Gave back box box-2 of fake, which has cost $0.")
	if all := r.ledgers(); len(all) != 1 || all[0].Open || all[0].Told <= 0 {
		t.Errorf("%+v", all)
	}
}

// TestRentedUnmeasured: what brought nothing has cost, and is told.
func TestRentedUnmeasured(t *testing.T) {
	t.Parallel()
	r := newRented(t)
	r.edit(`runtime = "process"`, "runtime = \"process\"\n require { disk_free = \"900000TB\" }")
	r.tells("apply", exitContract, "rented box-2 of fake as host box for", "has the host key SHA256:")
	if all := r.ledgers(); len(all) != 1 || all[0].Held <= 0 || all[0].Measuring > 0 {
		t.Errorf("%+v", all)
	}
}

// changes changes the provider's account.
func (r *rented) changes(how func(*provider.Account)) {
	r.Helper()
	must(r.T, provider.Change(r.account, how))
}

// rentFault is what a provider, or a box, does wrong.
type rentFault struct {
	name   string // and what the program does, where it is one of its faults
	often  bool   // in each test run
	before func(*rented)
	strike func(*rented, *exec.Cmd) // in the second of two cells
	code   int
	words  []string // that apply says
	made   int      // boxes
}

var rentFaults = []rentFault{
	{name: provider.Quota, often: true, code: exitFailed, words: []string{"your quota of 8 GPUs is used up", "host box (lab.hcl:6)"}},
	{name: provider.LostBefore, code: exitFailed, words: []string{"nobody knows whether there is a box", "`hcl sweep` look again"}},
	{name: provider.LostAfter, often: true, code: applied, words: []string{"yet there is a box", "is gone"}, made: 1},
	{name: provider.Late, code: applied, words: []string{"yet there is a box", "is gone"}, made: 1},
	{name: provider.RefusedMade, code: applied, words: []string{"there is no stock; yet there is a box", "is gone"}, made: 1},
	{name: provider.Twice, code: applied, words: []string{"has made a second box for one request", "is gone"}, made: 2},
	{name: provider.BootFails, often: true, code: exitFailed, words: []string{"is failed"}, made: 1},
	{name: provider.NeverBoots, before: func(r *rented) { r.edit(`ttl       = "1h"`, "ttl = \"1h\"\n boot = \"1m\"") },
		code: exitFailed, words: []string{"is pending after"}, made: 1},
	{name: provider.Dearer, code: exitFailed, words: []string{"costs $60.00 an hour, and was offered at $20.00"}, made: 1},
	{name: provider.NoEnd, before: func(r *rented) { r.changes(func(a *provider.Account) { a.Can.Deadline = true }) },
		code: exitFailed, words: []string{"the provider tells no end of it"}, made: 1},
	{name: provider.Lies, code: applied, words: []string{"is gone; it has cost"}, made: 1},
	{name: provider.Ignored, code: applied, words: []string{"is gone; it has cost"}, made: 1},
	{name: provider.DeleteRefused, code: applied, words: []string{"is gone; it has cost"}, made: 1},
	{name: provider.StatusFails, code: applied, words: []string{"is gone; it has cost"}, made: 1},
	{name: provider.Garbage, code: exitFailed, words: []string{"502 Bad Gateway"}},
	{name: provider.Megabytes, code: exitFailed, words: []string{"it prints more than"}},
	{name: "other GPUs than were offered", before: func(r *rented) { r.edit(`runtime = "process"`, "runtime = \"process\"\n gpus = \"8xH200\"") },
		code: exitContract, words: []string{"does not meet its contract", "is gone"}, made: 1},
	{name: "another key than the provider tells", before: func(r *rented) {
		r.changes(func(a *provider.Account) { a.HostKeys = r.host.HostKeys })
		must(r, r.host.ChangeHostKeys(true))
	}, code: exitFailed, words: []string{"key", "is gone"}, made: 1},
	{name: "a clock that is an hour behind", before: func(r *rented) { r.changes(func(a *provider.Account) { a.Ahead = -time.Hour }) },
		code: applied, words: []string{"differs from the provider's by 1h0m", "is gone"}, made: 1},
	{name: "a clock that is an hour ahead", before: func(r *rented) {
		r.changes(func(a *provider.Account) { a.Ahead, a.Can.Deadline = time.Hour, true })
	}, code: applied, words: []string{"differs from the provider's by 1h0m", "is gone"}, made: 1},
	{name: "the box is taken away in mid-cell", often: true, strike: func(r *rented, _ *exec.Cmd) {
		r.taken(func(b *provider.Box) { b.State, b.GoneAt = protocol.Gone, time.Now() })
		must(r, r.host.Reboot())
	}, code: exitFailed, words: []string{"is gone, which nobody here has asked for", "measured by the next apply"}, made: 2},
	{name: "the box is taken away in mid-cell, long before its lease is renewed", often: true, before: func(r *rented) { r.edit(`"20s"`, `"10m"`) },
		strike: func(r *rented, _ *exec.Cmd) {
			r.taken(func(b *provider.Box) { b.State, b.GoneAt = protocol.Gone, time.Now() })
			must(r, r.host.Reboot())
		}, code: exitFailed, words: []string{"is gone, which nobody here has asked for", "measured by the next apply"}, made: 2},
	{name: "the box is about to be taken away", strike: func(r *rented, _ *exec.Cmd) {
		r.taken(func(b *provider.Box) { b.State = protocol.Ending })
	}, code: exitFailed, words: []string{"the box is lost: box box-2 of fake is ending", "is gone; it has cost"}, made: 2},
	{name: "the box becomes dearer", strike: func(r *rented, _ *exec.Cmd) {
		r.taken(func(b *provider.Box) { b.PricePerHour = 500 })
	}, code: exitFailed, words: []string{"the box is lost: this is not what was asked for: box box-2 of fake costs $500.00 an hour, and was offered at $20.00", "is gone; it has cost"}, made: 2},
	{name: "the box dies in mid-cell", strike: func(r *rented, _ *exec.Cmd) { must(r, r.host.Link(false)) },
		code: exitFailed, words: []string{"out of reach", "is gone; it has cost"}, made: 2},
	{name: "the laptop is closed overnight", before: func(r *rented) { r.changes(func(a *provider.Account) { a.Can.Deadline = true }) },
		strike: func(r *rented, caller *exec.Cmd) {
			must(r, caller.Process.Signal(syscall.SIGSTOP))
			r.changes(func(a *provider.Account) { a.Ahead = 12 * time.Hour })
			must(r, r.host.Reboot())
			must(r, caller.Process.Signal(syscall.SIGCONT))
		}, code: exitFailed, words: []string{"is gone"}, made: 2},
}

// taken has the provider do something to the box that lives.
func (r *rented) taken(how func(*provider.Box)) {
	r.Helper()
	r.changes(func(a *provider.Account) {
		for i := range a.Boxes {
			if b := &a.Boxes[i]; b.Request != "" && b.GoneAt.IsZero() {
				how(b)
			}
		}
	})
}

// TestRentedFaults: what a provider or a box does wrong is told, no box is left, and what was measured is not measured again.
func TestRentedFaults(t *testing.T) {
	t.Parallel()
	rentedFaults(t, true)
}

func TestSlowRentedFaults(t *testing.T) {
	t.Parallel()
	rentedFaults(t, false)
}

func rentedFaults(t *testing.T, often bool) {
	for _, of := range rentFaults {
		if of.often != often {
			continue
		}
		t.Run(of.name, func(t *testing.T) {
			t.Parallel()
			r := newRented(t, of.name)
			if of.before != nil {
				of.before(r)
			}
			if of.strike == nil {
				r.tells("apply", of.code, of.words...)
				r.want(of.made, 0)
				return
			}
			r.edit(`"20s"`, `"10s"`, "[1, 2]", "[8, 1]", "requests = 8", "requests = 200")
			apply := r.command("apply")
			out, err := apply.StderrPipe()
			must(t, err)
			must(t, apply.Start())
			said, struck := "", false
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if said += lines.Text() + "\n"; !struck && strings.Contains(lines.Text(), "cell 2 of 2") {
					struck = true
					of.strike(r, apply)
				}
			}
			apply.Wait()
			for _, w := range of.words {
				if !strings.Contains(said, w) {
					t.Errorf("%q is not in\n%s", w, said)
				}
			}
			if code := apply.ProcessState.ExitCode(); code != of.code {
				t.Errorf("exit %d, want %d\n%s", code, of.code, said)
			}
			r.want(1, 0)
			must(t, r.host.Link(true))
			r.tells("apply", applied, "cell 1 of 1", "is gone; it has cost")
			r.want(of.made, 0)
		})
	}
}

// TestRentBudget: what may be rented is within the lab's money whatever happens.
func TestRentBudget(t *testing.T) {
	u := newLocal(t, strings.Replace(rentLab, "max_money = 30", "max_money = 24", 1))
	u.tells("validate", exitUsage, "Too little money", fmt.Sprintf("can cost $%.2f until their hard ends (box: 1h0m0s at $25.00 an hour)", 25.0))
}

// TestRentPlanUnsure: a plan counts what may go to requests of which nobody knows whether they made a box, and takes no offer that apply
// has not the money for.
func TestRentPlanUnsure(t *testing.T) {
	t.Parallel()
	r := newRentedOn(t, []*testhost.Host{{Addr: "127.0.0.1:1"}}) // no box is made
	journal := rent.NewJournal(filepath.Join(r.lab, ".hcl", "rent"))
	unsure := &rent.Rental{
		Request: "hcl-1", Plugin: "fake", Lab: "rented", Host: "box", Run: "earlier", Asked: time.Now(), Deadline: time.Now().Add(time.Hour), Price: 20, Most: 20, Stage: rent.Asked,
	}
	must(t, journal.Note(unsure))
	r.tells("plan", exitDone, "at most $45.00", "$20.00 of that may go to earlier requests of which nobody knows whether they made a box",
		"nothing would be rented now", "max_money is $30.00. This box can cost $20.00, and $20.00 may go to what was rented before (request hcl-1 of fake")
	r.edit("max_money = 30", "max_money = 40")
	r.tells("plan", exitDone, "at most $45.00", "would be taken now",
		"request hcl-1 of fake, of which nobody knows whether it made a box, by run earlier at "+unsure.Asked.Local().Format(time.DateTime)+": the next apply looks for it first")

	unsure.Host = "of-before" // which the lab has no more
	must(t, journal.Note(unsure))
	r.tells("plan", exitDone, "request hcl-1 of fake, of which nobody knows whether it made a box, by run earlier for host of-before, at $20.00 an hour: the next apply looks for it first")
	r.tells("plan", exitDone, "host box: until 1h00m after it is asked for, at most $25.00", "Until their hard ends they cost at most $45.00", "would be taken now")
	r.edit("max_money = 40", "max_money = 30")
	r.tells("plan", exitDone, "nothing would be rented now")

	unsure.Box.ID, unsure.Stage = "box-1", rent.Made // which apply gives back first
	must(t, journal.Note(unsure))
	r.tells("plan", exitDone, "Until their hard ends they cost at most $25.00", "would be taken now")
	unsure.Host = "box" // or uses again
	must(t, journal.Note(unsure))
	r.tells("plan", exitDone, "Until their hard ends they cost at most $25.00", "would be taken now")
}

// TestRentedGroup: boxes of one offer are rented side by side for a group, meet at addresses that nobody knew before, and are all given
// back: also the one that came where the other does not, and those that do not reach each other.
func TestRentedGroup(t *testing.T) {
	t.Parallel()
	hosts := []*testhost.Host{testhost.New(t, testhost.Options{Namespace: true}), testhost.New(t, testhost.Options{Namespace: true})}
	r := newRentedOn(t, hosts)
	r.edit(`host "box" {`, "host \"box\" {\n  for_each = toset([\"a\", \"b\"])", "max_money = 30", "max_money = 49", "  host  = host.box\n", "", "engine.sim.s\n  dataset", "group.pd\n  dataset",
		`dataset "random" "d"`, `model "m" { repo = "m" }
group "pd" {
  role "prefill" {
    engine = engine.sim.s
    on     = [host.box["a"]]
  }
  role "decode" {
    engine = engine.sim.s
    on     = [host.box["b"]]
  }
  router "sim" { host = host.box["a"] }
}
dataset "random" "d"`)
	r.tells("validate", exitUsage, "can cost $50.00 until their hard ends (box-a: 1h0m0s at $25.00 an hour; box-b:")
	r.edit("max_money = 49", "max_money = 50")
	r.tells("plan", exitDone, "cost at most $50.00")
	// A test host reaches no other one, as boxes of many a provider do not.
	r.tells("apply", exitFailed, "box-a does not reach box-b at", "private_address that their plugin tells", "box box-2 is gone", "box box-3 is gone")
	r.want(2, 0)

	private, err := testhost.Cable(hosts...)
	must(t, err)
	must(t, provider.Change(r.account, func(a *provider.Account) { a.Private = strings.Join(private, ",") }))
	said := r.tells("apply", applied, "is gone; it has cost $0.")
	r.want(4, 0)
	if all := r.ledgers(); len(all) != 2 || min(all[0].Measuring, all[1].Measuring) <= 0 {
		t.Errorf("%+v\n%s", all, said)
	}

	r.edit(`PROVIDER_FAULTS = ""`, `PROVIDER_FAULTS = each.key == "b" ? "`+provider.BootFails+`" : ""`)
	r.tells("apply --rerun", exitFailed, "is failed", "giving back box", "is gone; it has cost $0.")
	r.want(6, 0)
}

// TestRentedUnfit: what does not meet its contract is not kept.
func TestRentedUnfit(t *testing.T) {
	t.Parallel()
	r := newRented(t)
	r.edit(`ttl       = "1h"`, "ttl = \"1h\"\n keep = \"20m\"")
	r.edit(`runtime = "process"`, "runtime = \"process\"\n require { disk_free = \"900000TB\" }")
	r.tells("apply", exitContract, "does not meet its contract", "is gone")
	r.want(1, 0)
}

// TestRentedRenamed: a box of a host that the lab has no more is told, found and given back.
func TestRentedRenamed(t *testing.T) {
	t.Parallel()
	r := newRented(t)
	r.edit(`ttl       = "1h"`, "ttl = \"1h\"\n keep = \"20m\"")
	r.tells("apply", applied, "stays until")
	r.want(1, 1)
	r.edit(`host "box"`, `host "large"`)
	r.edit("host.box", "host.large")
	r.tells("plan", exitDone, "box box-2 of fake, which run ", "left of host box, at $20.00 an hour: the next apply gives it back first")
	r.tells("status", exitDone, "box box-2 of fake", "for a host that the lab has no more")
	r.tells("sweep", exitDone, "its time is not over")
	r.want(1, 1)
	r.tells("apply --rerun", applied, "giving back box box-2 of fake", "stays until")
	r.want(2, 1)

	whole := r.text()
	i, j := strings.Index(whole, "host \"large\""), strings.Index(whole, "variable")
	r.edit(whole[i:j], "host \"here\" {\n  address = \"local\"\n  runtime = \"process\"\n}\n")
	r.edit("host.large", "host.here")
	r.edit("max_money = 30", "")
	for _, verb := range []string{"destroy", "apply"} {
		r.tells(verb, exitUnclean, "box box-3 of fake is not known to be gone", "write the block of host large again as it was, and run `hcl destroy`")
	}
	r.want(2, 1)
	r.edit(r.text(), whole)
	r.tells("destroy", exitDone, "giving back box box-3")
	r.want(2, 0)
}

// TestRentedUnasked: a box that no block of the lab says anything of any more is named by each sweep, and given back by none.
func TestRentedUnasked(t *testing.T) {
	t.Parallel()
	r := newRented(t)
	asked := time.Now().Add(-25 * time.Hour)
	must(t, rent.NewJournal(rentDir(r.lab)).Note(&rent.Rental{
		Request: "hcl-1", Plugin: "fake", Host: "box", Lab: "rented", Run: "run-1", Asked: asked, Deadline: asked.Add(time.Hour), Price: 20, Stage: rent.Made,
		Box: protocol.Box{ID: "box-9", State: protocol.Running},
	}))
	r.edit(`plugin    = "fake"`, `plugin    = "other"`)
	named := []string{"host box: box box-9 of fake is not known to be gone, and costs $20.00 an hour", "write the block of host box again"}
	r.tells("sweep", exitFailed, named...)
	r.tells("destroy", exitUnclean, named...)
	whole := r.text()
	i, j := strings.Index(whole, "host \"box\""), strings.Index(whole, "variable")
	r.edit(whole[i:j], "host \"box\" {\n  address = \"local\"\n  runtime = \"process\"\n}\n", "max_money = 30", "")
	if said := r.tells("sweep", exitFailed, named...); strings.Contains(said, "rents nothing") {
		t.Error(said)
	}
	ours := strings.Replace(whole, `"other"`, `"fake"`, 1)
	r.write(strings.Replace(ours, `lab "rented"`, `lab "renamed"`, 1))
	r.tells("sweep", exitDone, "box box-9 of fake, of lab rented, may be there still: its hard end was at ")
	r.write(ours)
	r.tells("sweep", exitDone, "box-9", "gone by itself")
}

// TestRentedOverdue: status says of a box whose time is over that it is, of a request what is known of it, and of a box that no block of
// the lab can give back what to write. What destroy has given back it tells, also where it fails with another.
func TestRentedOverdue(t *testing.T) {
	t.Parallel()
	r := newRentedOn(t, []*testhost.Host{{Addr: "127.0.0.1:1"}}) // no box is made
	journal, asked := rent.NewJournal(rentDir(r.lab)), time.Now().Add(-25*time.Hour)
	note := func(box rent.Rental) {
		box.Lab, box.Run, box.Price, box.Asked, box.Deadline = "rented", "run-1", 20, asked, asked.Add(24*time.Hour)
		must(t, journal.Note(&box))
	}
	since, at := asked.Local().Format(time.DateTime), asked.Add(24*time.Hour).Local().Format(time.DateTime)
	note(rent.Rental{Request: "hcl-1", Plugin: "fake", Host: "box", Stage: rent.Made, NoEnd: true, Box: protocol.Box{ID: "box-9", State: protocol.Running}})
	note(rent.Rental{Request: "hcl-2", Plugin: "fake", Host: "before", Stage: rent.Asked})
	note(rent.Rental{Request: "hcl-3", Plugin: "other", Host: "large", Stage: rent.Made, Box: protocol.Box{ID: "of-other", State: protocol.Running}})
	said := r.tells("status", exitDone,
		"box box-9 of fake, since "+since+", has cost $5", " so far; its time was over at "+at+", and nothing but hcl ends it: `hcl sweep` deletes it, if it is there still",
		"asked for at $20.00 an hour", "request hcl-2 of fake, of which nobody knows whether it made a box, since "+since+", has cost $5", " so far if it did; its hard end was at "+at,
		"no host of the lab says by which account of other it is rented: write the block of host large again as it was, and run `hcl destroy`")
	if n := strings.Count(said, "`hcl apply` and `hcl destroy` give it back"); n != 1 { // hcl-2
		t.Errorf("%d times in\n%s", n, said)
	}
	r.tells("destroy", exitUnclean, "Gave back box box-9 of fake, which has cost", "box of-other of other is not known to be gone", "its hard end was at "+at)
	r.tells("status", exitDone, "of-other")
}

// TestRentedOff: a box that costs nothing when it is off is told to shut itself down soon after its lease, and the next apply gives back
// one that has done so.
func TestRentedOff(t *testing.T) {
	t.Parallel()
	r := newRented(t)
	told := filepath.Join(r.host.Dir, "told")
	must(t, os.WriteFile(filepath.Join(r.host.Dir, "bin", "shutdown"), []byte("#!/bin/sh\necho \"$*\" >> "+told+"\n"), 0o755))
	r.changes(func(a *provider.Account) { a.Can.OffIsFree = true })
	r.tells("plan", exitDone, "it shuts itself down, at its hard end or when nobody renews its lease; this machine gives it back")
	r.edit("requests = 8", "requests = 20000")
	killed := r.until("progress")
	must(t, killed.Process.Kill())
	killed.Wait()
	text, err := os.ReadFile(told)
	must(t, err)
	for line := range strings.Lines(string(text)) {
		minutes := 0
		if fmt.Sscanf(line, "-P +%d\n", &minutes); minutes < 5 || minutes > 10 { // and a lease of 20 seconds
			t.Errorf("it is told: shutdown %s", line)
		}
	}
	r.tells("status", exitDone, "off by itself 10m0s after a lease on it that nobody renews")
	r.taken(func(b *provider.Box) { b.State = protocol.Failed })
	r.edit("requests = 20000", "requests = 8")
	r.tells("apply", applied, "giving back box box-2", "box box-2 of fake is gone; it has cost $0.", "is gone; it has cost")
	r.want(2, 0)

	must(t, os.WriteFile(filepath.Join(r.host.Dir, "bin", "shutdown"), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	r.edit("requests = 8", "requests = 9")
	r.tells("apply", applied, "it cannot shut itself down when it is not heard of: `shutdown -P +10`")
}

// TestSweepNames: each box that a sweep leaves is named, with its price and its age: those of others, and one of hcl's whose labels tell no end.
func TestSweepNames(t *testing.T) {
	t.Parallel()
	r := newRented(t)
	row := func(out, box string) string {
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, box) {
				return strings.Join(strings.Fields(line), " ")
			}
		}
		return out
	}
	r.changes(func(a *provider.Account) { a.Boxes[0].PricePerHour = 5 })
	out := r.tells("sweep", exitDone, "There is no box of hcl's.")
	if got, want := row(out, "of-others"), "of-others - $5.00/h - - not hcl's, and not touched -"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	since := time.Now().Add(-time.Hour)
	r.changes(func(a *provider.Account) {
		a.Boxes = append(a.Boxes, provider.Box{Box: protocol.Box{ID: "endless", Request: "hcl-1", State: protocol.Running, PricePerHour: 30, BilledFrom: since, Labels: map[string]string{
			protocol.LabelLab: "rented", protocol.LabelRequest: "hcl-1", protocol.LabelExpires: "tomorrow",
		}}})
	})
	out = r.tells("sweep", exitDone)
	want := "endless rented $30.00/h " + since.Local().Format(time.DateTime) + " - its labels tell no end: not touched -"
	if got := row(out, "endless"); got != want || strings.Contains(out, "There is no box of hcl's.") {
		t.Errorf("%q, want %q\n%s", got, want, out)
	}
	asked, until := time.Now(), time.Now().Add(time.Hour)
	must(t, rent.NewJournal(filepath.Join(r.lab, ".hcl", "rent")).Note(&rent.Rental{Request: "hcl-unsure", Plugin: "fake", Lab: "rented", Host: "box", Run: "earlier", Asked: asked,
		Deadline: until, Price: 20, Stage: rent.Asked}))
	want = "hcl-unsure rented $20.00/h " + asked.Local().Format(time.DateTime) + " " + until.Local().Format(time.DateTime) + " asked for, and not there so far: run hcl sweep again -"
	for _, verb := range []string{"sweep --dry-run", "sweep"} {
		if got := row(r.tells(verb, exitDone), "hcl-unsure"); got != want {
			t.Errorf("%s: %q, want %q", verb, got, want)
		}
	}
	r.want(1, 1)
}

// TestSweepPlugin: what is no plugin's name is not looked for, and no directory of it is made.
func TestSweepPlugin(t *testing.T) {
	u := newLocal(t, rentLab)
	for _, name := range []string{"../../fake", "/bin/sh", "", "Fake", "-fake"} {
		u.tells("sweep --plugin="+name, exitUsage, "is not the NAME of a program hcl-rent-NAME")
	}
}
