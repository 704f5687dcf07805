package table

import (
	"testing"

	"hclbench/report/figure"
	"hclbench/report/reporttest"
)

// TestForcedInPart: one series of both kinds says so, and so does a value that nobody knows.
func TestForcedInPart(t *testing.T) {
	labels := func(s *figure.Series) (names []string) {
		for _, x := range s.All {
			names = append(names, x.Label)
		}
		return names
	}
	rows := reporttest.Accepting()
	rows[1].Deployment.Identity = map[string]string{"env SGLANG_SIMULATE_ACC_LEN": "(sensitive)"}
	reporttest.Check(t, "series", []string{"H200 · SGLang, in part with forced acceptance", "H200 · vLLM"}, labels(figure.NewSeries(rows, nil)))
	reporttest.Check(t, "series of GPUs", []string{"8×H200, in part with forced acceptance"}, labels(figure.NewSeries(rows, []string{"gpus"})))
	reporttest.Holds(t, table(t, rows, 0), "valid (forced acceptance)\n", "valid (forced acceptance 3.12)\n")
}
