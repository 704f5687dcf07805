package plan

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/hcl"
	"hclbench/testhost/golden"
)

// picked selects from the lab and returns the cells that are left.
func picked(t *testing.T, only, targets []string) (*Plan, []string) {
	t.Helper()
	p, err := New(lab(), Options{}).Select(Selection{only, targets})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for d, c := range p.cells() {
		got = append(got, d.Engine.Kind+" "+c.Benchmark+" "+newLine(c).coordinates())
	}
	return p, got
}

func TestSelect(t *testing.T) {
	const (
		v4, v8  = "vllm online concurrency=4", "vllm online concurrency=8"
		s4, s8  = "sglang online concurrency=4", "sglang online concurrency=8"
		so, so2 = "vllm soak one cell", "vllm soak repetition=2"
	)
	tests := []struct {
		name          string
		only, targets []string
		want          []string
	}{
		{"nothing said", nil, nil, []string{v4, v8, so, so2, s4, s8}},
		{"a benchmark", []string{"benchmark = soak"}, nil, []string{so, so2}},
		{"a glob", []string{`benchmark = "so*"`}, nil, []string{so, so2}},
		{"an example", []string{`benchmark = "online" and engine = "vllm.*" and concurrency <= 64`}, nil, []string{v4, v8}},
		{"a comparison", []string{"concurrency>4"}, nil, []string{v8, s8}},
		{"not, also where there is no such axis", []string{"concurrency != 4"}, nil, []string{v8, so, so2, s8}},
		{"one of two", []string{"concurrency = 4.0 and (engine = sglang or host = h200)"}, nil, []string{v4, s4}},
		{"an engine by address", []string{"engine = engine.vllm.h200"}, nil, []string{v4, v8, so, so2}},
		{"an engine by kind", []string{"engine = sglang"}, nil, []string{s4, s8}},
		{"a host, which is no axis", []string{"host = mi*"}, nil, []string{s4, s8}},
		{"repetition", []string{"repetition = 2"}, nil, []string{so2}},
		{"several", []string{"benchmark = soak and repetition = 1", "concurrency = 8 and not engine = vllm"}, nil, []string{so, s8}},
		{"a host", nil, []string{"host.mi300x"}, []string{s4, s8}},
		{"an engine", nil, []string{"engine.vllm.h200"}, []string{v4, v8, so, so2}},
		{"a kind", nil, []string{"engine.vllm"}, []string{v4, v8, so, so2}},
		{"both", []string{"benchmark = online"}, []string{"engine.vllm.*"}, []string{v4, v8}},
		{"several targets", nil, []string{"benchmark.soak", "host.mi300x"}, []string{so, so2, s4, s8}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, got := picked(t, tt.only, tt.targets)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("cells (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSelectCounts(t *testing.T) {
	p, _ := picked(t, []string{"benchmark = online and concurrency = 4"}, []string{"host.h200"})
	if got, want := p.Count(), (Counts{Hosts: 1, Deployments: 1, Cells: 1, Measure: 1, Starts: 1}); got != want {
		t.Errorf("Count = %+v, want %+v", got, want)
	}
	if got, want := *p.Of, (Counts{Hosts: 2, Deployments: 2, Cells: 6, Measure: 6, Starts: 2}); got != want {
		t.Errorf("Of = %+v, want %+v", got, want)
	}
	// What a part measures is up to date in the whole.
	whole := New(lab(), Options{Known: measured(p)})
	if got, want := whole.Count(), (Counts{Hosts: 2, Deployments: 2, Cells: 6, Measure: 5, Done: 1, Starts: 2}); got != want {
		t.Errorf("Count of the whole = %+v, want %+v", got, want)
	}
	const first = "Lab r1: 1 of 2 deployments on 1 of 2 hosts, 1 of 6 cells.\n"
	if got := printed(t, p, false); !strings.HasPrefix(got, first) {
		t.Errorf("text begins %q, want %q", strings.SplitAfter(got, "\n")[0], first)
	}
	var b bytes.Buffer
	if err := p.JSON(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"benchmark = online and concurrency = 4"`, `"host.h200"`, `"of": {`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("JSON has no %s:\n%s", want, b.String())
		}
	}
}

func TestSelectionErrors(t *testing.T) {
	tests := []struct {
		only, target string
		column       int
		detail       string // a part of it
	}{
		{only: "", column: 1, detail: "A name is missing here"},
		{only: "online", column: 1, detail: `There is no "online" to compare. Perhaps benchmark = "online" is meant?`},
		{only: "benchmark.online", column: 1, detail: `Perhaps benchmark = "online" is meant?`},
		{only: "benchmark.online[engine=vllm.*,concurrency<=64]", column: 1, detail: `An example: benchmark = "online" and engine = "vllm.*" and concurrency <= 64`},
		{only: "benchmark = onlin", column: 13, detail: `No cell has benchmark = onlin. Did you mean "online"? There are: online, soak.`},
		{only: "benchmark = x*", column: 13, detail: "There are: online, soak."},
		{only: `host = "é" and concurency = 4`, column: 16, detail: `There is no "concurency" to compare. Did you mean "concurrency"?`},
		{only: "concurrency = 4 engine", column: 17, detail: "join conditions by and, or"},
		{only: "concurrency = 16", column: 15, detail: "No cell has concurrency = 16. There are: 4, 8."},
		{only: "engine = vlm.h200", column: 10, detail: `Did you mean "vllm.h200"?`},
		{only: "not engine = x and concurrency = 16", column: 34, detail: "No cell has concurrency = 16"},
		{only: "concurrency = 4 and concurrency = 8", column: 1, detail: "No cell meets this condition on concurrency"},
		{target: "", column: 1, detail: "host.NAME, engine.KIND.NAME, group.NAME or benchmark.NAME"},
		{target: "h200", column: 1, detail: "not a sort of target"},
		{target: "vllm.h200", column: 1, detail: "Perhaps engine.vllm.h200"},
		{target: "model.r1", column: 1, detail: `"model" is not a sort of target. Write host.NAME, engine.KIND.NAME, group.NAME or benchmark.NAME; * stands for any characters.`},
		{target: "host", column: 5, detail: "Which host?"},
		{target: "benchmark.online[engine=x]", column: 17, detail: "--only"},
		{target: "host.h20", column: 1, detail: `Did you mean "host.h200"? There are: host.h200, host.mi300x.`},
		{target: "engine.trtllm", column: 1, detail: "There are: engine.vllm.h200, engine.sglang.mi300x."},
		{only: "benchmark = soak", target: "host.mi300x", column: 1, detail: "No cell that --only picks"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s %s", tt.only, tt.target), func(t *testing.T) {
			var onlys, targets []string
			if tt.only != "" || tt.target == "" && strings.HasPrefix(tt.detail, "A name") {
				onlys = []string{tt.only}
			}
			if tt.target != "" || onlys == nil {
				targets = []string{tt.target}
			}
			_, err := New(lab(), Options{}).Select(Selection{onlys, targets})
			var e *SelectionError
			if !errors.As(err, &e) {
				t.Fatalf("error = %v, want a SelectionError", err)
			}
			if e.Column != tt.column || !strings.Contains(e.Detail, tt.detail) {
				t.Errorf("column %d: %s\nwant column %d: %s", e.Column, e.Detail, tt.column, tt.detail)
			}
			if mark := strings.Split(e.Error(), "\n")[3]; strings.Index(mark, "^") != 4+e.Column-1 {
				t.Errorf("the mark is in another column:\n%v", e)
			}
		})
	}
}

// TestSelectInstances: an engine block with for_each is many engines.
func TestSelectInstances(t *testing.T) {
	plan := func() *Plan {
		cfg := lab()
		for i, e := range cfg.Engines {
			e.Kind, e.Name, e.Instance = "vllm", fmt.Sprintf("all-%d", i), fmt.Sprintf(`all["a,%d"]`, i)
			for j := range cfg.Benchmarks[0].Cells {
				if c := &cfg.Benchmarks[0].Cells[j]; c.Engine == e {
					c.Axes = []hcl.Axis{{Name: "engine", Value: "vllm." + e.Instance}, c.Axes[1]}
				}
			}
		}
		return New(cfg, Options{})
	}
	for _, tt := range []struct {
		only, targets []string
		cells         int
	}{
		{[]string{`engine = 'vllm.all["a,1"]' and concurrency = 4`}, nil, 1},
		{[]string{`engine = vllm.all* and concurrency = 4`}, nil, 2},
		{[]string{`engine = vllm.all and concurrency = 4`}, nil, 2},
		{nil, []string{`engine.vllm.all["a,0"]`}, 4},
		{nil, []string{"engine.vllm.all"}, 6},
		{nil, []string{"engine.vllm"}, 6},
	} {
		p, err := plan().Select(Selection{tt.only, tt.targets})
		if err != nil || p.Count().Cells != tt.cells {
			t.Errorf("%q %q picks %+v, %v; want %d", tt.only, tt.targets, p, err, tt.cells)
		}
	}
}

// FuzzOnly: whatever is typed, there is an error inside the text or a selection.
func FuzzOnly(f *testing.F) {
	for _, s := range []string{"", `benchmark = "online" and engine = "vllm.*"`, "online[engine=vllm.*]", `host = "é" or ü`, "not (", "repetition != 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := New(lab(), Options{}).Select(Selection{Only: []string{text}})
		var e *SelectionError
		if err != nil && (!errors.As(err, &e) || e.Column < 1 || e.Column > len([]rune(text))+1 || e.Detail == "") {
			t.Errorf("error of %q: %#v", text, err)
		}
	})
}

func TestGroupings(t *testing.T) {
	for _, by := range []By{ByEngine, ByBenchmark} {
		var b bytes.Buffer
		if err := New(lab(), Options{}).Text(&b, by, false); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "plan-by-"+string(by)+".txt", b.String())
	}
}

func TestPinnedImage(t *testing.T) {
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	cfg, other := lab(), lab()
	cfg.Engines[0].Image = "vllm/vllm-openai:v0.7.3" + digest
	other.Engines[0].Image = "vllm/vllm-openai:latest" + digest
	p := New(cfg, Options{})
	if a, b := p.Deployments[0].ID, New(other, Options{}).Deployments[0].ID; a != b {
		t.Errorf("the tag beside a digest is identity: %s, %s", a, b)
	}
	if got, want := p.Deployments[0].Identity["image"], strings.TrimPrefix(digest, "@"); got != want {
		t.Errorf("identity's image = %s, want %s", got, want)
	}
	if got, want := printed(t, p, false), "vllm/vllm-openai:v0.7.3@sha256:0123456789ab\n"; !strings.Contains(got, want) {
		t.Errorf("the plan does not show %q:\n%s", want, got)
	}
}
