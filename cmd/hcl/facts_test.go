package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hclbench/provision"
	"hclbench/results"
)

// TestChangedHost measures a lab, lets a later run see another kernel on its host, and
// reads what the plan says, and what apply says of what it still has to do there.
func TestChangedHost(t *testing.T) {
	t.Parallel()
	text := `lab "small" {}
variable "port" { type = number }
variable "levels" {
  type    = list(number)
  default = [1, 2]
}
host "here" {
  address = "local"
  runtime = "process"
}
engine "sim" "e" {
  host  = host.here
  port  = var.port
  flags = { ttft = "5ms", itl = "1ms" }
}
` + benchmarkOf("engine.sim.e", "concurrency = var.levels", 4, "matrix.concurrency", 2)
	port, err := freePort()
	must(t, err)
	u := newLocal(t, text)
	u.env = append(u.env, fmt.Sprint("HCL_VAR_port=", port))
	u.tells("apply --var levels=[1]", applied)
	if out := u.tells("plan", exitDone, "= concurrency=1  up to date"); strings.Contains(out, "has changed") {
		t.Errorf("nothing has changed, and the plan says:\n%s", out)
	}

	ctx := t.Context()
	store, err := results.Open(ctx, storeDir(u.lab))
	must(t, err)
	seen, err := store.Seen(ctx)
	if err != nil || len(seen) != 1 {
		t.Fatalf("seen %d hosts, %v, want one", len(seen), err)
	}
	var facts provision.Facts
	must(t, json.Unmarshal(seen[0].Facts, &facts))
	kernel := facts.Kernel
	with := func(kernel string) json.RawMessage {
		facts.Kernel = kernel
		text, err := json.Marshal(facts)
		must(t, err)
		return text
	}
	rows, err := store.Rows(ctx, results.Query{})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d cells, %v, want one", len(rows), err)
	}
	measured := rows[0].Deployment
	measured.Facts = with("0.0.1")
	must(t, store.PutDeployment(ctx, measured))
	later := time.Now().Add(time.Second)
	id := results.NewRunID(later)
	must(t, store.BeginRun(ctx, results.Run{ID: id, Lab: "small", Command: "apply", Started: later}))
	must(t, store.PutDeployment(ctx, results.Deployment{RunID: id, ID: "0123456789ab", Host: "here", Facts: with("9.9.9"), Started: later}))
	must(t, store.FinishRun(ctx, id, "done", later))
	must(t, store.Close())
	changed := "kernel 0.0.1 → 9.9.9"
	want := "Host here has changed since 1 of these cells was measured: " + changed + "."
	u.tells("plan", exitDone, "; the host has changed since: "+changed)
	u.tells("report", exitDone, want)
	u.tells("report --json", exitDone, changed)
	u.tells("report --html page.html", exitDone)
	if page, err := os.ReadFile(filepath.Join(u.lab, "page.html")); err != nil || !strings.Contains(string(page), want) {
		t.Errorf("the page does not say %q, %v", want, err)
	}
	u.tells("plan --strict-facts", exitDone, "~ concurrency=1  stale: "+changed)
	u.tells("apply", applied, "has changed since 1 of the cells that are up to date were measured: kernel 0.0.1 → "+kernel)
}
