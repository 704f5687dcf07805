package say

import (
	"testing"

	"hclbench/load"
	"hclbench/report/reporttest"
)

// TestDoubts: reasons that differ in their numbers alone are one, with their range.
func TestDoubts(t *testing.T) {
	rows := reporttest.Matrix()
	for i, late := range []string{"8.5", "1,200", "9"} {
		rows[i].Summary.Verdict = load.Verdict{Verdict: load.Suspect,
			Reasons: load.Because("what had come was read up to " + late + " ms late, p99 of 5")}
	}
	rows[4].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("a neighbour")}
	all := NewDoubts(rows)
	reporttest.Check(t, "texts", []string{"suspect: what had come was read up to 8.5–1,200 ms late, p99 of 5", "suspect: a neighbour"}, all.Texts())
	var numbers []int
	for i := range rows {
		numbers = append(numbers, all.Number(&rows[i]))
	}
	reporttest.Check(t, "numbers", []int{1, 1, 1, 0, 2, 0}, numbers)
}
