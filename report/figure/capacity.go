package figure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"hclbench/accuracy"
	"hclbench/capacity"
	"hclbench/load"
	"hclbench/report/chart"
	"hclbench/results"
)

// Capacity is what a search has found of an engine, with the cells of the loads that it tried.
type Capacity struct {
	results.Capacity
	Engine string
	Series *chart.Series  // nil: nothing is drawn
	Rows   []*results.Row // each try, the load growing
}

// Capacities are what searches have found of rows, each with its series.
func (s *Series) Capacities(rows []results.Row, found []results.Capacity) []*Capacity {
	all := Capacities(rows, found)
	for _, c := range all {
		c.Series = s.Find(c.Rows[0])
	}
	return slices.DeleteFunc(all, func(c *Capacity) bool { return c.Series == nil })
}

// Capacities are what searches have found that have cells among rows, in the order of these. What is stale is left out.
func Capacities(rows []results.Row, found []results.Capacity) (all []*Capacity) {
	first := map[*Capacity]*results.Row{}
	for _, f := range found {
		c := &Capacity{Capacity: f}
		if c.Rows = Those(rows, func(r *results.Row) bool { return c.Tried(r) != nil }); c.Rows == nil {
			continue
		}
		first[c], c.Engine = c.Rows[0], c.Rows[0].Deployment.Engine
		c.Benchmark, c.Axes = c.Rows[0].Benchmark, c.withoutLoad(c.Rows[0])
		slices.SortStableFunc(c.Rows, func(a, b *results.Row) int { return cmp.Compare(c.loadOf(a), c.loadOf(b)) })
		all = append(all, c)
	}
	at := map[*results.Row]int{}
	for i := range rows {
		at[&rows[i]] = i
	}
	slices.SortStableFunc(all, func(a, b *Capacity) int { return at[first[a]] - at[first[b]] })
	return all
}

// loadOf is the load of a cell, in what the search is about.
func (c *Capacity) loadOf(r *results.Row) float64 { return Along(r)[c.Outcome.Of] }

// Tried is what has come of the load of a cell; nil: the search has not tried it, or the cell is stale, which may be of another.
func (c *Capacity) Tried(r *results.Row) *capacity.Load {
	if r.Stale {
		return nil
	}
	if c.Identity != nil { // whatever the lab calls it now
		if AxisOf(r.Axes, SideAxis) != AxisOf(c.Axes, SideAxis) {
			return nil
		}
		for name, value := range c.Identity {
			if name != "repetition" && r.Identity[name] != value {
				return nil
			}
		}
	} else if r.Benchmark != c.Benchmark || r.DeploymentID != c.DeploymentID || CellName("", c.withoutLoad(r)) != CellName("", c.Axes) {
		return nil
	}
	return c.Outcome.At(new(c.loadOf(r)))
}

// withoutLoad are the axes of a cell without that of the search.
func (c *Capacity) withoutLoad(r *results.Row) results.Axes {
	return slices.DeleteFunc(slices.Clone(r.Axes), func(a results.Axis) bool { return a.Name == c.Outcome.Of })
}

// TriedBy is what has come of the load of a cell in the search that has tried it; nil: none has.
func TriedBy(all []*Capacity, r *results.Row) (*Capacity, *capacity.Load) {
	for _, c := range all {
		if l := c.Tried(r); l != nil {
			return c, l
		}
	}
	return nil, nil
}

// LongestTries are the rows with one alone for each load that a search has tried: its try with the most requests.
func LongestTries(rows []results.Row, all []*Capacity) (kept []results.Row) {
	type place struct {
		*Capacity
		load float64
	}
	longest := map[place]int{} // its place among kept, from 1
	for i := range rows {
		r := &rows[i]
		c, l := TriedBy(all, r)
		if l == nil {
			kept = append(kept, *r)
			continue
		}
		switch at := longest[place{c, l.Load}]; {
		case at == 0:
			kept = append(kept, *r)
			longest[place{c, l.Load}] = len(kept)
		case requests(r) > requests(&kept[at-1]):
			kept[at-1] = *r
		}
		if at := longest[place{c, l.Load}]; at > 0 {
			kept[at-1].Repetition = 1 // tries are none
		}
	}
	return kept
}

