package page

import (
	"testing"

	"hclbench/report/figure"
	"hclbench/report/reporttest"
)

// TestAccuracy: the page has a column and a section of what was asked, and who answers worse does not lead.
func TestAccuracy(t *testing.T) {
	t.Parallel()
	rows, scores := reporttest.Scored()
	about := figure.About{Title: "chat", Found: figure.Found{Scores: scores}}
	steps(t, about.Check(rows), about, [][3]string{
		{"who leads", `document.getElementById("finding").textContent`, "int8"},
		{"who answers worse", `document.getElementById("finding").parentElement.textContent`, "fp8 answers worse than its baseline."},
		{"the column", `[...document.querySelectorAll("#cells tbody tr")].map(r => r.innerText).join("\n")`, "worse"},
		{"the scores", `document.querySelector("#accuracy table").innerText`, "90.0 %"},
		{"what they prove", `document.querySelector("#accuracy .note").textContent`, "vllm.fp8 at 8: worse: of 1000 questions it has lost 50"},
		{"a filter", `(() => { const f = document.getElementById("filter"); f.value = "accuracy=worse"; f.dispatchEvent(new Event("input"));
			return document.getElementById("count").textContent; })()`, "1 of 4 cells"},
	})
	called, asked := reporttest.Called()
	about = figure.About{Title: "chat", Found: figure.Found{Scores: asked}}
	steps(t, about.Check(called), about, [][3]string{
		{"F1 beside speed", `[...document.querySelectorAll("#cells tbody tr")].map(r => r.innerText).join("\n")`, "0.89"},
		{"the calls", `document.querySelector("#accuracy table").innerText.replace(/\s+/g, " ")`, "8 75.0 % 0.89"},
		{"a line names no verdict as its load", `String([...document.querySelectorAll("#cells .stay .load")].some(e => e.textContent.includes("not shown")))`, "false"},
	})
	steps(t, rows, figure.About{Title: "chat"}, [][3]string{
		{"where nobody was asked", `String(document.getElementById("accuracy")) + document.querySelector("#cells thead").innerText.includes("accuracy")`, "nullfalse"},
	})
}
