package plan

import (
	"strings"
	"testing"
	"time"

	"hclbench/capacity"
	"hclbench/hcl"
	"hclbench/load"
	"hclbench/results"
)

// searching is a lab that searches for a capacity.
func searching(timed bool, speed float64) *hcl.Config {
	c := lab()
	b := &c.Benchmarks[0]
	b.Cells = b.Cells[:1]
	b.Cells[0].Axes = nil
	w := &b.Cells[0].Workload
	w.Speed, w.Requests, w.Concurrency = speed, 0, 0
	w.SLO = []load.Objective{{Metric: "ttft", Percentile: 95, Max: load.Duration(time.Second)}}
	b.Cells[0].Capacity = &capacity.Question{SLO: w.SLO, Least: 1, Most: 64, Whole: true, Confidence: 0.95, Precision: 0.05, Budget: 20000, Timed: timed}
	c.Benchmarks = c.Benchmarks[:1]
	return c
}

// TestHurriedTry: at a speed a try sends as many requests as without, for as much less time.
func TestHurriedTry(t *testing.T) {
	for _, x := range []struct {
		timed    bool
		most     float64
		requests int
		duration time.Duration
	}{{false, 333, 333, 0}, {true, 333, 0, 16650 * time.Millisecond}, {true, 5, 0, 250 * time.Millisecond}} {
		c := New(searching(x.timed, 20), Options{}).Deployments[0].Cells[0]
		w := c.Try(4, x.most, 1).Load().Workload
		if w.Requests != x.requests || time.Duration(w.Duration) != x.duration {
			t.Errorf("at most %v, timed %v: %d requests, %v", x.most, x.timed, w.Requests, time.Duration(w.Duration))
		}
	}
}

// TestSearchWithoutMeasurement: a search that is over is up to date, unless a load stays in doubt because it brought no measurement.
func TestSearchWithoutMeasurement(t *testing.T) {
	search := New(searching(false, 0), Options{}).Deployments[0].Cells[0]
	for _, x := range []struct {
		verdict, doubt string
		want           Status
	}{
		{load.Void, "the engine was lost", Measure}, {load.Suspect, "the generator was busy", Done}, {load.Void, "", Done},
	} {
		known, try := map[string]results.Known{}, search.Try(4, 100, 1)
		known[try.ID] = results.Known{Verdict: x.verdict, Identity: try.Identity(), Repetition: 1}
		found := capacity.Outcome{Of: capacity.Concurrency, Over: true, Loads: []capacity.Load{{Load: 4, Doubt: x.doubt, Tries: 1}}}
		known[search.ID] = results.Known{Verdict: load.Suspect, Identity: search.Identity(),
			Capacity: &results.Capacity{Question: search.Search().Asked(), Outcome: found}}
		if c := New(searching(false, 0), Options{Known: known}).Deployments[0].Cells[0]; c.Status != x.want || len(c.Search().Tries) != 1 {
			t.Errorf("%s, %q: %s, %s", x.verdict, x.doubt, c.Status, c.Why)
		}
	}
}

// TestStrategyInTime: whether a budget of time has room for the requests that a closed loop takes nobody knows before, and the plan says so.
func TestStrategyInTime(t *testing.T) {
	slo := []load.Objective{{Metric: "ttft", Percentile: 95, Max: load.Duration(time.Second)}}
	for _, x := range []struct{ whole, timed, want bool }{{true, true, true}, {true, false, false}, {false, true, false}} {
		s, err := newSearch(Load{}, capacity.Question{SLO: slo, Least: 1, Most: 64, Whole: x.whole, Confidence: 0.95, Precision: 0.05, Budget: 20000, Timed: x.timed})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(s.String(), "whether these fit nobody knows before"); got != x.want {
			t.Errorf("whole %v, timed %v: %s", x.whole, x.timed, s)
		}
	}
}
