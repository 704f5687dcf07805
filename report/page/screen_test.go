package page

import (
	"slices"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/report/say"
	"hclbench/results"
	"hclbench/telemetry"
	"hclbench/testhost"
)

// TestFirstScreen uses what the page begins with: its chart, its choices, its address, and a cell opened.
func TestFirstScreen(t *testing.T) {
	t.Parallel()
	rows := reporttest.Measured()
	for i := range rows {
		if rows[i].Telemetry != nil {
			rows[i].Telemetry.Counts = []telemetry.Count{{Name: telemetry.QueueTime, Sum: 0.032, Times: 64}, {Name: telemetry.Computed, Sum: 900}}
		}
	}
	about := aboutMeasured(rows)
	tab := testhost.NewBrowser(t).Open(t, pageOf(t, rows, about), testhost.View{Width: 1440, Height: 900})
	walk(t, tab, [][3]string{
		{"the finding", `document.getElementById("finding").textContent`, "H200 · SGLang has the highest output throughput per GPU everywhere from 20 to 50 tok/s per user: 75.6 tok/s at 40, ×3.64 against H200 · vLLM."},
		{"the deciding table", `document.querySelector("#decide td.best button").textContent`, "207"},
		{"what came of some repetitions", `document.querySelector("#cells tr.suspect td:nth-child(2)").textContent`, "2 valid, 1 suspect [1]"},
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
		{"the cell over time", `[...document.querySelectorAll("#cell .curves p")].map(p => p.textContent).join("; ")`, "Requests in flight 0.167 to 1.00; Output throughput 8.64 to 56.0 tok/s; Median time to first token 64.6 to 75.8 ms; KV cache in use 11.7 to 70.0 %; Power of all GPUs 250 to 633 W"},
		{"what its engine counted", `[...document.querySelectorAll("#cell h3")].find(h => h.textContent === "What the engine counted, repetition 1").nextSibling.innerText.replaceAll("\n", " ")`,
			"Engine's clock 64 requests: queue 0.500 ms Prompt tokens 900 computed (100 %)"},
		{"a value of it by keys", `(() => { const svg = document.querySelectorAll("#cell .curves svg")[3];
			for (const key of ["ArrowRight", "ArrowRight"]) svg.dispatchEvent(new KeyboardEvent("keydown", { key })); return svg.previousSibling.textContent; })()`, "KV cache in use 1.48 s: about 23.7 %"},
		{"its range again", `(() => { const svg = document.querySelectorAll("#cell .curves svg")[3]; svg.dispatchEvent(new Event("blur"));
			return svg.previousSibling.textContent; })()`, "KV cache in use 11.7 to 70.0 %"},
		{"the cell closed", `(document.querySelector("#cell .close").click(), ` +
			soon(`!location.hash.includes("cell")`, `document.getElementById("cell").open + " " + location.hash`) + `)`, "false #y=median_ttft_ms&base=1"},
		{"a filter of the strip", `(() => { document.querySelector("[data-filter='verdict=suspect']").click();
			return document.getElementById("count").textContent + ", " + document.querySelectorAll("#hero-chart .pt").length; })()`, "1 of 45 cells, 1"},
		{"a name that there is not", `(() => { const f = document.getElementById("filter"); f.value = "ttft_p51<3"; f.dispatchEvent(new Event("input"));
			return document.getElementById("count").textContent; })()`, "no column ttft_p51; did you mean ttft_p50?"},
		{"names are completed", `(() => { const f = document.getElementById("filter"); f.value = "ttft_p5"; f.focus(); f.dispatchEvent(new Event("input"));
			f.dispatchEvent(new KeyboardEvent("keydown", { key: "Tab" })); return f.value; })()`, "ttft_p50>="},
		{"the filter by a name", `(() => { const f = document.getElementById("filter"); f.value = "ttft_p50<80"; f.dispatchEvent(new Event("input"));
			const n = document.getElementById("count").textContent; f.value = ""; f.dispatchEvent(new Event("input")); return n; })()`, "3 of 45 cells"},
		{"the grammar of --where", `(() => { const f = document.getElementById("filter"), say = q => { f.value = q; f.dispatchEvent(new Event("input")); return document.getElementById("count").textContent; };
			return [say("engine=vllm"), say("engine = 'vllm.h200' and not (concurrency = 1 or concurrency >= 16)"), say("ttft_p50 < 0.08s"), say("engine = v*200 concurrency=4"), say("ttft_p50 < soon"), say("(engine = vllm"), say("")].join("; "); })()`,
			"30 of 45 cells; 3 of 45 cells; 3 of 45 cells; 3 of 45 cells; ttft_p50 is a number of ms, or a time such as 1.5s, not soon; 30 of 45 cells; 45 cells"},
		{"a chip takes the filter away", `(() => { const f = document.getElementById("filter"), chip = document.getElementById("unfilter"), strip = document.getElementById("filtered");
			f.value = "concurrency=4"; f.dispatchEvent(new Event("input")); const there = chip.textContent + " " + strip.textContent + " " + !strip.hidden; chip.click();
			return there + ", then " + !strip.hidden + " " + document.getElementById("count").textContent; })()`, "concurrency=4 ✕ Only concurrency=4 ✕ 9 of 45 cells true, then false 45 cells"},
		{"a line says its load", `document.querySelector("#cells tbody .stay").textContent`, "H200 · SGLang · 1×3"},
		{"a table is one stop", `(() => { const t = document.getElementById("cells"), stops = () => [...t.querySelectorAll("button, a")].filter(b => b.tabIndex === 0), [first] = stops();
			first.focus(); first.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
			return stops().length + " " + (document.activeElement === stops()[0]) + " " + (stops()[0] !== first); })()`, "1 true true"},
		{"repetitions unfold", `(() => { const rows = () => document.querySelectorAll("#cells tbody tr").length, before = rows();
			document.querySelector("[data-unfold]").click(); return before + " then " + rows(); })()`, "15 then 18"},
		{"the order is in the address", `(() => { const name = document.querySelector("#cells [data-name=output_throughput] button"); name.click();
			document.querySelector("#cells [data-name=output_throughput] button").click(); const sorted = document.querySelector("#cells tbody .stay").textContent, at = location.hash;
			location.hash = at.replace("-output", "output"); return sorted + " " + at; })()`, "H200 · SGLang · 128×3 #y=median_ttft_ms&base=1&sort=-output_throughput"},
		{"and from it", soon(`document.querySelector("#cells [aria-sort=ascending]")`, `document.querySelector("#cells tbody .stay").textContent`), "MI300X · vLLM · 1×3"},
		{"the verdict is second", `[...document.querySelectorAll("#cells thead tr:last-child th")].map(h => h.dataset.name).slice(0, 2).join()`, "series,verdict"},
		{"a copy", `(() => { let text; navigator.clipboard.writeText = async t => { text = t; }; document.getElementById("copy-markdown").click(); return text; })()`,
			"| series | verdict |"},
		{"the link to a cell", `(location.hash = "#cell=vllm.h200-64-1", ` +
			soon(`document.getElementById("cell").open`, `document.getElementById("cell-name").textContent`) + `)`, "H200 · vLLM"},
	})
	tab = testhost.NewBrowser(t).Open(t, pageOf(t, rows, about), testhost.View{Width: 390, Height: 844})
	var top float64
	if tab.Eval(t, `document.querySelector("#hero-chart svg").getBoundingClientRect().top`, &top); top >= 530 {
		t.Errorf("on a phone of 844 pixels the chart begins at %.0f", top)
	}
	for _, p := range tab.Problems(t) {
		t.Error(p)
	}
}

