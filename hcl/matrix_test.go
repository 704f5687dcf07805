package hcl

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/hcl/lang"
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
			if diff := cmp.Diff(c.want, cells(mustLoad(t, twoEngines+benchmarkOf(c.text, ""), lang.Vars{}))); diff != "" {
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
`, ""), lang.Vars{})
	want := []string{"engine=sim.b n=7 b", "engine=sim.a n=1 o=1 a", "engine=sim.a n=2 o=1 a", "n=2 engine=sim.b o=2 b"}
	if diff := cmp.Diff(want, cells(c)); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
}

func TestReference(t *testing.T) {
	c := mustLoad(t, twoEngines+benchmarkOf(`
matrix { engine = [engine.sim.a] }
reference "published 2025-03" {
  source = "https://example.com"
  rows   = csvdecode("engine,concurrency,tput,version,note\nsglang,4,12.50,0.4.3,\nvllm,8,1e3,007,x\n")
}
reference "by hand" {
  rows = [{ z = 1.5, a = true }, { b = null, c = "c" }]
}
`, ""), lang.Vars{})
	want := []Reference{
		{
			Name: "published 2025-03", Source: "https://example.com", Columns: []string{"engine", "concurrency",
				"tput", "version", "note"}, Pos: "lab.hcl:23",
			Rows: []map[string]any{
				{"engine": "sglang", "concurrency": int64(4), "tput": 12.5, "version": "0.4.3"},
				{"engine": "vllm", "concurrency": int64(8), "tput": 1000.0, "version": "007", "note": "x"},
			},
		},
		{Name: "by hand", Columns: []string{"z", "a", "b", "c"}, Pos: "lab.hcl:27", Rows: []map[string]any{{"z": 1.5,
			"a": true}, {"c": "c"}}},
	}
	if diff := cmp.Diff(want, c.Benchmarks[0].References); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
}

// TestWorkload reads what a workload can say beyond concurrency.
func TestWorkload(t *testing.T) {
	c := mustLoad(t, common+`
`+vllm("a", "")+`dataset "trace" "t" {
  path     = "trace.jsonl"
  slowdown = 2
}
benchmark "replayed" {
  engine  = engine.vllm.a
  dataset = dataset.trace.t
  load { stream = false }
}
benchmark "staged" {
  engine  = engine.vllm.a
  dataset = dataset.random.d
  load {
    stages        = [{ duration = "1m", rate = 2.5 }, { duration = "30s", rate = "inf" }]
    concurrency   = 100
    output_tokens = 10
    from          = host.h
  }
}
`, lang.Vars{})
	replayed, staged := c.Benchmarks[0].Cells[0].Workload, c.Benchmarks[1].Cells[0].Workload
	want := []load.Stage{{Duration: load.Duration(60e9), Rate: 2.5}, {Duration: load.Duration(30e9), Rate: load.Inf}}
	if !slices.Equal(staged.Stages, want) {
		t.Errorf("stages = %+v", staged.Stages)
	}
	if diff := cmp.Diff(load.Dataset{Kind: load.Trace, Path: "trace.jsonl", Slowdown: 2}, replayed.Dataset); diff != "" || !replayed.NoStream {
		t.Errorf("workload = %+v (-want +got):\n%s", replayed, diff)
	}
}

// sentFrom is a benchmark of engine.vllm.a whose load hosts send.
func sentFrom(from, load string) string {
	requests := "requests = 4"
	if strings.Contains(load, "stages") {
		requests = ""
	}
	return fmt.Sprintf(`benchmark "b" {
  engine   = engine.vllm.a
  dataset  = dataset.random.d
  %s
  load {
    %s
    output_tokens = 4
    from          = %s
  }
}
`, requests, load, from)
}

// TestLoadFrom: load from another host needs an engine that listens to the network,
// which only the lab may say.
func TestLoadFrom(t *testing.T) {
	for _, tt := range []struct{ name, argument, want string }{
		{"listens on its host alone", "", "listens on 127.0.0.1 only"},
		{"said so", `flags = { host = "localhost" }`, "listens on localhost only"},
		{"published on its host alone", "flags = { host = \"0.0.0.0\" }\n  container { network = \"bridge\" }",
			"its port is open"},
		{"on one address", `flags = { host = "10.0.0.5" }`, ""},
		{"on all", `flags = { host = "0.0.0.0" }`, ""},
		{"by a command that tells nothing", `command = ["serve", "8000"]`, ""},
	} {
		_, p := loadText(t, common+`
host "client" { address = "client" }
`+vllm("a", tt.argument)+sentFrom("host.client", "concurrency = 1"), lang.Vars{})
		said := printed(t, p)
		if tt.want == "" && p.HasErrors() || tt.want != "" && (!strings.Contains(said, tt.want) ||
			!strings.Contains(said, "load.from") && !strings.Contains(said, "host.client")) {
			t.Errorf("%s: want %q, got\n%s", tt.name, tt.want, said)
		}
	}
}

// TestLoadFromSeveral: each client is a machine of its own, beside the engine's, and has a part of
// the load.
func TestLoadFromSeveral(t *testing.T) {
	for _, tt := range []struct{ name, from, load, want string }{
		{"three", "[host.c0, host.c1, host.c2]", "concurrency = 3", ""},
		{"one in a list", "[host.c0]", "concurrency = 1", ""},
		{"one twice", "[host.c0, host.c1, host.c0]", "concurrency = 3", "host.c0 is one machine with a client before it"},
		{"the engine's", "[host.h, host.c1]", "concurrency = 3", "host.h runs engine.vllm.a, and would send a part of its load"},
		{"none", "[]", "concurrency = 3", "hosts of this lab, such as host.client or [host.c0, host.c1]"},
		{"unknown", "[host.c0, host.c7]", "concurrency = 3", "host.c7"},
		{"no host", "[host.c0, model.m]", "concurrency = 3", "hosts of this lab, such as"},
		{"fewer slots", "[host.c0, host.c1, host.c2]", "concurrency = 2", "Concurrency 2 cannot be shared by 3 hosts"},
		{"a stage of fewer", "[host.c0, host.c1]", `stages = [{ duration = "1m", concurrency = 1 }]`,
			"Stage 1: a concurrency of 1 cannot be shared by 2 hosts"},
		{"fewer requests", "[host.c0, host.c1, host.c2, host.c3, host.c4]", `rate = "inf"`, "Requests 4 cannot be shared by 5 hosts"},
	} {
		text := common + vllm("a", `flags = { host = "0.0.0.0" }`) + sentFrom(tt.from, tt.load)
		for i := range 5 {
			text += fmt.Sprintf("host \"c%d\" { address = \"c%d\" }\n", i, i)
		}
		_, p := loadText(t, text, lang.Vars{})
		said := printed(t, p)
		if tt.want == "" && p.HasErrors() || tt.want != "" && !strings.Contains(strings.Join(strings.Fields(said), " "), tt.want) {
			t.Errorf("%s: want %q, got\n%s", tt.name, tt.want, said)
		}
	}
}

// TestLoadFromPods: pods of one cluster reach each other, and nobody else reaches them.
func TestLoadFromPods(t *testing.T) {
	const all = `flags = { host = "0.0.0.0" }`
	for _, tt := range []struct{ name, host, argument, from, want string }{
		{"of the cluster", "a", all, "[host.a1, host.a2]", ""},
		{"of other nodes of it", "a", all, "host.gpus", ""},
		{"the engine's own", "a", "", "host.a", ""},
		{"alone in its pod", "a", "", "host.a1", `Let it listen on all of the pod's addresses: flags = { host = "0.0.0.0" }`},
		{"of another cluster", "a", all, "[host.a1, host.b]", "host.b cannot reach engine.vllm.a: its host is a pod of cluster.a, " +
			"which only other pods there reach. Send from hosts of cluster.a."},
		{"a machine", "a", all, "host.h", "host.h cannot reach engine.vllm.a: its host is a pod of cluster.a"},
		{"to a machine", "h", all, "host.a1", ""},
	} {
		text := strings.Replace(common+vllm("a", tt.argument), "= host.h\n", "= host."+tt.host+"\n", 1)
		text += sentFrom(tt.from, "concurrency = 2")
		for _, c := range []string{"a", "b", "gpus"} {
			where := "image = \"debian:12\"\nnamespace = \"" + c + "\"\n"
			if c == "b" {
				where += "context = \"other\"\n"
			}
			text += "cluster \"" + c + "\" {\n" + where + "}\nhost \"" + c + "\" { cluster = cluster." + c + " }\n"
		}
		text += "host \"a1\" { cluster = cluster.a }\nhost \"a2\" { cluster = cluster.a }\n"
		_, p := loadText(t, text, lang.Vars{})
		said := printed(t, p)
		if tt.want == "" && p.HasErrors() || tt.want != "" && !strings.Contains(strings.Join(strings.Fields(said), " "), tt.want) {
			t.Errorf("%s: want %q, got\n%s", tt.name, tt.want, said)
		}
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
		_, p := Load(&lang.Source{Dir: t.TempDir(), Files: map[string][]byte{"lab.hcl": []byte(text)}, Locked: locked}, lang.Vars{})
		if _, warnings := p.Count(); warnings != 1-len(locked) {
			t.Errorf("with %v locked there are %d warnings:\n%s", locked, warnings, printed(t, p))
		}
	}
}
