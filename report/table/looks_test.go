package table

import (
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
)

// TestUnknownIsNotZero: a figure that others did not publish is none.
func TestUnknownIsNotZero(t *testing.T) {
	r := reporttest.Row("vllm.h200", 4, 100, 20)
	r.Run.Command = "import"
	r.Summary = &load.Summary{Part: load.Part{Figures: load.Figures{OutputThroughput: 100},
		Judgement: load.Judgement{Verdict: load.Verdict{Verdict: load.Imported}}}}
	r.Summary.TTFT = load.Stats{Median: 111, Percentiles: map[string]float64{"50": 111}}
	other := r
	other.Deployment.Engine, other.Axes = "sglang.h200", results.Axes{{Name: "engine", Value: "sglang.h200"}}
	text := table(t, []results.Row{r, other}, 100)
	if n := strings.Count(text, "p50"); n != 1 {
		t.Errorf("the median, which is the only percentile, has %d columns:\n%s", n, text)
	}
	if strings.Contains(text, "0 requests") || strings.Contains(text, "none failed") || strings.Contains(text, " 0 ") {
		t.Errorf("what is not known is shown as 0:\n%s", text)
	}
	if _, ok := figure.Completed.Value(&r); ok {
		t.Error("requests are counted that nobody has counted")
	}
	r.Summary.Completed, r.Summary.Unknown = 10, []string{"failed"}
	if _, ok := figure.Failed.Value(&r); ok {
		t.Error("failures are counted that nobody has counted")
	}
}
