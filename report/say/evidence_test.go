package say

import (
	"slices"
	"testing"

	"hclbench/report/figure"
	"hclbench/report/reporttest"
)

// TestImportsFindNothing: beside what was measured here imports change no finding.
func TestImportsFindNothing(t *testing.T) {
	rows := reporttest.Matrix()
	for i := range rows {
		rows[i].Deployment.Kind = reporttest.KindIn(rows[i].Deployment.Engine)
	}
	all := slices.Concat(reporttest.Imported(rows, 3), rows)
	if got, want := findingsText(findingsOf(all, figure.Layout{})), findingsText(findingsOf(rows, figure.Layout{})); got != want {
		t.Errorf("imports change what is found:\n%s\nwithout them:\n%s", got, want)
	}
	if alone := findingsOf(reporttest.Imported(rows, 1), figure.Layout{}); len(alone) == 0 || alone[0].Text == "" {
		t.Error("of imports alone nothing is found")
	}
}

// TestPriceOfBeingBetter: what gets worse with the series that is better is said.
func TestPriceOfBeingBetter(t *testing.T) {
	a := findingsOf(studied(t, "gpustack-h200/published/results.csv"), figure.Layout{})[0]
	reporttest.Holds(t, a.Text, "better in all 5 cases tried", "At the price of median time per output token: sharegpt-1000 +5.9 %, random 128 input ×2.41.")
}