// TestNothingYet has no sections that say nothing.
func TestNothingYet(t *testing.T) {
	t.Parallel()
	steps(t, nil, figure.About{Title: "a lab"}, [][3]string{
		{"the sections", `[...document.querySelectorAll("main > section")].filter(s => !s.hidden).map(s => s.id).join()`, "part-across,reading"},
		{"what is said", `document.querySelector(".lede").textContent`, "Nothing is measured yet."},
	})
}

// TestAllVoid has one published value and nothing else to draw.
func TestAllVoid(t *testing.T) {
	t.Parallel()
	rows := reporttest.Measured()
	about := aboutMeasured(rows)
	for i := range rows {
		rows[i].Summary, rows[i].Error = nil, "no route to host"
	}
	steps(t, rows, about, [][3]string{
		{"the strip", `document.querySelector(".strip .void").textContent`, "45 void: no route to host"},
		{"what is chosen is drawn", `document.getElementById("hero-y").selectedOptions[0].textContent + ": " + document.getElementById("hero-title").textContent`,
			"Median time to first token: Median time to first token against concurrency, ms"},
	})
}

func TestPublishedPoints(t *testing.T) {
	t.Parallel()
	rows := reporttest.Measured()
	about := aboutMeasured(rows)
	steps(t, rows, about, [][3]string{
		{"the axes", choose, ""},
		{"crosses", crosses, "3,true,false,true,false"},
		{"a click", `document.querySelector("#hero-chart .pt[data-cell='']").dispatchEvent(new MouseEvent("click", { bubbles: true }))`, "true"},
		{"nothing is opened", `document.getElementById("cell").open`, "false"},
	})
	for i := range about.Planned {
		about.Planned[i].Row = &results.Row{Cell: rows[0].Cell, Deployment: rows[0].Deployment}
		if i < len(rows) {
			*about.Planned[i].Row, about.Planned[i].Repetition = rows[i], rows[i].Repetition
		}
	}
	about.References = about.References[:2]
	for i := range about.References {
		about.References[i].Cell = ""
	}
	steps(t, nil, about, [][3]string{
		{"the axes", choose, ""},
		{"all are crosses", crosses, "2,true,true,false,true"},
		{"nothing of what is not there", `document.querySelector(".strip").innerText + ["verdicts", "environment"].map(i => document.getElementById(i)).join() + document.querySelector("nav").innerText.includes("Environment")`, "not measured,false"},
		{"no front", `document.querySelectorAll("#hero-chart polyline[stroke-width='10']").length`, "0"},
		{"a cell opened", `(document.querySelector("[data-row]").click(), document.getElementById("cell").textContent)`, "published by somebody"},
		{"no command", `document.getElementById("cell").textContent.includes("hcl show")`, "false"},
	})
}

