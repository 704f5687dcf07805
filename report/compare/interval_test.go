package compare

import (
	"io"
	"strings"
	"testing"

	"hclbench/report/reporttest"
	"hclbench/results"
)

// TestIntervalsCompared: what single measurements tell of each other.
func TestIntervalsCompared(t *testing.T) {
	for want, b := range map[string]results.Row{"overlap": reporttest.Surely(910, 900, 930), "apart": reporttest.Surely(990, 950, 1030), "": reporttest.Row("vllm.h200", 16, 100, 20)} {
		d, err := Diff("a", []results.Row{reporttest.Surely(900, 880, 920)}, "b", []results.Row{b}, []string{"output_throughput"})
		if err != nil || len(d.Cells) != 1 || len(d.Cells[0].Figures) != 1 {
			t.Fatalf("%q: %v, %+v", want, err, d)
		}
		if got := d.Cells[0].Figures[0].Intervals; got != want {
			t.Errorf("intervals %q, want %q", got, want)
		}
		text := reporttest.Written(t, func(w io.Writer) error { return d.Write(w, "text", 0) })
		if want != "" {
			reporttest.Holds(t, text, "n=1+1, too few to tell, which takes 4 of each, intervals "+want)
		} else if strings.Contains(text, "interval") {
			t.Errorf("what is not known is told:\n%s", text)
		}
	}
}
