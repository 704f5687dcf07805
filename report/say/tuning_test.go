package say

import (
	"strings"
	"testing"

	"hclbench/report/reporttest"
	"hclbench/tune"
)

// TestTuningVerdict: candidates that are further apart than the floor are not said to be tied by it, and who is ahead is named.
func TestTuningVerdict(t *testing.T) {
	a, b := tune.Candidate{}, tune.Candidate{Options: []string{"tp=8"}}
	got := TuningVerdict(&tune.Summary{Tied: []tune.Candidate{a, b}, Leader: &a, Lead: 0.3, Floor: new(0.14), Why: "the budget is spent"})
	if strings.Contains(got, "tied") || !strings.Contains(got, "the budget is spent") || !strings.Contains(got, "as it is, by 30.0 %") {
		t.Errorf("the verdict is %q", got)
	}
	_, ledger := reporttest.Tuned()
	got = TuningVerdict(ledger.Summary)
	for _, want := range []string{"No winner: max-num-seqs=512 and max-num-seqs=512, enable-chunked-prefill=false are tied, less than 1.4 % apart",
		"by luck: max-num-seqs=512, enable-chunked-prefill=false, by 0.6 % over max-num-seqs=512; +13 % (+11 % to +14 %) against the start.",
		"show a difference of 2.3 %", "Best of 5 tried of 12", "16 starts and 1h52m0s, $40.00"} {
		if !strings.Contains(got, want) {
			t.Errorf("the verdict %q lacks %q", got, want)
		}
	}
	ledger.Summary.Winner = ledger.Summary.Leader
	if got = TuningVerdict(ledger.Summary); !strings.HasPrefix(got, "Best: max-num-seqs=512, enable-chunked-prefill=false, by 0.6 % over max-num-seqs=512, "+
		"where 1.4 % would have counted; +13 % (+11 % to +14 %) against the start.") || strings.Contains(got, "luck") {
		t.Errorf("of a winner the verdict is %q", got)
	}
	ledger.Summary.Candidates[ledger.Summary.Place(*ledger.Summary.Winner)-1].Altered = "setup"
	if got = TuningVerdict(ledger.Summary); !strings.HasPrefix(got, "Best: max-num-seqs=512, enable-chunked-prefill=false (altered by setup), by 0.6 %") {
		t.Errorf("of a winner with commands of its own the verdict is %q", got)
	}
}

// TestTuningGain: over whom somebody is ahead is named, and how far from the start; by starts of A/A, where the start was in no finals.
func TestTuningGain(t *testing.T) {
	start, b, c := tune.Candidate{}, tune.Candidate{Options: []string{"b"}}, tune.Candidate{Options: []string{"c"}}
	estimate := func(value, low, high float64) *tune.Estimate {
		return &tune.Estimate{Value: value, Low: low, High: high, Starts: 3}
	}
	for want, s := range map[string]tune.Summary{
		"Best: b, by 20.0 % over the next, where 5.0 % would have counted.": {}, // of an earlier hcl
		"Best: b, by 20.0 % over c, where 5.0 % would have counted; +80 % (+71 % to +89 %) against the start.": {Next: &c, Gain: estimate(1.8, 1.71, 1.89),
			Candidates: []tune.Standing{{Candidate: start, Finals: estimate(1, 1, 1)}, {Candidate: b}}},
		"Best: b, by 20.0 % over c, where 5.0 % would have counted; −3.0 % against the start as A/A has measured it.": {Next: &c, Gain: estimate(0.97, 0.97, 0.97)},
		"Best: b, by 20.0 % over c, where 5.0 % would have counted; ×2.50 (no bounds) against the start as A/A":       {Next: &c, Gain: estimate(2.5, 0.01, 300)},
		"Best: b, by 20.0 % over the start, where 5.0 % would have counted. ":                                         {Next: &start, Gain: estimate(1.2, 1.1, 1.3)},
	} {
		s.Winner, s.Leader, s.Lead, s.Floor, s.Shows = &b, &b, 0.2, new(0.05), new(0.08)
		if s.Candidates == nil {
			s.Candidates = []tune.Standing{{Candidate: start}, {Candidate: b}}
		}
		if got := TuningVerdict(&s); !strings.HasPrefix(got, want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestTuningFar: a floor above what is twice as good is told as what it is: the finals tell nothing.
func TestTuningFar(t *testing.T) {
	a, b := tune.Candidate{}, tune.Candidate{Options: []string{"b"}}
	got := TuningVerdict(&tune.Summary{Tied: []tune.Candidate{a, b}, Leader: &b, Next: &a, Lead: 1.2, Floor: new(3.078), Shows: new(8.141), Noise: 0.67,
		Candidates: []tune.Standing{{Candidate: a}, {Candidate: b}}})
	if want := "No winner: starts of the same lie so far apart that the finals of as it is and b tell nothing. Ahead in the finals, be it by luck: b, by 120.0 % over " +
		"the start. Best of"; !strings.HasPrefix(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestEstimateText: an interval is shown where it says something.
func TestEstimateText(t *testing.T) {
	for want, e := range map[string]*tune.Estimate{
		"":                   nil,
		"917":                {Value: 917, Low: 917, High: 917},
		"917 (916 to 918)":   {Value: 917, Low: 916, High: 918},
		"1,049 (no bounds)":  {Value: 1049, Low: 0.00359, High: 306_516_996},
		"30.0 (3.00 to 300)": {Value: 30, Low: 3, High: 300},
		"0.0300 (no bounds)": {Value: 0.03, Low: 0, High: 300},
	} {
		if got := EstimateText(e); got != want {
			t.Errorf("EstimateText(%+v) = %q, want %q", e, got, want)
		}
	}
}
