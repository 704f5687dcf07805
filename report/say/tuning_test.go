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
		"show a difference of 2.3 %", "Best of 5 tried of 12", "16 starts and 1h52m0s, $40.00"} {
		if !strings.Contains(got, want) {
			t.Errorf("the verdict %q lacks %q", got, want)
		}
	}
	ledger.Summary.Winner = ledger.Summary.Leader
	if got = TuningVerdict(ledger.Summary); !strings.HasPrefix(got, "Best: max-num-seqs=512, enable-chunked-prefill=false, by 0.6 %, where 1.4 %") || strings.Contains(got, "luck") {
		t.Errorf("of a winner the verdict is %q", got)
	}
	ledger.Summary.Candidates[ledger.Summary.Place(*ledger.Summary.Winner)-1].Altered = "setup"
	if got = TuningVerdict(ledger.Summary); !strings.HasPrefix(got, "Best: max-num-seqs=512, enable-chunked-prefill=false (altered by setup), by 0.6 %") {
		t.Errorf("of a winner with commands of its own the verdict is %q", got)
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
