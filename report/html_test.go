package report

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/results"
	"hclbench/results/formats"
	"hclbench/telemetry"
	"hclbench/testhost"
)

// dstack are the rows that dstack published in March 2025, as `hcl import` reads
// them: no hand has touched them.
func dstack(t testing.TB) []results.Row {
	t.Helper()
	run := results.Run{ID: "20250318-000000-dstk", Lab: "dstack-deepseek-r1", Command: "import",
		Started: time.Date(2025, 3, 18, 0, 0, 0, 0, time.UTC)}
	var rows []results.Row
	for _, name := range []string{"online", "offline"} {
		f, err := os.Open("../examples/dstack-deepseek-r1/published/" + name + ".csv")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		published, _, err := formats.ReadTable(f)
		if err != nil {
			t.Fatal(err)
		}
		for n, p := range published {
			r := results.Row{Cell: p.Cell, Deployment: p.Deployment, Run: run}
			r.ID, r.RunID, r.Benchmark, r.Repetition = fmt.Sprint(name, n), run.ID, name, 1
			r.Deployment.Engine, r.Deployment.GPUCount = r.Deployment.Kind, 8
			rows = append(rows, r)
		}
	}
	return rows
}

// measured is a run of two engines on two hosts with everything that a result can
// have: prices, telemetry, series, repetitions, doubts, facts.
func measured() (rows []results.Row) {
	facts := json.RawMessage(`{"hostname":"gpu1","os":"Ubuntu 22.04.5 LTS","kernel":"6.8.0-45-generic","arch":"x86_64",
		"cpu_model":"INTEL(R) XEON(R) PLATINUM 8570","cpus":224,"memory_bytes":2164663517184,"docker":"28.5.2",
		"gpus":[{"vendor":"nvidia","name":"NVIDIA H200","memory_bytes":151397597184,"driver":"550.144.03"},
		{"vendor":"nvidia","name":"NVIDIA H200","memory_bytes":151397597184,"driver":"550.144.03"}]}`)
	at := start
	for e, engine := range []string{"sglang.h200", "vllm.h200", "vllm.mi300x"} {
		host, gpus := "h200", "8xH200"
		if engine == "vllm.mi300x" {
			host, gpus = "mi300x", "8xMI300X"
		}
		ready := at
		at = at.Add(9 * time.Minute)
		for c, concurrency := range []int64{1, 4, 16, 64, 128} {
			for repetition := 1; repetition <= 3; repetition++ {
				slower := 1 + 0.02*float64(repetition) + 0.15*float64(e)
				r := row(engine, concurrency, slower*(60+11*float64(concurrency)), slower*(18+0.35*float64(concurrency)))
				r.ID, r.Repetition = fmt.Sprintf("%s-%d-%d", engine, concurrency, repetition), repetition
				r.Started, r.Finished = at, at.Add(70*time.Second)
				at = at.Add(75 * time.Second)
				r.Deployment = results.Deployment{ID: "d-" + engine, RunID: r.RunID, Engine: engine, Kind: kindIn(engine),
					Host: host, GPUs: gpus, GPUCount: 8,
					Model: "deepseek-ai/DeepSeek-R1", Image: "example.com/" + kindIn(engine) + ":v1",
					Digest:  "sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945",
					Command: []string{kindIn(engine), "serve", "--tp", "8", "--served-model-name", "deepseek-ai/DeepSeek-R1"}, Facts: facts,
					Started: ready, Ready: 480, PricePerHour: 28, Versions: map[string]string{"torch": "2.7.0", kindIn(engine): "0.9.1"},
					Served: json.RawMessage(`{"max_model_len":163840,"dtype":"bfloat16"}`),
					Phases: []results.Phase{{Name: "pull", Seconds: 61}, {Name: "load weights", Seconds: 312}, {Name: "capture graphs", Seconds: 44}}}
				r.Job.Workload = load.Workload{Requests: 64, Concurrency: int(concurrency), OutputTokens: 128,
					Dataset: load.Dataset{Kind: load.Random, InputTokens: 1024}}
				for _, s := range []*load.Stats{&r.Summary.TTFT, &r.Summary.TPOT, &r.Summary.ITL, &r.Summary.E2EL} {
					s.Percentiles["25"], s.Percentiles["75"] = s.Mean*0.9, s.Mean*1.03
				}
				n := 60
				series := &load.Series{Every: load.Duration(time.Second)}
				power := telemetry.Series{Of: "gpu0", Name: telemetry.Power, Unit: "W"}
				cache := telemetry.Series{Of: telemetry.Engine, Name: telemetry.KVCache}
				for i := range n {
					wave := 1 + 0.08*math.Sin(float64(i)/3)
					ramp := min(1, float64(i+1)/6, float64(n-i)/5)
					series.InFlight = append(series.InFlight, float64(concurrency)*ramp)
					series.OutputTokens = append(series.OutputTokens, r.Summary.OutputThroughput*wave*ramp)
					series.TTFT = append(series.TTFT, r.Summary.TTFT.Median*wave)
					power.At, power.Value = append(power.At, float64(i)), append(power.Value, 180+420*ramp*wave)
					cache.At, cache.Value = append(cache.At, float64(i)), append(cache.Value, 0.7*ramp)
				}
				r.Summary.Series = series
				r.Telemetry = &telemetry.Record{Interval: 1, Series: []telemetry.Series{power, cache}, Expected: n,
					Energy: 8 * 560 * r.Summary.Duration}
				if c == 4 && repetition == 2 && e == 1 {
					r.Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("GPU 3 was throttled in 12 of 60 seconds")}
				}
				if c == 4 && repetition == 3 && e == 2 {
					r.Summary, r.Error = nil, "the server stopped answering: 503 Service Unavailable"
				}
				rows = append(rows, r)
			}
		}
		stopped := at.Add(time.Minute)
		for i := range rows {
			if rows[i].Deployment.Engine == engine {
				rows[i].Deployment.Stopped = stopped
			}
		}
		at = stopped
	}
	return rows
}

