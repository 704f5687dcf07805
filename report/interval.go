package report

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"hclbench/load"
	"hclbench/report/number"
	"hclbench/results"
)

// interval is where the truth behind a figure lies in 95 of 100 runs; ok is false where the
// run does not tell.
func (m metric) interval(r *results.Row) (load.Interval, bool) {
	if _, measured := m.value(r); !measured {
		return load.Interval{}, false
	}
	name := m.name
	if timing := timingName.FindStringSubmatch(name); timing != nil {
		name = timing[2] + "_ms." + timing[1]
	}
	x, ok := r.Summary.Intervals[name]
	return x, ok
}

// boundsText is an interval as people read it: "890 to 915".
func boundsText(x load.Interval) string { return number.Text(x.Low) + " to " + number.Text(x.High) }

// boundText is the interval of one statistic of a timing, whose member of a summary is this, or what a
// percentile needs that too few values carry. It is empty where nothing is known.
func boundText(s *load.Summary, of load.Stats, member, statistic string) string {
	if x, ok := s.Intervals[member+"."+statistic]; ok {
		return boundsText(x)
	}
	p, err := strconv.ParseFloat(strings.TrimPrefix(statistic, "p"), 64)
	if statistic == "median" {
		p, err = 50, nil
	}
	if n := load.Needs(p); err == nil && of.Count > 0 && of.Count < n {
		return "needs " + number.Whole(n)
	}
	return ""
}

// bound adds the interval of each figure in brackets, where the layout wants them.
func (c *column) bound(m metric, rows []results.Row, layout *Layout) {
	for i := range rows {
		if _, ok := m.value(&rows[i]); !ok || !layout.Intervals {
			continue
		}
		text, s := "", rows[i].Summary
		if x, ok := m.interval(&rows[i]); ok {
			text = boundsText(x)
		} else if name := timingName.FindStringSubmatch(m.name); name != nil {
			at := slices.IndexFunc(timings, func(t timing) bool { return t.key == name[2] })
			text = boundText(s, timings[at].of(s), name[2]+"_ms", name[1])
		}
		if text != "" {
			c.entries[i].Text += " [" + text + "]"
		}
	}
}

// bound gives a column of the page the intervals of its figures, where there are any.
func (c *dataColumn) bound(m metric, rows []results.Row) {
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
func apart(m metric, a, b []*results.Row) string {
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
			if x := s.Intervals[t.key+"_ms."+statistic]; x.AtMost > 0 {
				parts = append(parts, strings.Replace(statistic, "median", "p50", 1)+" "+number.Text(x.AtMost))
			}
		}
		if parts != nil {
			times = append(times, strings.ToUpper(t.key)+" "+strings.Join(parts, ", "))
		}
	}
	return strings.Join(times, "; ")
}
