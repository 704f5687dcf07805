package draw

import (
	"io"
	"slices"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/report/chart"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/report/say"
	"hclbench/report/table"
	"hclbench/results"
)

// TestSingles: a figure of one repetition shows one that is in no doubt, and where there is none says so.
func TestSingles(t *testing.T) {
	rows := reporttest.Repeated("vllm.h200", 4, 100, 101)
	rows = append(rows, reporttest.Row("sglang.h200", 4, 100, 20))
	rows[0].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "drifting")}
	figure := func() *Figure {
		figures, why := distributionFigures(figure.Samples(rows, figure.NewSeries(rows, nil)), figure.About{})
		if len(figures) != 1 {
			t.Fatal(why)
		}
		return figures[0]
	}
	if text := figure().CSV(); strings.Contains(text, "suspect") {
		t.Errorf("the suspect repetition is drawn:\n%s", text)
	}
	rows[1].Summary.Verdict = rows[0].Summary.Verdict
	f := figure()
	if d := f.Charts[0].Lines[0].Dots[0]; !d.Doubt || !strings.Contains(f.CSV(), "suspect") {
		t.Errorf("what is suspect is drawn as %+v", d)
	}
}

// TestLoadsOfBenchmarks: bars of two benchmarks under loads of one name are two groups.
func TestLoadsOfBenchmarks(t *testing.T) {
	rows := []results.Row{reporttest.Row("vllm.h200", 16, 100, 20), reporttest.Row("vllm.h200", 16, 120, 25)}
	rows[1].Benchmark = "sharegpt"
	c := loads(figure.Samples(rows, figure.NewSeries(rows, nil)), figure.OutputThroughput, func(*figure.Sample) (string, bool) { return "vllm", true })
	if len(c.Groups) != 2 || c.Groups[0].Label == c.Groups[1].Label {
		t.Errorf("got %+v", c.Groups)
	}
}

// TestFast: what was rehearsed at another speed than real says so everywhere, has no winner and no SLO.
func TestFast(t *testing.T) {
	rows := reporttest.Quickstart()
	for i := range rows {
		rows[i].Job.Workload.Speed = 20
		rows[i].Summary.Objectives = []load.Attainment{{Objective: load.Objective{Metric: "ttft", Max: load.Duration(1e9)}, Met: true, Count: 64}}
		rows[i].Summary.Goodput = new(20.)
	}
	if _, _, ok := figure.Attained(&rows[0]); ok || figure.AnyValue(rows, figure.Goodput) {
		t.Error("it is judged by an SLO")
	}
	all := say.Findings(rows, figure.NewSeries(rows, nil), &figure.Layout{})
	want := "Rehearsal at ×20: 6 cells. Such figures say nothing about an engine."
	for _, a := range all {
		if a.Text != want {
			t.Errorf("it finds %q", a.Text)
		}
		for n, d := range a.Tables {
			for i := range d.Places {
				if a.Sentences[n] != "" || d.Winner(i) != nil {
					t.Errorf("%s has a winner at %s", d.Title, d.Places[i].Name)
				}
			}
		}
	}
	for _, s := range Sections(rows, figure.NewSeries(rows, nil), figure.About{}) {
		for _, f := range s.Figures {
			for _, c := range f.Charts {
				if p := f.Alone(c, source{}); !strings.HasPrefix(c.Mark, "Rehearsal at ×20") || p.Stamp != "REHEARSAL AT ×20" {
					t.Errorf("%s: %q, stamped %q", f.ID, c.Mark, p.Stamp)
				}
				if slices.ContainsFunc(c.Lines, func(l chart.Line) bool { return l.Front && len(l.Dots) > 0 }) {
					t.Errorf("%s has a front", f.ID)
				}
			}
		}
	}
	about := figure.About{References: figure.Compare(nil, []figure.Reference{{Benchmark: "online", Name: "them", Rows: []map[string]any{{"concurrency": int64(4), "output_throughput": 1.}}}})}
	if len(about.References) != 1 || len(figure.PublishedRows(rows, about)) != 0 {
		t.Error("what is published stands beside it")
	}
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return table.Table(w, rows, table.Options{Width: 100}) }), "rehearsal at ×20: simulated engines", want)
}
