package plan

import (
	"strings"
	"testing"

	"hclbench/hcl"
)

func readLab(t *testing.T, text string) *hcl.Config {
	t.Helper()
	cfg, problems := hcl.Load(&hcl.Source{Dir: ".", Files: map[string][]byte{"lab.hcl": []byte(text)}}, hcl.Vars{})
	if problems.HasErrors() {
		t.Fatalf("the lab is wrong: %+v\n%s", problems.List()[0], text)
	}
	return cfg
}

const turned = `lab "turned" {}
host "box" {
  address = "203.0.113.7"
  gpus    = "8xH200"
}
model "m" { repo = "org/model" }
engine "vllm" "e" {
  host  = host.box
  model = model.m
  image = "vllm/vllm-openai:v0.11.0"
  ARGUMENT
}
dataset "random" "d" { input_tokens = 128 }
benchmark "b" {
  matrix { x = VALUES }
  engine   = engine.vllm.e
  dataset  = dataset.random.d
  requests = 100
  load {
    concurrency   = 4
    output_tokens = 64
  }
}
`

// turnedWith is the lab with other arguments of its load and of its benchmark.
func turnedWith(load, benchmark string) string {
	return strings.NewReplacer("ARGUMENT", "", "VALUES", "[1]",
		"concurrency   = 4", load, "requests = 100", "requests = 100\n"+benchmark).Replace(turned)
}

// TestEqualByAxis: engines that an axis turns without making them others have ids of
// their own, and keep their numbers when the axis changes.
func TestEqualByAxis(t *testing.T) {
	of := func(argument, values string) *hcl.Config {
		return readLab(t, strings.NewReplacer("ARGUMENT", argument, "VALUES", values).Replace(turned))
	}
	for _, tt := range [][3]string{
		{"compile_cache = matrix.x", `["/a", "/b", "/c"]`, `["/c", "/b", "/a"]`},
		{"port = matrix.x", `[8001, 8002, 8003]`, `[8003, 8002, 8001]`},
	} {
		p := New(of(tt[0], tt[1]), Options{})
		ids := map[string]bool{}
		for _, d := range p.Deployments {
			ids[d.ID], ids[d.Cells[0].ID] = true, true
		}
		if len(p.Deployments) != 3 || len(ids) != 6 {
			t.Errorf("%s: %d deployments with %d ids", tt[0], len(p.Deployments), len(ids))
		}
		known := measured(p)
		if n := New(of(tt[0], tt[1]), Options{Known: known}).Count(); n.Done != 3 {
			t.Errorf("%s: measured, and then %+v", tt[0], n)
		}
		if n := New(of(tt[0], tt[2]), Options{Known: known}).Count(); n.Done != 3 {
			t.Errorf("%s: measured, turned around, and then %+v", tt[0], n)
		}
	}
}

// TestPinnedTwins: pinned to what the tag meant, twins keep the numbers that are theirs.
func TestPinnedTwins(t *testing.T) {
	was := "sha256:" + strings.Repeat("1", 64)
	first := measured(New(twins("b"), Options{}))
	known := measured(New(twins("a", "b"), Options{Known: first}))
	for id, k := range known {
		k.Digest = was
		known[id] = k
	}
	cfg := twins("a", "b")
	for i := range cfg.Benchmarks[0].Cells {
		cfg.Benchmarks[0].Cells[i].Engine.Image += "@" + was
	}
	p := New(cfg, Options{Known: known})
	for i, name := range []string{"a", "b"} {
		c := p.Deployments[i].Cells[0]
		if c.Status != Done || known[c.ID].Host != name {
			t.Errorf("%s: %s, from %q", name, c.Status, known[c.ID].Host)
		}
	}
}

// TestHeaderNames: the case of a header's name means nothing.
func TestHeaderNames(t *testing.T) {
	of := func(name string) *hcl.Config {
		return readLab(t, turnedWith("concurrency = 4\nheaders = { "+name+" = \"a\" }", ""))
	}
	known := measured(New(of("X-Team"), Options{}))
	if n := New(of("x-team"), Options{Known: known}).Count(); n.Done != 1 {
		t.Errorf("another case: %+v", n)
	}
	twice := []byte(turnedWith("concurrency = 4\nheaders = { x-a = \"a\", X-A = \"b\" }", ""))
	source := &hcl.Source{Dir: ".", Files: map[string][]byte{"lab.hcl": twice}}
	if _, problems := hcl.Load(source, hcl.Vars{}); !problems.HasErrors() {
		t.Error("one header with two values is let pass")
	}
}

// TestWithoutEffect: an argument that has no effect on a load measures nothing again.
func TestWithoutEffect(t *testing.T) {
	of := func(argument, mode string) *hcl.Config { return readLab(t, turnedWith(argument, mode)) }
	for _, tt := range []struct{ mode, before, after string }{
		{"", "concurrency = 4", "concurrency = 4\n extra_body = {}"},
		{"", "concurrency = 4", "concurrency = 4\n burstiness = 2"},
		{"", "rate = \"inf\"", "rate = \"inf\"\n burstiness = 2"},
		{"mode = \"offline\"", "", "concurrency = 4"},
		{"mode = \"offline\"", "", "rate = 4"},
		{"mode = \"offline\"", "", "stream = false"},
		{"mode = \"offline\"", "", "endpoint = \"chat\""},
		{"mode = \"offline\"", "", "timeout = \"5m\""},
		{"mode = \"offline\"", "", "temperature = 1"},
		{"mode = \"offline\"", "", "headers = { X-A = \"b\" }"},
	} {
		known := measured(New(of(tt.before, tt.mode), Options{}))
		if n := New(of(tt.after, tt.mode), Options{Known: known}).Count(); n.Done != 1 {
			t.Errorf("%s %q → %q: %+v", tt.mode, tt.before, tt.after, n)
		}
	}
}
