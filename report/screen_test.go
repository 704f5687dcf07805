package report

import (
	"strings"
	"testing"

	"hclbench/testhost"
)

// TestFirstScreen uses what the page begins with: its chart, its choices, its address, and a cell opened.
func TestFirstScreen(t *testing.T) {
	rows, about := measured(t)
	tab := testhost.NewBrowser(t).Open(t, pageOf(t, rows, about), testhost.View{Width: 1440, Height: 900})
	for _, step := range []struct{ what, does, want string }{
		{"the finding", `document.getElementById("finding").textContent`, "Output throughput per GPU is highest with H200 · SGLang"},
		{"the deciding table", `document.querySelector("#decide td.best").textContent`, "207"},
		{"another axis", `(() => { const y = document.getElementById("hero-y"); y.value = "median_ttft_ms"; y.dispatchEvent(new Event("change"));
			return document.getElementById("hero-title").textContent + " " + location.hash; })()`,
			"Median time to first token against interactivity, ms #y=median_ttft_ms"},
		{"a baseline", `(() => { const b = document.getElementById("hero-base"); b.value = "1"; b.dispatchEvent(new Event("change"));
			return document.querySelector("#decide td.best").textContent; })()`, "+14 %"},
		{"arrow keys", `(() => { const svg = document.querySelector("#hero-chart svg"); svg.focus();
			svg.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" })); return document.getElementById("tip").textContent; })()`,
			"H200 · SGLang, 1 in flight\n71.6 ms median time to first token"},
		{"a cell by its point", `(() => { document.querySelector("#hero-chart svg").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
			const d = document.getElementById("cell"); return d.open + " " + d.textContent + location.hash; })()`, "cell=sglang.h200-1-1"},
		{"the cell's repetitions", `document.getElementById("cell").textContent`, "valid, 3 repetitions: medians"},
		{"the cell closed", `(() => { document.querySelector("#cell .close").click(); return new Promise(done => setTimeout(() =>
			done(document.getElementById("cell").open + " " + location.hash), 50)); })()`, "false #y=median_ttft_ms&base=1"},
		{"a filter of the strip", `(() => { document.querySelector("[data-filter='verdict=suspect']").click();
			return document.getElementById("count").textContent + ", " + document.querySelectorAll("#hero-chart .pt").length; })()`, "1 of 45 cells, 1"},
		{"a name that there is not", `(() => { const f = document.getElementById("filter"); f.value = "ttft_p51<3"; f.dispatchEvent(new Event("input"));
			return document.getElementById("count").textContent; })()`, "no column ttft_p51"},
		{"names are completed", `(() => { const f = document.getElementById("filter"); f.value = "ttft_p5"; f.focus(); f.dispatchEvent(new Event("input"));
			f.dispatchEvent(new KeyboardEvent("keydown", { key: "Tab" })); return f.value; })()`, "ttft_p50>="},
		{"the filter by a name", `(() => { const f = document.getElementById("filter"); f.value = "ttft_p50<80"; f.dispatchEvent(new Event("input"));
			const n = document.getElementById("count").textContent; f.value = ""; f.dispatchEvent(new Event("input")); return n; })()`, "3 of 45 cells"},
		{"repetitions unfold", `(() => { const rows = () => document.querySelectorAll("#cells tbody tr").length, before = rows();
			document.querySelector("[data-unfold]").click(); return before + " then " + rows(); })()`, "15 then 18"},
		{"the verdict is second", `[...document.querySelectorAll("#cells thead tr:last-child th")].map(h => h.dataset.name).slice(0, 2).join()`, "series,verdict"},
		{"a copy", `(() => { let text; navigator.clipboard.writeText = async t => { text = t; }; document.getElementById("copy-markdown").click(); return text; })()`,
			"| series | verdict |"},
		{"the link to a cell", `(() => { location.hash = "#cell=vllm.h200-64-1"; return new Promise(done => setTimeout(() =>
			done(document.getElementById("cell").open + document.getElementById("cell-name").textContent), 100)); })()`, "trueH200 · vLLM"},
	} {
		var got string
		tab.Eval(t, step.does, &got)
		if !strings.Contains(got, step.want) {
			t.Errorf("%s: %q, want %q", step.what, got, step.want)
		}
	}
	for _, p := range tab.Problems(t) {
		t.Error(p)
	}
}
