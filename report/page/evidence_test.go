package page

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/report/draw"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/reporttest"
	"hclbench/report/say"
)

// TestImportsLeadNothing: what others measured stands beside what was measured here, under its own name, and
// no table, front or sentence takes it for a measurement.
func TestImportsLeadNothing(t *testing.T) {
	rows := reporttest.Matrix()
	for i := range rows {
		rows[i].Deployment.Kind = reporttest.KindIn(rows[i].Deployment.Engine)
	}
	all := slices.Concat(reporttest.Imported(rows, 3), rows)
	d := newData(all, nil, nil, figure.NewSeries(all, nil), say.NewDoubts(all), &figure.About{})
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
	for _, s := range draw.Sections(all, figure.NewSeries(all, nil), figure.About{}) {
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

// TestSuspectIsWritten: reasons that all cells share set none of them apart, and make none of them valid.
func TestSuspectIsWritten(t *testing.T) {
	rows := reporttest.Matrix()
	for i := range rows {
		rows[i].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "chunks were counted instead")}
	}
	drawn := draw.Sections(rows, figure.NewSeries(rows, nil), figure.About{})
	f := drawn[0].Figures[0]
	if text := f.CSV(); strings.Contains(text, "valid") || !strings.Contains(text, "suspect") {
		t.Errorf("the data say that they are valid:\n%s", text)
	}
	if got := say.Tallied(f.Charts[0]); got != "6 values: 6 suspect" {
		t.Errorf("tallied as %q", got)
	}
	if key := strings.Join(f.Alone(f.Charts[0], draw.SourceOf(rows, figure.About{})).Key, " "); !strings.Contains(key, "All values are suspect: chunks were counted instead.") ||
		strings.Contains(key, "Hollow") {
		t.Errorf("a picture says %q", key)
	}
	d := newData(rows, nil, nil, figure.NewSeries(rows, nil), say.NewDoubts(rows), &figure.About{})
	if !slices.Contains(d.Suspect, "output_throughput") || len(d.Doubts) != 1 {
		t.Errorf("the page's data have %q in doubt, and %q apart", d.Suspect, d.Doubts)
	}
}

// TestStaleLeadsNothing: what no plan asks for any more is not the best of a table.
func TestStaleLeadsNothing(t *testing.T) {
	rows := reporttest.Matrix()
	stale := reporttest.Imported(rows[:1], 3)
	stale[0].Run, stale[0].Stale = rows[0].Run, true
	d := newData(rows, stale, nil, figure.NewSeries(slices.Concat(rows, stale), nil), say.Doubts{}, &figure.About{})
	for _, c := range d.Columns {
		if slices.Contains(c.Top, d.Group[len(rows)]) {
			t.Errorf("it leads in %s", c.Key)
		}
		if c.Key == "output_throughput" && len(c.Top) != 3 {
			t.Errorf("%d cells lead, want one under each load", len(c.Top))
		}
	}
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
