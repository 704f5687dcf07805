package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
)

// Columns of the studies that examples hold, and what each of them is.
func TestMetricOf(t *testing.T) {
	for column, want := range map[string]string{
		"output_throughput":               "output_throughput",
		"Output token throughput (tok/s)": "output_throughput",
		"tokens_per_second":               "total_throughput",
		"total_token_throughput":          "total_throughput",
		"Total Token throughput (tok/s)":  "total_throughput",
		"requests_per_second":             "request_throughput",
		"elapsed_time":                    "duration_s",
		"Benchmark duration (s)":          "duration_s",
		"mean_e2e_latency_ms":             "mean_e2el_ms",
		"p99_ttft_ms":                     "p99_ttft_ms",
		"P50 TTFT (ms)":                   "median_ttft_ms",
		"Mean ITL (ms)":                   "mean_itl_ms",
		"p99.9_tpot_ms":                   "p99.9_tpot_ms",
		"peak_output_throughput":          "peak_output_throughput",

		"concurrency":                "", // an axis
		"mean_ttft":                  "", // in what?
		"pony_ttft_ms":               "",
		"mean_pony_ms":               "",
		"Successful requests":        "",
		"Number of worker processes": "",
	} {
		m, ok := metricOf(column)
		if got := m.name; got != want || ok != (want != "") {
			t.Errorf("%q is %q, %t, want %q", column, got, ok, want)
		}
	}
}

func TestCompare(t *testing.T) {
	rows := matrix()
	again := rows[1] // a second repetition, which is slower
	again.ID, again.Repetition = "again", 2
	summary := *again.Summary
	summary.OutputThroughput /= 2
	again.Summary = &summary
	void := row("vllm.h200", 256, 100, 20)
	void.Summary.Verdict = load.Verdict{Verdict: load.Void, Reasons: []string{"all requests failed"}}
	rows = append(rows, again, void)
	first, second := rows[1].Summary.OutputThroughput, summary.OutputThroughput

	got := Compare(rows, []Reference{{Benchmark: "online", Name: "study", Source: "https://example.com", Rows: []map[string]any{
		{"engine": "sglang.h200", "concurrency": "16", "output_throughput": "100", "note": "fast"}, // as text, and not every axis
		{"engine": "SGLANG.H200", "concurrency": 16.0, "output_tokens": int64(128), "output_throughput": int64(200)},
		{"engine": "sglang.h200", "output_throughput": 100.0},                        // of three cells
		{"engine": "sglang.h200", "concurrency": int64(5), "output_throughput": 1.0}, // of none
		{"engine": "vllm.h200", "concurrency": int64(256), "output_throughput": 1.0}, // of a void one
		{"engine": "vllm.h200", "concurrency": int64(4), "note": "no figure at all"},
		{"engine": "vllm.h200", "concurrency": int64(4), "output_throughput": int64(0)},
	}}, {Benchmark: "other", Name: "study", Rows: []map[string]any{{"engine": "sglang.h200", "concurrency": int64(16), "output_throughput": 1.0}}}})

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
		{rows[3].ID, rows[3].Summary.OutputThroughput, 0}, // nothing is any percent of nothing
		{},
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("compared (-want +got):\n%s", diff)
	}
	if with, without := Measured(got); len(with) != 3 || without != 4 {
		t.Errorf("measured are %d and %d are not, want 3 and 4", len(with), without)
	}

	var b bytes.Buffer
	if err := References(&b, got, Options{Width: 100}); err != nil {
		t.Fatal(err)
	}
	golden(t, "references.golden", b.String())
	b.Reset()
	if err := Markdown(&b, rows, got); err != nil {
		t.Fatal(err)
	}
	golden(t, "markdown.golden", b.String())

	// What nobody measured is shown without columns for it.
	b.Reset()
	if err := References(&b, Compare(nil, []Reference{{Benchmark: "online", Name: "study", Rows: []map[string]any{
		{"engine": "sglang.h200", "concurrency": int64(16), "output_throughput": 100.0, "p99_ttft_ms": 12.5}}}}), Options{Width: 100}); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); strings.Contains(got, "measured") || !strings.Contains(got, "12.5") {
		t.Errorf("published alone:\n%s", got)
	}
}

func TestMarkdownText(t *testing.T) {
	rows := matrix()[:1]
	rows[0].Deployment.Host = "a|b*c_d<e"
	rows = append(rows, rows[0])
	rows[1].Deployment.Host = "x"
	var b bytes.Buffer
	if err := Markdown(&b, rows, nil); err != nil {
		t.Fatal(err)
	}
	if want := `a\|b\*c\_d&lt;e`; !strings.Contains(b.String(), want) {
		t.Errorf("no %s in\n%s", want, b.String())
	}
	b.Reset()
	if err := Markdown(&b, nil, nil); err != nil || b.String() != "No results.\n" {
		t.Errorf("of nothing: %q, %v", b.String(), err)
	}
}
