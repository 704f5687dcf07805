package say

import (
	"hclbench/report/figure"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/report/reporttest"
)

// TestDoubts: reasons that differ in their numbers alone are one, with their range.
func TestDoubts(t *testing.T) {
	rows := reporttest.Matrix()
	for i, late := range []string{"8.5", "1,200", "9"} {
		rows[i].Summary.Verdict = load.Verdict{Verdict: load.Suspect,
			Reasons: load.Because("", "what had come was read up to "+late+" ms late, p99 of 5")}
	}
	rows[4].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "a neighbour")}
	all := NewDoubts(rows)
	reporttest.Check(t, "texts", []string{"suspect: what had come was read up to 8.5–1,200 ms late, p99 of 5", "suspect: a neighbour"}, all.Texts())
	var numbers []int
	for i := range rows {
		numbers = append(numbers, all.Number(&rows[i]))
	}
	reporttest.Check(t, "numbers", []int{1, 1, 1, 0, 2, 0}, numbers)
}

func TestSpent(t *testing.T) {
	s := figure.Spending{Run: "r1", Host: "h200", Price: 28, Held: 7200, Starting: 1800, Measuring: 4320, Idle: 1080, Cost: 56, IdleCost: 8.4}
	want := "run r1 held host h200 for 2h0m0s: 0s preparing, 30m0s starting engines, 1h12m0s measuring, 18m0s idle; 56.00 USD, 8.40 USD of that while idle"
	if got := Spent(s); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	s = figure.Spending{Run: "r1", Host: "h", Box: "b-3 of fake", Price: 36, Held: 600, Booting: 99.4, Preparing: 0.4, Starting: 100.4, Measuring: 299.9, Idle: 99.9,
		Cost: 6, IdleCost: 0.999, Told: 5.5, Open: true}
	want = "run r1 rented b-3 of fake as host h for 10m0s: 1m40s booting, 0s preparing, 1m40s starting engines, 5m0s measuring, 1m40s idle; 6.00 USD, " +
		"1.00 USD of that while idle; 5.50 USD by its provider; it was rented still"
	if got := Spent(s); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	s.Price, s.Told = 0, 0
	if got := Spent(s); strings.Contains(got, "USD") {
		t.Errorf("without a price: %s", got)
	}
}
