package page

import (
	"io"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/report/compare"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/report/table"
	"hclbench/results"
	"hclbench/telemetry"
	"hclbench/testhost"
)

// TestPrintable: no word of others reaches a terminal or a spreadsheet as a command.
func TestPrintable(t *testing.T) {
	rows, about := evil()
	const escape, formula = "\x1b]0;owned\a\x1b[2J", "=HYPERLINK(\"http://evil\")"
	for i := range rows {
		r := &rows[i]
		r.Benchmark, r.Error, r.Summary.Verdict.Verdict = formula, escape, escape
		r.Summary.Verdict.Reasons, r.Summary.ErrorSamples = load.Because("", escape), []string{escape}
		r.Deployment.Engine, r.Deployment.Model, r.Deployment.Command = escape, formula, []string{escape}
		r.Axes[len(r.Axes)-1].Value = formula
		r.CacheReset = escape
	}
	about.References = figure.Compare(rows, []figure.Reference{{Benchmark: formula, Name: escape, Source: escape,
		Rows: []map[string]any{{"engine": escape, "output_throughput": 1}}}})
	d, err := compare.Diff(escape, rows, escape, rows, []string{"output_throughput"})
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(w io.Writer) error{
		"table":    func(w io.Writer) error { return table.Table(w, rows[:3], table.Options{Width: 100}) },
		"csv":      func(w io.Writer) error { return table.CSV(w, rows[:3], figure.About{}) },
		"markdown": func(w io.Writer) error { return table.Markdown(w, rows[:3], about) },
		"cell": func(w io.Writer) error {
			return table.Cell(w, rows[0], figure.Found{}, []results.Event{{Message: escape}}, 40)
		},
		"summary":    func(w io.Writer) error { return table.Summary(w, rows[0].Summary, 40) },
		"references": func(w io.Writer) error { return table.References(w, about.References, table.Options{}) },
		"comparison": func(w io.Writer) error { return d.Write(w, "text", 100) },
		"benchstat":  func(w io.Writer) error { return d.Write(w, "benchstat", 100) },
		"json":       func(w io.Writer) error { return table.JSON(w, rows[:3], about) },
	} {
		text := reporttest.Written(t, write)
		if strings.ContainsAny(text, "\x1b\a\u009b") {
			t.Errorf("%s: %.200q", name, text)
		}
		if name == "csv" && (strings.Contains(text, ",=H") || strings.Contains(text, `"=H`)) {
			t.Errorf("%s has a formula: %.300q", name, text)
		}
	}
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

// evil are rows in which every word of others is an attack on a page.
func evil() ([]results.Row, figure.About) {
	const attack = `x"'><img src=x onerror="window.ran=1"><script>window.ran=1</script></script><!--{{.}}` + "`${window.ran=1}`"
	var rows []results.Row
	for i := range 250 { // also among those that are asked for
		r := reporttest.Row(attack, int64(1+i), 100, 20)
		r.ID, r.RunID, r.Benchmark, r.Error, r.CacheReset = attack, attack, attack, attack, attack
		r.Axes = append(r.Axes, results.Axis{Name: attack, Value: attack})
		r.Summary.Verdict = load.Verdict{Verdict: attack, Reasons: load.Because("", attack)}
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
	about := figure.About{Title: attack, Description: attack, Version: attack, Spending: []figure.Spending{{Run: attack, Host: attack, Held: 1}},
		Planned: []figure.Planned{{Benchmark: attack, ID: "never", Axes: results.Axes{{Name: attack, Value: attack}}}},
		Layout: figure.Layout{Headline: attack, Notes: []string{attack},
			Charts: []figure.AskedChart{{Title: attack, X: "concurrency", Y: []string{"output_throughput"}, Note: attack}}},
	}
	about.References = figure.Compare(rows, []figure.Reference{{Benchmark: attack, Name: attack,
		Source: "javascript:window.ran=1//" + attack, Rows: []map[string]any{{"engine": attack, "output_throughput": 1}}}})
	return rows, about
}
