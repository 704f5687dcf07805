package page

import (
	"slices"
	"testing"

	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
	"hclbench/testhost"
)

// TestReadable: nobody is kept from reading a page by how they see or what they press with.
func TestReadable(t *testing.T) {
	t.Parallel()
	rows := reporttest.Measured()
	about := aboutMeasured(rows)
	rows = slices.DeleteFunc(rows, func(r results.Row) bool { // axe takes its time for each element
		return r.Repetition == 1 || !slices.Contains([]string{"64", "128"}, figure.AxisOf(r.Axes, "concurrency"))
	})
	for i := range rows[1:] {
		if s := rows[i+1].Summary; s != nil {
			s.Series = nil
		}
		rows[i+1].Telemetry = nil
	}
	rehearsed := reporttest.Quickstart()
	for i := range rehearsed {
		rehearsed[i].Run.Command = "rehearse"
	}
	searched, found := reporttest.Searched(reporttest.Search{Engine: "sglang.h200", Pass: []float64{4, 79}, Open: []float64{91}, Fail: []float64{99}},
		reporttest.Search{Engine: "vllm.h200", Fail: []float64{1}})
	tuned, ledger := reporttest.Tuned()
	b := testhost.NewBrowser(t)
	type step struct{ what, does, of string }
	for _, c := range []struct {
		name  string
		rows  []results.Row
		about figure.About
		steps []step
	}{
		{"measured", rows, about, []step{
			{"everything", `document.querySelectorAll("[data-table]").forEach(b => b.click()), document.querySelector(".choose").open = true,
				(f => { f.value = "ttft"; f.focus(); f.dispatchEvent(new Event("input")); })(document.getElementById("filter"))`, "html"},
			{"a filter", `document.querySelector("[data-filter]").click()`, "header, #answer, #results"},
			{"a cell opened", `document.querySelector("[data-row]").click()`, "#cell"},
		}},
		{"rehearsed", rehearsed, figure.About{Title: "quickstart"}, []step{{"as it opens", "0", "html"}}},
		{"searched", searched, figure.About{Title: "chat", Found: figure.Found{Capacities: found}}, []step{{"as it opens", "0", "header, .first"}}},
		{"tuned", tuned, figure.About{Title: "chat", Found: figure.Found{Tunings: []results.Ledger{ledger}}}, []step{
			{"all of it", `document.querySelectorAll(".tuning details").forEach(d => d.open = true)`, "header, .first"}}},
		{"nothing", nil, figure.About{Title: "Nothing yet"}, []step{{"as it opens", "0", "html"}}},
	} {
		tab := b.Open(t, pageOf(t, c.rows, c.about), testhost.View{})
		for _, s := range c.steps {
			tab.Eval(t, s.does, nil)
			for _, view := range []testhost.View{{Width: 1440, Height: 900}, {Width: 390, Height: 844, Dark: true}} {
				tab.Look(t, view)
				tab.Readable(t, c.name+", "+s.what, s.of)
			}
		}
	}
}
