package draw

import (
	"slices"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/report/chart"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/reporttest"
	"hclbench/results"
)

// TestBoxes: it is said which letters a PNG does not show.
func TestBoxes(t *testing.T) {
	about := figure.About{Layout: figure.Layout{Automatic: []string{},
		Charts: []figure.AskedChart{{Title: "Ждать ≥ 待つ待", X: "concurrency", Y: []string{"output_throughput"}}}}}
	made, err := PNG(t.TempDir(), reporttest.Matrix(), about)
	if err != nil || made.Boxes != "待つ" || len(made.Names) != 3 {
		t.Errorf("%q are boxes in %q, %v", made.Boxes, made.Names, err)
	}
}

func TestLayoutCharts(t *testing.T) {
	charts, missing := drawn(t, figure.Layout{Charts: []figure.AskedChart{
		{Title: "Waiting", X: "concurrency", Y: []string{"median_ttft_ms", "p99_tpot_ms"},
			Where: "benchmark = '*online*' and output_tokens = 800 and dataset = 'random' and kind != 'vllm'"},
		{Title: "Throughput against latency", X: "median_e2el_ms", Y: []string{"output_throughput"},
			Where: "output_tokens = 800 and gpus = '*H200*' and dataset = random"},
		{Title: "By kind", X: "kind", Y: []string{"output_throughput"},
			Where: "concurrency = 128 and output_tokens = 800 and dataset = random and gpus = '*H200*'"},
		{Title: "Money", X: "concurrency", Y: []string{"usd_per_million_output_tokens"}},
		{Title: "Nothing", X: "rate", Y: []string{"output_throughput"}},
		{Title: "Nobody", X: "rate", Y: []string{"output_throughput"}, Where: "kind = 'none'"},
	}})
	reporttest.Check(t, "charts", []string{
		"chart-1-waiting | Median time to first token | 3,200 tokens in, 800 tokens out, random | " +
			"MI300X · SGLang; H200 · SGLang; H200 · TensorRT-LLM",
		"chart-1-waiting | P99 time per output token | 3,200 tokens in, 800 tokens out, random | " +
			"MI300X · SGLang; H200 · SGLang; H200 · TensorRT-LLM",
		"chart-2-throughput-against-latency | Output throughput | 3,200 tokens in, 800 tokens out, random | " +
			"H200 · SGLang; H200 · vLLM; H200 · TensorRT-LLM",
		"chart-3-by-kind | Output throughput |  | dataset random, concurrency 128, input tokens 3200, output tokens 800: sglang vllm trtllm",
	}, charts)
	reporttest.Check(t, "missing", []string{
		"Money: no result has its figures.",
		"Nothing: no series was measured at two places along it.",
		"Nobody: no result meets its condition.",
	}, missing)

	charts, _ = drawn(t, figure.Layout{Series: []string{"gpus"}, Charts: []figure.AskedChart{
		{Title: "Waiting", X: "concurrency", Y: []string{"median_ttft_ms"}, Where: "output_tokens = 800 and dataset = 'random'"},
	}})
	reporttest.Check(t, "charts of series that are said", []string{
		"chart-1-waiting | Median time to first token | 3,200 tokens in, 800 tokens out, random | MI300X; H200",
	}, charts)
}

