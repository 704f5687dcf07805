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

// TestSecretsOfALoad measures two servers that ask for a key and for a header, and that repeat both when they
// fail. The secrets reach them, and are in no output, no file and no process list.
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

	u := newLocal(t, fmt.Sprintf(guardedLab, guarded(&served[0]), guarded(&served[1])))
	u.env = append(u.env, "HCL_VAR_key="+key, "HCL_VAR_tenant="+tenant)
	for _, command := range []string{
		"validate", "plan --json", "plan --verbose", "apply --json", "apply --rerun",
		"report", "report --json", "export --format records", "export --format vllm --detailed",
	} {
		said := u.tells(command, applied)
		if strings.Contains(said, "canary-") {
			t.Errorf("hcl %s shows a secret:\n%s", command, said)
		}
		if strings.HasPrefix(command, "export") && !strings.Contains(said, "failed for (sensitive) of (sensitive)") {
			t.Errorf("hcl %s does not have what the servers answered:\n%s", command, said)
		}
		// The binary that is beside the agent is this test, with the canaries in it.
		if found, _ := exec.Command("grep", "-rl", "--exclude-dir=bin", "canary-", u.home, u.lab).Output(); len(found) > 0 {
			t.Errorf("after hcl %s, a secret is in %s", command, found)
		}
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
