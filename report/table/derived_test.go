package table

import (
	"encoding/json"
	"io"
	"testing"

	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
)

// TestDerived: figures that follow from another one have its interval, and what has another cause has none.
func TestDerived(t *testing.T) {
	r := reporttest.Surely(900, 880, 920)
	r.Deployment.PricePerHour, r.Deployment.Facts = 36, nil
	r.Summary.Intervals["tpot_ms.median"] = load.Interval{Low: 20, High: 25}
	input := r.Summary.InputThroughput
	r.Summary.Intervals["input_throughput"] = load.Interval{Low: 0.9 * input, High: 1.2 * input}
	for _, x := range []struct {
		figure.Metric
		low, high float64
	}{
		{figure.PerGPU, 110, 115}, {figure.InputPerGPU, 0.9 * input / 8, 1.2 * input / 8}, {figure.Interactivity, 40, 50}, {figure.CostOutput, 36e6 / 3600 / 920, 36e6 / 3600 / 880},
	} {
		got, ok := x.Interval(&r)
		if near := func(a, b float64) bool { return a/b < 1.000001 && b/a < 1.000001 }; !ok || !near(got.Low, x.low) || !near(got.High, x.high) {
			t.Errorf("%s is in %+v (%v), want %g to %g", x.Name, got, ok, x.low, x.high)
		}
	}
	for _, m := range []figure.Metric{figure.CostTotal, figure.EnergyPerToken, figure.PerDecodeGPU} {
		if got, ok := m.Interval(&r); ok {
			t.Errorf("%s is in %+v, and nothing tells", m.Name, got)
		}
	}
	r.Summary.Intervals["output_throughput"] = load.Interval{Low: -1, High: 920}
	if got, ok := figure.CostOutput.Interval(&r); ok {
		t.Errorf("of a throughput that may be 0 the cost is in %+v", got)
	}
	r = reporttest.Surely(900, 880, 920)
	var doc struct {
		Rows []struct{ Intervals map[string]load.Interval }
	}
	text := reporttest.Written(t, func(w io.Writer) error { return JSON(w, []results.Row{r}, figure.About{}) })
	if err := json.Unmarshal([]byte(text), &doc); err != nil || doc.Rows[0].Intervals["output_throughput_per_gpu"] != (load.Interval{Low: 110, High: 115}) {
		t.Errorf("JSON has %+v, %v", doc.Rows[0].Intervals, err)
	}
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error {
		return Table(w, []results.Row{r}, Options{Layout: figure.Layout{Columns: []string{"output_throughput_per_gpu"}, Intervals: true}})
	}), "[110 to 115]")
}
