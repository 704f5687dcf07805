package hcl

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
)

const twoEngines = common + `
engine "sim" "a" {
  host = host.h
}
engine "sim" "b" {
  host = host.h
}
`

// TestZip: where a zip block stands says what it is multiplied with.
func TestZip(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"alone": {`
zip {
  engine = [engine.sim.b, engine.sim.a, engine.sim.a]
  n      = [1, 2, 3]
}`, []string{"engine=sim.b n=1 b", "engine=sim.a n=2 a", "engine=sim.a n=3 a"}},
		"in a matrix, in its place": {`
matrix {
  m = [1, 2]
  zip {
    n = ["x", "y"]
    o = [10 * matrix.m, 20]
  }
  engine = [engine.sim.a, engine.sim.b]
}`, []string{
			"m=1 n=x o=10 engine=sim.a a", "m=1 n=x o=10 engine=sim.b b", "m=1 n=y o=20 engine=sim.a a", "m=1 n=y o=20 engine=sim.b b",
			"m=2 n=x o=20 engine=sim.a a", "m=2 n=x o=20 engine=sim.b b", "m=2 n=y o=20 engine=sim.a a", "m=2 n=y o=20 engine=sim.b b",
		}},
		"beside matrices, before one and behind the other": {`
matrix { engine = [engine.sim.a, engine.sim.b] }
zip {
  n = [1, 2]
  o = [3, 4]
}
matrix { engine = [engine.sim.a] }`, []string{
			"engine=sim.a n=1 o=3 a", "engine=sim.a n=2 o=4 a", "engine=sim.b n=1 o=3 b", "engine=sim.b n=2 o=4 b",
		}},
		"two of them": {`
zip {
  engine = [engine.sim.a, engine.sim.b]
  n      = [1, 2]
}
zip { o = [8, 9] }`, []string{"engine=sim.a n=1 o=8 a", "engine=sim.a n=1 o=9 a", "engine=sim.b n=2 o=8 b", "engine=sim.b n=2 o=9 b"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, cells(mustLoad(t, twoEngines+benchmarkOf(c.text, ""), Vars{}))); diff != "" {
				t.Errorf("cells (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInclude(t *testing.T) {
	c := mustLoad(t, twoEngines+benchmarkOf(`
include {
  engine = engine.sim.b
  n      = 7
}
matrix {
  engine = [engine.sim.a, engine.sim.b]
  n      = [1, 2]
}
zip { o = [1] }
exclude { when = matrix.engine.name == "b" }
include {
  n      = 2
  engine = engine.sim.b
  o      = matrix.n
}
`, ""), Vars{})
	want := []string{"engine=sim.b n=7 b", "engine=sim.a n=1 o=1 a", "engine=sim.a n=2 o=1 a", "n=2 engine=sim.b o=2 b"}
	if diff := cmp.Diff(want, cells(c)); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
}

func TestReference(t *testing.T) {
	c := mustLoad(t, common+`
engine "sim" "a" {
  host = host.h
}
`+benchmarkOf(`
matrix { engine = [engine.sim.a] }
reference "published 2025-03" {
  source = "https://example.com"
  rows   = csvdecode("engine,concurrency,tput,version,note\nsglang,4,12.50,0.4.3,\nvllm,8,1e3,007,x\n")
}
reference "by hand" {
  rows = [{ z = 1.5, a = true }, { b = null, c = "c" }]
}
`, ""), Vars{})
	want := []Reference{
		{
			Name: "published 2025-03", Source: "https://example.com", Columns: []string{"engine", "concurrency", "tput", "version", "note"}, Pos: "lab.hcl:20",
			Rows: []map[string]any{
				{"engine": "sglang", "concurrency": int64(4), "tput": 12.5, "version": "0.4.3"},
				{"engine": "vllm", "concurrency": int64(8), "tput": 1000.0, "version": "007", "note": "x"},
			},
		},
		{Name: "by hand", Columns: []string{"z", "a", "b", "c"}, Pos: "lab.hcl:24", Rows: []map[string]any{{"z": 1.5, "a": true}, {"c": "c"}}},
	}
	if diff := cmp.Diff(want, c.Benchmarks[0].References); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
}

// TestNotCarriedOut reads what this version cannot do yet, and is told where it
// stands.
func TestNotCarriedOut(t *testing.T) {
	c := mustLoad(t, common+`
engine "trtllm" "a" {
  host  = host.h
  model = model.m
  image = "nvcr.io/nvidia/tensorrt-llm/release:1.0.0"
  build {
    commands = ["make"]
    output   = "/built"
  }
}
dataset "trace" "t" {
  path     = "trace.jsonl"
  slowdown = 2
}
benchmark "replayed" {
  engine  = engine.trtllm.a
  dataset = dataset.trace.t
  load {
    stream   = false
    warmup   = "30s"
    cooldown = "10s"
    from     = host.h
  }
}
benchmark "staged" {
  engine  = engine.trtllm.a
  dataset = dataset.random.d
  load {
    stages        = [{ duration = "1m", rate = 2.5 }, { duration = "30s", rate = "inf" }]
    ramp          = "10s"
    concurrency   = 100
    output_tokens = 10
  }
}
`, Vars{})
	var got []string
	for _, p := range c.NotCarriedOut(false).List() {
		text := string(c.text.files[p.File][p.Start.Byte:p.End.Byte])
		if p.Summary != "Not carried out yet" || p.Severity != SeverityError {
			t.Errorf("problem %+v", p)
		}
		got = append(got, p.Context+": "+text)
	}
	want := []string{
		`benchmark "replayed": host.h`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("not carried out (-want +got):\n%s\n%s", diff, printed(t, c.NotCarriedOut(false)))
	}
	wantStages := []load.Stage{{Duration: load.Duration(60e9), Rate: 2.5}, {Duration: load.Duration(30e9), Rate: load.Inf}}
	if diff := cmp.Diff(wantStages, c.Benchmarks[1].Cells[0].Workload.Stages); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	if w := c.Benchmarks[0].Cells[0].Workload; w.Dataset != (load.Dataset{Kind: load.Trace, Path: "trace.jsonl", Slowdown: 2}) || !w.NoStream {
		t.Errorf("workload = %+v", w)
	}
	if got := len(c.NotCarriedOut(true).List()); got != 0 {
		t.Errorf("%d problems with a rehearsal: the host does not matter there", got)
	}
	// Only the cells that are left count: --only may have taken the others away.
	c.Benchmarks = nil
	if c.NotCarriedOut(false).HasErrors() {
		t.Error("something is not carried out in a lab without benchmarks")
	}
}

func TestLockedImages(t *testing.T) {
	text := common + `
engine "vllm" "a" {
  host  = host.h
  model = model.m
  image = "vllm/vllm-openai:latest"
}
` + benchmarkOf("matrix { engine = [engine.vllm.a] }", "")
	for _, locked := range []map[string]bool{nil, {"vllm/vllm-openai:latest": true}} {
		_, p := Load(&Source{Dir: t.TempDir(), Files: map[string][]byte{"lab.hcl": []byte(text)}, Locked: locked}, Vars{})
		if _, warnings := p.Count(); warnings != 1-len(locked) {
			t.Errorf("with %v locked there are %d warnings:\n%s", locked, warnings, printed(t, p))
		}
	}
}
