package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"hclbench/plain"
	"hclbench/report/number"
	"hclbench/results"
)

// HTML writes the page of both sides together: of each cell A stands beside B. Without a title it has
// the labs' names.
func (d *Difference) HTML(w io.Writer, about About) error {
	rows, pair := d.rows()
	if labs := wordsOf(rows, "lab"); about.Title == "" && len(labs) > 0 {
		about.Title = strings.Join(labs, ", ") + " compared"
	}
	about.Title = cmp.Or(about.Title, "Comparison")
	p := newPage(rows, about)
	d.tell(p, rows, pair)
	return p.write(w)
}

// pageDifference is what the page of a comparison says first.
type pageDifference struct {
	Gate, GateClass string
	Broken          []string   // limits
	Inputs          *pageTable // that differ; nil: none
	More            *pageTable // as many again, that stand folded
	MoreCount       string
	Same            string // what is said where no input differs
	Changes         *pageTable
}

// rows are those of both sides, told apart by an axis more, under the newer names; those of a pair
// follow each other, B first. pair is that of each, by its place in [Difference.pairs].
func (d *Difference) rows() (rows []results.Row, pair []int) {
	for n, c := range d.pairs() {
		for _, side := range []struct {
			name string
			rows []*results.Row
		}{{"B", c.b}, {"A", c.a}} {
			for _, r := range side.rows {
				x := *r
				x.ID += "@" + side.name // one cell may be on both sides
				x.Benchmark, x.Deployment.Engine = c.Benchmark, c.Engine
				x.Axes = append(slices.Clone(c.Axes), results.Axis{Name: sideAxis, Value: side.name})
				rows, pair = append(rows, x), append(pair, n)
			}
		}
	}
	return rows, pair
}

// pairs are all cells, those that only one side has at the end.
func (d *Difference) pairs() []CellDiff { return slices.Concat(d.Cells, d.onlyB, d.onlyA) }

// tell turns the page of the rows of both sides into that of their difference.
func (d *Difference) tell(p *page, rows []results.Row, pair []int) {
	p.Source = slices.Concat([]string{"A: " + d.A, "B: " + d.B}, sourceOf(rows, About{}).what)
	p.Status, p.HostChanges, p.Engines = d.statuses(), d.Notes, nil
	p.Compared = d.first()
	for i, x := range []string{"A", "B"} {
		of := slices.DeleteFunc(slices.Clone(rows), func(r results.Row) bool { return axisOf(r.Axes, sideAxis) != x })
		for _, e := range engines(of) {
			e.Name += ", " + x
			p.Engines = append(p.Engines, e)
		}
		p.Data.Sides = append(p.Data.Sides, []string{d.A, d.B}[i])
	}
	for _, what := range Differing() {
		if text := d.unlikeText(what); text != "" {
			p.Marks = append(p.Marks, text)
		}
	}
	p.Data.pair(d.pairs(), pair, d)
	_, names := d.names()
	of := map[int]int{} // the pair of each cell
	for i, cell := range p.Data.Cell {
		of[cell] = pair[i]
	}
	for _, w := range p.Data.Workloads {
		var cells []int
		for _, cell := range w.Cells {
			if of[cell] < len(d.Cells) {
				cells = append(cells, of[cell])
			}
		}
		for _, t := range w.Tables {
			t.Finding = ""
		}
		slices.Sort(cells)
		first, rest := d.finding(slices.Compact(cells), names)
		w.Headline, w.Finding, w.Tables[0].Finding = first, strings.TrimSpace(first+" "+rest), first
	}
}

// unlikeText says in how many cells something is another on either side; empty: in none.
func (d *Difference) unlikeText(what string) string {
	var found []Unlike
	for _, c := range d.Cells {
		for _, u := range c.Unlike {
			if u.What == what {
				found = append(found, u)
			}
		}
	}
	if len(found) == 0 {
		return ""
	}
	text := fmt.Sprintf("Another %s in %s", what, number.Count(len(found), "cell"))
	if first := found[0]; what != "load" && !slices.ContainsFunc(found, func(u Unlike) bool { return u != first }) {
		text += fmt.Sprintf(": %s was %s", first.short(first.B), first.short(first.A))
	}
	return plain.Line(text)
}

