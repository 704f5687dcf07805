package apply_test

import (
	"crypto/sha256"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hclbench/apply"
	"hclbench/load"
	"hclbench/results"
	"hclbench/telemetry"
	"hclbench/testhost"
)

var offlineLab = box +
	onBox("vllm", "new", "vllm/vllm-openai:v0.11.0", "flags = { tensor-parallel-size = 8 }\ncompile_cache = \"~/compiled\"") +
	onBox("sglang", "box", "lmsysorg/sglang:v0.5.2", "flags = { tp = 8 }\ncompile_cache = \"~/compiled\"") +
	onBox("trtllm", "box", "nvcr.io/nvidia/tensorrt-llm/release:1.0.0", "flags = { tp_size = 8 }") + `
engine "vllm" "broken" {
  inherits = engine.vllm.new
  env      = { ENGINE_FAULT = "fatal-log" }
}
engine "vllm" "liar" {
  inherits = engine.vllm.new
  env      = { HCL_SIM_LIE = "tensor-parallel-size=4" }
}
benchmark "offline" {
  mode = "offline"
  matrix {
    engine = [engine.vllm.new, engine.vllm.broken, engine.sglang.box, engine.trtllm.box]
    batch  = [8]
  }
  engine   = matrix.engine
  dataset  = dataset.random.short
  requests = matrix.batch
  load { output_tokens = 16 }
}
dataset "sharegpt" "chats" {
  path   = "%CHATS%"
  filter = "vllm"
  sha256 = "%SUM%"
}
dataset "shared-prefix" "groups" {
  groups            = 2
  prompts_per_group = 2
  prefix_tokens     = 8
  question_tokens   = 4
}
benchmark "chats" {
  mode     = "offline"
  engine   = engine.vllm.liar
  dataset  = dataset.sharegpt.chats
  requests = 4
  load {}
}
benchmark "groups" {
  mode     = "offline"
  engine   = engine.trtllm.box
  dataset  = dataset.shared-prefix.groups
  requests = 4
  load { output_tokens = 2 }
}
benchmark "online" {
  engine   = engine.vllm.new
  dataset  = dataset.random.short
  requests = 4
  load {
    concurrency   = 2
    output_tokens = 16
  }
}
`

