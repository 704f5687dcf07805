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
		changed            *float64
	}{
		{1319, 1, 0.01, "1319 questions, held against vllm.bf16: it may lose 1 point; where 5 % of the answers turn out otherwise and nothing is " +
			"lost, that it holds is shown with a chance of 49 %, and for 80 % it takes 3162 questions", nil},
		{1319, 1, 0.02, "with a chance of 94 %", nil},
		{198, 8, 0.03, "198 questions, 8 times each, held against vllm.bf16: it may lose 3 points; where 30 % of the answers turn out otherwise", nil},
		{0, 1, 0.02, "as many questions as its file has, held against vllm.bf16: it may lose 2 points", nil},
		{1319, 1, 0.01, "where 1.5 % of the answers turn out otherwise, as before, and nothing is lost, that it holds is shown with a chance of 88 %", new(0.015)},
		{198, 8, 0.03, "where 30 % of the answers turn out otherwise and", new(0.015)},
	} {
		e := Eval{Asking: hcl.Asking{Baseline: "vllm.bf16", Margin: x.margin, Spec: accuracy.Spec{Samples: x.samples}}, Questions: x.questions, Changed: x.changed}
		if got := e.String(); !strings.Contains(got, x.says) {
			t.Errorf("got %q, want %q", got, x.says)
		}
	}
}