func requests(r *results.Row) int {
	if r.Summary == nil {
		return 0
	}
	return r.Summary.Requests
}

// At are the measurements at a load; nil where it is nil.
func (c *Capacity) At(load *float64) []*results.Row {
	return slices.DeleteFunc(slices.Clone(c.Rows), func(r *results.Row) bool { return load == nil || c.loadOf(r) != *load })
}

// Lines are the lines of its SLO, without what came of them.
func (c *Capacity) Lines() (lines []capacity.LineOutcome) {
	if len(c.Outcome.Loads) == 0 {
		return nil
	}
	for _, l := range c.Outcome.Loads[0].Lines {
		lines = append(lines, capacity.LineOutcome{Name: l.Name, Max: l.Max})
	}
	return lines
}

// LoadAxes are its axes of the load, in words: what engines that are held against each other have in common.
func (c *Capacity) LoadAxes() string {
	return strings.Join(AxisWords(c.Axes, ofLoad), ", ")
}

// Name is its series, or where nothing is drawn the engine, and what its axes say of it beside the load.
func (c *Capacity) Name() string {
	if c.Series != nil {
		return c.Series.Label
	}
	return CellName(c.Engine, slices.DeleteFunc(slices.Clone(c.Axes), func(a results.Axis) bool { return ofLoad(a.Name) || a.Name == SideAxis }))
}

// Questions puts together the capacities that answer one question: of one benchmark, one load and one SLO, in one loop.
func Questions(all []*Capacity) [][]*Capacity {
	return Grouped(all, func(c *Capacity) [5]string {
		return [5]string{c.Benchmark, c.LoadAxes(), c.Outcome.Of, fmt.Sprint(c.Lines()), KindOfRun(c.Rows[0])}
	})
}

// Ahead reports whether the engine certainly holds more than another: what it holds, the other does not, by more than starts of one differ.
func (c *Capacity) Ahead(of *Capacity) bool {
	return c.Outcome.Holds != nil && of.Outcome.Breaks != nil && *c.Outcome.Holds >= *of.Outcome.Breaks*(1+c.Floor(of))
}

// AnswersWorse reports whether the engine answers worse than its baseline, so that what it holds leads nothing.
func (c *Capacity) AnswersWorse() bool {
	return slices.ContainsFunc(c.Rows, func(r *results.Row) bool { return r.Checked == string(accuracy.Worse) })
}

// Ranked parts the answers to one question: those that nobody is ahead of, and those that somebody is. Who has no answer, answers worse
// than its baseline, or was rehearsed at another speed than real, is in neither.
func Ranked(of []*Capacity) (front, behind []*Capacity) {
	of = slices.DeleteFunc(slices.Clone(of), func(c *Capacity) bool {
		return c.Outcome.Holds == nil && c.Outcome.Breaks == nil || IsFast(c.Rows[0]) || c.AnswersWorse()
	})
	for _, c := range of {
		if slices.ContainsFunc(of, func(o *Capacity) bool { return o.Ahead(c) }) {
			behind = append(behind, c)
		} else {
			front = append(front, c)
		}
	}
	return front, behind
}

// Floor is how far two capacities must be apart before that is more than what starts of one engine differ by, as a share: each
// was searched in one start. It is the largest floor of the metrics that they are about, and of the requests that are answered
// in a second; an engine that is faster by so much in one start is taken to hold as much more. 0: their boxes were not proved.
func (c *Capacity) Floor(from *Capacity) (share float64) {
	metrics := []Metric{RequestThroughput}
	for _, l := range c.Lines() {
		o, _ := load.ParseObjective(l.Name)
		for _, t := range Timings {
			if t.Key == o.Metric {
				metrics = append(metrics, Latency(t, "median"), Latency(t, fmt.Sprintf("p%v", o.Percentile)))
			}
		}
	}
	for _, m := range metrics {
		a, b := unrestOf(m, from.Rows), unrestOf(m, c.Rows)
		a.starts, b.starts = 1, 1
		share = max(share, math.Expm1(b.floor(a)))
	}
	return share
}
