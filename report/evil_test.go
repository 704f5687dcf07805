package report

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/results"
	"hclbench/telemetry"
	"hclbench/testhost"
)

// evil are rows in which every word of others is an attack on a page.
func evil() ([]results.Row, About) {
	const attack = `x"'><img src=x onerror="window.ran=1"><script>window.ran=1</script></script><!--{{.}}` + "`${window.ran=1}`"
	var rows []results.Row
	for i := range shownRows + 50 { // also among those that the page's script shows
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
		Layout: Layout{Notes: []string{attack},
			Charts: []Chart{{Title: attack, X: "concurrency", Y: []string{"output_throughput"}, Note: attack}}},
	}
	about.References = Compare(rows, []Reference{{Benchmark: attack, Name: attack,
		Source: "javascript:window.ran=1//" + attack, Rows: []map[string]any{{"engine": attack, "output_throughput": 1}}}})
	return rows, about
}

// TestEvil: nothing of what is shown is run by the browser that shows it.
func TestEvil(t *testing.T) {
	rows, about := evil()
	path := filepath.Join(t.TempDir(), "report.html")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(HTML(f, rows, about), f.Close()); err != nil {
		t.Fatal(err)
	}
	tab := testhost.NewBrowser(t).Open(t, "file://"+path, testhost.View{Width: 1440, Height: 900})
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
