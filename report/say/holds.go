package say

import (
	"fmt"
	"slices"
	"strings"

	"hclbench/capacity"
	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/report/number"
)

// Question is what a capacity answers: "chat, input tokens 512: what holds ttft_p95 ≤ 2s and tpot_p95 ≤ 50ms".
func Question(c *figure.Capacity) string {
	var lines []string
	for _, l := range c.Lines() {
		lines = append(lines, LineText(l.Name, l.Max))
	}
	return figure.ListedWith(", ", c.Benchmark, c.LoadAxes()) + ": what holds " + Listed(lines)
}

// LineText is a line of an SLO: "ttft_p95 ≤ 2s".
func LineText(name string, most load.Duration) string { return fmt.Sprintf("%s ≤ %s", name, most) }

// Answerer is whose capacity it is: the engine, and what else its axes say of it.
func Answerer(c *figure.Capacity) string { return figure.CellName(c.Engine, c.Axes) }

// Holding are the figures at the load that certainly holds: its throughput, its times to the first token and per token,
// and those that the SLO is about; empty: no load does.
func Holding(c *figure.Capacity) string {
	rows := c.At(c.Outcome.Holds)
	if len(rows) == 0 {
		return ""
	}
	metrics := []figure.Metric{figure.OutputThroughput, figure.RequestThroughput}
	for _, t := range figure.Timings {
		if t.Key == figure.TTFT.Key || t.Key == figure.TPOT.Key {
			metrics = append(metrics, figure.Latency(t, "median"))
		}
		for _, l := range c.Lines() {
			if o, ok := load.ParseObjective(l.Name); ok && o.Metric == t.Key {
				metrics = append(metrics, figure.Latency(t, fmt.Sprintf("p%v", o.Percentile)))
			}
		}
	}
	var parts []string
	group := ""
	for _, m := range metrics {
		e, ok := figure.Weigh(m, rows, nil)
		if !ok {
			continue
		}
		text := number.Amount(e.Median, m.Unit)
		if m.Timing != "" {
			text = m.Short + " " + text
			if m.Group != group {
				text = m.Group + " " + text
			}
			group = m.Group
		}
		if e.Doubt {
			text += " (suspect)"
		}
		parts = append(parts, text)
	}
	if parts == nil {
		return ""
	}
	return fmt.Sprintf("at %s: %s", number.Short(*c.Outcome.Holds), strings.Join(parts, ", "))
}

// BoundsShort are the bounds of a capacity beside its bar: "83 to 113", "83 or more", "below 4"; where there is no answer
// "no answer".
func BoundsShort(o *capacity.Outcome) string {
	switch {
	case o.Holds == nil && o.Breaks == nil:
		return "no answer"
	case o.Holds == nil:
		return "below " + number.Short(*o.Breaks)
	case o.Breaks == nil:
		return number.Short(*o.Holds) + " or more"
	}
	return number.Short(*o.Holds) + " to " + number.Short(*o.Breaks)
}

// Ranking says who holds more than whom, of answers to one question, by what is certain alone; empty: there are not two.
func Ranking(of []*figure.Capacity) string {
	front, behind := figure.Ranked(of)
	if len(front)+len(behind) < 2 {
		return ""
	}
	names := func(all []*figure.Capacity) string {
		var names []string
		for _, c := range all {
			names = append(names, Answerer(c))
		}
		return Listed(names)
	}
	if len(front) == 1 && !slices.ContainsFunc(behind, func(c *figure.Capacity) bool { return !front[0].Ahead(c) }) {
		var others []string
		for _, c := range behind {
			others = append(others, fmt.Sprintf("%s breaks by %s", Answerer(c), number.Short(*c.Outcome.Breaks)))
		}
		return fmt.Sprintf("%s holds the most: %s, and %s.", names(front), number.Short(*front[0].Outcome.Holds), Listed(others))
	}
	text := fmt.Sprintf("Nobody leads: the bounds of %s overlap.", names(front))
	for _, c := range behind {
		less := slices.DeleteFunc(slices.Clone(of), func(o *figure.Capacity) bool { return !o.Ahead(c) })
		text += fmt.Sprintf(" %s certainly holds less than %s.", Answerer(c), names(less))
	}
	return text
}
