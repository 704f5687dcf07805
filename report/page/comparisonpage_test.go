package page

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/report/compare"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
	"hclbench/testhost"
)

// TestComparedPage opens the page of two runs.
func TestComparedPage(t *testing.T) {
	t.Parallel()
	a, b := twoRuns(t)
	d, err := compare.Diff("run 20261121-142501-k3f9", a, "run 20261122-090000-later", b, compare.DefaultMetrics())
	if err != nil {
		t.Fatal(err)
	}
	less, err := compare.ParseLimit("output_throughput < -5%")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Check([]compare.GateLimit{less}, nil); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "compare.html")
	page := reporttest.Written(t, func(w io.Writer) error {
		return Comparison(w, d, figure.About{Title: "deepseek-r1 compared", Version: "1.2.3"})
	})
	if err := os.WriteFile(name, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	wide, phone := testhost.View{Width: 1440, Height: 900}, testhost.View{Width: 390, Height: 844, Dark: true}
	tab := testhost.NewBrowser(t).Open(t, "file://"+name, wide)
	for _, view := range []testhost.View{phone, wide} {
		tab.Look(t, view)
		look(t, tab, view)
		tab.Readable(t, "a comparison", "header, #difference, #results")
		if *reporttest.Pictures != "" {
			file := filepath.Join(*reporttest.Pictures, fmt.Sprintf("compare-%d.png", view.Width))
			if err := os.WriteFile(file, tab.Picture(t), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	walk(t, tab, [][3]string{
		{"the finding", `document.getElementById("finding").textContent`,
			"B against A: output throughput: worse in 2, level in 10 of 12 cells (0.2 would be by chance); worst at sglang.h200, concurrency 128: 1,221 tok/s, was 1,642 tok/s (−26\u00a0%)."},
		{"its rest", `document.getElementById("finding-rest").textContent`, "Suspect, and not counted: 1 cell."},
		{"the gate", `document.querySelector("#difference h2").textContent`, "The gate is shut: 5 of 15 checks failed"},
		{"what went in", `document.querySelector("#difference tbody tr").textContent`, "--enable-dp-attention–truesglang.h200, vllm.h200 and vllm.mi300x13"},
		{"A is pale", `document.querySelectorAll("#hero-chart [data-s] polyline[opacity='0.45']").length`, "3"},
		{"a point says both", `(() => { const svg = document.querySelector("#hero-chart svg"); svg.focus();
			svg.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft" })); const tip = document.getElementById("tip").textContent;
			svg.blur(); return tip; })()`, "A 6.30 tok/s, B 6.29 tok/s: −0.2 %"},
		{"a filter of the strip", `(document.querySelector("[data-filter='outcome=worse']").click(), document.querySelectorAll("#cells tbody tr").length)`, "4"},
		{"sorted by the change", `(document.querySelector("#cells [data-name=output_throughput] button").click(),
			document.querySelector("#cells tbody tr").textContent)`, "1,642 → 1,221−26 %, p=0.029"},
		{"its repetitions", `(document.querySelector("[data-unfold]").click(), document.querySelectorAll("#cells tbody tr")[5].textContent)`, "H200 · SGLang, Avalid"},
		{"a filter by the change", `(() => { const f = document.getElementById("filter"); f.value = "change_output_throughput<-20 side=a"; f.dispatchEvent(new Event("input"));
			const said = document.getElementById("count").textContent; f.value = ""; f.dispatchEvent(new Event("input")); return said; })()`, "4 of 103 cells"},
		{"a change in a column of its own", `(() => { const box = [...document.querySelectorAll("#columns label")].find(l => l.textContent.trim() === "change of output throughput").firstChild;
			const read = () => document.querySelector("#cells tbody tr").textContent; box.click(); const said = read(); box.click(); return said; })()`, "-25.6"},
		{"a pair opened", `(document.querySelector("#cells [data-row]").click(), document.getElementById("cell").textContent)`,
			"hcl show sglang.h200-128-1 --run 20261122-090000-later"},
		{"both are in it", `document.getElementById("cell").textContent`, "Output throughput1,642 tok/s1,221 tok/s−26 %, p=0.029"},
		{"of its own image", `document.querySelector("#cell article").textContent`, "sha256:e1e1"},
		{"its address", `location.hash`, "cell=sglang.h200-128-1%40B"},
	})
	tab.Readable(t, "a pair opened", "#cell")
	for _, p := range tab.Problems(t) {
		t.Error(p)
	}
}

// TestBelowTheNoise: what the boxes cannot show is no change on the page either, whatever repetitions say.
func TestBelowTheNoise(t *testing.T) {
	t.Parallel()
	noise := &results.Noise{Box: "b", Engine: "vllm.h200", Host: "h200", Starts: 4, Spread: map[string]float64{"output_throughput": 0.02}}
	cells := func(values ...float64) []results.Row {
		rows := reporttest.Repeated("vllm.h200", 4, values...)
		for i := range rows {
			rows[i].Noise = noise
		}
		return rows
	}
	d, err := compare.Diff("a", cells(1000, 1001, 1002, 1003), "b", cells(939, 940, 941, 942), []string{"output_throughput"})
	if err != nil {
		t.Fatal(err)
	}
	if f := d.Cells[0].Figures[0]; f.Verdict != "level" || !f.Significant {
		t.Fatalf("it is %s, and significant %v", f.Verdict, f.Significant)
	}
	name := filepath.Join(t.TempDir(), "compare.html")
	page := reporttest.Written(t, func(w io.Writer) error { return Comparison(w, d, figure.About{}) })
	if err := os.WriteFile(name, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	tab := testhost.NewBrowser(t).Open(t, "file://"+name, testhost.View{Width: 1440, Height: 900})
	walk(t, tab, [][3]string{
		{"the change", `document.querySelector("#cells tbody tr").textContent`, "~ below the noise"},
		{"no look", `document.querySelectorAll("#cells tbody .worse, #cells tbody .better").length`, "0"},
		{"a pair opened", `(document.querySelector("#cells [data-row]").click(), document.getElementById("cell").textContent)`, "~ below the noise"},
	})
}

// TestDifferenceSays: what a page says first of two sets of results.
func TestDifferenceSays(t *testing.T) {
	pairs := func(a, b []float64) [2][]results.Row {
		return [2][]results.Row{reporttest.Repeated("vllm.h200", 4, a...), reporttest.Repeated("vllm.h200", 4, b...)}
	}
	suspect := pairs([]float64{100}, []float64{50})
	suspect[1][0].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "hot")}
	other := pairs([]float64{100}, []float64{50})
	other[1][0].Deployment.Model = "another/model"
	for name, c := range map[string]struct {
		of   [2][]results.Row
		want []string
	}{
		"one cell": {pairs([]float64{100}, []float64{50}), []string{"B against A: output throughput: too few runs to tell: 50.0 tok/s, was 100 tok/s (−50 %).",
			"Too few repetitions to tell changes from chance, which takes 4 of each: 1 cell.", "outcome=unknown"}},
		"level":   {pairs([]float64{100}, []float64{100}), []string{"B against A: output throughput is level everywhere.", "outcome=level", "None that is more than chance"}},
		"suspect": {suspect, []string{"Nothing here can be compared. Suspect, and not counted: 1 cell.", "outcome=suspect"}},
		"another model": {other, []string{`<p class="mark">Another model in 1 cell: another/model was deepseek-ai/DeepSeek-R1</p>`,
			"<b>deepseek-r1 compared</b>"}},
		"no pair": {[2][]results.Row{reporttest.Repeated("a.x", 4, 1), reporttest.Repeated("b.x", 4, 1)}, []string{"Nothing here can be compared.", "outcome=only_in_A", "outcome=only_in_B"}},
		"nothing": {[2][]results.Row{}, []string{"Nothing is known of what went in."}},
	} {
		d, err := compare.Diff("a", c.of[0], "b", c.of[1], []string{"output_throughput"})
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return Comparison(w, d, figure.About{}) }), c.want...)
		})
	}
}

