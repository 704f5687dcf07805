package table

import (
	"io"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
	"hclbench/testhost/golden"
)

func TestCompare(t *testing.T) {
	rows := reporttest.Matrix()
	again := rows[1] // a second repetition, which is slower
	again.ID, again.Repetition = "again", 2
	summary := *again.Summary
	summary.OutputThroughput /= 2
	again.Summary = &summary
	void := reporttest.Row("vllm.h200", 256, 100, 20)
	void.Summary.Verdict = load.Verdict{Verdict: load.Void, Reasons: load.Because("", "all requests failed")}
	rows = append(rows, again, void)
	first, second := rows[1].Summary.OutputThroughput, summary.OutputThroughput

	got := figure.Compare(rows, []figure.Reference{{Benchmark: "online", Name: "study", Source: "https://example.com", Rows: []map[string]any{
		{"engine": "sglang.h200", "concurrency": "16", "output_throughput": "100", "note": "fast"}, // as text, and not every axis
		{"engine": "SGLANG.H200", "concurrency": 16.0, "output_tokens": int64(128), "output_throughput": int64(200)},
		{"engine": "sglang.h200", "output_throughput": 100.0},                        // of three cells
		{"engine": "sglang.h200", "concurrency": int64(5), "output_throughput": 1.0}, // of none
		{"engine": "vllm.h200", "concurrency": int64(256), "output_throughput": 1.0}, // of a void one
		{"engine": "vllm.h200", "concurrency": int64(4), "note": "no figure at all"},
		{"engine": "vllm.h200", "concurrency": int64(4), "output_throughput": int64(0)}, // nor here
		{"engine": "vllm.h200", "concurrency": int64(4), "output_throughput": int64(390)},
	}}, {Benchmark: "other", Name: "study", Rows: []map[string]any{{"engine": "sglang.h200", "concurrency": int64(16),
		"output_throughput": 1.0}}}})

	type line struct {
		Cell     string
		Measured float64
		Change   float64
	}
	var lines []line
	for _, c := range got {
		l := line{Cell: c.Cell}
		if f := c.Figures[0]; f.Measured != nil {
			l.Measured = *f.Measured
			if f.Change != nil {
				l.Change = *f.Change
			}
		}
		lines = append(lines, l)
	}
	median := (first + second) / 2
	want := []line{
		{rows[1].ID, median, (median/100 - 1) * 100},
		{rows[1].ID, median, (median/200 - 1) * 100},
		{}, {}, {},
		{rows[3].ID, rows[3].Summary.OutputThroughput, (rows[3].Summary.OutputThroughput/390 - 1) * 100},
		{},
	}
	reporttest.Check(t, "compared", want, lines)
	if with, without := figure.Measured(got); len(with) != 3 || without != 4 {
		t.Errorf("measured are %d and %d are not, want 3 and 4", len(with), without)
	}

	tables := func(all []figure.Compared) string {
		return reporttest.Written(t, func(w io.Writer) error { return References(w, all, Options{Width: 100}) })
	}
	golden.Check(t, "references.golden", tables(got))
	golden.Check(t, "markdown.golden", markdown(t, rows, figure.About{References: got}))

	// What nobody measured is shown without columns for it.
	alone := tables(figure.Compare(nil, []figure.Reference{{Benchmark: "online", Name: "study", Rows: []map[string]any{
		{"engine": "sglang.h200", "concurrency": int64(16), "output_throughput": 100.0, "p99_ttft_ms": 12.5}}}}))
	if reporttest.Holds(t, alone, "12.5"); strings.Contains(alone, "measured") {
		t.Errorf("published alone:\n%s", alone)
	}
}

func TestMarkdownText(t *testing.T) {
	rows := reporttest.Matrix()[:1]
	rows[0].Deployment.Host = "a|b*c_d<e"
	rows = append(rows, rows[0])
	rows[1].Deployment.Host = "x"
	reporttest.Holds(t, markdown(t, rows, figure.About{}), `a\|b\*c\_d&lt;e`)
	reporttest.Check(t, "of nothing", "No results.\n", markdown(t, nil, figure.About{}))
}

func markdown(t *testing.T, rows []results.Row, about figure.About) string {
	t.Helper()
	return reporttest.Written(t, func(w io.Writer) error { return Markdown(w, rows, about) })
}
