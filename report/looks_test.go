package report

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/report/chart"
	"hclbench/report/number"
	"hclbench/results"
	"hclbench/telemetry"
	"hclbench/testhost"
)

// hovers are what stands in a drawing without being drawn.
var hovers = regexp.MustCompile(`<title>[^<]*</title>|>[^<]*</text>`)

// heights are those of texts, circles, and corners of everything else in a drawing.
var heights = regexp.MustCompile(`(?: c?y="|[\d.],)(-?[\d.]+)`)

// TestMarks: every chart and its data say what they show, and bars have room.
func TestMarks(t *testing.T) {
	for command, want := range map[string]string{"rehearse": "rehearsal", "import": "imported", "apply": "valid"} {
		rows := matrix()
		bars := matrix()[:1] // of one cell there are bars
		for i := range 20 {
			r := row(fmt.Sprintf("vllm.of-a-very-long-name-that-fills-a-legend-%d", i), 4, 100, 20)
			bars = append(bars, r)
		}
		for _, rows := range [][]results.Row{rows, bars} {
			for i := range rows {
				rows[i].Run.Command = command
			}
			found := sections(rows, newSeries(rows, nil), About{})
			for _, s := range found {
				for _, f := range s.Figures {
					if data := f.CSV(); !strings.Contains(data, ","+want+"\n") || want != "valid" && strings.Contains(data, ",valid\n") {
						t.Errorf("%s: %s has the data\n%.300s", command, f.ID, data)
					}
					for _, c := range f.Charts {
						d := f.picture(c, sourceOf(rows, About{}))
						if got := strings.Contains(d.SVG(chart.Light), "Rehearsal") || strings.Contains(d.SVG(chart.Light), "Imported"); got != (want != "valid") {
							t.Errorf("%s: %s is marked: %t", command, f.ID, got)
						}
						for _, at := range heights.FindAllStringSubmatch(hovers.ReplaceAllString(d.SVG(chart.OfPage), ""), -1) {
							if y, err := strconv.ParseFloat(at[1], 64); err != nil || y < -1 || y > d.Height+1 {
								t.Fatalf("%s: %s %s: something is at %s of %.0f", command, f.ID, c.Title, at[1], d.Height)
							}
						}
					}
				}
			}
		}
	}
}

// TestSuspects: what is suspect is on no front and leads nothing, and that is said.
func TestSuspects(t *testing.T) {
	rows := []results.Row{
		row("a.x", 4, 100, 20), row("b.x", 4, 100, 18), row("c.x", 4, 100, 10),
		row("a.x", 16, 100, 20), row("b.x", 16, 100, 18), row("c.x", 16, 100, 10),
	}
	for i := range rows {
		rows[i].Deployment.GPUCount = 8
		rows[i].Deployment.Kind = kindIn(rows[i].Deployment.Engine)
		if rows[i].Deployment.Kind == "c" {
			rows[i].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("hot")}
		}
	}
	all := newSeries(rows, nil)
	found := sections(rows, all, About{})
	front := 0
	for _, s := range found {
		for _, f := range s.Figures {
			for _, c := range f.Charts {
				if len(c.Lines) > 0 && c.Lines[0].Front {
					front += len(c.Lines[0].Dots)
					for _, p := range c.Lines[0].Dots {
						if v := 1000 / (rows[2].Summary.TPOT.Median); p.X > v*0.99 {
							t.Errorf("the suspect point at %v is on the front", p.X)
						}
					}
				}
			}
		}
	}
	if front == 0 {
		t.Error("there is no front")
	}
}

// TestUnknownIsNotZero: a figure that others did not publish is none.
func TestUnknownIsNotZero(t *testing.T) {
	r := row("vllm.h200", 4, 100, 20)
	r.Run.Command = "import"
	r.Summary = &load.Summary{Part: load.Part{Figures: load.Figures{OutputThroughput: 100},
		Judgement: load.Judgement{Verdict: load.Verdict{Verdict: load.Imported}}}}
	r.Summary.TTFT = load.Stats{Median: 111, Percentiles: map[string]float64{"50": 111}}
	other := r
	other.Deployment.Engine, other.Axes = "sglang.h200", results.Axes{{Name: "engine", Value: "sglang.h200"}}
	text := table(t, []results.Row{r, other}, 100)
	if n := strings.Count(text, "p50"); n != 1 {
		t.Errorf("the median, which is the only percentile, has %d columns:\n%s", n, text)
	}
	if strings.Contains(text, "0 requests") || strings.Contains(text, "none failed") || strings.Contains(text, " 0 ") {
		t.Errorf("what is not known is shown as 0:\n%s", text)
	}
	if _, ok := completed.value(&r); ok {
		t.Error("requests are counted that nobody has counted")
	}
	r.Summary.Completed, r.Summary.Unknown = 10, []string{"failed"}
	if _, ok := failed.value(&r); ok {
		t.Error("failures are counted that nobody has counted")
	}
}

