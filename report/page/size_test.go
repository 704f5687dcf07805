package page

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
	"hclbench/testhost"
)

// TestSize holds a page of many cells to what people can open, send and filter.
func TestSize(t *testing.T) {
	t.Parallel()
	holdsSize(t, tenThousand()[:1200], 500_000)
}

func TestSlowSize(t *testing.T) {
	t.Parallel()
	holdsSize(t, tenThousand(), 1_500_000)
}

// TestLate: drawings are put in as they come near the view, say what the data say, and show what the filter lets through.
func TestLate(t *testing.T) {
	t.Parallel()
	rows := reporttest.Measured()
	about := aboutMeasured(rows)
	rows[0].Summary, rows[0].Error = nil, "no route to host"
	figure := func(does string) string {
		return `(f => { const svg = f.querySelector(".wide svg"); 
			const g = [...svg.querySelectorAll("[data-cells]")].find(g => g.dataset.s === "1" && g.querySelector("[marker-mid]"));
			` + does + ` })(document.getElementById("fig-online-concurrency"))`
	}
	filter := func(text string) string {
		return `(() => { const f = document.getElementById("filter"); f.value = "` + text + `"; f.dispatchEvent(new Event("input")); })()`
	}
	ends := `[...g.querySelectorAll("polyline")].map(l => l.points.length) + " "
		+ (g.querySelector("path").getAttribute("d").split("M").length - 1)
		+ " " + [...g.querySelectorAll("use")].filter(u => u.getBoundingClientRect().width > 0).length`
	fronts := `(of => of.filter(f => !f.classList.contains("out")).length + " of " + of.length)([...document.querySelectorAll(".chart .front")])`
	steps(t, rows, about, [][3]string{
		{"nothing of it is there", `document.querySelector("#fig-online-concurrency .wide svg")`, ""},
		{"it comes into view", `(document.getElementById("fig-online-concurrency").scrollIntoView(), ` +
			soon(`document.querySelector("#fig-online-concurrency .wide svg")`, "true") + `)`, "true"},
		{"its points by keys", figure(`svg.focus(); svg.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" })); 
			return document.getElementById("tip").textContent.split("\n")[0];`),
			"H200 · SGLang, 1 in flight"},
		{"a cell by its point", figure(`["ArrowRight", "Enter"].forEach(key => svg.dispatchEvent(new KeyboardEvent("keydown", { key })));
			const d = document.getElementById("cell"), open = d.open; d.close(); return open;`), "true"},
		{"a cell whose first repetition is void", `(location.hash = "#cell=sglang.h200-1-1", ` + soon(`document.getElementById("cell").open`,
			`(d => { d.close(); return d.textContent; })(document.getElementById("cell"))`) + `)`, "Over time, repetition 2"},
		{"a line", figure("return " + ends), "5 5 0"},
		{"a filter", filter("concurrency<=16 concurrency!=4"), ""},
		{"what is left of the line", figure("return " + ends), "2 2 0"},
		{"another series is gone", filter("sglang"), ""},
		{"nothing is left", figure("return " + ends), "0 1 0"},
		{"no filter", filter(""), ""},
		{"the line again", figure("return " + ends), "5 5 0"},
		{"its data", `(() => { const f = document.getElementById("fig-online-concurrency"); f.querySelector("[data-table]").click();
			const rows = [...f.querySelectorAll(".behind tr")]; return [rows.length, rows[1].textContent].join(); })()`, "H200 · SGLang"},
		{"a list", `(() => { const d = document.querySelector(".doubt details"); d.open = true; d.scrollIntoView();
			return ` + soon(`d.querySelector("li")`, `d.querySelectorAll("li").length`) + `; })()`, "1"},
		{"on paper all is there", `(dispatchEvent(new Event("beforeprint")), document.querySelectorAll(".late > noscript").length)`, "0"},
		{"all of ours", filter("run=20261121-142501-k3f9"), ""},
		{"their fronts stand", fronts, "12 of 12"},
		{"some of ours", filter("sglang"), ""},
		{"no fronts", fronts, "0 of 12"},
	})
}

// noisy are rows as they are measured: no two figures have digits in common, and every cell is a container's
// of its own.
func noisy(rows []results.Row) []results.Row {
	chance := rand.New(rand.NewPCG(1, 2))
	for i := range rows {
		r, at := &rows[i], &rows[i].Summary.Figures
		figures := []*float64{&at.Duration, &at.RequestThroughput, &at.OutputThroughput, &at.InputThroughput, &at.TotalThroughput,
			&at.MeanConcurrency, &at.PeakOutputThroughput}
		for _, s := range []*load.Stats{&at.TTFT, &at.TPOT, &at.ITL, &at.E2EL} {
			figures = append(figures, &s.Mean, &s.Median, &s.Std, &s.Min, &s.Max)
			of := map[string]float64{}
			for p, v := range s.Percentiles {
				of[p] = v * (1 + 0.3*chance.Float64())
			}
			s.Percentiles = of
		}
		for _, v := range figures {
			*v *= 1 + 0.3*chance.Float64()
		}
		r.ID, r.Deployment.GPUCount = fmt.Sprintf("%012x", chance.Uint64()>>16), 8
	}
	return rows
}

// holdsSize has the page of rows take so many bytes at most, compressed.
func holdsSize(t *testing.T, rows []results.Row, most int) {
	t.Helper()
	found := len(figure.Those(rows, func(r *results.Row) bool { return figure.Along(r)["concurrency"] >= 16 }))
	path := filepath.Join(t.TempDir(), "report.html")
	var page, packed bytes.Buffer
	if err := HTML(&page, noisy(rows), figure.About{Title: "Many cells"}); err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(&packed)
	z.Write(page.Bytes())
	z.Close()
	if packed.Len() > most {
		t.Errorf("the page of %d cells has %d bytes compressed, want at most %d", len(rows), packed.Len(), most)
	}
	if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	tab := testhost.NewBrowser(t).Open(t, "file://"+path, testhost.View{Width: 1440, Height: 900})
	var got struct{ Nodes, Drawings, Filtered int }
	tab.Eval(t, `(() => {
		const of = q => document.querySelectorAll(q).length, nodes = of("*"), drawings = of(".chart svg"), f = document.getElementById("filter");
		f.value = "concurrency>=16 verdict=valid"; f.dispatchEvent(new Event("input"));
		return { Nodes: nodes, Drawings: drawings, Filtered: parseInt(document.getElementById("count").textContent.replace(",", "")) };
	})()`, &got)
	if got.Nodes > 5_000 || got.Drawings > 8 || got.Filtered != found {
		t.Errorf("the page of %d cells has %d elements and %d drawings when it opens, and its filter finds %d", len(rows),
			got.Nodes, got.Drawings, got.Filtered)
	}
	for _, p := range tab.Problems(t) {
		t.Error(p)
	}
}
