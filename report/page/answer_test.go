package page

import (
	"slices"
	"testing"

	"hclbench/report/figure"
	"hclbench/report/reporttest"
)

// TestPublishedAnswers: a lab of which nothing was measured answers with what others published for it.
func TestPublishedAnswers(t *testing.T) {
	var planned []figure.Planned
	var figures []map[string]any
	for i, r := range reporttest.Matrix() {
		r.Summary = nil
		planned = append(planned, figure.Planned{ID: r.ID, Benchmark: r.Benchmark, Axes: r.Axes, Row: &r})
		concurrency, _ := r.Axes.Value("concurrency")
		figures = append(figures, map[string]any{"engine": r.Deployment.Engine, "concurrency": concurrency, "median_ttft_ms": 100 - i})
	}
	about := figure.About{Planned: planned}
	about.References = figure.Compare(nil, []figure.Reference{{Benchmark: "online", Name: "them", Rows: figures}})
	page := newPage(nil, about)
	var got []string
	for _, w := range page.Data.Workloads {
		got = append(got, w.Finding)
	}
	if len(got) != 1 || !slices.Contains(page.Marks, onlyPublished) || got[0] !=
		"H200 · vLLM has the lowest median time to first token everywhere from 4 to 128 in flight: 95.0 ms at 128, −3.1 % against H200 · SGLang." {
		t.Errorf("got %q", got)
	}
}
