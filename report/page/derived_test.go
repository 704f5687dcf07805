package page

import (
	"io"
	"strings"
	"testing"

	"hclbench/report/chart"
	"hclbench/report/draw"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
)

// TestErrorBars: a point of a single measurement has a line over its interval, and says it; of several
// repetitions the line is from the lowest to the highest.
func TestErrorBars(t *testing.T) {
	one := reporttest.Surely(900, 880, 920)
	two := append(reporttest.Repeated("vllm.h200", 16, 900), reporttest.Repeated("vllm.h200", 16, 950)...)
	two[1].Repetition = 2
	two[0].Summary.Intervals = one.Summary.Intervals
	for _, x := range []struct {
		rows      []results.Row
		low, high float64
		hover     string
	}{{[]results.Row{one}, 880, 920, "in 95 of 100 runs 880 to 920"}, {two, 900, 950, "median of 2, 900 to 950"}} {
		s := figure.Samples(x.rows, figure.NewSeries(x.rows, nil))[0]
		d, ok := s.Value(figure.OutputThroughput)
		low, high, ranged := d.Range()
		if !ok || !ranged || low != x.low || high != x.high {
			t.Errorf("a line from %g to %g (%v), want from %g to %g", low, high, ranged, x.low, x.high)
		}
		reporttest.Holds(t, draw.Hover(s, d, "", figure.OutputThroughput), x.hover)
		if y := (chart.Dot{Y: 1, N: 1}); x.low == 880 {
			if _, _, ok := y.Range(); ok {
				t.Error("a point that tells nothing has a line")
			}
		}
	}
	swept := []results.Row{reporttest.Surely(900, 880, 920), reporttest.Surely(1500, 1400, 1600)}
	swept[1].ID, swept[1].Axes = "another", results.Axes{{Name: "engine", Value: "vllm.h200"}, {Name: "concurrency", Value: int64(32)}}
	page := reporttest.Written(t, func(w io.Writer) error { return HTML(w, swept, figure.About{}) })
	if strings.Count(page, `<path d="M`) == 0 || !strings.Contains(page, `"high":[920,1600]`) {
		t.Errorf("the page draws no lines over intervals")
	}
}
