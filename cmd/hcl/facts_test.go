package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hclbench/provision"
	"hclbench/results"
	"hclbench/testhost"
)

// TestChangedHost measures a lab, lets a later run see another kernel on its host, and
// reads what the plan says, and what apply says of what it still has to do there.
func TestChangedHost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
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
dataset "random" "d" { input_tokens = 8 }
benchmark "b" {
  matrix { concurrency = var.levels }
  engine   = engine.sim.e
  dataset  = dataset.random.d
  requests = 4
  load {
    concurrency   = matrix.concurrency
    output_tokens = 2
  }
}
`
	if err := os.WriteFile(filepath.Join(dir, "lab.hcl"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(testhost.HCL(t), append(args, dir)...)
		cmd.Env = append(os.Environ(), "HOME="+dir, fmt.Sprint("HCL_VAR_port=", port))
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 0 && code != 3 { // 3: a busy machine makes cells suspect
			t.Fatalf("hcl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("apply", "--auto-approve", "--var", "levels=[1]")
	if out := run("plan"); !strings.Contains(out, "= concurrency=1  up to date") || strings.Contains(out, "has changed") {
		t.Errorf("nothing has changed, and the plan says:\n%s", out)
	}

	ctx := t.Context()
	store, err := results.Open(ctx, filepath.Join(dir, ".hcl"))
	if err != nil {
		t.Fatal(err)
	}
	seen, err := store.Seen(ctx)
	if err != nil || len(seen) != 1 {
		t.Fatalf("seen %d hosts, %v, want one", len(seen), err)
	}
	var facts provision.Facts
	if err := json.Unmarshal(seen[0].Facts, &facts); err != nil {
		t.Fatal(err)
	}
	kernel := facts.Kernel
	facts.Kernel = "0.0.1"
	was, err := json.Marshal(facts)
	if err != nil {
		t.Fatal(err)
	}
	facts.Kernel = "9.9.9"
	now, err := json.Marshal(facts)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := store.Rows(ctx, results.Query{})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d cells, %v, want one", len(rows), err)
	}
	measured := rows[0].Deployment
	measured.Facts = was
	if err := store.PutDeployment(ctx, measured); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Second)
	id := results.NewRunID(later)
	if err := store.BeginRun(ctx, results.Run{ID: id, Lab: "small", Command: "apply", Started: later}); err != nil {
		t.Fatal(err)
	}
	if err := store.PutDeployment(ctx, results.Deployment{RunID: id, ID: "0123456789ab", Host: "here", Facts: now, Started: later}); err != nil {
		t.Fatal(err)
	}
	if err := store.FinishRun(ctx, id, "done", later); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	changed := "kernel 0.0.1 → 9.9.9"
	if out := run("plan"); !strings.Contains(out, "; the host has changed since: "+changed) {
		t.Errorf("the plan does not say %q:\n%s", changed, out)
	}
	want := "Host here has changed since 1 of these cells was measured: " + changed + "."
	if out := run("report"); !strings.Contains(out, want) {
		t.Errorf("the report does not say %q:\n%s", want, out)
	}
	if out := run("report", "--json"); !strings.Contains(out, changed) {
		t.Errorf("as JSON the report does not say %q:\n%s", changed, out)
	}
	page := filepath.Join(dir, "page.html")
	run("report", "--html", page)
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), want) {
		t.Errorf("the page does not say %q, %v", want, err)
	}
	if out := run("plan", "--strict-facts"); !strings.Contains(out, "~ concurrency=1  stale: "+changed) {
		t.Errorf("with --strict-facts the plan does not say %q:\n%s", changed, out)
	}
	if out, want := run("apply", "--auto-approve"), "has changed since 1 of the cells that are up to date were measured: kernel 0.0.1 → "+kernel; !strings.Contains(out, want) {
		t.Errorf("apply does not say %q:\n%s", want, out)
	}
}
