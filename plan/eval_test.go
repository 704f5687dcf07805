package plan

import (
	"strings"
	"testing"

	"hclbench/accuracy"
	"hclbench/hcl"
)

// TestEvalPower: the plan says what its questions can show, and how many it takes.
func TestEvalPower(t *testing.T) {
	for _, x := range []struct {
		questions, samples int
		margin             float64
		says               string
	}{
		{1319, 1, 0.01, "1319 questions, held against vllm.bf16: it may lose 1 point; where 5 % of the answers turn out otherwise and nothing is " +
			"lost, that it holds is shown with a chance of 49 %, and for 80 % it takes 3162 questions"},
		{1319, 1, 0.02, "with a chance of 94 %"},
		{198, 8, 0.03, "198 questions, 8 times each, held against vllm.bf16: it may lose 3 points; where 30 % of the answers turn out otherwise"},
		{0, 1, 0.02, "as many questions as its file has, held against vllm.bf16: it may lose 2 points"},
	} {
		e := Eval{Asking: hcl.Asking{Baseline: "vllm.bf16", Margin: x.margin, Spec: accuracy.Spec{Samples: x.samples}}, Questions: x.questions}
		if got := e.String(); !strings.Contains(got, x.says) {
			t.Errorf("got %q, want %q", got, x.says)
		}
	}
}
