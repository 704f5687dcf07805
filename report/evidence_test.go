package report

import (
	"hclbench/report/chart"
	"hclbench/report/number"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/results"
)

// imported are rows as others have published them, so much faster.
func imported(rows []results.Row, by float64) (out []results.Row) {
	for _, r := range rows {
		s := *r.Summary
		s.OutputThroughput *= by
		s.TTFT = stats(s.TTFT.Mean / by)
		r.Summary, r.Run, r.ID = &s, results.Run{ID: "they", Command: "import", Lab: r.Run.Lab}, "their "+r.ID
		r.Summary.Verdict.Verdict = load.Imported
		out = append(out, r)
	}
	return out
}

// TestImportsLeadNothing: what others measured stands beside what was measured here, under its own name, and
// no table, front or sentence takes it for a measurement.
func TestImportsLeadNothing(t *testing.T) {
	rows := matrix()
	for i := range rows {
		rows[i].Deployment.Kind = kindIn(rows[i].Deployment.Engine)
	}
	all := slices.Concat(imported(rows, 3), rows)
	d := newData(all, nil, nil, newSeries(all, nil), newDoubts(all), &Layout{})
	if d.Published[0] != "imported" || d.Published[6] != "" {
		t.Errorf("they are not told apart: %v", d.Published)
	}
	if n := len(d.Workloads[0].Cells); n != len(all) {
		t.Errorf("%d cells are drawn, want all %d", n, len(all))
	}
	for _, c := range d.Columns {
		if slices.ContainsFunc(c.Top, func(group int) bool { return group < 6 }) {
			t.Errorf("an import leads in %s", c.Key)
		}
	}
	var lines []string
	for _, s := range sections(all, newSeries(all, nil), About{}) {
		for _, f := range s.Figures {
			lines = append(lines, strings.Split(f.CSV(), "\n")...)
			for _, c := range f.Charts {
				for _, l := range c.Lines {
					for _, dot := range l.Dots {
						if l.Published != (dot.Kind == "imported") {
							t.Fatalf("%s: a line of %q, drawn as published: %v", f.ID, dot.Kind, l.Published)
						}
					}
				}
			}
		}
	}
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasSuffix(l, ",imported") }) {
		t.Errorf("no value is written as imported:\n%s", strings.Join(lines, "\n"))
	}
}

// TestImportsFindNothing: beside what was measured here imports change no finding.
func TestImportsFindNothing(t *testing.T) {
	rows := matrix()
	for i := range rows {
		rows[i].Deployment.Kind = kindIn(rows[i].Deployment.Engine)
	}
	all := slices.Concat(imported(rows, 3), rows)
	if got, want := findingsText(findingsOf(all, Layout{})), findingsText(findingsOf(rows, Layout{})); got != want {
		t.Errorf("imports change what is found:\n%s\nwithout them:\n%s", got, want)
	}
	if alone := findingsOf(imported(rows, 1), Layout{}); len(alone) == 0 || alone[0].Text == "" {
		t.Error("of imports alone nothing is found")
	}
}

// TestSuspectIsWritten: reasons that all cells share set none of them apart, and make none of them valid.
func TestSuspectIsWritten(t *testing.T) {
	rows := matrix()
	for i := range rows {
		rows[i].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("chunks were counted instead")}
	}
	drawn := sections(rows, newSeries(rows, nil), About{})
	f := drawn[0].Figures[0]
	if text := f.CSV(); strings.Contains(text, "valid") || !strings.Contains(text, "suspect") {
		t.Errorf("the data say that they are valid:\n%s", text)
	}
	if got := tallied(f.Charts[0]); got != "6 values: 6 suspect" {
		t.Errorf("tallied as %q", got)
	}
	if key := strings.Join(f.alone(f.Charts[0], sourceOf(rows, About{})).Key, " "); !strings.Contains(key, "All values are suspect: chunks were counted instead.") ||
		strings.Contains(key, "Hollow") {
		t.Errorf("a picture says %q", key)
	}
	d := newData(rows, nil, nil, newSeries(rows, nil), newDoubts(rows), &Layout{})
	if !slices.Contains(d.Suspect, "output_throughput") || len(d.Doubts) != 1 {
		t.Errorf("the page's data have %q in doubt, and %q apart", d.Suspect, d.Doubts)
	}
}

