package report

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/report/chart"
	"hclbench/results"
)

// TestDerived: figures that follow from another one have its interval, and what has another cause has none.
func TestDerived(t *testing.T) {
	r := surely(900, 880, 920)
	r.Deployment.PricePerHour, r.Deployment.Facts = 36, nil
	r.Summary.Intervals["tpot_ms.median"] = load.Interval{Low: 20, High: 25}
	input := r.Summary.InputThroughput
	r.Summary.Intervals["input_throughput"] = load.Interval{Low: 0.9 * input, High: 1.2 * input}
	for _, x := range []struct {
		Metric
		low, high float64
	}{
		{perGPU, 110, 115}, {inputPerGPU, 0.9 * input / 8, 1.2 * input / 8}, {interactivity, 40, 50}, {costOutput, 36e6 / 3600 / 920, 36e6 / 3600 / 880},
	} {
		got, ok := x.interval(&r)
		if near := func(a, b float64) bool { return a/b < 1.000001 && b/a < 1.000001 }; !ok || !near(got.Low, x.low) || !near(got.High, x.high) {
			t.Errorf("%s is in %+v (%v), want %g to %g", x.Name, got, ok, x.low, x.high)
		}
	}
	for _, m := range []Metric{costTotal, energyPerToken, perDecodeGPU} {
		if got, ok := m.interval(&r); ok {
			t.Errorf("%s is in %+v, and nothing tells", m.Name, got)
		}
	}
	r.Summary.Intervals["output_throughput"] = load.Interval{Low: -1, High: 920}
	if got, ok := costOutput.interval(&r); ok {
		t.Errorf("of a throughput that may be 0 the cost is in %+v", got)
	}
	r = surely(900, 880, 920)
	var doc struct {
		Rows []struct{ Intervals map[string]load.Interval }
	}
	text := written(t, func(w io.Writer) error { return JSON(w, []results.Row{r}, About{}) })
	if err := json.Unmarshal([]byte(text), &doc); err != nil || doc.Rows[0].Intervals["output_throughput_per_gpu"] != (load.Interval{Low: 110, High: 115}) {
		t.Errorf("JSON has %+v, %v", doc.Rows[0].Intervals, err)
	}
	holds(t, written(t, func(w io.Writer) error {
		return Table(w, []results.Row{r}, Options{Layout: Layout{Columns: []string{"output_throughput_per_gpu"}, Intervals: true}})
	}), "[110 to 115]")
}

// TestErrorBars: a point of a single measurement has a line over its interval, and says it; of several
// repetitions the line is from the lowest to the highest.
func TestErrorBars(t *testing.T) {
	one := surely(900, 880, 920)
	two := append(repeated("vllm.h200", 16, 900), repeated("vllm.h200", 16, 950)...)
	two[1].Repetition = 2
	two[0].Summary.Intervals = one.Summary.Intervals
	for _, x := range []struct {
		rows      []results.Row
		low, high float64
		hover     string
	}{{[]results.Row{one}, 880, 920, "in 95 of 100 runs 880 to 920"}, {two, 900, 950, "median of 2, 900 to 950"}} {
		s := samples(x.rows, newSeries(x.rows, nil))[0]
		d, ok := s.value(outputThroughput)
		low, high, ranged := d.Range()
		if !ok || !ranged || low != x.low || high != x.high {
			t.Errorf("a line from %g to %g (%v), want from %g to %g", low, high, ranged, x.low, x.high)
		}
		holds(t, hover(s, d, "", outputThroughput), x.hover)
		if y := (chart.Dot{Y: 1, N: 1}); x.low == 880 {
			if _, _, ok := y.Range(); ok {
				t.Error("a point that tells nothing has a line")
			}
		}
	}
	swept := []results.Row{surely(900, 880, 920), surely(1500, 1400, 1600)}
	swept[1].ID, swept[1].Axes = "another", results.Axes{{Name: "engine", Value: "vllm.h200"}, {Name: "concurrency", Value: int64(32)}}
	page := written(t, func(w io.Writer) error { return HTML(w, swept, About{}) })
	if strings.Count(page, `<path d="M`) == 0 || !strings.Contains(page, `"high":[920,1600]`) {
		t.Errorf("the page draws no lines over intervals")
	}
}
