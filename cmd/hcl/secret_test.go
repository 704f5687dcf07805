package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hclbench/sim"
	"hclbench/testhost"
)

const guardedLab = `
variable "key" {
  type      = string
  sensitive = true
}
variable "tenant" {
  type      = string
  sensitive = true
}
engine "external" "e" {
  urls    = [%q, %q]
  api_key = var.key
}
dataset "random" "d" { input_tokens = 8 }
benchmark "b" {
  engine   = engine.external.e
  dataset  = dataset.random.d
  requests = 12
  load {
    concurrency   = 2
    output_tokens = 4
    headers       = { X-Tenant = var.tenant, X-Team = "bench" }
  }
}
`

// TestSecretsOfALoad measures two servers that ask for a key and for a header, and
// that repeat both when they fail. The secrets reach them, and are in no output,
// no file and no process list.
func TestSecretsOfALoad(t *testing.T) {
	t.Parallel()
	const key, tenant = "canary-load-5d1f", "canary-load-90ab"
	var listed atomic.Bool // a process list has shown one
	var served [2]atomic.Int64
	guarded := func(served *atomic.Int64) string {
		engine := sim.New(sim.Config{Model: "m", TTFT: time.Millisecond, ITL: time.Millisecond})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			auth := r.Header.Get("Authorization")
			loading := r.Header.Get("X-Team") == "bench" // and not a probe
			if auth != "Bearer "+key || loading && r.Header.Get("X-Tenant") != tenant {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			if loading {
				lists, _ := filepath.Glob("/proc/[0-9]*/cmdline")
				for _, name := range lists {
					if line, err := os.ReadFile(name); err == nil && bytes.Contains(line, []byte("canary-load")) {
						listed.Store(true)
					}
				}
				if n := served.Add(1); n%3 == 0 {
					w.WriteHeader(http.StatusInternalServerError)
					fmt.Fprintf(w, "failed for %s of %s", auth, r.Header.Get("X-Tenant"))
					return
				}
			}
			engine.ServeHTTP(w, r)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}

	dir, err := os.MkdirTemp("", "k") // short, for the agent's socket is below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	lab, home := filepath.Join(dir, "lab"), filepath.Join(dir, "home")
	for _, d := range []string{lab, home} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	text := fmt.Sprintf(guardedLab, guarded(&served[0]), guarded(&served[1]))
	if err := os.WriteFile(filepath.Join(lab, "lab.hcl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	hcl := testhost.HCL(t)
	grep := func(when string) {
		t.Helper()
		if found, _ := exec.Command("grep", "-rl", "canary-", dir).Output(); len(found) > 0 {
			t.Errorf("%s, a secret is in %s", when, found)
		}
	}
	for _, args := range [][]string{
		{"validate"}, {"plan", "--json"}, {"plan", "--verbose"}, {"apply", "--auto-approve", "--json"}, {"apply", "--auto-approve", "--rerun"},
		{"report"}, {"report", "--json"}, {"export", "--format", "records"}, {"export", "--format", "vllm", "--detailed"},
	} {
		cmd := exec.CommandContext(t.Context(), hcl, append(args[:1:1], append([]string{lab}, args[1:]...)...)...)
		cmd.Env = append(os.Environ(), "HOME="+home, "HCL_VAR_key="+key, "HCL_VAR_tenant="+tenant)
		out, err := cmd.CombinedOutput()
		if exit, ok := err.(*exec.ExitError); err != nil && !(ok && exit.ExitCode() == exitCells) {
			t.Fatalf("hcl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		if strings.Contains(string(out), "canary-") {
			t.Errorf("hcl %s shows a secret:\n%s", strings.Join(args, " "), out)
		}
		if args[0] == "export" && !strings.Contains(string(out), "failed for (sensitive) of (sensitive)") {
			t.Errorf("hcl %s does not have what the servers answered:\n%s", strings.Join(args, " "), out)
		}
		grep("after hcl " + strings.Join(args, " "))
	}
	if listed.Load() {
		t.Error("a secret is on a command line")
	}
	for i := range served {
		if n := served[i].Load(); n != 12 {
			t.Errorf("server %d was sent %d requests, want half of twice 12", i+1, n)
		}
	}
}
