package apply_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"hclbench/apply"
	"hclbench/apply/place"
	"hclbench/engines"
	"hclbench/provision"
	"hclbench/testhost"
)

// TestProcessRuntime: an engine on a box without Docker, reached over SSH, has the
// labels, readiness, log, proof and tear-down of one in a container; also a helper
// of it that hides in a session of its own is gone in the end.
func TestProcessRuntime(t *testing.T) {
	t.Parallel()
	host := testhost.New(t, testhost.Options{Namespace: true, GPU: "8xH200"})
	script := fmt.Sprintf("#!/bin/sh\nsetsid sleep 86399 &\ncat config.yaml\nexec %s sim vllm \"$@\" --ttft 2ms --itl 150ms\n", testhost.HCL(t))
	if err := host.Install("vllm", script); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, host)
	text := `
lab "rented" { lease = "5m" }
variable "token" {
  default   = "canary-51c2"
  sensitive = true
}
variable "key" {
  default   = "key of 'its own'"
  sensitive = true
}
host "box" {
  %HOST%
  runtime = "process"
  gpus    = "8xH200"
}
model "m" { repo = "m" }
engine "vllm" "e" {
  host  = host.box
  model = model.m
  env   = { HF_TOKEN = var.token }
  setup = ["echo its setup"]
  flags  = { api-key = var.key }
  api_key = var.key
  config = { extra = [var.key] }
  container { stop_grace = "2s" }
}` + measuring("output_tokens = [4, 8]", "engine.vllm.e", "output_tokens = matrix.output_tokens")
	cfg := b.load(text)
	scope := place.Scope{Lab: "rented", Hosts: cfg.Hosts, Engines: cfg.Engines}
	looked := false
	r := b.apply(t.Context(), text, func(e apply.Event) {
		if e.Type != apply.Begin || looked {
			return
		}
		looked = true
		seen, err := place.Status(t.Context(), scope, b.opt.Options)
		if err != nil || len(seen[0].Processes) != 1 || seen[0].Processes[0].Labels[provision.LabelEngine] != "vllm.e" || seen[0].Processes[0].State != "running" || seen[0].Lease == nil {
			t.Errorf("status: %+v, %v", seen, err)
		}
		var log strings.Builder
		write := func(p []byte) error { log.Write(p); return nil }
		err = place.Logs(t.Context(), scope, place.Log{Engine: cfg.Engines[0], Tail: -1, Write: write}, b.opt.Options)
		if err != nil || !strings.Contains(log.String(), "startup complete") {
			t.Errorf("logs: %q, %v", log.String(), err)
		}
		// The token is in the engine's environment, and nowhere else on the host.
		found, err := host.Command("sh", "-c", "grep -rl 'canary-51[c]2' /root; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'canary-51[c]2'; true").Output()
		if err != nil || len(found) > 0 {
			t.Errorf("the secret is in %s, %v", found, err)
		}
	})
	if r.err != nil || r.Valid+r.Suspect != 2 || !looked {
		t.Errorf("%+v, %v", r.Outcome, r.err)
	}
	if !r.has(apply.Ready, "; only its process group listens on port 8000") || !r.has(apply.Down, "GPU memory given back") {
		t.Errorf("events: %+v", r.events)
	}
	if got := r.rows[0].Deployment.Versions["vllm"]; got != "0.0.0+sim" {
		t.Errorf("its server tells version 0.0.0+sim, kept is %q", got)
	}
	kept, err := b.store.Inputs(t.Context(), r.rows[0].RunID)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range kept {
		if !strings.HasPrefix(name, "logs/vllm.e-") || !strings.Contains(string(text), "startup complete") ||
			!strings.Contains(string(text), "\"extra\": [\n    \"(sensitive)\"") || strings.Contains(string(text), "its own") {
			t.Errorf("%s is kept: %s", name, text)
		}
	}
	if len(kept) != 1 {
		t.Errorf("%d logs are kept, want 1", len(kept))
	}
	b.noAgent()
	if out, err := host.Command("pgrep", "-f", "sleep 86399").Output(); err == nil {
		t.Errorf("the helper is left: %s", out)
	} else if _, ok := err.(*exec.ExitError); !ok {
		t.Error(err)
	}
	if engines.Runtime(cfg.Engines[0]) != "process" {
		t.Error("the engine did not run as a process")
	}
}
