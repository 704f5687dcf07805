package page

import (
	"io"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/report/table"
	"hclbench/results"
)

// TestJudge: goodput and the lines of an SLO are those of the lab of today.
func TestJudge(t *testing.T) {
	line := func(metric string, percentile float64, bound time.Duration) load.Objective {
		return load.Objective{Metric: metric, Percentile: percentile, Max: load.Duration(bound)}
	}
	r := reporttest.Row("vllm.a", 4, 100, 20)
	r.ID = "1"
	other := reporttest.Row("vllm.a", 16, 100, 20)
	other.ID = "2"
	r.Job.Workload.SLO = []load.Objective{line("ttft", 0, time.Hour)}
	old := 99.0
	r.Summary.Goodput = &old
	records := []load.Record{{First: 5e6, Last: 2e9, End: 2e9, OutputTokens: 2}, {First: 300e6, Last: 2e9, End: 2e9, OutputTokens: 2}}
	slo := []load.Objective{line("ttft", 99, 200*time.Millisecond), line("e2el", 99, time.Millisecond)}
	rows := []results.Row{r, other}
	figure.Judge(rows, []figure.Planned{{ID: "1", SLO: slo}, {ID: "2"}}, func(*results.Row) ([]load.Record, error) { return records, nil })
	if g := rows[0].Summary.Goodput; g == nil || *g == old {
		t.Errorf("goodput is still %v", g)
	}
	if *r.Summary.Goodput != old || len(r.Summary.Objectives) > 0 {
		t.Error("the caller's summary is changed")
	}
	for condition, want := range map[string]int{`slo = "missed"`: 1, `slo = "met"`: 0, `slo_ttft_p99 = "met"`: 1,
		`slo_e2el_p99 = "missed"`: 1, `slo_e2el_p99 = "met"`: 0} {
		if got, err := figure.Matching(rows, condition); err != nil || len(got) != want {
			t.Errorf("%s: %d rows, %v; want %d", condition, len(got), err, want)
		}
	}
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return table.Table(w, rows, table.Options{Width: 120}) }), "missed e2el_p99")
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return HTML(w, rows, figure.About{}) }), "missed e2el_p99")
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return table.CSV(w, rows, figure.About{}) }), ",missed,")
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return table.JSON(w, rows, figure.About{}) }), `"met": true`)
}
