package report

import (
	"io"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/results"
)

// surely is a row with intervals.
func surely(throughput, low, high float64) results.Row {
	r := repeated("vllm.h200", 16, throughput)[0]
	r.Summary.Intervals = map[string]load.Interval{"output_throughput": {Low: low, High: high},
		"ttft_ms.mean": {Low: 95, High: 105}, "ttft_ms.median": {Low: 90, High: 99, AtMost: 101.5},
		"ttft_ms.p90": {Low: 106, High: 115, AtMost: 117}}
	return r
}

func TestIntervals(t *testing.T) {
	r := surely(900, 880, 920)
	show := written(t, func(w io.Writer) error { return Text(w, r.Summary) })
	holds(t, show, " in the best second, in 95 of 100 runs 880 to 920\n", "At most, 99 % sure  TTFT p50 102, p90 117\n")
	var lines [][]string
	for line := range strings.Lines(show) {
		if strings.HasPrefix(line, "  in 95 of 100 runs") || strings.HasPrefix(line, "TTFT") {
			lines = append(lines, strings.Fields(line))
		}
	}
	check(t, "lines of TTFT", []string{
		"TTFT to the first token 100 12.0 80.0 97.0 110 125 170 190",
		"in 95 of 100 runs 95.0 to 105 - - 90.0 to 99.0 106 to 115 needs 72 needs 368 -",
	}, []string{strings.Join(lines[0], " "), strings.Join(lines[1], " ")})
	trimmed(t, show)

	rows := []results.Row{r, row("sglang.h200", 16, 100, 20)}
	plainly := written(t, func(w io.Writer) error { return Table(w, rows, Options{}) })
	surer := written(t, func(w io.Writer) error { return Table(w, rows, Options{Layout: Layout{Intervals: true}}) })
	if strings.Contains(plainly, "[880") {
		t.Errorf("a table has intervals that nobody asked for:\n%s", plainly)
	}
	holds(t, surer, "900 [880 to 920]", "97.0 [90.0 to 99.0]", "170 [needs 368]")
	holds(t, written(t, func(w io.Writer) error { return HTML(w, rows, About{}) }), `"low":[880,null],"high":[920,null]`)
	holds(t, written(t, func(w io.Writer) error { return Markdown(w, rows, About{Layout: Layout{Intervals: true}}) }), "| 900 [880 to 920] |")
}

// TestIntervalsCompared: what single measurements tell of each other.
func TestIntervalsCompared(t *testing.T) {
	for want, b := range map[string]results.Row{"overlap": surely(910, 900, 930), "apart": surely(990, 950, 1030), "": row("vllm.h200", 16, 100, 20)} {
		d, err := Diff("a", []results.Row{surely(900, 880, 920)}, "b", []results.Row{b}, []string{"output_throughput"})
		if err != nil || len(d.Cells) != 1 || len(d.Cells[0].Figures) != 1 {
			t.Fatalf("%q: %v, %+v", want, err, d)
		}
		if got := d.Cells[0].Figures[0].Intervals; got != want {
			t.Errorf("intervals %q, want %q", got, want)
		}
		text := written(t, func(w io.Writer) error { return d.Write(w, "text", 0) })
		if want != "" {
			holds(t, text, "n=1+1, at least 4 tell chance apart, intervals "+want)
		} else if strings.Contains(text, "interval") {
			t.Errorf("what is not known is told:\n%s", text)
		}
	}
}
