package page

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"hclbench/report/compare"
	"hclbench/report/draw"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/say"
	"hclbench/report/table"
	"hclbench/results"
)

// Comparison writes the page of both sides together: of each cell A stands beside B. Without a title it has
// the labs' names.
func Comparison(w io.Writer, d *compare.Difference, about figure.About) error {
	rows, pair := d.Rows()
	if labs := figure.WordsOf(rows, "lab"); about.Title == "" && len(labs) > 0 {
		about.Title = strings.Join(labs, ", ") + " compared"
	}
	about.Title = cmp.Or(about.Title, "Comparison")
	about.Capacities = d.Found()
	p := newPage(rows, about)
	fillComparison(d, p, rows, pair)
	return p.write(w)
}

// fillComparison turns the page of the rows of both sides into that of their difference.
func fillComparison(d *compare.Difference, p *page, rows []results.Row, pair []int) {
	p.Source = slices.Concat([]string{"A: " + d.A, "B: " + d.B}, draw.SourceOf(rows, figure.About{}).What)
	p.Status, p.HostChanges, p.Engines = outcomes(d), d.Notes, nil
	p.Compared = firstOf(d)
	for i, x := range []string{"A", "B"} {
		of := slices.DeleteFunc(slices.Clone(rows), func(r results.Row) bool { return figure.AxisOf(r.Axes, figure.SideAxis) != x })
		for _, e := range table.Engines(of) {
			e.Name += ", " + x
			p.Engines = append(p.Engines, e)
		}
		p.Data.Sides = append(p.Data.Sides, []string{d.A, d.B}[i])
	}
	for _, what := range compare.Differing() {
		if text := d.UnlikeText(what); text != "" {
			p.Marks = append(p.Marks, text)
		}
	}
	p.Data.pair(d.Pairs(), pair, d)
	_, names := d.Names()
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
		first, rest := d.Finding(slices.Compact(cells), names)
		if text := d.SearchFinding(d.Pairs()[of[w.Cells[0]]].Benchmark); text != "" {
			rest = strings.TrimSpace(first + " " + rest)
			first = headline(text)
			rest = strings.TrimSpace(strings.TrimPrefix(text, first) + " " + rest)
		}
		w.Headline, w.Finding, w.Tables[0].Finding = first, strings.TrimSpace(first+" "+rest), first
	}
}

// outcomes are how many cells have each outcome, and what the gate says.
func outcomes(d *compare.Difference) (out []status) {
	n := map[string]int{}
	for _, c := range d.Pairs() {
		n[c.Outcome()]++
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

// firstOf is what the page says before its charts.
func firstOf(d *compare.Difference) *pageDifference {
	p := &pageDifference{Same: "Nothing is known of what went in."}
	if d.Compared() {
		p.Same = "Everything that is known to have gone in is the same."
	}
	lines := d.InputsTogether()
	if first := lines[:min(len(lines), mostInputs)]; len(first) > 0 {
		p.Inputs = inputsPage(first)
	}
	if more := lines[min(len(lines), mostInputs):]; len(more) > 0 {
		p.More, p.MoreCount = inputsPage(more), number.Whole(len(more))+" more"
	}
	if changes := d.Largest(); changes.Rows > 0 {
		p.Changes = printed(changes)
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

// mostInputs and mostBroken bound what stands on top.
const (
	mostInputs = 8
	mostBroken = 10
)

func inputsPage(lines [][]string) *pageTable {
	return printed(table.Tabulate([]table.Column{{Name: "input", Left: true}, {Name: "A", Left: true}, {Name: "B", Left: true},
		{Name: "engine", Left: true}, {Name: "cells"}}, lines))
}

// pair tells the page's data which rows are a pair, and how they differ.
func (d *data) pair(pairs []compare.CellDiff, pair []int, of *compare.Difference) {
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
	words := func(of func(c *compare.CellDiff) string) func(i int) string {
		return func(i int) string { return of(&pairs[pair[i]]) }
	}
	own := []dataColumn{textColumn("outcome", true, d.Listed, words((*compare.CellDiff).Outcome))}
	if of.Checks != nil {
		kept := of.Kept()
		own = append(own, textColumn("gate", true, d.Listed, words(func(c *compare.CellDiff) string {
			return cmp.Or(kept[[2]string{c.Benchmark, c.Name()}], "not held")
		})))
	}
	side := func(i int) string { return d.Series[int(series.Values[i])].Side }
	own = append(own, textColumn("side", false, d.Listed, side))
	d.Columns = slices.Insert(d.Columns, 2, own...)
	for _, same := range of.Figures() {
		m := same[0].Of
		change := dataColumn{Key: "change_" + m.Name, Title: "change of " + say.Lower(m.Title), Unit: "%"}
		p := dataColumn{Key: "p_" + m.Name, Title: "p of " + say.Lower(m.Title)}
		floor := dataColumn{Key: "floor_" + m.Name, Title: "least change shown of " + say.Lower(m.Title), Unit: "%"}
		change.Name, p.Name, floor.Name = change.Title, p.Title, floor.Title
		below := false
		for i := range d.Listed {
			by, chance, least := math.NaN(), math.NaN(), math.NaN()
			if f := pairs[pair[i]].Figure(m.Name); f != nil && f.Needs == 0 {
				by = float64(f.Change)
				if f.Significant || min(f.A.N, f.B.N) >= figure.Fewest { // with fewer it would say nothing
					chance = f.P
				}
				if f.Within() {
					least, below = float64(f.Floor), true
				}
			}
			change.Values, p.Values, floor.Values = append(change.Values, by), append(p.Values, chance), append(floor.Values, least)
		}
		d.Columns = append(d.Columns, change, p)
		if below { // the floor of those alone whose change is below it
			d.Columns = append(d.Columns, floor)
		}
	}
}
