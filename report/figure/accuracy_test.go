package figure

import (
	"slices"
	"testing"

	"hclbench/accuracy"
	"hclbench/load"
	"hclbench/report/reporttest"
	"hclbench/results"
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
	prompts := scores[2] // of the one that holds
	prompts.Accuracy = &results.Accuracy{Spec: accuracy.Spec{Task: accuracy.PromptCounts}}
	prompts.Held = accuracy.Comparison{Verdict: accuracy.Unchecked}
	also := Found{Scores: append(slices.Clone(scores), prompts)}
	if got := also.Check(rows)[2].Checked; got != string(accuracy.Holds) {
		t.Errorf("beside what its prompts count it is %q", got)
	}
	checked[1].Summary = nil
	if got := found.Check(checked); slices.Contains([]string{load.Valid, load.Suspect}, got[1].Verdict().Verdict) {
		t.Error("what is void is none any more")
	}
}
