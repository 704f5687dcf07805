package page

import (
	"testing"

	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
)

// TestTuning: the page begins with the answer of a tuning, has its candidates, starts and text, and its marks obey the filter and
// open the cell of their start.
func TestTuning(t *testing.T) {
	t.Parallel()
	rows, ledger := reporttest.Tuned()
	marks := `[...document.querySelectorAll("#fig-tuning-settings .wide svg")].map(s => s.querySelectorAll(".pt:not(.out)").length).join()`
	steps(t, rows, figure.About{Title: "chat", Found: figure.Found{Tunings: []results.Ledger{ledger}}}, [][3]string{
		{"the answer", `document.getElementById("finding").textContent`, "Tuning settings, no winner: max-num-seqs=512 and max-num-seqs=512, enable-chunked-prefill=false are tied"},
		{"it is said once", `document.querySelectorAll(".tuning > .say").length`, "0"},
		{"the candidates", `[...document.querySelectorAll(".tuning table")[0].tBodies[0].rows].map(r => r.cells[2].textContent).join()`,
			"dominated,tied,duplicate,dominated,tied,failed,not tried"},
		{"the starts", `[...document.querySelectorAll(".tuning table")[1].tBodies[0].rows].map(r => r.cells[1].textContent + " " + r.cells[4].textContent).slice(2, 9).join()`,
			"stage batching measured,stage batching broken off,stage batching lost the race,stage memory measured,stage memory out of memory,final 1 measured,final 1 measured"},
		{"the text", `document.querySelector(".tuning pre").textContent`, `engine "vllm" "settings-best"`},
		{"drawn", soon(`document.querySelectorAll("#fig-tuning-settings .wide svg").length === 2`, marks), "3,14"},
		{"what a mark says", `(() => { const svg = document.querySelector("#fig-tuning-settings .wide svg"); svg.focus();
			svg.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" })); return document.getElementById("tip").textContent; })()`,
			"1: as it is\n2,001 (1,983 to 2,019) tok/s output throughput, 3 finals"},
		{"a filter", `(() => { const f = document.getElementById("filter"); f.value = "output_throughput>2200"; f.dispatchEvent(new Event("input")); return ` + marks + `; })()`, "2,8"},
		{"a cell by its start", `(() => { const svg = document.querySelectorAll("#fig-tuning-settings .wide svg")[1]; svg.focus();
			for (const key of ["ArrowRight", "Enter"]) svg.dispatchEvent(new KeyboardEvent("keydown", { key })); return document.getElementById("cell").open; })()`, "true"},
	})
}

// TestFilterOfCapacities: bars and loads of searches go with their cells.
func TestFilterOfCapacities(t *testing.T) {
	t.Parallel()
	rows, found := reporttest.Searched(reporttest.Search{Engine: "sglang.h200", Pass: []float64{4, 8, 79}, Fail: []float64{99}},
		reporttest.Search{Engine: "vllm.h200", Pass: []float64{4}, Fail: []float64{34}})
	marks := `["", "-attainment"].map(id => [...document.querySelectorAll("#fig-capacity-chat" + id + " .wide svg")].map(s => s.querySelectorAll(".pt:not(.out)").length).join()).join(" ")`
	filter := func(text string) string {
		return `(() => { const f = document.getElementById("filter"); f.value = "` + text + `"; f.dispatchEvent(new Event("input")); return ` + marks +
			` + " " + document.querySelectorAll("#fig-capacity-chat-attainment .wide [data-every]:not(.out)").length; })()`
	}
	steps(t, rows, figure.About{Title: "chat", Found: figure.Found{Capacities: found}}, [][3]string{
		{"drawn", soon(`document.querySelectorAll("#part-capacity .wide svg").length === 3`, marks), "4 6,6"},
		{"of one engine", filter("engine=vllm.h200"), "2 2,2 2"},
		{"of one load", filter("concurrency=8"), "2 1,1 0"},
		{"of all again", filter(""), "4 6,6 4"},
	})
}
