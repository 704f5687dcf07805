package figure

import (
	"slices"
	"testing"

	"hclbench/load"
	"hclbench/report/reporttest"
)

// TestCheck: a deployment whose answers are worse leads nothing, what holds does, and where nobody was asked nothing is said.
func TestCheck(t *testing.T) {
	rows, scores := reporttest.Scored()
	none := Found{}
	if got := none.Check(rows); got[0].Checked != "" {
		t.Errorf("where nobody was asked it says %q", got[0].Checked)
	}
	found := Found{Scores: scores}
	checked := found.Check(rows)
	var words []string
	for i := range checked {
		words = append(words, checked[i].Checked+" "+checked[i].Verdict().Verdict)
	}
	reporttest.Check(t, "what is said", []string{"baseline valid", "worse suspect", "holds valid", "unchecked valid"}, words)
	if rows[1].Verdict().Verdict != load.Valid {
		t.Error("the rows themselves are changed")
	}
	leaders := Leaders(OutputThroughput, Rivals(checked), SharedReasons(checked))
	if len(leaders) != 1 || leaders[0][0].Deployment.Engine != "vllm.int8" {
		t.Errorf("%d lead, the first is %s", len(leaders), leaders[0][0].Deployment.Engine)
	}
	checked[1].Summary = nil
	if got := found.Check(checked); slices.Contains([]string{load.Valid, load.Suspect}, got[1].Verdict().Verdict) {
		t.Error("what is void is none any more")
	}
}
