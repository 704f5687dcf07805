package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/report/number"
	"hclbench/results"
)

// derivation is a figure that another one alone decides, as a multiple of it or as so much over it.
type derivation struct {
	Metric
	from Metric
	over bool // it is a constant over the other: the more of that, the less of this
}

// derived are all of them. Energy is none: how much power was drawn varies too.
var derived = []derivation{
	{perGPU, outputThroughput, false}, {perDecodeGPU, outputThroughput, false}, {perPrefillGPU, inputThroughput, false},
	{inputPerGPU, inputThroughput, false},
	{interactivity, medianTPOT, true}, {costOutput, outputThroughput, true}, {costTotal, totalThroughput, true},
}

// interval is where the truth behind a figure lies in 95 of 100 runs; ok is false where the
// run does not tell.
func (m Metric) interval(r *results.Row) (x load.Interval, ok bool) {
	v, measured := m.value(r)
	if !measured {
		return x, false
	}
	for _, d := range derived {
		if d.Name == m.Name {
			return d.bounds(r, v)
		}
	}
	name := m.Name
	if m.Timing != "" {
		name = m.Timing + "_ms." + m.Statistic
	}
	x, ok = r.Summary.Intervals[name]
	return x, ok
}

// bounds is the interval of what the figure is derived from, as the figure's own, which is v.
func (d derivation) bounds(r *results.Row, v float64) (load.Interval, bool) {
	x, ok := d.from.interval(r)
	of, known := d.from.value(r)
	switch {
	case !ok || !known || of <= 0 || d.over && x.Low <= 0:
		return load.Interval{}, false
	case d.over:
		return load.Interval{Low: v * of / x.High, High: v * of / x.Low}, true
	}
	return load.Interval{Low: v / of * x.Low, High: v / of * x.High}, true
}

// derivedIntervals are those of the figures of a row that its summary does not have, by name.
func derivedIntervals(r *results.Row) map[string]load.Interval {
	all := map[string]load.Interval{}
	for _, d := range derived {
		if x, ok := d.interval(r); ok {
			all[d.Name] = x
		}
	}
	return all
}

// boundsText is an interval as people read it: "890 to 915".
func boundsText(x load.Interval) string { return number.Text(x.Low) + " to " + number.Text(x.High) }

// fewer stands where a percentile would, which needs so many values and has fewer; 0: nothing does.
func fewer(needs int) string {
	if needs == 0 {
		return ""
	}
	return "n<" + number.Whole(needs)
}

// marks are those of percentiles in a sheet, each once.
func (s *sheet) marks() (marks []string) {
	for _, c := range s.columns {
		for _, e := range c.entries {
			if e.Needs > 0 {
				marks = once(marks, fewer(e.Needs))
			}
		}
	}
	return marks
}

// tooFew explains the marks of percentiles in tables, or which one is left out as no row carries it.
func tooFew(rows []results.Row, layout *Layout, tables []*sheet) (sentences []string) {
	var marks []string
	for _, s := range tables {
		marks = once(marks, s.marks()...)
	}
	if marks != nil {
		return []string{fewerText(marks)}
	}
	m := latency(ttft, tailPercentile(rows))
	for i := range rows {
		if n := m.lacks(&rows[i]); n > 0 && layout.Columns == nil && !anyValue(rows, m) {
			return []string{fmt.Sprintf("No %s: it needs %s requests.", m.Short, number.Whole(n))}
		}
	}
	return nil
}

// fewerText explains marks of percentiles.
func fewerText(marks []string) string {
	return strings.Join(marks, ", ") + ": too few requests for that percentile. JSON and CSV have what was seen."
}

// bound adds the interval of each figure in brackets, where the layout wants them.
func (c *column) bound(m Metric, rows []results.Row, layout *Layout) {
	for i := range rows {
		if x, ok := m.interval(&rows[i]); ok && layout.Intervals {
			c.entries[i].Text += " [" + boundsText(x) + "]"
		}
	}
}

// bound gives a column of the page the intervals of its figures, where there are any.
func (c *dataColumn) bound(m Metric, rows []results.Row) {
	for i := range rows {
		x, ok := m.interval(&rows[i])
		if ok && c.Low == nil {
			c.Low, c.High = slices.Repeat(numbers{math.NaN()}, len(rows)), slices.Repeat(numbers{math.NaN()}, len(rows))
		}
		if ok {
			c.Low[i], c.High[i] = x.Low, x.High
		}
	}
}

// apart says of single measurements whether their intervals, which say nothing of other starts
// of the engines, have a value in common; empty where either has none.
func apart(m Metric, a, b []*results.Row) string {
	if len(a) != 1 || len(b) != 1 {
		return ""
	}
	x, ofA := m.interval(a[0])
	y, ofB := m.interval(b[0])
	switch {
	case !ofA || !ofB:
		return ""
	case x.High < y.Low || y.High < x.Low:
		return "apart"
	}
	return "overlap"
}

// bounded reports whether a timing of a summary has an interval.
func bounded(s *load.Summary, member string) bool {
	for name := range s.Intervals {
		if strings.HasPrefix(name, member+".") {
			return true
		}
	}
	return false
}

// surest are the percentiles of a summary's times that are bounded from above, as MLPerf does.
func surest(s *load.Summary) string {
	var times []string
	for _, t := range timings {
		var parts []string
		for _, statistic := range append([]string{"median"}, percentiles([]load.Stats{t.of(s)})...) {
			if x := s.Intervals[t.Key+"_ms."+statistic]; x.AtMost > 0 {
				parts = append(parts, strings.Replace(statistic, "median", "p50", 1)+" "+number.Text(x.AtMost))
			}
		}
		if parts != nil {
			times = append(times, strings.ToUpper(t.Key)+" "+strings.Join(parts, ", "))
		}
	}
	return strings.Join(times, "; ")
}

// unbounded says which figures that are shown have no interval, and why; nothing of no summary.
func unbounded(s *load.Summary) (lines []string) {
	if s == nil {
		return nil
	}
	for _, u := range s.Unbounded {
		var names []string
		for _, t := range timings {
			var own []string
			for _, name := range u.Figures {
				if statistic, ok := strings.CutPrefix(name, t.Key+"_ms."); ok {
					own = append(own, strings.Replace(statistic, "median", "p50", 1))
				}
			}
			if own != nil {
				names = append(names, strings.ToUpper(t.Key)+" "+strings.Join(own, ", "))
			}
		}
		if slices.Contains(u.Figures, goodput.Name) {
			names = append(names, goodput.Name)
		}
		switch {
		case names != nil:
			lines = append(lines, strings.Join(names, "; ")+": "+u.Why)
		case u.Figures == nil:
			lines = append(lines, u.Why)
		}
	}
	return lines
}