// outcome is what became of a cell, over all figures that are compared.
func (c *CellDiff) outcome() string {
	switch {
	case c.b == nil:
		return "only in A"
	case c.a == nil:
		return "only in B"
	case len(c.Figures) == 0:
		return "no figures"
	case c.doubtful():
		return "suspect"
	}
	n := map[string]int{}
	for _, f := range c.Figures {
		n[f.Verdict]++
	}
	switch {
	case n["worse"] > 0 && n["better"] > 0:
		return "mixed"
	case n["worse"] > 0:
		return "worse"
	case n["better"] > 0:
		return "better"
	case n["changed"] > 0:
		return "changed"
	case n["level"] == 0 && n["unknown"] > 0:
		return "unknown"
	}
	return "level"
}

// doubtful reports whether one of the sides is suspect in all of its repetitions.
func (c *CellDiff) doubtful() bool { return allSuspect(c.a) != nil || allSuspect(c.b) != nil }

// statuses are how many cells have each outcome, and what the gate says.
func (d *Difference) statuses() (out []status) {
	n := map[string]int{}
	for _, c := range d.pairs() {
		n[c.outcome()]++
	}
	count := number.Whole(len(d.Cells))
	out = append(out, status{Count: count,
		Text: strings.TrimPrefix(number.Count(len(d.Cells), "cell"), count+" ") + " in both"})
	for _, outcome := range []string{"worse", "mixed", "better", "changed", "level", "unknown", "suspect", "no figures",
		"only in A", "only in B"} {
		if n[outcome] > 0 {
			out = append(out, status{Count: number.Whole(n[outcome]), Text: outcome,
				Class: strings.ReplaceAll(outcome, " ", "-"), Filter: "outcome=" + strings.ReplaceAll(outcome, " ", "_")})
		}
	}
	return out
}

// mostInputs and mostBroken bound what stands on top.
const (
	mostInputs = 8
	mostBroken = 10
)

// first is what the page says before its charts.
func (d *Difference) first() *pageDifference {
	p := &pageDifference{Same: "Nothing is known of what went in."}
	if d.compared() {
		p.Same = "Everything that is known to have gone in is the same."
	}
	lines := d.inputsTogether()
	if first := lines[:min(len(lines), mostInputs)]; len(first) > 0 {
		p.Inputs = inputsPage(first)
	}
	if more := lines[min(len(lines), mostInputs):]; len(more) > 0 {
		p.More, p.MoreCount = inputsPage(more), number.Whole(len(more))+" more"
	}
	if changes := d.largest(); changes.rows > 0 {
		p.Changes = changes.page()
	}
	if d.Checks == nil {
		return p
	}
	failing := d.Failing()
	p.Gate, p.GateClass = "The gate is open: "+number.Count(len(d.Checks), "check")+", none failed", "better"
	if n := len(failing); n > 0 {
		p.Gate = fmt.Sprintf("The gate is shut: %s of %s checks failed", number.Whole(n), number.Whole(len(d.Checks)))
		p.GateClass = "worse"
	}
	for _, c := range failing[:min(len(failing), mostBroken)] {
		p.Broken = append(p.Broken, c.String())
	}
	if more := len(failing) - mostBroken; more > 0 {
		p.Broken = append(p.Broken, fmt.Sprintf("and %s more", number.Whole(more)))
	}
	return p
}

// inputsTogether are the inputs that differ, those of engines in which they differ alike in one line.
func (d *Difference) inputsTogether() (lines [][]string) {
	for _, same := range grouped(d.Inputs, func(i InputDiff) [3]string { return [3]string{i.Name, i.A, i.B} }) {
		var engines []string
		cells := 0
		for _, i := range same {
			engines, cells = once(engines, i.Engine), cells+i.Cells
		}
		lines = append(lines, []string{same[0].Name, shortValue(same[0].A), shortValue(same[0].B),
			listed(engines), number.Whole(cells)})
	}
	return lines
}

// shortValue is an input as a table has it: of a digest the beginning.
func shortValue(s string) string {
	if at := strings.Index(s, "sha256:"); at >= 0 && len(s) > at+19 {
		return s[:at+19] + "…"
	}
	return plain.Cut(s, 120)
}

