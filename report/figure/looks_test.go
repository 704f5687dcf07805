package figure

import (
	"testing"

	"hclbench/load"
	"hclbench/report/reporttest"
	"hclbench/results"
)

// TestPrefixPairs: what differs in more than its prefixes is no pair.
func TestPrefixPairs(t *testing.T) {
	pair := func() (rows []results.Row) {
		for _, kind := range []string{load.Random, load.SharedPrefix} {
			r := reporttest.Row("vllm.h200", 4, 100, 20)
			r.Benchmark, r.Job.Workload.Dataset.Kind = kind, kind
			rows = append(rows, r)
		}
		return rows
	}
	for name, change := range map[string]func(r *results.Row){
		"":             func(*results.Row) {},
		"the length":   func(r *results.Row) { r.Summary.InputTokens *= 8 },
		"a flag":       func(r *results.Row) { r.Deployment.Identity = map[string]string{"--tp": "4"} },
		"the model":    func(r *results.Row) { r.Deployment.Model = "small" },
		"another axis": func(r *results.Row) { r.Axes = append(r.Axes, results.Axis{Name: "chunk", Value: int64(1)}) },
	} {
		rows := pair()
		change(&rows[1])
		got := PrefixPairs(Samples(rows, NewSeries(rows, nil)))
		if len(got) == 1 != (name == "") {
			t.Errorf("%q differs: %d pairs", name, len(got))
		}
	}
	rows := append(pair(), pair()[1])
	rows[2].Benchmark = "another"
	if got := PrefixPairs(Samples(rows, NewSeries(rows, nil))); len(got) > 0 {
		t.Errorf("of two that fit one was taken: %v", got)
	}
}
