package report

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/results"
	"hclbench/testhost/golden"
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
	check(t, "figures", want, got)
}

func TestCompare(t *testing.T) {
	rows := matrix()
	again := rows[1] // a second repetition, which is slower
	again.ID, again.Repetition = "again", 2
	summary := *again.Summary
	summary.OutputThroughput /= 2
	again.Summary = &summary
	void := row("vllm.h200", 256, 100, 20)
	void.Summary.Verdict = load.Verdict{Verdict: load.Void, Reasons: load.Because("all requests failed")}
	rows = append(rows, again, void)
	first, second := rows[1].Summary.OutputThroughput, summary.OutputThroughput

	got := Compare(rows, []Reference{{Benchmark: "online", Name: "study", Source: "https://example.com", Rows: []map[string]any{
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
	check(t, "compared", want, lines)
	if with, without := Measured(got); len(with) != 3 || without != 4 {
		t.Errorf("measured are %d and %d are not, want 3 and 4", len(with), without)
	}

	tables := func(all []Compared) string {
		return written(t, func(w io.Writer) error { return References(w, all, Options{Width: 100}) })
	}
	golden.Check(t, "references.golden", tables(got))
	golden.Check(t, "markdown.golden", markdown(t, rows, About{References: got}))

	// What nobody measured is shown without columns for it.
	alone := tables(Compare(nil, []Reference{{Benchmark: "online", Name: "study", Rows: []map[string]any{
		{"engine": "sglang.h200", "concurrency": int64(16), "output_throughput": 100.0, "p99_ttft_ms": 12.5}}}}))
	if holds(t, alone, "12.5"); strings.Contains(alone, "measured") {
		t.Errorf("published alone:\n%s", alone)
	}
}

func markdown(t *testing.T, rows []results.Row, about About) string {
	t.Helper()
	return written(t, func(w io.Writer) error { return Markdown(w, rows, about) })
}

func TestMarkdownText(t *testing.T) {
	rows := matrix()[:1]
	rows[0].Deployment.Host = "a|b*c_d<e"
	rows = append(rows, rows[0])
	rows[1].Deployment.Host = "x"
	holds(t, markdown(t, rows, About{}), `a\|b\*c\_d&lt;e`)
	check(t, "of nothing", "No results.\n", markdown(t, nil, About{}))
}

// Two engines of the same axes are not repetitions of one cell.
func TestCompareOfTwins(t *testing.T) {
	rows := []results.Row{row("vllm.h200", 4, 100, 20), row("sglang.h200", 4, 100, 20)}
	for i := range rows {
		rows[i].Axes = results.Axes{{Name: "concurrency", Value: int64(4)}}
	}
	got := Compare(rows, []Reference{{Benchmark: "online", Rows: []map[string]any{{"concurrency": int64(4), "output_throughput": 500.0}}}})
	if len(got) != 1 || got[0].Cell != "" || got[0].Figures[0].Measured != nil {
		t.Errorf("a figure is compared with two engines at once: %+v", got)
	}
}
