package page

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
	"hclbench/testhost"
)

// TestPage opens pages in a browser as readers do: wide and on a phone, light and dark.
func TestPage(t *testing.T) {
	t.Parallel()
	b := testhost.NewBrowser(t)
	rows := reporttest.Measured()
	about := aboutMeasured(rows)
	many := make([]results.Row, 0, 300) // more than the table shows at once, and more series than colours
	for i := range cap(many) {
		r := reporttest.Row("vllm.h200", int64(1+i%20), 100+float64(i), 20)
		r.Axes = append(r.Axes, results.Axis{Name: "chunk", Value: int64(i / 20)})
		many = append(many, r)
	}
	searched, found := reporttest.Searched(
		reporttest.Search{Engine: "sglang.h200", Pass: []float64{4, 8, 32, 64, 79}, Open: []float64{16, 91}, Fail: []float64{99, 128}},
		reporttest.Search{Engine: "trtllm.h200", Pass: []float64{4, 16, 64, 83}, Fail: []float64{87, 95, 128}},
		reporttest.Search{Engine: "vllm.h200", Pass: []float64{4, 8, 28}, Open: []float64{30}, Fail: []float64{34, 64}, Running: true},
		reporttest.Search{Engine: "vllm.old", Pass: []float64{4, 52}, Fail: []float64{67},
			Flaw: "drifting: a load of 52 has passed, and failed when it was tried again at the end"},
		reporttest.Search{Engine: "vllm.big", Pass: []float64{4, 64, 128}, Most: 128},
		reporttest.Search{Engine: "vllm.tiny", Fail: []float64{1, 4}})
	tuned, ledger := reporttest.Tuned()
	for _, c := range []struct {
		name    string
		rows    []results.Row
		about   figure.About
		figures []string // that have to be there
		left    string   // what is said of one that is not
	}{
		{"dstack", reporttest.Dstack(t), figure.About{Title: "DeepSeek-R1 on H200 and MI300X", Description: "What dstack published in March 2025"},
			[]string{"online-latency", "online-latency-2", "online-concurrency", "online-pareto",
				"online-output_tokens", "offline-batch", "offline-batch-latency", "offline-output_tokens", "prefix-cache"},
			"Time line of a cell: no result has its figures over time."},
		{"measured", rows, about, []string{"online-latency", "online-concurrency", "online-pareto", "distributions",
			"time-line-h200-sglang"}, "Prefix cache on and off: no engine"},
		{"quickstart", reporttest.Quickstart(), figure.About{Title: "quickstart"}, []string{"online-latency", "online-concurrency",
			"distributions"}, "Prefix cache"},
		{"many", many, figure.About{Title: "Three hundred cells"}, []string{"online-concurrency"}, "Prefix cache"},
		{"groups", slices.Concat(reporttest.FourHosts(), reporttest.TwoHosts(), reporttest.OneHost()), figure.About{Title: "Engines of several members"},
			[]string{"online-latency", "online-concurrency", "online-pareto"}, "Prefix cache"},
		{"searched", searched, figure.About{Title: "chat", Found: figure.Found{Capacities: found}}, []string{"capacity-chat", "capacity-chat-attainment", "chat-latency"}, "Prefix cache"},
		{"tuned", tuned, figure.About{Title: "chat", Found: figure.Found{Tunings: []results.Ledger{ledger}}}, []string{"tuning-settings"}, "Prefix cache"},
		{"nothing", nil, figure.About{Title: "Nothing yet"}, nil, "Latency distributions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wide, phone := testhost.View{Width: 1440, Height: 900}, testhost.View{Width: 390, Height: 844}
			tab := b.Open(t, pageOf(t, c.rows, c.about), wide)
			picture := func(name string) {
				if *reporttest.Pictures != "" {
					if err := os.WriteFile(filepath.Join(*reporttest.Pictures, c.name+"-"+name+".png"), tab.Picture(t), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, view := range []testhost.View{wide, phone} {
				for _, dark := range []bool{false, true} {
					view.Dark = dark
					tab.Look(t, view)
					picture(fmt.Sprintf("%d-dark-%t", view.Width, dark))
					look(t, tab, view)
				}
			}
			var figures []string
			tab.Eval(t, `[...document.querySelectorAll("figure")].map(f => f.id.slice(4))`, &figures)
			for _, want := range c.figures {
				if !slices.Contains(figures, want) {
					t.Errorf("no figure %s among %q", want, figures)
				}
			}
			var left string
			tab.Eval(t, `[...document.querySelectorAll(".left li")].map(l => l.textContent).join("\n")`, &left)
			if !strings.Contains(left, c.left) {
				t.Errorf("what is left out is %q, want %q", left, c.left)
			}
			for _, view := range []testhost.View{phone, wide} { // after what is dark: the theme's button outdoes the system
				if tab.Look(t, view); len(c.rows) > 0 {
					use(t, tab, view)
				}
			}
			tab.Look(t, testhost.View{Width: 718, Height: 1000, Print: true})
			picture("print")
			var hidden []string
			tab.Eval(t, `[...document.querySelectorAll("nav, .filter, .take, #theme")].filter(e => e.offsetParent).map(e => e.outerHTML)`, &hidden)
			if len(hidden) > 0 {
				t.Errorf("on paper there are %q", hidden)
			}
			if got := tab.Requests(t); len(got) != 1 {
				t.Errorf("it asks for %q, want only itself", got)
			}
			for _, p := range tab.Problems(t) {
				t.Error(p)
			}
		})
	}
}

// aboutMeasured is what a report tells beside those rows.
func aboutMeasured(rows []results.Row) figure.About {
	about := figure.About{Title: "DeepSeek-R1 on two boxes", Description: "Which engine serves best, and at what price",
		Version: "1.2.3", Spending: figure.Spent(rows, nil)}
	for i := range rows {
		about.Planned = append(about.Planned, figure.Planned{Benchmark: rows[i].Benchmark, ID: rows[i].ID, Axes: rows[i].Axes})
	}
	about.Planned = append(about.Planned, figure.Planned{Benchmark: "online", ID: "never",
		Axes: results.Axes{{Name: "engine", Value: "sglang.mi300x"}, {Name: "concurrency", Value: int64(128)}}})
	about.References = figure.Compare(rows, []figure.Reference{{Benchmark: "online", Name: "somebody",
		Source: "https://example.com/study", Rows: []map[string]any{
			{"engine": "sglang.h200", "concurrency": "16", "output_throughput": "312.5", "Mean TTFT (ms)": "401.5"},
			{"engine": "sglang.h200", "concurrency": "64", "output_throughput": "512.5", "Mean TTFT (ms)": "901.5", "p50_ttft_ms": 890},
			{"engine": "vllm.h200", "concurrency": "64", "output_throughput": "1,012.5", "Mean TTFT (ms)": "801"},
			{"engine": "trtllm.h200", "concurrency": "64", "output_throughput": "612.5"},
		}}})
	return about
}

// pageOf is where a browser finds the page of rows.
func pageOf(t *testing.T, rows []results.Row, about figure.About) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	text := reporttest.Written(t, func(w io.Writer) error { return HTML(w, rows, about) })
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return "file://" + path
}

// look is what holds for every page at every size.
func look(t *testing.T, tab *testhost.Tab, view testhost.View) {
	t.Helper()
	var wrong []string
	tab.Eval(t, `(() => {
		["beforeprint", "afterprint"].forEach(e => dispatchEvent(new Event(e))); // all charts are there
		const wrong = [];
		if (document.documentElement.scrollWidth > innerWidth)
			wrong.push("the page is " + document.documentElement.scrollWidth + " wide, the window " + innerWidth);
		for (const text of document.querySelectorAll("#hero-chart text")) {
			const r = text.getBoundingClientRect(), box = text.closest("svg").getBoundingClientRect();
			if (r.left < box.left - 2 || r.right > box.right + 2 || r.top < box.top - 2 || r.bottom > box.bottom + 2)
				wrong.push("hero: outside: " + text.textContent);
		}
		if (/NaN|Infinity|undefined/.test(document.getElementById("hero-chart")?.outerHTML ?? "")) wrong.push("hero: not a number");
		for (const chart of document.querySelectorAll(".chart")) {
			const shown = [...chart.querySelectorAll("svg")].filter(s => s.getBoundingClientRect().width > 0);
			const at = chart.closest("figure").id + " " + (chart.textContent.trim().split("\n")[0]);
			if (shown.length !== 1) { wrong.push(at + ": " + shown.length + " drawings are shown"); continue; }
			const svg = shown[0], box = svg.getBoundingClientRect();
			if (box.width < 250 || box.height < 70) wrong.push(at + ": it is " + box.width + " by " + box.height);
			if (!svg.querySelector("g[data-s] polyline, g[data-s] polygon, g[data-s] circle")) wrong.push(at + ": nothing is drawn");
			for (const text of svg.querySelectorAll("text")) {
				const r = text.getBoundingClientRect();
				if (r.left < box.left - 2 || r.right > box.right + 2 || r.top < box.top - 2 || r.bottom > box.bottom + 2)
					wrong.push(at + ": outside: " + text.textContent);
			}
			if (/NaN|Infinity|undefined/.test(svg.outerHTML)) wrong.push(at + ": not a number");
		}
		for (const s of document.querySelectorAll("script[data-name]")) {
			const lines = JSON.parse(s.textContent).trim().split("\n");
			if (s.closest("figure") && lines.length < 2) wrong.push(s.dataset.name + ": no data");
		}
		const light = getComputedStyle(document.body).backgroundColor === "rgb(255, 255, 255)";
		if (light !== `+strconv.FormatBool(!view.Dark)+`) wrong.push("the ground is " + getComputedStyle(document.body).backgroundColor);
		return wrong;
	})()`, &wrong)
	for _, w := range wrong {
		t.Errorf("%d wide, dark %t: %s", view.Width, view.Dark, w)
	}
}

// use sorts, filters, points and switches as a reader does.
func use(t *testing.T, tab *testhost.Tab, view testhost.View) {
	t.Helper()
	column := func(name string) (values []float64) {
		tab.Eval(t, `(() => {
			["beforeprint", "afterprint"].forEach(e => dispatchEvent(new Event(e))); // all of it is listed
			const t = document.getElementById("cells"), heads = [...t.tHead.rows[1].cells];
			const i = heads.findIndex(h => h.dataset.name === "`+name+`");
			return [...t.tBodies[0].rows]
				.map(r => parseFloat(r.cells[i].textContent.replaceAll(",", ""))).filter(v => !Number.isNaN(v));
		})()`, &values)
		return values
	}
	filter := func(text string) {
		tab.Eval(t, `(() => { const f = document.getElementById("filter"); f.value = "`+text+`"; f.dispatchEvent(new Event("input")); })()`, nil)
	}
	filter("") // as it was opened, however it was used before
	click := `[...document.querySelectorAll("#cells [data-name=output_throughput] button")].forEach(b => b.click())`
	tab.Eval(t, click, nil)
	if got := column("output_throughput"); !slices.IsSorted(got) || len(got) < 2 {
		t.Errorf("sorted by throughput: %v", got)
	}
	tab.Eval(t, click, nil)
	got := column("output_throughput")
	slices.Reverse(got)
	if !slices.IsSorted(got) {
		t.Errorf("sorted by throughput, the other way: %v", got)
	}

	before := len(column("concurrency"))
	filter("concurrency>=16")
	got = column("concurrency")
	if len(got) == 0 || len(got) > before || slices.Min(got) < 16 {
		t.Errorf("concurrency>=16 leaves %v", got)
	}
	filter("no such thing")
	if got := column("concurrency"); len(got) != 0 {
		t.Errorf("a filter that fits nothing leaves %v", got)
	}
	filter("")
	if got := len(column("concurrency")); got != before {
		t.Errorf("without a filter there are %d rows, before there were %d", got, before)
	}
	var more struct{ Before, After, Left int }
	tab.Eval(t, `(() => {
		const shown = () => {
			["beforeprint", "afterprint"].forEach(e => dispatchEvent(new Event(e))); // it is listed as it comes into view
			return document.getElementById("cells").tBodies[0].rows.length;
		};
		const before = shown(), more = document.getElementById("more");
		const left = more.hidden ? 0 : parseInt(more.textContent.replace(/\D/g, ""));
		if (!more.hidden) more.click();
		return { Before: before, After: shown(), Left: left };
	})()`, &more)
	if more.Before == 0 || more.After != more.Before+more.Left || more.Left > 0 && more.Before != 200 {
		t.Errorf("%d rows are shown, %d more are offered, and then there are %d", more.Before, more.Left, more.After)
	}

	var spot struct{ X, Y float64 }
	tab.Eval(t, `(() => {
		const p = [...document.querySelectorAll(".pt")].find(p => p.getBoundingClientRect().width > 0);
		p.scrollIntoView({ block: "center" });
		const place = () => { const r = p.getBoundingClientRect(); return { X: r.x + r.width / 2, Y: r.y + r.height / 2 }; };
		return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(place())))); // scrolling takes a frame
	})()`, &spot)
	tab.Move(t, spot.X, spot.Y)
	var tip string
	tab.Eval(t, `new Promise(done => requestAnimationFrame(() => {
		const t = document.getElementById("tip");
		done(t.hidden ? "" : t.textContent);
	}))`, &tip)
	if !strings.Contains(tip, " tok/s ") && !strings.Contains(tip, " ms ") && !strings.Contains(tip, " requests") {
		t.Errorf("%d wide: pointing at a value says %q", view.Width, tip)
	}

	var shown []int
	tab.Eval(t, `(() => {
		const count = () => [...document.querySelectorAll("svg g[data-s='0']")].filter(g => g.style.display !== "none").length;
		const n = [count()];
		const b = document.querySelector("[data-toggle='0']");
		b.click(); n.push(count()); b.click(); n.push(count());
		return n;
	})()`, &shown)
	if shown[0] == 0 || shown[1] != 0 || shown[2] != shown[0] {
		t.Errorf("the legend shows %v marks: before, switched off, switched on", shown)
	}

	var grounds []string
	tab.Eval(t, `(() => {
		const ground = () => getComputedStyle(document.body).backgroundColor, b = document.getElementById("theme");
		const g = [ground()]; b.click(); g.push(ground()); b.click(); g.push(ground()); return g;
	})()`, &grounds)
	if grounds[0] == grounds[1] || grounds[0] != grounds[2] {
		t.Errorf("the theme's button turns the ground from %q", grounds)
	}
}