func TestPercentFactors(t *testing.T) {
	for change, want := range map[float64]string{0.12: "+12 %", 1: "+100 %", 19: "×20.0", -0.5: "−50 %", -0.9986: "÷714", -1: "−100 %"} {
		if got := number.Change(change); got != want {
			t.Errorf("number.Change(%v) = %q, want %q", change, got, want)
		}
	}
}

// TestPrintable: no word of others reaches a terminal or a spreadsheet as a command.
func TestPrintable(t *testing.T) {
	rows, about := evil()
	const escape, formula = "\x1b]0;owned\a\x1b[2J", "=HYPERLINK(\"http://evil\")"
	for i := range rows {
		r := &rows[i]
		r.Benchmark, r.Error, r.Summary.Verdict.Verdict = formula, escape, escape
		r.Summary.Verdict.Reasons, r.Summary.ErrorSamples = load.Because(escape), []string{escape}
		r.Deployment.Engine, r.Deployment.Model, r.Deployment.Command = escape, formula, []string{escape}
		r.Axes[len(r.Axes)-1].Value = formula
		r.CacheReset = escape
	}
	about.References = Compare(rows, []Reference{{Benchmark: formula, Name: escape, Source: escape,
		Rows: []map[string]any{{"engine": escape, "output_throughput": 1}}}})
	d, err := Diff(escape, rows, escape, rows, []string{"output_throughput"})
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(w io.Writer) error{
		"table":      func(w io.Writer) error { return Table(w, rows[:3], Options{Width: 100}) },
		"csv":        func(w io.Writer) error { return CSV(w, rows[:3]) },
		"markdown":   func(w io.Writer) error { return Markdown(w, rows[:3], about) },
		"cell":       func(w io.Writer) error { return Cell(w, rows[0], []results.Event{{Message: escape}}) },
		"summary":    func(w io.Writer) error { return Text(w, rows[0].Summary) },
		"references": func(w io.Writer) error { return References(w, about.References, Options{}) },
		"comparison": func(w io.Writer) error { return d.Write(w, "text", 100) },
		"benchstat":  func(w io.Writer) error { return d.Write(w, "benchstat", 100) },
		"json":       func(w io.Writer) error { return JSON(w, rows[:3], about) },
	} {
		text := written(t, write)
		if strings.ContainsAny(text, "\x1b\a\u009b") {
			t.Errorf("%s: %.200q", name, text)
		}
		if name == "csv" && (strings.Contains(text, ",=H") || strings.Contains(text, `"=H`)) {
			t.Errorf("%s has a formula: %.300q", name, text)
		}
	}
}

// TestWindow: curves are of the requests that the figures are of.
func TestWindow(t *testing.T) {
	r := row("vllm.h200", 4, 100, 20)
	r.Summary.Window = &load.Window{From: 10e9, To: 20e9}
	var records []load.Record
	for i := range 30 {
		at := load.Record{OutputTokens: 1, Sent: 5*time.Second + time.Duration(i)*time.Second}
		at.First, at.Last = at.Sent+50e6, at.Sent+1e8
		if i < 10 || i >= 20 {
			at.Last = at.Sent + 9e9
		}
		records = append(records, at)
	}
	about := About{Records: func(*results.Row) ([]load.Record, error) { return records, nil }}
	got, err := about.curves(&r)
	if err != nil || len(got["e2el"]) != 10 || got["e2el"][9].X != 100 {
		t.Errorf("curves of the window: %v, %v", got["e2el"], err)
	}
}

// TestGathered: a source that lost a reading shifts nothing.
func TestGathered(t *testing.T) {
	one := telemetry.Series{Name: telemetry.Power, At: []float64{0, 1, 2, 3}, Value: []float64{10, 20, 30, 40}}
	two := telemetry.Series{Name: telemetry.Power, At: []float64{0.1, 2.1, 3.1}, Value: []float64{1, 3, 4}}
	l := gathered([]telemetry.Series{one, two}, telemetry.Power, 1, true)
	var got []string
	for _, d := range l.Dots {
		got = append(got, fmt.Sprintf("%g:%g", d.X, d.Y))
	}
	if want := "0:11 2:33 3:44"; strings.Join(got, " ") != want {
		t.Errorf("gathered = %s, want %s", got, want)
	}
}

// TestPrefixPairs: what differs in more than its prefixes is no pair.
func TestPrefixPairs(t *testing.T) {
	pair := func() (rows []results.Row) {
		for _, kind := range []string{load.Random, load.SharedPrefix} {
			r := row("vllm.h200", 4, 100, 20)
			r.Benchmark, r.Job.Workload.Dataset.Kind = kind, kind
			rows = append(rows, r)
		}
		return rows
	}
	for name, change := range map[string]func(r *results.Row){
		"":             func(*results.Row) {},
		"the length":   func(r *results.Row) { r.Summary.InputTokens *= 8 },
		"a flag":       func(r *results.Row) { r.Deployment.Identity = map[string]string{"--tp": "4"} },
		"the model":    func(r *results.Row) { r.Deployment.Model = "small" },
		"another axis": func(r *results.Row) { r.Axes = append(r.Axes, results.Axis{Name: "chunk", Value: int64(1)}) },
	} {
		rows := pair()
		change(&rows[1])
		got := prefixPairs(samples(rows, newSeries(rows, nil)))
		if len(got) == 1 != (name == "") {
			t.Errorf("%q differs: %d pairs", name, len(got))
		}
	}
	rows := append(pair(), pair()[1])
	rows[2].Benchmark = "another"
	if got := prefixPairs(samples(rows, newSeries(rows, nil))); len(got) > 0 {
		t.Errorf("of two that fit one was taken: %v", got)
	}
}