// twoRuns are the cells of [measured] four times each, and as a later run has them: of another image, with
// another flag, SGLang slower the more is in flight, vLLM level, a cell suspect, one gone and one new.
func twoRuns(t testing.TB) (a, b []results.Row) {
	rows := reporttest.Measured()
	for _, r := range rows {
		if r.Repetition == 3 && r.Deployment.Engine != "vllm.mi300x" {
			r.Repetition, r.ID = 4, strings.TrimSuffix(r.ID, "3")+"4"
			rows = append(rows, r)
		}
	}
	for _, r := range rows {
		r.Deployment.Identity = map[string]string{"--tp": "8"}
		a = append(a, r)
		r.RunID, r.Run.ID = "20261122-090000-later", "20261122-090000-later"
		r.Deployment.Digest, r.Deployment.Identity = "sha256:"+strings.Repeat("e1", 32), maps.Clone(r.Deployment.Identity)
		r.Deployment.Identity["--enable-dp-attention"] = "true"
		if s := r.Summary; s != nil {
			own := *s
			switch concurrency, _ := r.Axes.Value("concurrency"); {
			case r.Deployment.Kind == "sglang":
				by := 1 - 0.002*float64(concurrency.(int64))
				own.OutputThroughput *= by
				own.TTFT.Median, own.TTFT.Mean = own.TTFT.Median*1.4, own.TTFT.Mean*1.4
			case concurrency == int64(1):
				own.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "the host swapped")}
			}
			r.Summary = &own
		}
		b = append(b, r)
	}
	a = slices.DeleteFunc(a, func(r results.Row) bool {
		c, _ := r.Axes.Value("concurrency")
		return r.Deployment.Kind == "sglang" && c == int64(4)
	})
	b = slices.DeleteFunc(b, func(r results.Row) bool {
		c, _ := r.Axes.Value("concurrency")
		return r.Deployment.Engine == "vllm.mi300x" && c == int64(1)
	})
	return a, b
}

