package page

import (
	"io"
	"strings"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/report/table"
	"hclbench/results"
)

// TestSteadyTold: when a closed loop was full, in words and as columns; nothing where no such time was found.
func TestSteadyTold(t *testing.T) {
	r := reporttest.Row("vllm.h200", 16, 240, 27)
	if text := reporttest.Written(t, func(w io.Writer) error { return table.Cell(w, r, figure.Found{}, nil, 0) }); strings.Contains(text, "Steady") {
		t.Errorf("a steady state that was not found:\n%s", text)
	}
	whole := r.Summary.Part
	whole.Duration, whole.OutputThroughput = 61.5, 700
	r.Summary.Untrimmed = &whole
	r.Summary.Steady = &load.Part{Window: &load.Window{From: load.Duration(3 * time.Second), To: load.Duration(58 * time.Second)},
		Figures: load.Figures{OutputThroughput: 812.5}}
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return table.Cell(w, r, figure.Found{}, nil, 0) }),
		"Steady state        from 3 to 58 s, with 812 output tokens/s (the whole run 700); ramp 3.00 s, tail 3.50 s\n")
	text := reporttest.Written(t, func(w io.Writer) error { return table.CSV(w, []results.Row{r}, figure.About{}) })
	reporttest.Holds(t, text, ",steady_from_s,steady_to_s,steady_output_throughput,", ",3,58,812.5,")
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return HTML(w, []results.Row{r}, figure.About{}) }), `"title":"Steady state begins"`)
}