// TestZeros has a baseline of nothing, and a repetition that is all there is.
func TestZeros(t *testing.T) {
	t.Parallel()
	rows := reporttest.Measured()
	about := aboutMeasured(rows)
	for i := range rows {
		if rows[i].Summary != nil {
			good := 0.0
			if rows[i].Repetition == 3 {
				good = 0.5
			}
			if rows[i].Deployment.Engine == "vllm.h200" {
				good = 12_345_678
			}
			rows[i].Summary.Goodput = &good
		}
	}
	about.Layout.Columns = []string{"goodput"}
	steps(t, rows, about, [][3]string{
		{"the cells", `document.querySelectorAll("#cells tbody tr").length`, "15"},
		{"against nothing", `(() => { const b = document.getElementById("hero-base"), s = document.getElementById("hero-t"); b.value = "0"; b.dispatchEvent(new Event("change"));
			s.value = [...s.options].find(o => o.textContent.startsWith("Goodput")).value; s.dispatchEvent(new Event("change"));
			return document.getElementById("decide-second").textContent; })()`, "12,345,678"},
		{"no spread of nothing", `/Infinity|NaN|∞/.test(["cells", "decide", "decide-second"].map(i => document.getElementById(i).textContent).join())`, "false"},
	})
}

func TestFilterBars(t *testing.T) {
	t.Parallel()
	rows := reporttest.Measured()
	about := aboutMeasured(rows)
	rows = slices.DeleteFunc(rows, func(r results.Row) bool { return figure.AxisOf(r.Axes, "concurrency") != "64" })
	for i := range rows {
		rows[i].Axes = append(rows[i].Axes, results.Axis{Name: "series", Value: "A B_" + rows[i].Deployment.Engine})
	}
	filtered := func(filter string) string {
		return `(() => { const f = document.getElementById("filter"); label = document.querySelector("#cells button.link")?.textContent;
			f.value = "` + filter + `".replace("LABEL", label?.replaceAll(" ", "_")); f.dispatchEvent(new Event("input"));
			return [document.getElementById("count").textContent, ...[...document.querySelectorAll("#hero-chart .pt")].map(g =>
				g.nextSibling.textContent)].join("; "); })()`
	}
	steps(t, rows, about, [][3]string{
		{"ranges", `[...document.querySelectorAll("#hero-chart .pt")].map(g => g.querySelectorAll("path").length + g.querySelector("title").textContent).join("; ")`,
			"1,327 tok/s output throughput\nmedian of 3, 1,302 to 1,353; 1H200 · vLLM"},
		{"all", filtered(""), "9 cells; 1,327 tok/s; 1,160 tok/s  −13 %; 1,030 tok/s  −22 %"},
		{"a series by its name in the filter", filtered("series=LABEL"), "3 of 9 cells; 1,327 tok/s"},
		{"a repetition", filtered("repetition=1 series=LABEL"), "1 of 9 cells; 1,353 tok/s"},
		{"an axis by the name of a column of the page's", filtered("series-2=a_b_vllm.h200"), "3 of 9 cells; 1,160 tok/s"},
		{"nothing", filtered("nothing"), "0 of 9 cells"},
	})
}

