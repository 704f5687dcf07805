package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"hclbench/load"
	"hclbench/report/number"
	"hclbench/results"
)

// dates are the days on which cells were measured; empty: nobody knows.
func dates(rows []results.Row) string {
	var first, last time.Time
	for _, r := range rows {
		if first.IsZero() || !r.Started.IsZero() && r.Started.Before(first) {
			first = r.Started
		}
		if r.Finished.After(last) {
			last = r.Finished
		}
	}
	if first.IsZero() {
		return ""
	}
	const day = "2 January 2006"
	text := first.UTC().Format(day)
	if to := last.UTC().Format(day); to != text && !last.IsZero() {
		text += " to " + to
	}
	return text
}

func verdictCounts(rows []results.Row) string {
	n := map[string]int{}
	for i := range rows {
		n[rows[i].Verdict().Verdict]++
	}
	text := fmt.Sprintf("%s: %s valid, ", number.Count(len(rows), "cell"), number.Whole(n[load.Valid]))
	if n[load.Imported] > 0 {
		text += number.Whole(n[load.Imported]) + " imported, not measured here, "
	}
	return text + fmt.Sprintf("%s suspect, %s void.", number.Whole(n[load.Suspect]), number.Whole(n[load.Void]))
}

// pagePlan is what a benchmark asked for and what came of it.
type pagePlan struct {
	Benchmark, Counts string
	Axes              []fact
	Missing           []string
}

type fact struct{ Name, Value string }

// maxMissing bounds the cells that are listed as not measured.
const maxMissing = 200

// plans say of each benchmark what it turned and what is not measured.
func plans(rows []results.Row, planned []Planned) (out []pagePlan) {
	asked := map[string]int{} // cells of each benchmark
	for _, c := range planned {
		asked[c.Benchmark]++
	}
	all := slices.Clone(planned)
	of := map[string]*results.Row{}
	for i := range rows {
		r := &rows[i]
		of[r.ID] = r
		if asked[r.Benchmark] == 0 { // nobody knows what was asked for, but this
			all = append(all, Planned{ID: r.ID, Benchmark: r.Benchmark, Axes: r.Axes})
		}
	}
	for _, cells := range grouped(all, func(c Planned) string { return c.Benchmark }) {
		name := cells[0].Benchmark
		p := pagePlan{Benchmark: name, Axes: turned(cells)}
		for _, c := range cells {
			switch r := of[c.ID]; {
			case r == nil:
				p.Missing = append(p.Missing, c.place())
			case !isMeasured(r):
				p.Missing = append(p.Missing, c.place()+": void")
			}
		}
		if n := asked[name]; n > 0 {
			p.Counts = fmt.Sprintf("%s planned, %s not measured.", number.Count(n, "cell"), number.Whole(len(p.Missing)))
		} else {
			measured := those(rows, func(r *results.Row) bool { return r.Benchmark == name && isMeasured(r) })
			p.Counts = number.Count(len(measured), "cell") +
				" measured. The lab's text is not at hand, so what else it asks for is not known."
		}
		if more := len(p.Missing) - maxMissing; more > 0 {
			p.Missing = append(p.Missing[:maxMissing:maxMissing], fmt.Sprintf("and %s more", number.Whole(more)))
		}
		out = append(out, p)
	}
	return out
}

// turned are the axes of cells with all their values; numbers rise.
func turned(cells []Planned) (axes []fact) {
	of := func(i int) results.Axes { return cells[i].Axes }
	for _, axis := range axisNames(len(cells), of) {
		if axis == sideAxis {
			continue
		}
		values := axisValues(axis, len(cells), of)
		if !slices.ContainsFunc(values, func(v string) bool { return !isNumber(v) }) {
			slices.SortFunc(values, func(a, b string) int {
				x, _ := float(a) // all of them are numbers
				y, _ := float(b)
				return cmp.Compare(x, y)
			})
		}
		axes = append(axes, fact{strings.ReplaceAll(axis, "_", " "), strings.Join(values, ", ")})
	}
	return axes
}

func (c Planned) place() string {
	var parts []string
	for _, a := range c.Axes {
		part := axisText(a.Value)
		switch a.Name {
		case "engine":
		case sideAxis:
			part = "in " + part
		default:
			part += " " + strings.ReplaceAll(a.Name, "_", " ")
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}
