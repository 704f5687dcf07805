package say

import (
	"strings"
	"testing"

	"hclbench/report/figure"
	"hclbench/report/reporttest"
)

// TestLengths: who says less under the same load is named, with the worst of its loads, and who is told to say as much is not.
func TestLengths(t *testing.T) {
	said := func(ignoreEOS bool, tokens, ended int, model string) string {
		rows := reporttest.Measured()
		for i := range rows {
			r := &rows[i]
			if r.Summary == nil {
				continue
			}
			f := &r.Summary.Figures
			f.Completed, f.OutputTokens, f.EndedEarly, f.UsageMissing = 500, 500*100, 450, 0
			if r.Deployment.Engine == "vllm.h200" {
				f.OutputTokens, f.EndedEarly, r.Deployment.Model = int64(500*tokens), ended, model
			}
			r.Job.Workload.IgnoreEOS = ignoreEOS
		}
		return strings.Join(Lengths(rows, &figure.Layout{}), "\n")
	}
	const same = "deepseek-ai/DeepSeek-R1"
	if got := said(false, 100, 450, same); got != "" {
		t.Errorf("of answers that are alike: %s", got)
	}
	if got := said(true, 60, 500, same); got != "" {
		t.Errorf("of answers whose length was told: %s", got)
	}
	if got := said(false, 60, 500, "another/model"); got != "" {
		t.Errorf("of another model: %s", got)
	}
	if got := strings.Count(said(false, 60, 500, same), "\n"); got != 0 {
		t.Errorf("%d sentences too many: %s", got, said(false, 60, 500, same))
	}
	reporttest.Holds(t, said(false, 60, 500, same), "Answers of H200 · vLLM are 40 % shorter than those of H200 · SGLang under the same load")
	reporttest.Holds(t, said(false, 100, 10, same), "2 % of the answers of H200 · vLLM end before their length does, and 90 % of those of H200 · SGLang")
}
