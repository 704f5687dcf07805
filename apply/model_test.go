package apply_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hclbench/apply"
	"hclbench/load"
	"hclbench/origin"
	"hclbench/testhost"
)

// TestModel: a model is on the host before its engine starts, which then asks
// nobody; the next apply fetches nothing; one that is a directory with a shard too
// few starts nothing.
func TestModel(t *testing.T) {
	t.Parallel()
	host := testhost.New(t, testhost.Options{Namespace: true})
	script := fmt.Sprintf(`#!/bin/sh
if [ "$HF_HUB_OFFLINE" = 1 ] && [ ! -s "$HF_HOME/hub/models--org--model/snapshots/$(cat "$HF_HOME/hub/models--org--model/refs/main")/config.json" ]; then
	echo "the model is not there"
	exit 1
fi
exec %s sim vllm "$@" --ttft 2ms --itl 5ms
`, testhost.HCL(t))
	if err := host.Install("vllm", script); err != nil {
		t.Fatal(err)
	}
	hub := testhost.NewHub(t, net.JoinHostPort(host.Outside(), "0"), map[string][]byte{
		"config.json": []byte("{}"), "model.bin": []byte(strings.Repeat("w", 2*testhost.LargeFile)),
	})
	const token = "hf_canary-77"
	hub.Require(token)
	b := newBench(t, host)
	b.opt.Hub = origin.Hub{URL: hub.URL, Token: token}
	cache, broken := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "model.safetensors.index.json"), []byte(`{"weight_map":{"a":"model-00001-of-00001.safetensors"}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`
lab "models" { lease = "5m" }
host "box" {
  %%HOST%%
  runtime = "process"
}
model "fetched" {
  repo     = "org/model"
  cache    = %q
  download = true
}
model "broken" { repo = %q }
engine "vllm" "fetched" {
  host  = host.box
  model = model.fetched
}
engine "vllm" "drafting" { // with a model that the hub does not have
  inherits = engine.vllm.fetched
  flags    = { speculative-config = { method = "eagle3", model = "org/draft" } }
}
engine "vllm" "broken" {
  host  = host.box
  model = model.broken
}
model "made" { repo = %q }
engine "vllm" "made" {
  host  = host.box
  model = model.made
  setup = ["mkdir -p %[3]s", "echo {} > %[3]s/config.json"]
}`, cache, broken, filepath.Join(t.TempDir(), "made")) + measuring("engine = [engine.vllm.fetched, engine.vllm.drafting, engine.vllm.broken, engine.vllm.made]", "matrix.engine", "output_tokens = 4")
	r := b.apply(t.Context(), text, nil)
	if r.err != nil {
		t.Fatal(r.err)
	}
	for _, row := range r.rows {
		switch row.Deployment.Engine {
		case "vllm.fetched":
			if row.Summary == nil || row.Deployment.Versions["model commit"] != hub.Commit || row.Deployment.Phases[0].Name != "fetching the model" {
				t.Errorf("fetched: %q, %+v", row.Error, row.Deployment)
			}
		case "vllm.drafting":
			if !strings.Contains(row.Error, "its draft model org/draft") || !strings.Contains(row.Error, "no such repository") {
				t.Errorf("drafting: %q", row.Error)
			}
		case "vllm.made":
			if row.Summary == nil {
				t.Errorf("made by the engine's setup: %q", row.Error)
			}
		case "vllm.broken":
			if row.Verdict().Verdict != load.Void || !strings.Contains(row.Error, "model broken (lab.hcl:") || !strings.Contains(row.Error, "model-00001-of-00001.safetensors is missing") {
				t.Errorf("broken: %q", row.Error)
			}
		}
	}
	for _, e := range r.events {
		if e.Type == apply.Step && e.Engine == "vllm.broken" && e.Message == "starting" {
			t.Error("an engine was started for a model that is not whole")
		}
		if strings.Contains(e.Message, token) {
			t.Errorf("the token is in %q", e.Message)
		}
	}
	last := slices.IndexFunc(r.events, func(e apply.Event) bool { return e.Type == apply.Download && e.Download.Bytes == e.Download.Total })
	if last < 0 || r.events[last].Download.Repo != "org/model" || r.events[last].Download.Files != 2 || r.events[last].Download.Total != 2*testhost.LargeFile+2 {
		t.Error("nobody is told in numbers that the model has come")
	}
	if got := len(hub.Asked()); got != 2 {
		t.Errorf("%d files were fetched, want 2", got)
	}
	r = b.apply(t.Context(), strings.Replace(text, "requests = 4", "requests = 5", 1), nil)
	if got := hub.Asked(); len(got) > 0 || r.Valid+r.Suspect != 2 {
		t.Errorf("the next apply fetched %v, outcome %+v", got, r.Outcome)
	}
}
