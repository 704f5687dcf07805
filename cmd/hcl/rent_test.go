package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hclbench/plain"
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
}

func newRented(t *testing.T, faults ...string) *rented {
	t.Helper()
	host := testhost.New(t, testhost.Options{Namespace: true}) // for a port of its own
	r := &rented{account: filepath.Join(t.TempDir(), "account")}
	_, err := provider.New(r.account, provider.Account{
		Token: "token-canary", Address: host.Addr, User: host.User, LetIn: host.IdentityFile + ".pub", Price: 20, Boots: 1,
		Can: protocol.Capabilities{List: true, Extend: true, Cost: true}, Boxes: []provider.Box{{Box: protocol.Box{ID: "of-others", State: protocol.Running}}},
	})
	must(t, err)
	r.person = newLocal(t, strings.NewReplacer("%ACCOUNT%", r.account, "%FAULTS%", strings.Join(faults, ",")).Replace(rentLab))
	self, err := os.Executable()
	must(t, err)
	bin := t.TempDir()
	must(t, os.WriteFile(filepath.Join(bin, "hcl-rent-fake"), []byte("#!/bin/sh\nexec "+plain.Quote(self)+" \"$@\"\n"), 0o755))
	r.env = append(r.env, "PATH="+bin+":"+os.Getenv("PATH"))
	return r
}

// boxes are those of ours that were made, and that live.
func (r *rented) boxes() (made, live int) {
	r.Helper()
	must(r.T, provider.Change(r.account, func(a *provider.Account) {
		for _, b := range a.Boxes[1:] {
			if made++; b.GoneAt.IsZero() {
				live++
			}
		}
		if !a.Boxes[0].GoneAt.IsZero() {
			r.Error("a box of others was deleted")
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
	r.tells("plan", exitDone, "rented of fake for 1h00m at most, at $25.00 an hour at most", "$20.00 an hour: cheap", "this machine gives it back, or `hcl sweep` anywhere",
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
	r.tells("status", exitDone, "rented at $20.00 an hour", fmt.Sprintf("box box-%d of fake", made+2))
	r.edit("requests = 8", "requests = 20000")
	killed := r.until("progress")
	must(t, killed.Process.Kill())
	killed.Wait()
	r.want(made+1, 1)
	r.edit("requests = 20000", "requests = 9")
	r.tells("apply", applied, "of an earlier run is there")
	r.want(made+1, 1)
	r.tells("sweep", exitDone, "its time is not over", "1 more without hcl's labels")
	r.want(made+1, 1)
	must(t, provider.Change(r.account, func(a *provider.Account) { a.Ahead = 2 * time.Hour }))
	r.tells("sweep --dry-run", exitDone, "over, to be deleted")
	r.want(made+1, 1)
	r.tells("sweep", exitDone, "deleted")
	r.want(made+1, 0)
	r.tells("destroy", exitDone, "Nothing of lab rented is on its hosts")
	text, err := os.ReadFile(filepath.Join(r.lab, ".hcl", "rent", "rentals.jsonl"))
	must(t, err)
	if strings.Contains(string(text), "token-canary") {
		t.Errorf("a secret is kept:\n%s", text)
	}
}

// TestRentedFaults: what a provider does wrong is told, and no box is left.
func TestRentedFaults(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		fault string
		code  int
		words []string
		made  int
	}{
		{provider.Quota, exitFailed, []string{"your quota of 8 GPUs is used up", "host box (lab.hcl:6)"}, 0},
		{provider.LostAfter, applied, []string{"yet there is a box", "is gone"}, 1},
		{provider.BootFails, exitFailed, []string{"is failed"}, 1},
	} {
		t.Run(of.fault, func(t *testing.T) {
			t.Parallel()
			r := newRented(t, of.fault)
			r.tells("apply", of.code, of.words...)
			r.want(of.made, 0)
		})
	}
}

// TestRentBudget: what may be rented is within the lab's money whatever happens.
func TestRentBudget(t *testing.T) {
	u := newLocal(t, strings.Replace(rentLab, "max_money = 30", "max_money = 24", 1))
	u.tells("validate", exitUsage, "Too little money", fmt.Sprintf("can cost $%.2f until their hard ends (box: 1h0m0s at $25.00 an hour)", 25.0))
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