// TestSingles: a figure of one repetition shows one that is in no doubt, and where there is none says so.
func TestSingles(t *testing.T) {
	rows := repeated("vllm.h200", 4, 100, 101)
	rows = append(rows, row("sglang.h200", 4, 100, 20))
	rows[0].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("drifting")}
	figure := func() *figure {
		figures, why := distributionFigures(samples(rows, newSeries(rows, nil)), About{})
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

// TestReferenceBesideSuspect: a measured figure that is suspect says so beside a published one.
func TestReferenceBesideSuspect(t *testing.T) {
	rows := matrix()[:1]
	rows[0].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("a neighbour")}
	all := Compare(rows, []Reference{{Benchmark: "online", Name: "them", Rows: []map[string]any{{"concurrency": int64(4), "output_throughput": 100.}}}})
	if f := all[0].Figures[0]; !f.Suspect || !strings.HasSuffix(f.texts()[1], "suspect") {
		t.Errorf("got %q", f.texts())
	}
}

// TestStaleLeadsNothing: what no plan asks for any more is not the best of a table.
func TestStaleLeadsNothing(t *testing.T) {
	rows := matrix()
	stale := imported(rows[:1], 3)
	stale[0].Run, stale[0].Stale = rows[0].Run, true
	d := newData(rows, stale, nil, newSeries(slices.Concat(rows, stale), nil), doubts{}, &Layout{})
	for _, c := range d.Columns {
		if slices.Contains(c.Top, d.Group[len(rows)]) {
			t.Errorf("it leads in %s", c.Key)
		}
		if c.Key == "output_throughput" && len(c.Top) != 3 {
			t.Errorf("%d cells lead, want one under each load", len(c.Top))
		}
	}
}

// TestLoadsOfBenchmarks: bars of two benchmarks under loads of one name are two groups.
func TestLoadsOfBenchmarks(t *testing.T) {
	rows := []results.Row{row("vllm.h200", 16, 100, 20), row("vllm.h200", 16, 120, 25)}
	rows[1].Benchmark = "sharegpt"
	c := loads(samples(rows, newSeries(rows, nil)), outputThroughput, func(*sample) (string, bool) { return "vllm", true })
	if len(c.Groups) != 2 || c.Groups[0].Label == c.Groups[1].Label {
		t.Errorf("got %+v", c.Groups)
	}
}

// TestFast: what was rehearsed at another speed than real says so everywhere, has no winner and no SLO.
func TestFast(t *testing.T) {
	rows := quickstart()
	for i := range rows {
		rows[i].Job.Workload.Speed = 20
		rows[i].Summary.Objectives = []load.Attainment{{Objective: load.Objective{Metric: "ttft", Max: load.Duration(1e9)}, Met: true, Count: 64}}
		rows[i].Summary.Goodput = new(20.)
	}
	if _, _, ok := attained(&rows[0]); ok || anyValue(rows, goodput) {
		t.Error("it is judged by an SLO")
	}
	all := findings(rows, newSeries(rows, nil), &Layout{})
	want := "Rehearsal at ×20: 6 cells. Such figures say nothing about an engine."
	for _, a := range all {
		if a.Text != want {
			t.Errorf("it finds %q", a.Text)
		}
		for n, d := range a.Tables {
			for i := range d.Places {
				if a.Sentences[n] != "" || d.winner(i) != nil {
					t.Errorf("%s has a winner at %s", d.Title, d.Places[i].Name)
				}
			}
		}
	}
	for _, s := range sections(rows, newSeries(rows, nil), About{}) {
		for _, f := range s.Figures {
			for _, c := range f.Charts {
				if p := f.alone(c, source{}); !strings.HasPrefix(c.Mark, "Rehearsal at ×20") || p.Stamp != "REHEARSAL AT ×20" {
					t.Errorf("%s: %q, stamped %q", f.ID, c.Mark, p.Stamp)
				}
				if slices.ContainsFunc(c.Lines, func(l chart.Line) bool { return l.Front && len(l.Dots) > 0 }) {
					t.Errorf("%s has a front", f.ID)
				}
			}
		}
	}
	about := About{References: Compare(nil, []Reference{{Benchmark: "online", Name: "them", Rows: []map[string]any{{"concurrency": int64(4), "output_throughput": 1.}}}})}
	if len(about.References) != 1 || len(publishedRows(rows, about)) != 0 {
		t.Error("what is published stands beside it")
	}
	holds(t, written(t, func(w io.Writer) error { return Table(w, rows, Options{Width: 100}) }), "rehearsal at ×20: simulated engines", want)
}

