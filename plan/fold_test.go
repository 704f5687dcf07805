package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/results"
)

// TestFold: cells that follow each other and fare alike are one line, and every line is a product of its values.
func TestFold(t *testing.T) {
	// A cell is its mark and values, then what is known of it: "+ 4 800", "= 4 800 at 14:00".
	cells := func(lines ...string) (all []*Cell) {
		for _, l := range lines {
			words, at, _ := strings.Cut(l, " at ")
			part := strings.Fields(words)
			c := &Cell{Status: map[string]Status{"+": Measure, "=": Done, "~": Stale}[part[0]], Repetition: 1, Task: &Load{}}
			for i, v := range part[1:] {
				name := []string{"concurrency", "output", "repetition"}[i]
				if name == "repetition" {
					c.Repetition = int(v[0] - '0')
					continue
				}
				c.Axes = append(c.Axes, results.Axis{Name: name, Value: v})
			}
			if at != "" {
				c.measured, c.Why = at, "measured "+at
			}
			all = append(all, c)
		}
		return all
	}
	var many []string
	for i := range 20 {
		many = append(many, "+ "+string(rune('a'+i)))
	}
	for _, tt := range []struct {
		name  string
		cells []*Cell
		want  []string
	}{
		{"a product", cells("+ 4 800", "+ 4 1600", "+ 8 800", "+ 8 1600"), []string{"+ concurrency=4,8 output=800,1600"}},
		{"two products", cells("+ 4 800", "+ 8 800", "+ 8 1600", "+ 8 3200"),
			[]string{"+ concurrency=4 output=800", "+ concurrency=8 output=800,1600,3200"}},
		{"no product", cells("+ 4 800", "+ 8 1600"), []string{"+ concurrency=4 output=800", "+ concurrency=8 output=1600"}},
		{"the outer axis turns fastest", cells("+ 4 800", "+ 8 800", "+ 4 1600", "+ 8 1600"), []string{"+ concurrency=4,8 output=800,1600"}},
		{"repetitions", cells("+ 4 800 1", "+ 4 800 2", "+ 8 800 1", "+ 8 800 2"), []string{"+ concurrency=4,8 output=800 repetition=1,2"}},
		{"fares", cells("= 4 at 14:00", "= 8 at 14:05", "+ 16", "+ 32"),
			[]string{"= concurrency=4,8  up to date: measured 14:00 to 14:05", "+ concurrency=16,32"}},
		{"the same moment", cells("= 4 at 14:00", "= 8 at 14:00"), []string{"= concurrency=4,8  up to date: measured 14:00"}},
		{"unlike axes", cells("+ 4 800", "+ 4", "+ 8"), []string{"+ concurrency=4 output=800", "+ concurrency=4,8"}},
		{"no axes", cells("+"), []string{"+ one cell"}},
		{"very many", cells(many...), []string{"+ concurrency=a,b,c,…,t (20 values)"}},
	} {
		var got []string
		for _, l := range fold(tt.cells) {
			got = append(got, l.String())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestFoldDeployments: what an axis turns of one block stands under one heading, a line for each start.
func TestFoldDeployments(t *testing.T) {
	cfg := lab()
	turned := cfg.Benchmarks[0].Cells[:2]
	var cells []hcl.Cell
	for _, tp := range []string{"4", "8"} {
		e := *cfg.Engines[0]
		e.Flags = []engines.Flag{{Name: "tensor-parallel-size", Value: flagValue(tp)}}
		for _, c := range turned {
			c.Engine, c.Axes = &e, append([]hcl.Axis{{Name: "tp", Value: tp}}, c.Axes...)
			cells = append(cells, c)
		}
	}
	cfg.Benchmarks = []hcl.Benchmark{{Name: "online", Repeat: 1, Cells: cells}}
	want := `
  engine.vllm.h200  2 deployments  vllm/vllm-openai:v0.7.3
    benchmark online
      load: 500 requests, random 3200 tokens in, 800 tokens out, completions
      + tp=4 concurrency=4,8  ID
      + tp=8 concurrency=4,8  ID
`
	p := New(cfg, Options{})
	var b strings.Builder
	if err := p.Text(&b, ByHost, false); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	for _, d := range p.Deployments {
		got = strings.ReplaceAll(got, d.ID, "ID")
	}
	if !strings.Contains(got, want) {
		t.Errorf("the plan is\n%s\nwithout\n%s", got, want)
	}
	b.Reset()
	if err := p.Text(&b, ByHost, true); err != nil {
		t.Fatal(err)
	}
	for _, d := range p.Deployments {
		for _, c := range d.Cells {
			if !strings.Contains(b.String(), "  "+c.ID+"\n") {
				t.Errorf("with --verbose the plan does not name cell %s:\n%s", c.ID, &b)
			}
		}
	}
}