// TestPublishedAlways: what others published is drawn in every chart where its cell has a place, also
// of a cell that was not measured or is void, and leads nothing. A void cell is bridged by no line.
func TestPublishedAlways(t *testing.T) {
	rows := reporttest.Matrix()
	rows[1].Summary.Verdict = load.Verdict{Verdict: load.Void, Reasons: load.Because("", "all requests failed")}
	var planned []figure.Planned
	for i := range rows {
		r := rows[i]
		r.Deployment.GPUCount, rows[i].Deployment.GPUCount = 8, 8
		r.Summary = nil
		planned = append(planned, figure.Planned{ID: r.ID, Benchmark: r.Benchmark, Axes: r.Axes, Row: &r})
	}
	var published []map[string]any
	for _, c := range []int64{4, 16, 128} {
		published = append(published, map[string]any{"engine": "sglang.h200", "concurrency": c, "output_throughput": 10_000 * c,
			"median_ttft_ms": 1, "median_tpot_ms": 1000 / float64(c), "median_e2el_ms": 50})
	}
	of := []figure.Reference{{Benchmark: "online", Name: "them", Source: "https://example.com", Rows: published}}
	for name, rows := range map[string][]results.Row{"measured": rows, "unmeasured": nil} {
		about := figure.About{Planned: planned, References: figure.Compare(rows, of)}
		found := Sections(rows, about.Series(rows), about)
		var got []string
		for _, s := range found {
			for _, f := range s.Figures {
				if note := "Crosses: published by them, https://example.com."; f.ID != "distributions" && !slices.Contains(f.Notes, note) {
					t.Errorf("%s: %s has the notes %q", name, f.ID, f.Notes)
				}
				for _, c := range f.Charts {
					for _, l := range c.Lines {
						if l.Published && len(l.Dots) == 3 {
							got = append(got, f.ID+": "+c.Title)
						}
						if !l.Published && !l.Tail && l.Series != nil && l.Series.Engine == "sglang.h200" && c.X.Ticks != nil &&
							(len(l.Gaps) != 1 || l.Gaps[0].X != 16 || !l.Dots[1].Apart) {
							t.Errorf("%s: the void cell in %s is at %v", name, c.Title, l.Gaps)
						}
					}
				}
			}
		}
		reporttest.Check(t, name, []string{"online-pareto: Output throughput per GPU", "online-latency: Output throughput",
			"online-concurrency: Output throughput", "online-concurrency: Median time to first token",
			"online-concurrency: Median time per output token", "online-concurrency: Median end-to-end latency"}, got)
	}
}

// TestRankedBars: the best bar is first, and the others say by how much they differ from the baseline.
func TestRankedBars(t *testing.T) {
	rows := []results.Row{reporttest.Row("vllm.start", 4, 100, 20), reporttest.Row("vllm.tuned", 4, 100, 10), reporttest.Row("sglang.h200", 4, 100, 40)}
	for layout, want := range map[string][]string{
		"":            {"H200 · vLLM tuned 371  +93 %", "H200 · vLLM start 192", "H200 · SGLang 98.1  −49 %"},
		"sglang.h200": {"H200 · vLLM tuned 371  ×3.78", "H200 · vLLM start 192  +96 %", "H200 · SGLang 98.1"},
	} {
		about := figure.About{Layout: figure.Layout{Baseline: layout}}
		found := Sections(rows, about.Series(rows), about)
		var got []string
		for _, b := range found[0].Figures[0].Charts[0].Groups[0].Bars {
			got = append(got, strings.TrimSpace(b.Label+" "+number.Text(b.Value)+"  "+b.After))
		}
		reporttest.Check(t, "bars against "+layout, want, got)
	}
}

// drawn are the charts that a layout asks for of the dstack study, each as its
// title, what is under it, and its lines or groups; then why others are missing.
func drawn(t *testing.T, l figure.Layout) (charts, missing []string) {
	t.Helper()
	rows := reporttest.Dstack(t)
	l.Automatic = []string{}
	sections := Sections(rows, figure.NewSeries(rows, l.Series), figure.About{Layout: l})
	if len(sections) != 1 {
		t.Fatalf("%d sections, want the lab's own alone", len(sections))
	}
	for _, f := range sections[0].Figures {
		for _, c := range f.Charts {
			var of []string
			for _, x := range c.Lines {
				of = append(of, x.Series.Label)
			}
			for _, g := range c.Groups {
				labels := []string{}
				for _, b := range g.Bars {
					labels = append(labels, b.Label)
				}
				of = append(of, g.Label+": "+strings.Join(labels, " "))
			}
			charts = append(charts, strings.Join([]string{f.ID, c.Title, f.Under, strings.Join(of, "; ")}, " | "))
		}
	}
	return charts, sections[0].Left
}

// TestDataBeginNoFormula: no text of others begins a formula in a spreadsheet, a chart's title neither.
func TestDataBeginNoFormula(t *testing.T) {
	const formula = `=HYPERLINK("http://evil")`
	f := &Figure{Charts: []*chart.Panel{{Title: formula, Lines: []chart.Line{{Series: &chart.Series{Label: formula},
		Dots: []chart.Dot{{X: 1, Y: 2, N: 1}}}}}}}
	if text := f.CSV(); strings.Contains(text, "\n=") || strings.Contains(text, `"=`) || strings.Contains(text, ",=") {
		t.Errorf("a formula:\n%s", text)
	}
}
