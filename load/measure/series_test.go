package measure

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
)

// even is a request of n tokens that come evenly from first to last.
func even(sent, first, last time.Duration, n int) load.Record {
	r := load.Record{Scheduled: sent, Ready: sent, Sent: sent, First: first, Last: last, End: last, InputTokens: 100, AskedInput: 100, OutputTokens: n, AskedOutput: n}
	for range n - 1 {
		r.Gaps = append(r.Gaps, (last-first)/time.Duration(n-1))
	}
	return r
}

// TestWindow is a run small enough for every number to be worked out by hand.
func TestWindow(t *testing.T) {
	const s = time.Second
	// All times are 5 s later than from the first dispatch.
	records := []load.Record{
		even(5*s, 6*s, 8*s, 5),    // before: 1 token at 1 s, 4 until 3 s: 2 of them in the window
		even(7*s, 8*s, 10*s, 3),   // sent in it, ends in it: all 3
		even(8*s, 9*s, 13*s, 9),   // sent in it: 1 token at 4 s, 8 until 8 s, of which 4 in it
		even(10*s, 11*s, 11*s, 1), // sent in it, first token behind it... at its end, which is not in it
		even(12*s, 13*s, 15*s, 2), // behind
		{Sent: 9 * s, Ready: 9 * s, Scheduled: 9 * s, End: 10 * s, Class: load.ClassStatus},
	}
	w := load.Workload{CutBeginning: load.Duration(2 * s), CutEnd: load.Duration(4 * s), Rate: 1, Endpoint: load.Completions, SLO: []load.Objective{{Metric: "e2el", Max: load.Duration(3 * s)}}}
	got := Summarize(w, []float64{50}, time.Time{}, 10*s, records)
	if got.Window == nil || *got.Window != (load.Window{From: load.Duration(2 * s), To: load.Duration(6 * s)}) {
		t.Fatalf("window %v", got.Window)
	}
	type numbers struct {
		Duration                                      float64
		Requests, Completed, Failed, Peak             int
		Output, Input                                 int64
		TTFT, E2EL                                    float64
		Requests1, Inputs1, Outputs1, Total1, Goodput float64
		Mean, PeakOutput                              float64
	}
	pick := func(s load.Summary) numbers {
		return numbers{s.Duration, s.Requests, s.Completed, s.Failed, s.PeakConcurrency, s.OutputTokens, s.InputTokens, s.TTFT.Mean, s.E2EL.Mean,
			s.RequestThroughput, s.InputThroughput, s.OutputThroughput, s.TotalThroughput, *s.Goodput, s.MeanConcurrency, s.PeakOutputThroughput}
	}
	want := numbers{
		Duration: 4, Requests: 4, Completed: 3, Failed: 1, Output: 13, Input: 300, TTFT: 1000, E2EL: (3000. + 5000 + 1000) / 3,
		// Requests 0 and 1 end in it, and both are good.
		Requests1: 2. / 4, Goodput: 2. / 4,
		// First tokens of 1 and 2.
		Inputs1: 200. / 4, Outputs1: (2. + 3 + 5) / 4, Total1: (200. + 10) / 4,
		// 1 s of request 0, 3 of 1, 3 of 2, 1 of 3.
		Mean: 8. / 4,
		// 1, 2 and the one that failed, at 4 to 5 s.
		Peak: 3,
		// Second by second, by their chunks: 2; 1 + 1; 1 + 2; 1 + 2.
		PeakOutput: 3,
	}
	if diff := cmp.Diff(want, pick(got), approx(1e-9)); diff != "" {
		t.Errorf("window (-want +got):\n%s", diff)
	}
	whole := Summarize(load.Workload{Rate: 1, Endpoint: load.Completions, SLO: w.SLO}, []float64{50}, time.Time{}, 10*s, records)
	if diff := cmp.Diff(&whole.Part, got.Untrimmed); diff != "" {
		t.Errorf("untrimmed (-without a window +beside it):\n%s", diff)
	}
	for _, cut := range []load.Duration{load.Duration(6 * s), load.Duration(60 * s)} {
		w.CutBeginning = cut
		if got := Summarize(w, nil, time.Time{}, 10*s, records); got.Verdict.Verdict != load.Void || got.Requests != 0 || got.Untrimmed.Requests != 6 {
			t.Errorf("everything cut: %+v", got.Verdict)
		}
	}
}