// evil are rows in which every word of others is an attack on a page.
func evil() ([]results.Row, About) {
	const attack = `x"'><img src=x onerror="window.ran=1"><script>window.ran=1</script></script><!--{{.}}` + "`${window.ran=1}`"
	var rows []results.Row
	for i := range 250 { // also among those that are asked for
		r := row(attack, int64(1+i), 100, 20)
		r.ID, r.RunID, r.Benchmark, r.Error, r.CacheReset = attack, attack, attack, attack, attack
		r.Axes = append(r.Axes, results.Axis{Name: attack, Value: attack})
		r.Summary.Verdict = load.Verdict{Verdict: attack, Reasons: load.Because(attack)}
		r.Identity = map[string]string{attack: attack}
		r.Run.Lab, r.Run.Command = attack, attack
		d := &r.Deployment
		d.Kind, d.Host, d.GPUs, d.Model, d.Image, d.Digest, d.CompileCache = attack, attack, attack, attack, attack, attack, attack
		d.Command, d.Versions, d.Identity = []string{attack}, map[string]string{attack: attack}, map[string]string{attack: attack}
		d.Phases, d.Listener = []results.Phase{{Name: attack, Seconds: 1}}, &results.Listener{By: attack}
		d.Facts = []byte(`{"os":"<img src=x onerror=window.ran=1>","gpus":[{"name":"<script>window.ran=1</script>"}]}`)
		d.Served = []byte(`{"</script><script>window.ran=1</script>":"</pre><img src=x onerror=window.ran=1>"}`)
		r.Telemetry = &telemetry.Record{Problems: []string{attack}}
		rows = append(rows, r)
	}
	about := About{Title: attack, Description: attack, Version: attack, Spending: []Spending{{Run: attack, Host: attack, Held: 1}},
		Planned: []Planned{{Benchmark: attack, ID: "never", Axes: results.Axes{{Name: attack, Value: attack}}}},
		Layout: Layout{Headline: attack, Notes: []string{attack},
			Charts: []Chart{{Title: attack, X: "concurrency", Y: []string{"output_throughput"}, Note: attack}}},
	}
	about.References = Compare(rows, []Reference{{Benchmark: attack, Name: attack,
		Source: "javascript:window.ran=1//" + attack, Rows: []map[string]any{{"engine": attack, "output_throughput": 1}}}})
	return rows, about
}

// TestEvil: nothing of what is shown is run by the browser that shows it.
func TestEvil(t *testing.T) {
	t.Parallel()
	rows, about := evil()
	tab := testhost.NewBrowser(t).Open(t, pageOf(t, rows, about), testhost.View{Width: 1440, Height: 900})
	var seen struct {
		Ran     bool
		Foreign []string
		Rows    int
		Policy  string
	}
	tab.Eval(t, `(() => {
		const filter = document.getElementById("filter");
		filter.value = "onerror"; filter.dispatchEvent(new Event("input"));
		document.getElementById("more").click();
		dispatchEvent(new Event("beforeprint")); // all of it is there
		[...document.querySelectorAll("#cells th button, [data-toggle]")].forEach(b => b.click());
		const inline = document.createElement("script"); // what the policy is for
		inline.textContent = "window.ran = true"; document.body.append(inline);
		return new Promise(done => setTimeout(() => done({
			Ran: window.ran !== undefined,
			Foreign: [...document.querySelectorAll("img, a[href^=javascript], [onerror], script:not([type])")]
				.filter(e => e !== document.scripts[document.scripts.length - 2] && e !== inline).map(e => e.outerHTML.slice(0, 80)),
			Rows: document.querySelectorAll("#cells tbody tr").length,
			Policy: document.querySelector("meta[http-equiv]").content,
		}), 100));
	})()`, &seen)
	if seen.Ran {
		t.Error("a script of others ran")
	}
	if len(seen.Foreign) > 0 {
		t.Errorf("in the page there are %q", seen.Foreign)
	}
	if seen.Rows != len(rows) {
		t.Errorf("%d rows are shown, want %d", seen.Rows, len(rows))
	}
	if strings.Contains(seen.Policy, "unsafe") {
		t.Errorf("the policy is %s", seen.Policy)
	}
	if got := tab.Requests(t); len(got) != 1 {
		t.Errorf("it asks for %q, want only itself", got)
	}
}
