package page

import (
	"slices"
	"testing"

	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
)

// TestDataOfBars: their load stands beside them, what counts is no more suspect than its value, and a bar that is
// only published goes with all of it.
func TestDataOfBars(t *testing.T) {
	t.Parallel()
	rows := chats()
	about := figure.About{Title: "lab", References: figure.Compare(rows, []figure.Reference{{Benchmark: "online", Name: "them", Rows: []map[string]any{
		{"engine": "sglang.h200", "dataset": "code", "request_goodput": 7.0}}}})}
	steps(t, rows, about, [][3]string{
		{"the data", linesOf("online-cells", "[0, 1, 9]"), "H200 · SGLang dataset chat valid; H200 · vLLM dataset chat valid; H200 · SGLang dataset code valid; H200 · vLLM dataset code valid; "},
		{"what was published", inSight("online-cells", "[data-y=goodput]"), "published 7"},
		{"a filter", filtered("dataset=chat"), "3 of 5 cells"},
		{"nothing of it is left", `"all: " + ` + inSight("online-cells", "[data-y=goodput]") + ` + "."`, "all: ."},
	})
}

// TestDataOfVoid: a void cell of a sweep is among its data, and goes with the filter.
func TestDataOfVoid(t *testing.T) {
	t.Parallel()
	const sweep = "online-sweep-output-throughput-per-gpu"
	rows := reporttest.Swept("vllm.h200", "sglang.h200")
	rows[1].Summary.Verdict = load.Verdict{Verdict: load.Void, Reasons: load.Because("", "all requests failed")}
	steps(t, rows, figure.About{Title: "lab"}, [][3]string{
		{"the data", linesOf(sweep, "[0, 1, 4, 9]"), "H200 · vLLM input_tokens 128 output_tokens 64  void"},
		{"the cell", inSight(sweep, ""), "void"},
		{"a filter", filtered("input_tokens!=128"), "24 of 36 cells"},
		{"it is gone", `/void/.test(` + inSight(sweep, "") + `)`, "false"},
	})
}

// TestPublishedTwins: rows of a reference that differ only in what the lab has no axis for are two.
func TestPublishedTwins(t *testing.T) {
	t.Parallel()
	rows := reporttest.Matrix()
	about := figure.About{Title: "lab", References: figure.Compare(rows, []figure.Reference{{Benchmark: "online", Name: "them", Rows: []map[string]any{
		{"engine": "sglang.h200", "concurrency": 16.0, "memory": 0.8, "output_throughput": 10.0},
		{"engine": "sglang.h200", "concurrency": 16.0, "memory": 0.9, "output_throughput": 20.0}}}})}
	steps(t, rows, about, [][3]string{
		{"the data", linesOf("online-concurrency", "[4, 9]"), "10 published; 20 published"},
	})
}

// TestBaselines: an engine of two series is, in each table, the first of them that the table has.
func TestBaselines(t *testing.T) {
	t.Parallel()
	var rows []results.Row
	for _, tp := range []int64{4, 8} {
		for _, engine := range []string{"sglang.h200", "vllm.h200"} {
			r := reporttest.Row(engine, 16, float64(100*tp), 20)
			r.ID, r.Axes = engine+string(rune('0'+tp)), append(r.Axes, results.Axis{Name: "tp", Value: tp})
			if engine == "sglang.h200" && tp == 4 {
				r.Summary.Unknown, r.Summary.OutputThroughput = []string{"output_throughput"}, 0
			}
			rows = append(rows, r)
		}
	}
	about := figure.About{Title: "lab", Layout: figure.Layout{Baseline: "sglang.h200"}}
	p := newPage(rows, about)
	var got []string
	for _, table := range p.Data.Workloads[0].Tables[:2] {
		got = append(got, p.Data.Series[table.Baseline].Label)
	}
	reporttest.Check(t, "baselines", []string{"H200 · SGLang, tp 8", "H200 · SGLang, tp 4"}, got)
	steps(t, rows, about, [][3]string{
		{"the first table", decided, "H200 · SGLang, tp 8,610; H200 · vLLM, tp 8,610 ±0 %"},
		{"the second", `document.getElementById("decide-second").innerText.replace(/\s+/g, " ")`,
			"H200 · SGLang, tp 4 388 H200 · vLLM, tp 4 388 ±0 % H200 · SGLang, tp 8 776 +100 %"},
	})
}

// chats are two engines by two data sets, and nothing that lines lie along.
func chats() (rows []results.Row) {
	for i, data := range []string{"chat", "code"} {
		for _, engine := range []string{"sglang.h200", "vllm.h200"} {
			r := reporttest.Row(engine, 16, 100*float64(i+1), 20)
			r.ID, r.Axes = engine+data, append(r.Axes, results.Axis{Name: "dataset", Value: data})
			rows = append(rows, r)
		}
	}
	again := rows[0]
	again.ID, again.Repetition, again.Summary = "again", 2, new(*again.Summary)
	rows[0].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "hot")}
	return slices.Insert(rows, 1, again)
}

// linesOf are columns of the table of a figure's data, from one on, those of each line with blanks.
func linesOf(id, columns string) string {
	return `(f => { if (!f.querySelector(".behind")) f.querySelector("[data-table]").click();
		return [...f.querySelectorAll(".behind tbody tr")].map(r => ` + columns + `.map(i => r.cells[i].textContent).join(" ")).join("; "); })(document.getElementById("fig-` + id + `"))`
}

func filtered(by string) string {
	return `(f => { f.value = "` + by + `"; f.dispatchEvent(new Event("input")); return document.getElementById("count").textContent; })(document.getElementById("filter"))`
}

// inSight are the texts of charts of the figure that belong to a series.
func inSight(id string, chart string) string {
	return `[...document.querySelectorAll("#fig-` + id + ` .wide svg` + chart + ` g[data-s], #fig-` + id + ` .wide svg` + chart + ` g[data-cell]")].filter(g => g.getClientRects().length).map(g => g.textContent).filter(Boolean).join("; ")`
}
