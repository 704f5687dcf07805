package draw

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/report/chart"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/reporttest"
	"hclbench/results"
	"hclbench/testhost"
)

// TestSweep: a sweep is a plane for each series at the greatest load, with the best at each pair of
// places marked; what is suspect is never the best, and what is void has no value.
func TestSweep(t *testing.T) {
	rows := reporttest.Swept("vllm.h200", "sglang.h200")
	for i := range rows {
		switch r := &rows[i]; {
		case r.Axes[1].Value != int64(64):
		case r.ID[:4] == "vllm" && strings.HasSuffix(r.ID, "128 64"):
			r.Summary.OutputThroughput *= 9
			r.Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "hot")}
		case r.ID[:4] == "vllm" && strings.HasSuffix(r.ID, "128 512"):
			r.Summary.Verdict = load.Verdict{Verdict: load.Void, Reasons: load.Because("", "all requests failed")}
		}
	}
	about := figure.About{}
	found := Sections(rows, about.Series(rows), about)
	f := found[0].Figures[0]
	if f.ID != "online-sweep-output-throughput-per-gpu" || f.Under != "64 in flight" || len(f.Charts) != 2 {
		t.Fatalf("the sweep is %s, %q, of %d charts", f.ID, f.Under, len(f.Charts))
	}
	var got []string
	best := map[string]int{}
	for _, c := range f.Charts {
		for _, x := range c.Heat.Cells {
			place := c.Heat.Across[x.X] + "/" + c.Heat.Up[x.Y]
			if x.Best {
				best[place]++
			}
			if c == f.Charts[0] && x.X == 0 {
				got = append(got, fmt.Sprintf("%s %s suspect %t void %t best %t", place, number.Text(x.Value), x.Doubt, x.Void, x.Best))
			}
		}
	}
	reporttest.Check(t, "the first column", []string{"128/64 3,531 suspect true void false best false",
		"128/2,048 263 suspect false void false best false", "128/512 0 suspect false void true best false"}, got)
	for place, n := range best {
		if n != 1 {
			t.Errorf("at %s %d are the best", place, n)
		}
	}
	if len(best) != 7 { // at two places one of both is not sure, so there is nothing to be ahead of
		t.Errorf("%d places have a best: %v", len(best), best)
	}
	if data := f.CSV(); !strings.Contains(data, ",,,,tok/s,\"128, 512\",,,,void\n") {
		t.Errorf("the data of the void cell:\n%s", data)
	}
}

// TestFrame: whatever the names, every letter of a picture is within it.
func TestFrame(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	page.WriteString("<!doctype html><meta charset=utf-8><body>")
	n := 0
	for _, name := range []string{"h200", strings.Repeat("W", 80), strings.Repeat("a-very-long-name.of-an-engine_", 4),
		strings.Repeat("日本語の名前", 12)} {
		for _, rows := range [][]results.Row{reporttest.Swept("vllm."+name, "sglang."+name, "vllm.other"+name), matrixOf(name), matrixOf(name)[:1]} {
			for i := range rows {
				rows[i].Deployment.Engine, rows[i].Deployment.GPUs = rows[i].Axes[0].Value.(string), name
				rows[i].Deployment.Model, rows[i].Run.Lab, rows[i].Run.Command = name, name, "rehearse"
			}
			about := figure.About{Version: name}
			found := Sections(rows, about.Series(rows), about)
			for _, s := range found {
				for _, f := range s.Figures {
					for _, c := range f.Charts[:1] {
						d := f.picture(c, SourceOf(rows, about))
						fmt.Fprintf(&page, "<div id='%s of %.9s'>%s</div>", f.ID, name, d.SVG(chart.Light))
						fmt.Fprintf(&page, "<div id='%s of %.9s, thin'>%s</div>", f.ID, name, c.Draw(phoneWide, c.Height(phoneHigh), true).SVG(chart.Dark))
						n++
					}
				}
			}
		}
	}
	file := filepath.Join(t.TempDir(), "frames.html")
	if err := os.WriteFile(file, []byte(page.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	tab := testhost.NewBrowser(t).Open(t, "file://"+file, testhost.View{Width: 1440, Height: 900})
	var outside []string
	tab.Eval(t, `[...document.querySelectorAll("svg text")].filter(e => {
		const b = e.getBBox(), v = e.ownerSVGElement.viewBox.baseVal;
		return b.x < v.x || b.y < v.y || b.x + b.width > v.x + v.width || b.y + b.height > v.y + v.height;
	}).map(e => e.closest("div").id + ": " + e.textContent)`, &outside)
	if len(outside) > 0 || n < 20 {
		t.Errorf("of %d pictures these texts are not within: %q", n, outside)
	}
	if *reporttest.Pictures != "" {
		if err := os.WriteFile(filepath.Join(*reporttest.Pictures, "frames.png"), tab.Picture(t), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// matrixOf are cells of engines of this name.
func matrixOf(name string) []results.Row {
	rows := reporttest.Matrix()
	for i := range rows {
		rows[i].Axes[0].Value = rows[i].Axes[0].Value.(string) + name
	}
	return rows
}
