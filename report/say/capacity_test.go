package say

import (
	"strings"
	"testing"

	"hclbench/accuracy"
	"hclbench/capacity"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
)

// TestSearchEnds: an answer says why it is no narrower: for a load that stays in doubt only where that left nothing to try.
func TestSearchEnds(t *testing.T) {
	pass := capacity.Load{Load: 7, Verdict: capacity.Pass, Again: capacity.Pass}
	at := func(load float64) capacity.Load {
		return capacity.Load{Load: load, Verdict: capacity.Unresolved, Doubt: "the generator was busy"}
	}
	seven, nine, twenty := 7., 9., 20.
	for _, x := range []struct {
		holds, breaks *float64
		loads         []capacity.Load
		want          string
	}{
		{&seven, nil, []capacity.Load{pass, at(8)}, "closed loop; a load of 8 stays in doubt, so it ends there; 1 of 2 loads in doubt; 2 loads"},
		{&seven, &twenty, []capacity.Load{pass, at(8), {Load: 20, Verdict: capacity.Fail}}, "a load of 8 stays in doubt, so it ends there; 1 of 3 loads"},
		{&seven, nil, []capacity.Load{pass, at(16)}, "closed loop; the budget tells no more; 1 of 2 loads in doubt; 2 loads"},
		{&seven, &nine, []capacity.Load{pass, {Load: 9, Verdict: capacity.Fail}, at(16)}, "wider than the 5 % asked for; 1 of 3 loads in doubt; 3 loads"},
		{nil, nil, []capacity.Load{at(1), at(2)}, "nothing is certain; closed loop; a load of 1 stays in doubt, so it ends there; 2 of 2 loads"},
		{&seven, nil, []capacity.Load{pass}, "closed loop; the budget tells no more; 1 load"},
	} {
		o := capacity.Outcome{Of: capacity.Concurrency, Holds: x.holds, Breaks: x.breaks, Loads: x.loads, Over: true, Confidence: 0.95,
			Precision: 0.05, Least: 1, Most: 64}
		if got := Capacity(&o); !strings.Contains(got, x.want) {
			t.Errorf("%s, want %s", got, x.want)
		}
	}
}

// TestRankingWithoutAnswer: who has no answer may hold the most.
func TestRankingWithoutAnswer(t *testing.T) {
	rows, found := reporttest.Searched(reporttest.Search{Engine: "sglang.h200", Pass: []float64{79}, Fail: []float64{99}},
		reporttest.Search{Engine: "vllm.h200", Pass: []float64{28}, Fail: []float64{34}},
		reporttest.Search{Engine: "trtllm.h200", Open: []float64{4, 256}})
	reporttest.Check(t, "the ranking", "sglang.h200 holds the most of those with an answer: 79, and vllm.h200 breaks by 34. Of trtllm.h200 nothing is certain.",
		Ranking(figure.Capacities(rows, found)))
}

// TestRankingOfNone: where nobody holds any load, nobody leads, for that reason.
func TestRankingOfNone(t *testing.T) {
	rows, found := reporttest.Searched(reporttest.Search{Engine: "sglang.h200", Fail: []float64{1}}, reporttest.Search{Engine: "vllm.h200", Fail: []float64{1}})
	reporttest.Check(t, "the ranking", "Nobody leads: no load is certain to hold for any of sglang.h200 and vllm.h200.", Ranking(figure.Capacities(rows, found)))
}

// TestRankingOfWorse: who answers worse than its baseline leads nothing, and stands in nobody's way; that is said.
func TestRankingOfWorse(t *testing.T) {
	searches := []reporttest.Search{{Engine: "sglang.h200", Pass: []float64{79}, Fail: []float64{99}}, {Engine: "vllm.h200", Pass: []float64{28}, Fail: []float64{34}},
		{Engine: "vllm.fp8", Pass: []float64{90}, Fail: []float64{120}}}
	worse := func(n int) []*figure.Capacity {
		rows, found := reporttest.Searched(searches[3-n:]...)
		for i := range rows {
			if rows[i].Deployment.Engine == "vllm.fp8" {
				rows[i].Checked = string(accuracy.Worse)
			}
		}
		return figure.Capacities(rows, found)
	}
	reporttest.Check(t, "of three", "sglang.h200 holds the most: 79, and vllm.h200 breaks by 34. vllm.fp8 answers worse than its baseline.", Answered(worse(3)))
	reporttest.Check(t, "of two", "vllm.h200: holds 28, breaks by 34 concurrent (95 %). vllm.fp8: holds 90, breaks by 120 concurrent (95 %). vllm.fp8 answers worse than its baseline.", Answered(worse(2)))
}

// TestTried: only a load that was tried before is said to be tried again.
func TestTried(t *testing.T) {
	for tries, want := range map[int]string{1: "load 7, try 1: PASS; so far", 2: "load 7, try 2, tried again: PASS; so far"} {
		o := capacity.Outcome{Of: capacity.Concurrency, Loads: []capacity.Load{{Load: 7, Verdict: capacity.Pass, Again: capacity.Pass, Tries: tries}}}
		if got := Tried(&o, 7); !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