// TestFilterDecides: tables that decide are of the cells that the filter lets through, and what is best is so among them.
func TestFilterDecides(t *testing.T) {
	t.Parallel()
	rows := reporttest.Matrix()
	rows[2].Summary.TTFT.Median, rows[2].Summary.OutputThroughput = 1432, 500
	rows[1].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "a neighbour")}
	rows[1].Summary.OutputThroughput = 900
	cut := func(filter string) string {
		return `(() => { const f = document.getElementById("filter"); f.value = "` + filter + `"; f.dispatchEvent(new Event("input")); return ` + decided + `; })()`
	}
	best := `[...document.querySelectorAll("#decide td.best button")].map(b => b.title).join("; ")`
	through := `document.getElementById("let-through").innerText`
	steps(t, rows, figure.About{Title: "lab"}, [][3]string{
		{"all", decided, "H200 · SGLang,62.5 113,22.0 113,22.0 113,22.0 113,–; H200 · vLLM,81.6,68.5,68.5,24.3,24.3"},
		{"no filter is told", through, ""},
		{"the best", best, "H200 · vLLM, peak: 81.6 tok/s, at 128 in flight, the best; H200 · vLLM, ≥ 20: 68.5 tok/s, at 16 in flight, the best"},
		{"without the greatest load", cut("concurrency<128"), "H200 · SGLang,22.0 113,22.0 113,22.0 113,22.0 113,–; H200 · vLLM,68.5,68.5,68.5,24.3,24.3"},
		{"what these are of", through, "Of the cells that concurrency<128 lets through (4 of 6)"},
		{"the best of all that are left, and no other", best + `.includes("peak")`, "false"},
		{"who leads where it is alone", best, "H200 · vLLM, ≥ 50: 24.3 tok/s, at 4 in flight, the best"},
		{"a suspect that would lead", `[...document.querySelectorAll("#decide .beyond button")].map(b => b.title).join("; ")`,
			"H200 · SGLang, peak: 113 tok/s, at 16 in flight, suspect; "},
		{"one series", cut("series=H200_·_vLLM"), "peak,≥ 20,≥ 30,≥ 40,≥ 50; H200 · vLLM,81.6,68.5,68.5,24.3,24.3"},
		{"what led goes on leading", best, "H200 · vLLM, peak: 81.6 tok/s, at 128 in flight, the best; H200 · vLLM, ≥ 20: 68.5 tok/s, at 16 in flight, the best"},
		{"one suspect", cut("series=H200_·_SGLang verdict=suspect"), "peak"},
		{"what it is of", through, "Of the cells that series=H200_·_SGLang verdict=suspect lets through (1 of 6)"},
		{"nothing", cut("nothing"), ""},
		{"no line", `document.getElementById("decide").textContent`, "No cell that the filter lets through has it."},
	})
}

// TestStrip names what has no figures, and the lab's baseline is chosen although the first table lacks it.
func TestStrip(t *testing.T) {
	t.Parallel()
	rows := reporttest.Matrix()
	for i := range rows[3:] {
		rows[3+i].Summary.Unknown = []string{"output_throughput"}
	}
	for _, engine := range []string{"trtllm.h200", "sglang.mi300x"} {
		r := reporttest.Row(engine, 4, 100, 20)
		r.Summary, r.Error = nil, "it did not start"
		rows = append(rows, r)
	}
	steps(t, rows, figure.About{Title: "lab", Layout: figure.Layout{Baseline: "vllm.h200"}}, [][3]string{
		{"the strip", `document.querySelector(".strip").innerText`, "2 series without figures: H200 · TensorRT-LLM (1 cell), H200 · SGLang mi300x (1 cell)"},
		{"no baseline in the first table", decided, "peak,≥ 20"},
		{"the baseline", `document.getElementById("hero-base").selectedOptions[0].textContent`, "H200 · vLLM"},
		{"changes in the second", `document.getElementById("decide-second").innerText`, "+90 %"},
	})
}