// TestSteady: the longest time in which nearly all of a closed loop was in
// flight, second by second.
func TestSteady(t *testing.T) {
	const s = time.Second
	// Two workers that begin 3 and 5 s late, one pause of one second at 20 s.
	loop := func(from, to time.Duration) (records []load.Record) {
		for at := from; at < to; at += s {
			records = append(records, even(at, at+s/10, at+s, 10))
		}
		return records
	}
	both := slices.Concat(loop(3*s, 40*s), loop(5*s, 20*s), loop(21*s, 36*s), []load.Record{even(0, s, 3*s, 10)})
	w := load.Workload{Concurrency: 2, Endpoint: load.Completions}
	got, ok := steady(w, 40*s, both)
	if want := (load.Window{From: load.Duration(5 * s), To: load.Duration(20 * s)}); !ok || got != want {
		t.Errorf("steady from %v to %v, want %v", got.From, got.To, want)
	}
	sum := Summarize(w, nil, time.Time{}, 40*s, both)
	if x := sum.Steady; x == nil || x.OutputThroughput != 20 || x.RequestThroughput != 29./15 || // who ends as it ends is not in it
		x.MeanConcurrency != 2 || x.PeakConcurrency != 2 || x.Verdict.Verdict != load.Valid {
		t.Errorf("steady state %+v", x)
	}
	for name, c := range map[string]struct {
		w load.Workload
		d time.Duration
	}{
		"too short":       {load.Workload{Concurrency: 2}, 14 * s},
		"a tenth of it":   {load.Workload{Concurrency: 2}, 160 * s},
		"never reached":   {load.Workload{Concurrency: 3}, 40 * s},
		"an open loop":    {load.Workload{Concurrency: 2, Rate: 1}, 40 * s},
		"without a limit": {load.Workload{Rate: load.Inf}, 40 * s},
	} {
		if got, ok := steady(c.w, c.d, both); ok {
			t.Errorf("%s: steady from %v to %v", name, got.From, got.To)
		}
	}
	// Half a second of one of twenty seconds is missing: 97.5 % of its second.
	nearly := slices.Concat(loop(0, 20*s), loop(0, 10*s), loop(10*s+s/20, 20*s))
	if got, ok := steady(w, 20*s, nearly); !ok || got != (load.Window{From: 0, To: load.Duration(20 * s)}) {
		t.Errorf("nearly steady: %v, %v", got, ok)
	}
	// Days, second by second.
	var days []load.Record
	for at := time.Duration(0); at < 72*time.Hour; at += time.Hour {
		days = append(days, even(at, at+s, at+time.Hour, 10))
	}
	days[60].End -= 2 * s
	if got, ok := steady(load.Workload{Concurrency: 1}, 72*time.Hour, days); !ok || got != (load.Window{To: load.Duration(61*time.Hour - 2*s)}) {
		t.Errorf("three days: steady from %v to %v, want to %v", got.From, got.To, 61*time.Hour-2*s)
	}
}

func TestSeries(t *testing.T) {
	const s = time.Second
	records := []load.Record{even(0, s/2, 5*s/2, 5), even(s, s+s/5, 3*s, 1), {Sent: 2 * s, End: 3 * s, Class: load.ClassStall}, even(s, 3*s+s/2, 3*s+s/2, 2)}
	want := &load.Series{Every: load.Duration(s), InFlight: []float64{1, 3, 3.5, 1}, OutputTokens: []float64{2, 3, 1, 4}, TTFT: []float64{500, 200, 0, 2500}}
	if diff := cmp.Diff(want, newSeries(3*s+s/2, records, true), approx(1e-9)); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	want.TTFT = make([]float64, 4)
	if diff := cmp.Diff(want, newSeries(3*s+s/2, records, false), approx(1e-9)); diff != "" {
		t.Errorf("series without a stream (-want +got):\n%s", diff)
	}
	if newSeries(0, nil, true) != nil {
		t.Error("a series of nothing")
	}
	// Three hours fit into 600 points, and nothing is lost.
	var long []load.Record
	for at := time.Duration(0); at < 3*time.Hour; at += 7 * s {
		long = append(long, even(at, at+s, at+6*s, 50))
	}
	got := newSeries(3*time.Hour, long, true)
	sum := 0.0
	for i, x := range got.OutputTokens {
		every := time.Duration(got.Every)
		sum += x * min(every, 3*time.Hour-time.Duration(i)*every).Seconds()
	}
	if len(got.OutputTokens) > maxPoints || got.Every != load.Duration(32*s) || math.Abs(sum-float64(50*len(long))) > 6 {
		t.Errorf("%d points of %v with %.1f tokens, want %d", len(got.OutputTokens), got.Every, sum, 50*len(long))
	}
}

// TestCutRun: a run whose beginning and end are cut, as it comes from Run.
func TestCutRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := load.Workload{Requests: 60, Concurrency: 2, CutBeginning: load.Duration(5 * time.Second), CutEnd: load.Duration(5 * time.Second), Warmup: 4}
		s, _ := paced(t, t.Context(), w, time.Second)
		if s.Requests != 40 || s.RequestThroughput != 2 || s.Untrimmed.Requests != 60 || s.Steady.Requests != 60 || s.Warmup != 4 || s.Untrimmed.Warmup != 4 {
			t.Errorf("%+v", s)
		}
		if s.Verdict.Verdict != load.Valid || s.Untrimmed.Verdict.Verdict != load.Valid || len(s.Series.InFlight) != 30 {
			t.Errorf("verdicts %v, %v, %d points", s.Verdict, s.Untrimmed.Verdict, len(s.Series.InFlight))
		}
	})
}