// aboutMeasured is what a report tells beside those rows.
func aboutMeasured(rows []results.Row) About {
	about := About{Title: "DeepSeek-R1 on two boxes", Description: "Which engine serves best, and at what price",
		Version: "1.2.3", Spending: Spent(rows)}
	for i := range rows {
		about.Planned = append(about.Planned, Planned{Benchmark: rows[i].Benchmark, ID: rows[i].ID, Axes: rows[i].Axes})
	}
	about.Planned = append(about.Planned, Planned{Benchmark: "online", ID: "never",
		Axes: results.Axes{{Name: "engine", Value: "sglang.mi300x"}, {Name: "concurrency", Value: int64(128)}}})
	about.References = Compare(rows, []Reference{{Benchmark: "online", Name: "somebody",
		Source: "https://example.com/study", Rows: []map[string]any{
			{"engine": "sglang.h200", "concurrency": "16", "output_throughput": "312.5", "Mean TTFT (ms)": "401.5"},
			{"engine": "sglang.h200", "concurrency": "64", "output_throughput": "512.5", "Mean TTFT (ms)": "901.5", "p50_ttft_ms": 890},
			{"engine": "vllm.h200", "concurrency": "64", "output_throughput": "1,012.5", "Mean TTFT (ms)": "801"},
			{"engine": "trtllm.h200", "concurrency": "64", "output_throughput": "612.5"},
		}}})
	return about
}

var pictures = flag.String("pictures", "", "write what the browser shows into this `folder`, to be looked at")

// pageOf is where a browser finds the page of rows.
func pageOf(t *testing.T, rows []results.Row, about About) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	text := written(t, func(w io.Writer) error { return HTML(w, rows, about) })
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return "file://" + path
}

// TestPage opens pages in a browser as readers do: wide and on a phone, light and dark.
func TestPage(t *testing.T) {
	t.Parallel()
	b := testhost.NewBrowser(t)
	rows := measured()
	about := aboutMeasured(rows)
	many := make([]results.Row, 0, 300) // more than the table shows at once, and more series than colours
	for i := range cap(many) {
		r := row("vllm.h200", int64(1+i%20), 100+float64(i), 20)
		r.Axes = append(r.Axes, results.Axis{Name: "chunk", Value: int64(i / 20)})
		many = append(many, r)
	}
	for _, c := range []struct {
		name    string
		rows    []results.Row
		about   About
		figures []string // that have to be there
		left    string   // what is said of one that is not
	}{
		{"dstack", dstack(t), About{Title: "DeepSeek-R1 on H200 and MI300X", Description: "What dstack published in March 2025"},
			[]string{"online-latency", "online-latency-2", "online-concurrency", "online-pareto",
				"online-output_tokens", "offline-batch", "offline-batch-latency", "offline-output_tokens", "prefix-cache"},
			"Time line of a cell: no result has its figures over time."},
		{"measured", rows, about, []string{"online-latency", "online-concurrency", "online-pareto", "distributions",
			"time-line-h200-sglang"}, "Prefix cache on and off: no engine"},
		{"quickstart", quickstart(), About{Title: "quickstart"}, []string{"online-latency", "online-concurrency",
			"distributions"}, "Prefix cache"},
		{"many", many, About{Title: "Three hundred cells"}, []string{"online-concurrency"}, "Prefix cache"},
		{"groups", slices.Concat(fourHosts(), twoHosts(), oneHost()), About{Title: "Engines of several members"},
			[]string{"online-latency", "online-concurrency", "online-pareto"}, "Prefix cache"},
		{"nothing", nil, About{Title: "Nothing yet"}, nil, "Latency distributions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wide, phone := testhost.View{Width: 1440, Height: 900}, testhost.View{Width: 390, Height: 844}
			tab := b.Open(t, pageOf(t, c.rows, c.about), wide)
			picture := func(name string) {
				if *pictures != "" {
					if err := os.WriteFile(filepath.Join(*pictures, c.name+"-"+name+".png"), tab.Picture(t), 0o644); err != nil {
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
	if !strings.Contains(tip, " tok/s ") && !strings.Contains(tip, " ms ") {
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
