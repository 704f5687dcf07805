package page

import (
	"strings"
	"testing"

	"hclbench/report/compare"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
)

// TestNoise: the page of a comparison, and that of a report, name what a box cannot show.
func TestNoise(t *testing.T) {
	rows := reporttest.Repeated("vllm.h200", 4, 1000)
	rows[0].Noise = &results.Noise{Box: "b", Engine: "vllm.h200", Host: "<h200>", Starts: 4, Spread: map[string]float64{"output_throughput": 0.02}}
	d, err := compare.Diff("A", rows, "B", rows, []string{"output_throughput"})
	if err != nil {
		t.Fatal(err)
	}
	var pages [2]strings.Builder
	if err := Comparison(&pages[0], d, figure.About{}); err != nil {
		t.Fatal(err)
	}
	if err := HTML(&pages[1], rows, figure.About{}); err != nil {
		t.Fatal(err)
	}
	for i := range pages {
		const note = "<p>Host &lt;h200&gt; cannot show less than 9.5% of output throughput: vllm.h200 started 4 times"
		if !strings.Contains(pages[i].String(), note) {
			t.Errorf("page %d does not name the noise", i)
		}
	}
}
