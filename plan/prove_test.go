package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hclbench/load"
)

// TestProve: the first engine, or the one that is named, is started so often, each time as another deployment with
// the same loads, prompts and seeds, the first and the last, made short.
func TestProve(t *testing.T) {
	cfg := twins("a", "b", "a")
	for i := range 3 { // of a, three loads more
		c := cfg.Benchmarks[0].Cells[0]
		c.Workload = load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 8}, Endpoint: load.Completions, OutputTokens: 4,
			Concurrency: 4 << i, Requests: 5000}
		cfg.Benchmarks[0].Cells = append(cfg.Benchmarks[0].Cells, c)
	}
	label := func(i int) string { return cfg.Benchmarks[0].Cells[i].Engine.Label() }
	for _, c := range []struct{ label, want string }{
		{"", label(0) + ": 1 of 1, 16 of 64"},
		{label(1), label(1) + ": 1 of 1"},
	} {
		p, err := Prove(cfg, c.label, 3)
		if err != nil {
			t.Fatal(err)
		}
		ids, seeds, names := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for _, d := range p.Deployments {
			ids[d.ID], names[d.Members[0].Container.Name] = true, true
			var cells, seed []string
			for _, x := range d.ToDo() {
				cells = append(cells, fmt.Sprintf("%d of %d", x.Load().Workload.Concurrency, x.Load().Workload.Requests))
				seed = append(seed, fmt.Sprint(x.Load().Seed))
			}
			seeds[strings.Join(seed, " ")] = true
			if got := d.Engine.Label() + ": " + strings.Join(cells, ", "); got != c.want {
				t.Errorf("%q: a start does %s, want %s", c.label, got, c.want)
			}
		}
		if len(p.Deployments) != 3 || len(ids) != 3 || len(names) != 3 || len(seeds) != 1 || p.Count().Starts != 3 {
			t.Errorf("%q: %d deployments, ids %v, names %v, seeds %v", c.label, len(p.Deployments), ids, names, seeds)
		}
	}
	if p, err := Prove(cfg, "vllm.none", 2); err == nil {
		t.Errorf("of an engine that is not there: %v", p)
	}
	for i := range cfg.Benchmarks[0].Cells {
		cfg.Benchmarks[0].Cells[i].Offline = true
	}
	if p, err := Prove(cfg, "", 2); err == nil {
		t.Errorf("without a load: %v", p)
	}
}

// TestShortened: a load stays what it is, and takes about a minute.
func TestShortened(t *testing.T) {
	random := load.Dataset{Kind: load.Random, InputTokens: 8}
	minutes := func(n int) load.Duration { return load.Duration(time.Duration(n) * time.Minute) }
	for name, c := range map[string]struct{ w, want load.Workload }{
		"little already": {load.Workload{Concurrency: 4, Requests: 20}, load.Workload{Concurrency: 4, Requests: 20}},
		"much":           {load.Workload{Concurrency: 100, Requests: 5000}, load.Workload{Concurrency: 100, Requests: 400}},
		"at a rate":      {load.Workload{Rate: 5, Requests: 5000}, load.Workload{Rate: 5, Requests: 300}},
		"all at once":    {load.Workload{Rate: load.Inf, Requests: 5000}, load.Workload{Rate: load.Inf, Requests: 64}},
		"for a time": {load.Workload{Concurrency: 4, Duration: minutes(10), CutBeginning: minutes(2)},
			load.Workload{Concurrency: 4, Duration: minutes(3), CutBeginning: minutes(2)}},
	} {
		c.w.Dataset, c.want.Dataset, c.w.OutputTokens, c.want.OutputTokens = random, random, 4, 4
		c.w.Endpoint, c.want.Endpoint = load.Completions, load.Completions
		if err := c.w.Check(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := shortened(c.w); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