// TestSearchesCompared: what engines hold on both sides stands first, with what is certain of the difference.
func TestSearchesCompared(t *testing.T) {
	t.Parallel()
	to := func(pass, fail float64) reporttest.Search {
		return reporttest.Search{Engine: "vllm.h200", Pass: []float64{4, 16, pass}, Fail: []float64{fail, 128}}
	}
	a, foundA := reporttest.Searched(to(79, 99))
	b, foundB := reporttest.Searched(to(40, 52))
	d, err := compare.Diff("a", a, "b", b, compare.DefaultMetrics())
	if err != nil {
		t.Fatal(err)
	}
	d.Capacities(foundA, foundB)
	name := filepath.Join(t.TempDir(), "compare.html")
	page := reporttest.Written(t, func(w io.Writer) error { return Comparison(w, d, figure.About{Title: "chat compared"}) })
	if err := os.WriteFile(name, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	tab := testhost.NewBrowser(t).Open(t, "file://"+name, testhost.View{Width: 1440, Height: 900})
	if *reporttest.Pictures != "" {
		if err := os.WriteFile(filepath.Join(*reporttest.Pictures, "searches-compared.png"), tab.Picture(t), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	walk(t, tab, [][3]string{
		{"the finding", `document.getElementById("finding").textContent`, "vllm.h200 certainly holds less: 40 to 52 concurrent, was 79 to 99 (−60\u00a0% to −34\u00a0%)."},
		{"the bars", `[...document.querySelectorAll("#fig-capacity-chat .wide text")].map(t => t.textContent).join("; ")`, "40 to 52"},
		{"who is ahead", `document.querySelector("#fig-capacity-chat .note").textContent`, "H200 · vLLM, A holds the most: 79, and H200 · vLLM, B breaks by 52."},
	})
	for _, p := range tab.Problems(t) {
		t.Error(p)
	}
}
