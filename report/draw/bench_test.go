package draw

import (
	"testing"

	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
)

// What the distributions of one cell take that are drawn from its requests.
func BenchmarkCurves(b *testing.B) {
	records := make([]load.Record, maxCurveRequests)
	for i := range records {
		at := load.Record{OutputTokens: 100}
		at.First, at.Last = 1e6+1e3*(1+at.Sent)*7919%1000, 9e8
		records[i] = at
	}
	r := reporttest.Row("vllm.h200", 4, 100, 20)
	about := figure.About{Records: func(*results.Row) ([]load.Record, error) { return records, nil }}
	for b.Loop() {
		if got, err := curvesOf(about, &r); err != nil || got == nil {
			b.Fatal("no curves")
		}
	}
}
