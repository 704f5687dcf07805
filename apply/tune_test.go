package apply

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"hclbench/capacity"
	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/load/metric"
	"hclbench/plan"
	"hclbench/results"
	"hclbench/tune"
)

// TestIsItsOwn: a candidate is blamed for its settings, and for the image of another engine; for its host it is not.
func TestIsItsOwn(t *testing.T) {
	start, other := &engines.Engine{Kind: "sim", Name: "start"}, &engines.Engine{Kind: "sim", Name: "other"}
	x := &plan.Tune{Tune: hcl.Tune{Start: start, Stages: []hcl.TuneStage{{Name: "engine", Options: []hcl.Option{{ID: "sim.other", Engine: other}}}}}}
	for _, c := range []struct {
		option string
		came   progress
		why    string
		want   bool
	}{
		{"", preparing, "pull the image: no such host", false},
		{"sim.other", preparing, "pull the image: manifest unknown", true},
		{"sim.other", launching, "port 8000 is in use", false},
		{"", running, "out of GPU memory: torch.OutOfMemoryError", true},
		{"sim.other", running, "the port is taken: [Errno 98]", false},
		{"", running, "the disk is full: No space left on device", false},
	} {
		tried := &results.Tried{Start: tune.Start{Candidate: tune.Candidate{Options: []string{c.option}}}}
		if got := isItsOwn(x, tried, &failure{err: errors.New(c.why), came: c.came}); got != c.want {
			t.Errorf("%+v: its own is %v", c, got)
		}
	}
}

// TestSearchInDoubt: what a search has found counts where both of its sides are known, or its range or its budget has ended it. Where a load in
// doubt has, nobody knows how much lies beyond, and a guess at it is no measurement.
func TestSearchInDoubt(t *testing.T) {
	at := func(load float64) *float64 { return &load }
	for name, c := range map[string]struct {
		holds, breaks *float64
		doubts        float64
		want          tune.Outcome
	}{
		"a doubt above what holds":          {at(1), nil, 2, tune.NotMeasurable},
		"a doubt below what breaks":         {nil, at(8), 4, tune.NotMeasurable},
		"nothing is certain":                {nil, nil, 4, tune.NotMeasurable},
		"the budget has ended it":           {at(8), nil, 0, tune.Measured},
		"a doubt between the bounds":        {at(2), at(16), 4, tune.Measured},
		"a doubt below all that holds":      {at(8), nil, 4, tune.Measured},
		"a doubt, and the whole range held": {at(64), nil, 16, tune.Measured},
		"a doubt, and the least breaks":     {nil, at(1), 16, tune.MissedSLO},
	} {
		t.Run(name, func(t *testing.T) {
			o := capacity.Outcome{Of: capacity.Concurrency, Holds: c.holds, Breaks: c.breaks, AtLeast: c.holds != nil && *c.holds == 64, Over: true, Least: 1, Most: 64}
			for _, l := range []float64{1, 2, 4, 8, 16, 64} {
				x := capacity.Load{Load: l, Verdict: capacity.Unresolved, Tries: 1, Lines: []capacity.LineOutcome{{Name: "ttft_p95", Counted: 40, Within: 40, Inflation: 1}}}
				switch {
				case l == c.doubts:
					x.Doubt, x.Lines[0].Counted, x.Lines[0].Within = "its chunks were coalesced", 0, 0
				case c.breaks != nil && l >= *c.breaks:
					x.Verdict, x.Lines[0].Within = capacity.Fail, 20
				case c.holds != nil && l <= *c.holds:
					x.Verdict = capacity.Pass
				}
				o.Loads = append(o.Loads, x)
			}
			store, err := results.Open(t.Context(), filepath.Join(t.TempDir(), ".hcl"))
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			err = errors.Join(store.BeginRun(t.Context(), results.Run{ID: "r", Lab: "l", Started: time.Now()}),
				store.PutDeployment(t.Context(), results.Deployment{ID: "d", RunID: "r"}),
				store.PutCapacity(t.Context(), results.Capacity{ID: "c", RunID: "r", DeploymentID: "d", Finished: time.Now(), Outcome: o}))
			if err != nil {
				t.Fatal(err)
			}
			r := &run{keep: &keeper{store: store, run: "r"}, opt: Options{Run: results.Run{ID: "r"}, Figure: func(string, *results.Row) (float64, bool) { return 0, false }}}
			x := &plan.Tune{Tune: hcl.Tune{Figure: metric.Metric{Name: "capacity", Better: metric.More}, Loads: []hcl.Cell{{Capacity: &capacity.Question{}}}}}
			d := &plan.Deployment{Cells: []*plan.Cell{{ID: "c", Task: &plan.Search{}}}}
			got, err := r.ofLoads(t.Context(), x, d, &results.Tried{Deployment: "d"})
			if err != nil || got.Outcome != c.want {
				t.Errorf("it is %+v, %v; want %s", got, err, c.want)
			}
		})
	}
}