// TestLongTables: of many loads each is a line, so that no head is beyond the edge.
func TestLongTables(t *testing.T) {
	t.Parallel()
	var rows []results.Row
	for i := range int64(12) {
		rows = append(rows, reporttest.Row("sglang.h200", 1+i, 100, 20), reporttest.Row("vllm.h200", 1+i, 120, 22))
	}
	steps(t, rows, figure.About{Title: "lab"}, [][3]string{
		{"lines", `document.querySelectorAll("#decide-second tbody tr").length`, "12"},
		{"heads", `[...document.querySelectorAll("#decide-second thead th")].map(h => h.textContent).join()`, "concurrency,H200 · SGLang,H200 · vLLM"},
		{"the best", `document.querySelector("#decide-second tbody td.best button").title`, "H200 · SGLang, 1: 97.0 ms, the best"},
		{"no scrolling", `(s => s.scrollWidth <= s.clientWidth)(document.querySelector("#decide-second .scroll"))`, "true"},
	})
}

// TestFootnotes has reasons that differ in a number: they are one footnote, and each row keeps its own words.
func TestFootnotes(t *testing.T) {
	rows := reporttest.Measured()
	about := aboutMeasured(rows)
	for i, reason := range []string{"3 of 60 s were slow", "too hot", "5 of 60 s were slow", "too cold"} {
		rows[3*i].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", reason)}
	}
	p := newPage(rows, about)
	for i := range rows {
		note := p.Data.Note[i]
		if note == 0 {
			continue
		}
		if got, want := p.Data.Notes[note-1], say.Reasons(&rows[i]); got != want {
			t.Errorf("row %d is said to be %q, want %q", i, got, want)
		}
		foot := p.Doubts[p.Data.Foot[note-1]-1]
		if words := strings.Fields(say.Reasons(&rows[i])); !strings.HasSuffix(foot.Text, words[len(words)-1]) {
			t.Errorf("row %d, %q, links to %+v", i, say.Reasons(&rows[i]), foot)
		}
	}
	if len(p.Data.Notes) != len(p.Doubts)+1 {
		t.Errorf("%d texts in %d footnotes", len(p.Data.Notes), len(p.Doubts))
	}
}

// TestPrinted: on paper are all cells, and afterwards as many as before.
func TestPrinted(t *testing.T) {
	t.Parallel()
	var many []results.Row
	for i := range int64(230) {
		many = append(many, reporttest.Row("vllm.h200", i+1, 100, 20))
	}
	steps(t, many, figure.About{Title: "lab"}, [][3]string{
		{"on paper", `(dispatchEvent(new Event("beforeprint")), document.querySelectorAll("#cells tbody tr").length)`, "230"},
		{"after", `(dispatchEvent(new Event("afterprint")), document.querySelectorAll("#cells tbody tr").length < 230)`, "true"},
	})
}