// TestPriceOfBeingBetter: what gets worse with the series that is better is said.
func TestPriceOfBeingBetter(t *testing.T) {
	a := findingsOf(studied(t, "gpustack-h200/published/results.csv"), Layout{})[0]
	holds(t, a.Text, "better in all 5 places tried", "At the price of median time per output token: sharegpt-1000 +5.9 %, random 128 input ×2.41.")
}

// TestInDigits: what a page shows of a value is what a terminal shows of it.
func TestInDigits(t *testing.T) {
	for _, v := range []float64{1038.459, 510181.4, 110472.3, 12.34962, 0.0004, 0.12345678, 1e9 + 0.5, 999.9996, 1063227.4} {
		short, err := strconv.ParseFloat(inDigits(v), 64)
		if err != nil || number.Text(short) != number.Text(v) {
			t.Errorf("%v is written as %v, and read as %s, not %s", v, short, number.Text(short), number.Text(v))
		}
		if short = math.Round(short); v >= 1000 && number.Whole(int64(short)) != number.Text(v) { // as JavaScript rounds
			t.Errorf("%v is read as %v by a page", v, short)
		}
	}
}

// TestPrices: cells of one host cost what the host costs now, whenever they were measured.
func TestPrices(t *testing.T) {
	rows := matrix()[:2]
	rows[0].ID, rows[1].ID = "1", "2"
	rows[0].Deployment.PricePerHour = 28
	rows[1].Deployment.Members = []results.Member{{Host: "h200", Price: 28, GPUs: "8xH200"}, {Host: "other", Price: 1, GPUs: "8xH200"}}
	now := map[string]float64{"h200": 14, "other": 2}
	Judge(rows, []Planned{{ID: "1", Prices: now}, {ID: "2", Prices: now}}, nil)
	if a, b := price(&rows[0].Deployment), price(&rows[1].Deployment); a != 14 || b != 16 {
		t.Errorf("they cost %v and %v, want 14 and 16", a, b)
	}
	Judge(rows, []Planned{{ID: "1"}}, nil)
	if got := price(&rows[0].Deployment); got != 14 {
		t.Errorf("a plan that knows no prices makes it cost %v", got)
	}
}

// TestPublishedNumbers: a comma parts thousands, and is never dropped before decimals.
func TestPublishedNumbers(t *testing.T) {
	for text, want := range map[string]float64{"1,234.5": 1234.5, "12,345,678": 12345678, "0.5": 0.5, " 7 ": 7} {
		if got, ok := float(text); !ok || got != want {
			t.Errorf("%q is %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"12,5", "0,125", "1,2,3"} {
		if got, ok := float(text); ok {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

// TestMarkdownCallsNobody: nothing that others have named shows a picture or calls anybody.
func TestMarkdownCallsNobody(t *testing.T) {
	if got, want := markdownText(`![x](https://evil.example/p.png) a\|b @team`), `![x]\(https://evil.example/p.png) a\\\|b @`+"\u200b"+`team`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWideLetters: columns behind names in Chinese stand as behind all others.
func TestWideLetters(t *testing.T) {
	s := tabulate([]column{{name: "model", left: true}, {name: "n"}}, [][]string{{"通义千问", "1"}, {"qwen", "2"}})
	lines := s.lines()
	if a, b := plain.Width(lines[1]), plain.Width(lines[2]); a != b {
		t.Errorf("lines are %d and %d wide", a, b)
	}
}