// TestOffline: each engine's own benchmark runs in a container of its own, its
// figures are kept like those of a load, one that fails is told with what it said,
// and an engine that is measured online as well is. What an image's engine compiles
// is there for its next start, and not for another image's.
func TestOffline(t *testing.T) {
	host := testhost.New(t, testhost.Options{Docker: true, Registry: true, Namespace: true, GPU: "8xH200"})
	b := newBench(t, host)
	slow := map[string]string{"ENGINE_TTFT": "100ms", "ENGINE_ITL": "100ms", "ENGINE_FAULT": "slow-start=1s"} // 1.6 s for 16 tokens
	for _, image := range []string{"vllm/vllm-openai:v0.11.0", "lmsysorg/sglang:v0.5.2", "nvcr.io/nvidia/tensorrt-llm/release:1.0.0"} {
		host.PushEngine(t, image, slow)
	}
	chats := "[" + strings.Repeat(`{"conversations": [{"value": "What do four words say?"}, {"value": "More than one."}]}, `, 7) +
		`{"conversations": [{"value": "What do four words say?"}, {"value": "More than one."}]}]`
	path := filepath.Join(t.TempDir(), "chats.json")
	if err := os.WriteFile(path, []byte(chats), 0o644); err != nil {
		t.Fatal(err)
	}
	lab := strings.NewReplacer("%CHATS%", path, "%SUM%", fmt.Sprintf("%x", sha256.Sum256([]byte(chats)))).Replace(offlineLab)
	r := b.apply(t.Context(), lab, func(e apply.Event) {
		if e.Type != apply.Begin || e.Benchmark != "online" {
			return
		}
		runs, err := b.store.Runs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all, err := b.store.Deployments(t.Context(), runs[0].ID)
		if d := all[slices.IndexFunc(all, func(d results.Deployment) bool { return d.Engine == e.Engine })]; err != nil || !d.Stopped.IsZero() {
			t.Errorf("an engine that serves was taken down at %s, %v", d.Stopped, err)
		}
	})
	if r.err != nil {
		t.Fatal(r.err)
	}
	if len(r.rows) != 7 || r.Void != 1 {
		t.Fatalf("outcome %+v with %d rows", r.Outcome, len(r.rows))
	}
	if !r.has(apply.Step, "starting with a warm compile cache") {
		t.Errorf("events: %+v", r.events)
	}
	for _, row := range r.rows {
		if want := map[string]string{"vllm.new": "warm", "vllm.broken": "warm", "vllm.liar": "warm", "sglang.box": "cold"}[row.Deployment.Engine]; row.Deployment.CompileCache != want {
			t.Errorf("%s started with a compile cache that is %q, want %q", row.Deployment.Engine, row.Deployment.CompileCache, want)
		}
		switch {
		case row.Benchmark == "online":
			if row.Summary == nil || row.Summary.TTFT.Count == 0 {
				t.Errorf("the online cell has no measurement: %s", row.Error)
			}
		case row.Benchmark == "chats" || row.Benchmark == "groups":
			s, input, output, doubt := row.Summary, int64(4*(8+4)), int64(4*2), ""
			if row.Benchmark == "chats" {
				input, output = 4*5, 4*3 // what the tool itself says
				doubt = "--tensor-parallel-size asks for 8, the engine serves with 4 (tensor_parallel_size)"
			}
			if s == nil || s.Completed != 4 || s.InputTokens != input || s.OutputTokens != output || strings.Join(s.Verdict.Texts(), "; ") != doubt {
				t.Errorf("%s on %s measured %+v %s", row.Benchmark, row.Deployment.Engine, s, row.Error)
			}
		case row.Deployment.Engine == "vllm.broken":
			if row.Verdict().Verdict != load.Void || !strings.Contains(row.Error, "vllm bench throughput: out of GPU memory") || !strings.Contains(row.Error, "896.00 MiB") {
				t.Errorf("the broken engine's cell says %q", row.Error)
			}
		default:
			s := row.Summary
			if s == nil {
				t.Errorf("%s has no measurement: %s", row.Deployment.Engine, row.Error)
				continue
			}
			if s.Completed != 8 || s.InputTokens != 8*32 || s.OutputTokens != 8*16 || s.Verdict.Verdict != load.Valid || s.TTFT.Count != 0 {
				t.Errorf("%s measured %+v", row.Deployment.Engine, s)
			}
			if s.Duration < 1.6 || s.Duration > 20 || s.OutputThroughput != 128/s.Duration {
				t.Errorf("%s: 1.6 s of work took %.3f s, with %.1f tokens/s", row.Deployment.Engine, s.Duration, s.OutputThroughput)
			}
			checkEnergy(t, row)
			if served := string(row.Deployment.Served); row.Deployment.Kind != "vllm" && !strings.Contains(served, `"tp_size":8`) {
				t.Errorf("%s ran with %s", row.Deployment.Engine, served)
			}
			if row.Deployment.Digest == "" {
				t.Errorf("%s: the image's digest is not kept", row.Deployment.Engine)
			}
		}
	}
	if p := b.plan(lab); p.Count().Measure != 1 {
		t.Errorf("the next plan is to measure %d cells, want the one that failed", p.Count().Measure)
	}
	b.clean()
}

// idlePower is what eight idle GPUs of a test host take: W.
const idlePower = 76.0 + 76.1 + 76.2 + 76.3 + 76.4 + 76.5 + 76.6 + 76.7

// checkEnergy holds a cell's energy against the time that it says was measured: the
// GPUs of test hosts always take the same.
func checkEnergy(t *testing.T, row results.Row) {
	t.Helper()
	r := row.Telemetry
	read := func(s telemetry.Series) bool { // on a busy machine the work may end before the last GPU was read
		return s.Name == telemetry.Power && (s.Of == "gpu7" || s.Of == "gpu0" && r.Missing*10 > r.Expected)
	}
	if r == nil || r.Expected == 0 || len(r.Problems) > 0 || !slices.ContainsFunc(r.Series, read) {
		t.Errorf("%s: what was read is %+v", row.Deployment.Engine, r)
		return
	}
	if want := idlePower * row.Summary.Duration; r.Missing*10 <= r.Expected && math.Abs(r.Energy-want) > want/1000 {
		t.Errorf("%s: %v W for %v s are %v J, want %v", row.Deployment.Engine, idlePower, row.Summary.Duration, r.Energy, want)
	}
}
