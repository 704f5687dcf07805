package figure

import (
	"testing"

	"hclbench/report/reporttest"
	"hclbench/results"
)

// TestPrices: cells of one host cost what the host costs now, whenever they were measured.
func TestPrices(t *testing.T) {
	rows := reporttest.Matrix()[:2]
	rows[0].ID, rows[1].ID = "1", "2"
	rows[0].Deployment.PricePerHour = 28
	rows[1].Deployment.Members = []results.Member{{Host: "h200", Price: 28, GPUs: "8xH200"}, {Host: "other", Price: 1, GPUs: "8xH200"}}
	now := map[string]float64{"h200": 14, "other": 2}
	Judge(rows, []Planned{{ID: "1", Prices: now}, {ID: "2", Prices: now}}, nil)
	if a, b := price(&rows[0].Deployment), price(&rows[1].Deployment); a != 14 || b != 16 {
		t.Errorf("they cost %v and %v, want 14 and 16", a, b)
	}
	Judge(rows, []Planned{{ID: "1"}}, nil)
	if got := price(&rows[0].Deployment); got != 14 {
		t.Errorf("a plan that knows no prices makes it cost %v", got)
	}
}

// TestPublishedNumbers: a comma parts thousands, and is never dropped before decimals.
func TestPublishedNumbers(t *testing.T) {
	for text, want := range map[string]float64{"1,234.5": 1234.5, "12,345,678": 12345678, "0.5": 0.5, " 7 ": 7} {
		if got, ok := Float(text); !ok || got != want {
			t.Errorf("%q is %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"12,5", "0,125", "1,2,3"} {
		if got, ok := Float(text); ok {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}
