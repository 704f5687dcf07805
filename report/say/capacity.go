package say

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"hclbench/capacity"
	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/report/number"
)

// LoadUnit is what the loads of a search are numbers of: "concurrent", "requests/s".
func LoadUnit(of string) string {
	if of == capacity.Rate {
		return "requests/s"
	}
	return "concurrent"
}

// Bounds are the two bounds of a capacity in words, with how sure they are: "holds 83, breaks by 113 concurrent (95 %)".
func Bounds(o *capacity.Outcome) string {
	sure := fmt.Sprintf(" %s (%s %%)", LoadUnit(o.Of), number.Exact(100*o.Confidence))
	switch {
	case o.Flaw != "":
		return "no answer: " + o.Flaw
	case o.Holds == nil && o.Breaks == nil:
		return "nothing is certain"
	case o.Holds == nil && *o.Breaks == o.Least:
		return "no load meets the SLO: " + Certain(nil, o.Breaks) + sure + ", the least of the range"
	case o.Holds == nil:
		return Certain(nil, o.Breaks) + sure + "; no load is certain to hold"
	case o.Breaks == nil && o.AtLeast:
		return "holds at least " + number.Exact(*o.Holds) + sure + ", the most of the range"
	case o.Breaks == nil:
		return Certain(o.Holds, nil) + sure + "; no load is certain to break"
	}
	return Certain(o.Holds, o.Breaks) + sure
}

// Certain are two bounds as far as they are certain: "holds 83, breaks by 113"; empty: neither is.
func Certain(holds, breaks *float64) string {
	var parts [2]string
	if holds != nil {
		parts[0] = "holds " + number.Exact(*holds)
	}
	if breaks != nil {
		parts[1] = "breaks by " + number.Exact(*breaks)
	}
	return figure.ListedWith(", ", parts[:]...)
}

// Capacity is the answer of a search in a line: its bounds, the loop that they are for, what binds, and what it took.
func Capacity(o *capacity.Outcome) string {
	parts := []string{Bounds(o), "closed loop"}
	if o.Of == capacity.Rate {
		parts[1] = "open loop"
	}
	if o.BoundBy != "" {
		parts = append(parts, "bound by "+LineName(o.BoundBy))
	}
	if at := o.At(o.Holds); at != nil && at.Again != capacity.Pass {
		parts = append(parts, "not tried again at the end")
	}
	in, stuck := doubtful(o)
	switch {
	case o.Flaw != "" || o.Finished:
	case o.Ended != "":
		parts = append(parts, "it ends there: "+o.Ended)
	case !o.Over:
		parts = append(parts, "the search is not over")
	case stuck != nil:
		parts = append(parts, fmt.Sprintf("a load of %s stays in doubt, so it ends there", number.Exact(stuck.Load)))
	case o.Holds != nil && o.Breaks != nil && *o.Breaks > *o.Holds*(1+o.Precision):
		parts = append(parts, fmt.Sprintf("wider than the %s %% asked for", number.Exact(100*o.Precision)))
	default:
		parts = append(parts, "the budget tells no more")
	}
	if in > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s in doubt", in, number.Count(len(o.Loads), "load")))
	}
	took := time.Duration(o.Took * float64(time.Second)).Round(time.Second)
	return strings.Join(append(parts, fmt.Sprintf("%s, %s, %s", number.Count(len(o.Loads), "load"), took,
		number.Count(o.Requests, "request"))), "; ")
}

// doubtful is how many loads are in doubt, and which of them left nothing to try between it and the load that holds; nil: none.
func doubtful(o *capacity.Outcome) (n int, stuck *capacity.Load) {
	near := o.Least
	if o.Holds != nil {
		near = *o.Holds * (1 + o.Precision)
		if o.Of == capacity.Concurrency {
			near = max(near, *o.Holds+1)
		}
	}
	for _, l := range o.Loads {
		if l.Doubt != "" {
			n++
		}
	}
	if stuck = o.Stuck(); stuck != nil && stuck.Load > near {
		stuck = nil
	}
	return n, stuck
}

// LineName is a line of an SLO as people call it: "TTFT p95".
func LineName(name string) string {
	o, ok := load.ParseObjective(name)
	if !ok {
		return name
	}
	return fmt.Sprintf("%s p%v", strings.ToUpper(strings.ReplaceAll(o.Metric, "_", " ")), o.Percentile)
}

// Try is a try of a load: "load 32, try 2".
func Try(load float64, n int) string { return fmt.Sprintf("load %s, try %d", number.Exact(load), n) }

// Tried is what came of the last try of a load, and what is known so far: "load 83, try 1: PASS; so far holds 83, …".
func Tried(o *capacity.Outcome, load float64) string {
	l, so := o.At(&load), "; so far "+Bounds(o)
	if l == nil {
		return "load " + number.Exact(load) + so
	}
	text := Try(load, l.Tries)
	switch {
	case l.Again != "" && l.Tries > 1:
		text += ", tried again: " + string(l.Again)
	default:
		text += ": " + string(l.Verdict)
	}
	if l.Doubt != "" {
		text += ", " + l.Doubt
	}
	return text + so
}

// LoadVerdict is what is certain of a load in words: "PASS, again PASS", "UNRESOLVED, the generator was busy".
func LoadVerdict(l *capacity.Load) string {
	text := string(l.Verdict)
	if l.Again != "" && l.Tries > 1 {
		text += ", again " + string(l.Again)
	}
	if l.Doubt != "" {
		text += ", " + l.Doubt
	}
	return text
}