// TestHeroSays: the unit in a chart's title is that of its axis, whatever is drawn; a key that opens a cell
// presses nothing else; and of many series eight have names, none of them over another.
func TestHeroSays(t *testing.T) {
	t.Parallel()
	var many []results.Row
	for i := range 15 {
		for _, c := range []int64{1, 2} {
			r := reporttest.Row("vllm.h200", c, 100+float64(i), 20)
			r.Axes = append(r.Axes, results.Axis{Name: "chunk", Value: int64(i)})
			many = append(many, r)
		}
	}
	steps(t, reporttest.Matrix(), figure.About{Title: "lab"}, [][3]string{
		{"units", `(() => { const D = JSON.parse(document.getElementById("data").textContent), y = document.getElementById("hero-y"), wrong = [];
			for (const o of y.options) { y.value = o.value; y.dispatchEvent(new Event("change"));
				const ticks = [...document.querySelectorAll("#hero-chart svg > text[x='40']")].map(t => Number(t.textContent.replaceAll(",", ""))), most = Math.max(...ticks);
				const column = D.columns.find(c => c.key === o.value), value = Math.max(...column.values.filter(v => v !== null));
				const seconds = document.getElementById("hero-title").textContent.replace(", logarithmic", "").endsWith(", s");
				if (column.unit === "ms" && (value / (seconds ? 1000 : 1) > most * 3 || value / (seconds ? 1000 : 1) < most / 3)) wrong.push(o.value); }
			return [y.options.length > 5, ...wrong].join(); })()`, "true"},
		{"Enter", `(() => { const svg = document.querySelector("#hero-chart svg"), press = key => { const e = new KeyboardEvent("keydown", { key, cancelable: true }); svg.dispatchEvent(e); return e.defaultPrevented; };
			svg.focus(); press("ArrowRight"); return [press("Enter"), document.getElementById("cell").open].join(); })()`, "true,true"},
	})
	steps(t, many, figure.About{Title: "lab"}, [][3]string{
		{"names", `(() => { const y = [...document.querySelectorAll("#hero-chart text[font-size='12.5']")].map(t => +t.getAttribute("y")).sort((a, b) => a - b);
			return [y.length, y.every((v, i) => !i || v - y[i - 1] >= 16.9), document.querySelectorAll("#hero-chart .dim").length].join(); })()`, "8,true,7"},
	})
	var bars []results.Row
	for _, name := range []string{"default", "with-dp-attention-and-much-more", "with-dp-attention-and-torch-compile", "with-dp-attention"} {
		r := reporttest.Row("sglang."+name, 4, 100, 20)
		r.Axes = r.Axes[:1]
		r.Axes[0].Value = "sglang." + name
		bars = append(bars, r)
	}
	steps(t, bars, figure.About{Title: "lab"}, [][3]string{
		{"bars", `(() => { const names = [...document.querySelectorAll("#hero-chart text[text-anchor=end]")].map(t => t.textContent); return [names.length, new Set(names).size].join(); })()`, "4,4"},
	})
}

// steps checks what expressions say in a page, one after the other, and that nothing failed in it.
func steps(t *testing.T, rows []results.Row, about figure.About, of [][3]string) {
	t.Helper()
	tab := testhost.NewBrowser(t).Open(t, pageOf(t, rows, about), testhost.View{Width: 1440, Height: 900})
	walk(t, tab, of)
	for _, p := range tab.Problems(t) {
		t.Error(p)
	}
}

// walk checks what expressions say in a tab: each has a text in it, or is nothing, or is whole numbers.
func walk(t *testing.T, tab *testhost.Tab, of [][3]string) {
	t.Helper()
	for _, step := range of {
		var got string
		tab.Eval(t, "Promise.resolve("+step[1]+").then(v => String(v ?? ''))", &got)
		if whole := strings.Trim(step[2], "0123456789 ") == ""; whole && got != step[2] || !strings.Contains(got, step[2]) {
			t.Errorf("%s: %q, want %q", step[0], got, step[2])
		}
	}
}

// soon says something in the first frame in which something holds.
func soon(holds, says string) string {
	return `new Promise(done => { const look = () => ` + holds + ` ? done(` + says + `) : requestAnimationFrame(look); look(); })`
}

// choose sets the first chart's axes.
const choose = `["x:concurrency", "y:output_throughput"].forEach(c => { const [k, v] = c.split(":"), e = document.getElementById("hero-" + k);
	e.value = v; e.dispatchEvent(new Event("change")); })`

// crosses are the points that others published: how many, whether they say so, whether any opens a cell,
// and whose they are: at each name, or once where all are of one publisher.
const crosses = `(() => { const of = [...document.querySelectorAll("#hero-chart .pt")].filter(g => g.querySelector("path"));
	return [of.length, of.every(g => g.textContent.includes("published by somebody")), of.some(g => g.dataset.cell),
		document.querySelector("#hero-chart").textContent.includes(", by somebody"), document.querySelector("#hero-under").textContent.includes(", by somebody")].join(); })()`

// decided are the lines of the first table that decides, cells by commas.
const decided = `[...document.querySelectorAll("#decide tr")].map(r => [...r.cells].map(c => c.innerText.replace(/\s+/g, " ").trim()).join()).join("; ")`
