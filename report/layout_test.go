package report

import (
	"strings"
	"testing"
)

// drawn are the charts that a layout asks for of the dstack study, each as its
// title, what is under it, and its lines or groups; then why others are missing.
func drawn(t *testing.T, l Layout) (charts, missing []string) {
	t.Helper()
	rows := dstack(t)
	l.Automatic = []string{}
	sections, _ := sections(rows, newSeries(rows, l.Series), About{Layout: l})
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

func TestLayoutCharts(t *testing.T) {
	charts, missing := drawn(t, Layout{Charts: []Chart{
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
	check(t, "charts", []string{
		"chart-1-waiting | Median time to first token | 3,200 tokens in, 800 tokens out, random | " +
			"MI300X · SGLang; H200 · SGLang; H200 · TensorRT-LLM",
		"chart-1-waiting | P99 time per output token | 3,200 tokens in, 800 tokens out, random | " +
			"MI300X · SGLang; H200 · SGLang; H200 · TensorRT-LLM",
		"chart-2-throughput-against-latency | Output throughput | 3,200 tokens in, 800 tokens out, random | " +
			"H200 · SGLang; H200 · vLLM; H200 · TensorRT-LLM",
		"chart-3-by-kind | Output throughput |  | dataset random, concurrency 128, input tokens 3200, output tokens 800: sglang vllm trtllm",
	}, charts)
	check(t, "missing", []string{
		"Money: no result has its figures.",
		"Nothing: no series was measured at two places along it.",
		"Nobody: no result meets its condition.",
	}, missing)

	charts, _ = drawn(t, Layout{Series: []string{"gpus"}, Charts: []Chart{
		{Title: "Waiting", X: "concurrency", Y: []string{"median_ttft_ms"}, Where: "output_tokens = 800 and dataset = 'random'"},
	}})
	check(t, "charts of series that are said", []string{
		"chart-1-waiting | Median time to first token | 3,200 tokens in, 800 tokens out, random | MI300X; H200",
	}, charts)
}

func TestLayoutTables(t *testing.T) {
	rows := matrix()
	for i := range rows {
		rows[i].Deployment.PricePerHour = 20
	}
	l := Layout{Title: "A_title", Description: "What.", Notes: []string{"First."},
		Columns: []string{"p99_ttft_ms", "output_throughput", "usd_per_million_output_tokens"}}
	for _, prices := range []bool{true, false} {
		l.NoPrices = !prices
		shown, about := l.Apply(rows, About{Spending: []Spending{{}}})
		holds(t, markdown(t, shown, about), "## A\\_title\n\nWhat.\n\nFirst.\n\n",
			"| engine | concurrency | TTFT ms p99 | tok/s output | USD per million output |")
		if (about.Spending != nil) != prices {
			t.Errorf("spending %v, prices %v", about.Spending, prices)
		}
		if _, ok := costOutput.value(&shown[0]); ok != prices {
			t.Errorf("a price is known: %v, prices %v", ok, prices)
		}
	}
	if rows[0].Deployment.PricePerHour != 20 {
		t.Error("the caller's rows have lost their price")
	}
}
