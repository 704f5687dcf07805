package figure

import (
	"fmt"
	"testing"

	"hclbench/report/reporttest"
	"hclbench/results"
)

// What a column is, `hcl import` says; of it, metrics are compared.
func TestPublishedFigures(t *testing.T) {
	var got []string
	for _, f := range publishedFigures(map[string]any{
		"Output token throughput (tok/s)": "1,012.5", "tokens_per_second": 4.0, "elapsed_time": int64(9),
		"mean_e2e_latency_ms": 3.0, "P50 TTFT (ms)": "7",
		"p99.9_tpot_ms": 8.0, "request_goodput": 2.0, "median_tpot_ms": 20.0,
		"concurrency": int64(4), "Successful requests": int64(100), "Failed requests": int64(1), "note": "fast",
		"mean_ttft": 5.0, "mean_itl_ms": "n/a",
	}) {
		got = append(got, fmt.Sprint(f.Metric, " ", f.Published))
	}
	want := []string{"output_throughput 1012.5", "total_throughput 4", "goodput 2", "median_ttft_ms 7",
		"median_tpot_ms 20", "p99.9_tpot_ms 8", "mean_e2el_ms 3", "duration_s 9"}
	reporttest.Check(t, "figures", want, got)
}

// Two engines of the same axes are not repetitions of one cell.
func TestCompareOfTwins(t *testing.T) {
	rows := []results.Row{reporttest.Row("vllm.h200", 4, 100, 20), reporttest.Row("sglang.h200", 4, 100, 20)}
	for i := range rows {
		rows[i].Axes = results.Axes{{Name: "concurrency", Value: int64(4)}}
	}
	got := Compare(rows, []Reference{{Benchmark: "online", Rows: []map[string]any{{"concurrency": int64(4), "output_throughput": 500.0}}}})
	if len(got) != 1 || got[0].Cell != "" || got[0].Figures[0].Measured != nil {
		t.Errorf("a figure is compared with two engines at once: %+v", got)
	}
}
