package figure_test

import (
	"slices"
	"testing"

	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
)

// TestCapacitiesOf: a search has the cells whose identity is its own, whatever the lab calls them now, on its own side of a
// comparison; who is certainly ahead is told by the bounds alone.
func TestCapacitiesOf(t *testing.T) {
	rows, found := reporttest.Searched(
		reporttest.Search{Engine: "vllm.h200", Pass: []float64{4, 28}, Fail: []float64{34}},
		reporttest.Search{Engine: "sglang.h200", Pass: []float64{4, 34}, Open: []float64{36}, Fail: []float64{40}},
		reporttest.Search{Engine: "trtllm.h200", Pass: []float64{38}, Fail: []float64{50}})
	for i := range rows {
		r := &rows[i]
		r.Identity = map[string]string{"deployment": r.DeploymentID, "load.capacity": "concurrency", "load.concurrency": figure.AxisOf(r.Axes, "concurrency")}
		r.Benchmark = "renamed"
	}
	for i := range found {
		found[i].Identity = map[string]string{"deployment": found[i].DeploymentID, "load.capacity": "concurrency"}
	}
	all := figure.Capacities(rows, found)
	if len(all) != 3 || all[0].Benchmark != "renamed" || all[0].Name() != "vllm.h200" || len(all[0].At(all[0].Outcome.Holds)) != 2 {
		t.Fatalf("%+v", all)
	}
	front, behind := figure.Ranked(all)
	if len(front) != 2 || len(behind) != 1 || behind[0] != all[0] || !all[1].Ahead(all[0]) || all[2].Ahead(all[1]) {
		t.Errorf("ahead are %v, behind %v", front, behind)
	}
	if kept := figure.LongestTries(rows, all); len(kept) != len(rows)-3 {
		t.Errorf("%d of %d rows are kept", len(kept), len(rows))
	}
	other := slices.Clone(rows)
	for i := range other {
		other[i].Axes = append(slices.Clone(other[i].Axes), results.Axis{Name: figure.SideAxis, Value: "A"})
	}
	if all := figure.Capacities(other, found); all != nil {
		t.Errorf("of the other side there are %+v", all)
	}
}

// TestChangedSearch: of a search whose requests the lab has changed since nothing is shown beside the one that took its place,
// and no stale cell stands for a load that this has tried.
func TestChangedSearch(t *testing.T) {
	was, before := reporttest.Searched(reporttest.Search{Engine: "vllm.h200", Pass: []float64{4, 16}, Fail: []float64{32}})
	rows, found := reporttest.Searched(reporttest.Search{Engine: "vllm.h200", Pass: []float64{4, 64}, Fail: []float64{128}})
	identify := func(rows []results.Row, found []results.Capacity, tokens string) {
		found[0].Identity = map[string]string{"load.input_tokens": tokens}
		for i := range rows {
			rows[i].Identity = map[string]string{"load.input_tokens": tokens, "load.concurrency": figure.AxisOf(rows[i].Axes, "concurrency")}
		}
	}
	identify(was, before, "100")
	identify(rows, found, "200")
	for i := range was {
		was[i].ID += "-before"
		was[i].Stale = true
		was[i].Summary.Requests *= 2
	}
	all := figure.Capacities(slices.Concat(rows, was), slices.Concat(before, found))
	if len(all) != 1 || *all[0].Outcome.Holds != 64 || len(all[0].Rows) != len(rows) {
		t.Fatalf("%d capacities, the first holds %v", len(all), *all[0].Outcome.Holds)
	}
	for i := range was {
		if c, _ := figure.TriedBy(all, &was[i]); c != nil {
			t.Errorf("%v, which is stale, is of a search", was[i].Axes)
		}
	}
}
