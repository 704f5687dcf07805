package results

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/capacity"
	"hclbench/load"
)

// testCapacity is what a search has found, with every field filled.
func testCapacity(run, id string) Capacity {
	holds, breaks := 83.0, 113.0
	return Capacity{
		ID: id, RunID: run, DeploymentID: "d1", Benchmark: "online", Axes: Axes{{"engine", "vllm.h200"}},
		Identity: map[string]string{"load.capacity": "concurrency"}, Question: "ttft_p95=2s", Finished: noon,
		Outcome: capacity.Outcome{
			Of: capacity.Concurrency, Holds: &holds, Breaks: &breaks, BoundBy: "ttft_p95", Finished: true, Over: true, Confidence: 0.95, Precision: 0.05,
			Least: 1, Most: 1024, Took: 59.999999999, Requests: 6325,
			Loads: []capacity.Load{
				{Load: 83, Verdict: capacity.Pass, Again: capacity.Pass, Tries: 2, Lines: []capacity.LineOutcome{
					{Name: "ttft_p95", Max: load.Duration(2 * time.Second), Counted: 500, Within: 499, Inflation: 1.25, Verdict: capacity.Pass}}},
				{Load: 113, Verdict: capacity.Fail, Doubt: "busy", Tries: 1},
			},
		},
	}
}

func TestCapacity(t *testing.T) { everywhere(t, testCapacities) }

// testCapacities: what a search finds takes the place of what it had found in its run, the last run's counts, a rehearsal is
// apart, and it goes with its run.
func testCapacities(t *testing.T, place string) {
	s := open(t, place)
	first, second, rehearsed := testRun("r1"), testRun("r2"), testRun("r3")
	rehearsed.Command = "rehearse"
	for i, run := range []Run{first, second, rehearsed} {
		fill(t, s, run)
		c := testCapacity(run.ID, "c1")
		c.Finished = noon.Add(time.Duration(i) * time.Hour)
		unfinished := c
		unfinished.Outcome.Holds = nil
		check(t, s.PutCapacity(t.Context(), unfinished))
		check(t, s.PutCapacity(t.Context(), c))
		check(t, s.FinishRun(t.Context(), run.ID, "done", c.Finished))
	}
	got, err := s.Capacities(t.Context(), Query{Run: "r1"})
	check(t, err)
	if diff := cmp.Diff([]Capacity{testCapacity("r1", "c1")}, got); diff != "" {
		t.Errorf("of a run (-want +got):\n%s", diff)
	}
	for want, q := range map[string]Query{"r2": {Latest: true}, "r3": {Latest: true, Rehearsed: true}} {
		got, err := s.Capacities(t.Context(), q)
		check(t, err)
		if len(got) != 1 || got[0].RunID != want {
			t.Errorf("%+v: %+v; want one of %s", q, got, want)
		}
	}
	known, err := s.Known(t.Context())
	check(t, err)
	if k := known["c1"]; k.Capacity == nil || k.RunID != "r2" || k.Engine != "vllm.h200" || k.Axes != `{"engine":"vllm.h200"}` || k.Digests["serve"] != "sha256:abc" {
		t.Errorf("known is %+v", k)
	}
	old, err := s.Litter(t.Context(), Outdated{Before: noon.Add(24 * time.Hour)})
	check(t, err)
	if len(old) != 1 || old[0].Run != "r1" {
		t.Errorf("litter %v; want the run whose answer was found again", old)
	}
	check(t, s.Remove(t.Context(), Litter{Run: "r1"}))
	if got, err := s.Capacities(t.Context(), Query{}); err != nil || len(got) != 1 {
		t.Errorf("after its run is gone: %v, %v", got, err)
	}
}