// Attainment is how a load stands to a line of the SLO: "TTFT p95 ≤ 2s: 97.1 % of 412 requests, PASS".
func Attainment(l *capacity.LineOutcome) string {
	if l.Counted == 0 {
		return fmt.Sprintf("%s: no requests, %s", LineText(l.Name, l.Max), l.Verdict)
	}
	return fmt.Sprintf("%s: %s %% of %s, %s", LineText(l.Name, l.Max), number.Text(100*float64(l.Within)/float64(l.Counted)),
		number.Count(l.Counted, "request"), l.Verdict)
}

// Question is what a capacity answers: "chat, input tokens 512: what holds TTFT p95 ≤ 2s and TPOT p95 ≤ 50ms".
func Question(c *figure.Capacity) string {
	return figure.ListedWith(", ", c.Benchmark, c.LoadAxes()) + ": what holds " + SLO(c)
}

// SLO are the lines that a capacity is about: "TTFT p95 ≤ 2s and TPOT p95 ≤ 50ms".
func SLO(c *figure.Capacity) string {
	var lines []string
	for _, l := range c.Lines() {
		lines = append(lines, LineText(l.Name, l.Max))
	}
	return Listed(lines)
}

// LineText is a line of an SLO: "TTFT p95 ≤ 2s".
func LineText(name string, most load.Duration) string {
	return fmt.Sprintf("%s ≤ %s", LineName(name), most)
}

// Holding are the figures at the load that certainly holds, or, where none does, at the least of the range: its throughput, its times to
// the first token and per token, and those that the SLO is about; empty: neither is certain.
func Holding(c *figure.Capacity) string {
	at := c.Outcome.Holds
	if at == nil && c.Outcome.Breaks != nil && *c.Outcome.Breaks == c.Outcome.Least {
		at = c.Outcome.Breaks
	}
	rows := c.At(at)
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
	return fmt.Sprintf("at %s: %s", number.Short(*at), strings.Join(parts, ", "))
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

// Answered is what searches have found, as a finding: of one its bounds, of several who holds more than whom.
func Answered(of []*figure.Capacity) string {
	if text := Ranking(of); text != "" {
		return text
	}
	var texts []string
	var worse []string
	for _, c := range of {
		texts = append(texts, c.Name()+": "+Bounds(&c.Outcome)+".")
		if c.AnswersWorse() {
			worse = append(worse, c.Name())
		}
	}
	return figure.ListedWith(" ", append(texts, answerWorse(worse))...)
}

// Ranking says who holds more than whom, of answers to one question, by what is certain alone; empty: there are not two.
func Ranking(of []*figure.Capacity) string {
	front, behind := figure.Ranked(of)
	if len(front)+len(behind) < 2 {
		return ""
	}
	var others, worse []string // who may hold more than all of them, and who leads nothing
	for _, c := range of {
		switch {
		case c.AnswersWorse():
			worse = append(worse, c.Name())
		case !slices.Contains(front, c) && !slices.Contains(behind, c):
			others = append(others, c.Name())
		}
	}
	text := ranking(front, behind, others != nil)
	if others != nil && len(front) == 1 {
		text += " Of " + Listed(others) + " nothing is certain."
	}
	return figure.ListedWith(" ", text, answerWorse(worse))
}

// ranking says it of those that have an answer, which are not all there are.
func ranking(front, behind []*figure.Capacity, notAll bool) string {
	most := "holds the most"
	if notAll {
		most = "holds the most of those with an answer"
	}
	names := func(all []*figure.Capacity) string {
		var names []string
		for _, c := range all {
			names = append(names, c.Name())
		}
		return Listed(names)
	}
	leaders := func(c *figure.Capacity) []*figure.Capacity { // those that are certainly ahead of it, and nobody of them
		return slices.DeleteFunc(slices.Clone(front), func(f *figure.Capacity) bool { return !f.Ahead(c) })
	}
	if len(front) == 1 && len(behind) > 2 {
		first := slices.MaxFunc(behind, func(a, b *figure.Capacity) int { return cmp.Compare(*a.Outcome.Breaks, *b.Outcome.Breaks) })
		return fmt.Sprintf("%s %s: %s, and of the others %s breaks last, by %s.", names(front), most, number.Short(*front[0].Outcome.Holds),
			first.Name(), number.Short(*first.Outcome.Breaks))
	}
	if len(front) == 1 {
		var others []string
		for _, c := range behind {
			others = append(others, fmt.Sprintf("%s breaks by %s", c.Name(), number.Short(*c.Outcome.Breaks)))
		}
		return fmt.Sprintf("%s %s: %s, and %s.", names(front), most, number.Short(*front[0].Outcome.Holds), Listed(others))
	}
	text := fmt.Sprintf("Nobody leads: the bounds of %s overlap.", names(front))
	if !slices.ContainsFunc(front, func(c *figure.Capacity) bool { return c.Outcome.Holds != nil }) {
		text = fmt.Sprintf("Nobody leads: no load is certain to hold for any of %s.", names(front))
	}
	for _, same := range figure.Grouped(behind, func(c *figure.Capacity) string { return names(leaders(c)) }) {
		than := names(leaders(same[0]))
		if len(leaders(same[0])) == len(front) {
			than = "any of them"
		}
		text += fmt.Sprintf(" Certainly less than %s: %s.", than, names(same))
	}
	return text
}
