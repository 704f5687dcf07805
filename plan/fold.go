package plan

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"hclbench/plain"
	"hclbench/results"
)

// line stands for cells that follow each other and fare alike: every combination of its values.
type line struct {
	first  *Cell
	axes   []axis
	from   string // when the first of them was measured, and the last; empty: none was
	to     string
	status string // and why, without when
	id     string // shown after the coordinates
}

// axis is one of a matrix with its values, in the order of the cells.
type axis struct {
	name string
	list []string
}

func newLine(c *Cell) *line {
	l := &line{first: c, from: c.measured, to: c.measured}
	for _, a := range append(slices.Clone(c.Axes), results.Axis{Name: "repetition", Value: c.Repetition}) {
		if a.Name != "engine" { // which the lines above say
			l.axes = append(l.axes, axis{a.Name, []string{fmt.Sprint(a.Value)}})
		}
	}
	l.status = string(c.Status) + " " + strings.Replace(c.Why, c.measured, "", 1)
	l.status += c.sentFrom()
	return l
}

// fold has a line for each run of cells that are a product of values.
func fold(cells []*Cell) (lines []*line) {
	most := 0 // axes of a cell: not all of a benchmark need to have the same
	for _, c := range cells {
		lines = append(lines, newLine(c))
		most = max(most, len(lines[len(lines)-1].axes))
	}
	for before := 0; before != len(lines); {
		before = len(lines)
		for i := most - 1; i >= 0; i-- { // the last one turns fastest
			lines = joined(lines, i)
		}
	}
	return lines
}

// joined are the lines, in which those that follow each other and differ in one axis are one.
func joined(lines []*line, along int) []*line {
	out := lines[:1]
	for _, l := range lines[1:] {
		last := out[len(out)-1]
		if !last.alike(l, along) {
			out = append(out, l)
			continue
		}
		last.axes[along].list = append(last.axes[along].list, l.axes[along].list...)
		last.from, last.to = min(last.from, l.from), max(last.to, l.to)
	}
	return out
}

// alike reports whether two lines differ in the values of one axis and in nothing else.
func (l *line) alike(o *line, along int) bool {
	if l.status != o.status || len(l.axes) != len(o.axes) || along >= len(l.axes) {
		return false
	}
	for i, a := range l.axes {
		if b := o.axes[i]; a.name != b.name || i != along && !slices.Equal(a.list, b.list) {
			return false
		}
	}
	return true
}

// coordinates are the line's without the engine: "concurrency=4,8 output_tokens=800".
func (l *line) coordinates() string {
	var words []string
	for _, a := range l.axes {
		if a.name != "repetition" || len(a.list) > 1 || a.list[0] != "1" {
			words = append(words, a.name+"="+a.String())
		}
	}
	if l.first.Search() != nil {
		words = append([]string{"search"}, words...)
	}
	if len(words) == 0 {
		return "one cell"
	}
	return strings.Join(words, " ")
}

// String is "+ concurrency=4,8,16 output_tokens=800", or with what is known of them
// "= concurrency=4,8  up to date: measured 2026-11-20 14:02:11 to 2026-11-20 14:07:40".
func (l *line) String() string {
	marks := map[Status][2]string{Measure: {"+", ""}, Stale: {"~", "stale: "}, Done: {"=", "up to date: "}}
	c := l.first
	s := marks[c.Status][0] + " " + l.coordinates() + c.sentFrom()
	if l.id != "" {
		s += "  " + l.id
	}
	why := marks[c.Status][1] + c.Why
	if l.from != "" && l.from != l.to {
		why = strings.Replace(why, c.measured, l.from+" to "+l.to, 1)
	}
	if why != "" {
		s += "  " + why
	}
	return s
}

// String is "4,8,16"; of very many values it has the first and the last.
func (v axis) String() string {
	const most, shown = 16, 3
	list := v.list
	if n := len(list); n > most {
		return fmt.Sprintf("%s,…,%s (%s)", strings.Join(list[:shown], ","), list[n-1], plain.Count(n, "value"))
	}
	return strings.Join(list, ",")
}

// runs are the deployments in their order. Those that follow each other and can stand under one
// heading come together: of one block that an axis turns, on one host, for one benchmark.
func (t *printer) runs(all []*Deployment) iter.Seq[[]*Deployment] {
	return func(yield func([]*Deployment) bool) {
		for len(all) > 0 {
			n := 1
			for n < len(all) && !t.verbose && all[0].foldsWith(all[n]) {
				n++
			}
			if !yield(all[:n]) {
				return
			}
			all = all[n:]
		}
	}
}

func (d *Deployment) foldsWith(o *Deployment) bool {
	told := func(d *Deployment) bool {
		return d.hasTopology() || slices.ContainsFunc(d.Cells, sentFrom)
	}
	a, b := d.Engine, o.Engine
	return !told(d) && !told(o) && a.Address() == b.Address() && d.Host == o.Host &&
		a.Model == b.Model && a.Image == b.Image && a.URL == b.URL &&
		len(d.benchmarks()) == 1 && slices.Equal(d.benchmarks(), o.benchmarks())
}

// sentFrom reports whether a cell's load comes from another host.
func sentFrom(c *Cell) bool { return len(c.From()) > 0 }

func (d *Deployment) benchmarks() names {
	var there names
	for _, c := range d.Cells {
		there.add(c.Benchmark)
	}
	return there
}