func inputsPage(lines [][]string) *pageTable {
	return tabulate([]column{{name: "input", left: true}, {name: "A", left: true}, {name: "B", left: true},
		{name: "engine", left: true}, {name: "cells"}}, lines).page()
}

// largest are, of each metric, the largest change for the worse and the largest for the better.
func (d *Difference) largest() *sheet {
	var lines [][]string
	var classes []string
	_, names := d.names()
	var all changes
	for i := range d.Cells {
		all = append(all, d.changesOf(i)...)
	}
	for _, verdict := range []string{"worse", "better", "unknown"} {
		for _, same := range grouped(all.those(verdict), func(c change) string { return c.Metric }) {
			c := same[0]
			values := amounts(c.of, c.A.Median, c.B.Median)
			lines = append(lines, []string{c.of.Title, names.place(c.cell), values[0], values[1], c.Change.said(),
				c.doubt(d.Cells[c.cell])})
			classes = append(classes, "n "+verdict)
		}
	}
	s := tabulate([]column{{name: "figure", left: true}, {name: "cell", left: true}, {name: "A"}, {name: "B"},
		{name: "change"}, {name: "how sure", left: true}}, lines)
	for i := range s.columns[4].entries {
		s.columns[4].entries[i].Class = classes[i]
	}
	return s
}

// pair tells the page's data which rows are a pair, and how they differ.
func (d *data) pair(pairs []CellDiff, pair []int, of *Difference) {
	d.Group = pair[:d.Listed]
	series := &d.Columns[0] // it has the names of both sides
	for i, s := range d.Series {
		d.Series[i].Side = s.Label[len(s.Label)-1:]
		series.Texts[i] = strings.TrimSuffix(s.Label, ", "+d.Series[i].Side)
	}
	for i := range d.Listed {
		b := int(series.Values[i])
		for j := i + 1; j < d.Listed && pair[j] == pair[i] && d.Series[b].Side == "B"; j++ {
			if a := int(series.Values[j]); d.Series[a].Side == "A" && d.Series[b].Beside == nil {
				d.Series[b].Beside, series.Texts[a] = &a, series.Texts[b]
			}
		}
	}
	say := func(of func(c *CellDiff) string) func(i int) string {
		return func(i int) string { return of(&pairs[pair[i]]) }
	}
	own := []dataColumn{textColumn("outcome", true, d.Listed, say((*CellDiff).outcome))}
	if of.Checks != nil {
		kept := of.kept()
		own = append(own, textColumn("gate", true, d.Listed, say(func(c *CellDiff) string {
			return cmp.Or(kept[[2]string{c.Benchmark, c.name()}], "not held")
		})))
	}
	side := func(i int) string { return d.Series[int(series.Values[i])].Side }
	own = append(own, textColumn("side", false, d.Listed, side))
	d.Columns = slices.Insert(d.Columns, 2, own...)
	for _, same := range of.figures() {
		m := same[0].of
		change := dataColumn{Key: "change_" + m.Name, Title: "change of " + lower(m.Title), Unit: "%"}
		p := dataColumn{Key: "p_" + m.Name, Title: "p of " + lower(m.Title)}
		change.Name, p.Name = change.Title, p.Title
		for i := range d.Listed {
			by, chance := math.NaN(), math.NaN()
			if f := pairs[pair[i]].figure(m.Name); f != nil && f.Needs == 0 {
				by = float64(f.Change)
				if f.Significant || min(f.A.N, f.B.N) >= fewest { // with fewer it would say nothing
					chance = f.P
				}
			}
			change.Values, p.Values = append(change.Values, by), append(p.Values, chance)
		}
		d.Columns = append(d.Columns, change, p)
	}
}

// kept is what the gate says of each cell, by its benchmark and name.
func (d *Difference) kept() map[[2]string]string {
	said := map[[2]string]string{}
	for _, x := range d.Checks {
		cell := [2]string{x.Benchmark, x.Cell}
		switch was := said[cell]; {
		case x.Result == Fail || x.Result == Unknown:
			said[cell] = "not kept"
		case x.Result == Pass && was == "":
			said[cell] = "kept"
		}
	}
	return said
}
