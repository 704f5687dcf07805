package chart

import (
	"cmp"
	"slices"
	"strings"

	"hclbench/report/number"
)

// Panel is what one panel shows: lines over an axis, or bars.
type Panel struct {
	Title  string // what is measured: "Output throughput"
	X, Y   Axis
	Lines  []Line
	Groups []Group // bars; there are no lines then
	Heat   *Heat   // a sweep; there are no lines then
	Asked  float64 // a line across at what is asked for of all; 0: there is none
	Better string  // where good values are: "higher is better"
	Tail   string  // the percentile of its lines that are tails: "p99"
	Slow   string  // as [Axis.Key], what those lines measure
	Along  string  // as [Axis.Key], what its cells lie along, with blanks between several
	Note   string  // what is the same for all of it, where nothing else says it
	Mark   string  // what it shows, where that is no measurement of ours
}

// Marked says what the chart shows, where that is no measurement of ours.
func (c *Panel) Marked() string {
	text := map[string]string{"rehearsal": "Rehearsal: simulated, not a measurement",
		"imported": "Imported: measured by others"}
	seen := map[string]bool{}
	var words []string
	add := func(kind string) {
		if !seen[kind] && kind != "" {
			words = append(words, text[kind])
		}
		seen[kind] = true
	}
	for _, l := range c.Lines {
		if l.Published || l.Front {
			continue
		}
		for _, p := range l.Dots {
			add(p.Kind)
		}
	}
	for _, g := range c.Groups {
		for _, b := range g.Bars {
			add(b.Kind)
		}
	}
	if c.Heat != nil {
		for _, cell := range c.Heat.Cells {
			add(cell.Kind)
		}
	}
	if len(words) > 0 && seen[""] {
		words = append(words, "and measurements")
	}
	return strings.Join(words, "; ")
}

// values are all that the axes have to hold.
func (c *Panel) values() (xs, ys []float64) {
	for _, l := range c.Lines {
		for _, p := range l.Dots {
			xs, ys = append(xs, p.X), append(ys, p.Y)
			if low, high, ok := p.Range(); ok && !l.Plain && !l.Tail {
				ys = append(ys, low, high)
			}
		}
	}
	if c.Asked > 0 && ys != nil {
		ys = append(ys, c.Asked)
	}
	return xs, ys
}

// Told reports whether a page knows the cells of all that is drawn, and so their values.
func (c *Panel) Told() bool {
	unknown := func(d Dot) bool { return d.Ref == 0 }
	return !slices.ContainsFunc(c.Lines, func(l Line) bool { return !l.Front && slices.ContainsFunc(l.Dots, unknown) }) &&
		!slices.ContainsFunc(c.Groups, func(g Group) bool {
			return slices.ContainsFunc(g.Bars, func(b Bar) bool {
				return !b.None && b.Ref == 0 || slices.ContainsFunc(b.Published, unknown)
			})
		})
}

// Has reports whether it shows values of a kind of run beside others.
func (c *Panel) Has(kind string) bool {
	of := func(dots []Dot) bool { return slices.ContainsFunc(dots, func(d Dot) bool { return d.Kind == kind }) }
	return slices.ContainsFunc(c.Lines, func(l Line) bool { return l.Published && of(l.Dots) }) ||
		slices.ContainsFunc(c.Groups, func(g Group) bool {
			return slices.ContainsFunc(g.Bars, func(b Bar) bool { return of(b.Published) })
		})
}

// manyLabels are too many to read.
const manyLabels = 24

// Sparse leaves of many labels those of the first and the last point of a line, and of the front.
func (c *Panel) Sparse() {
	front, labels := map[point]bool{}, 0
	for _, l := range c.Lines {
		for _, p := range l.Dots {
			if l.Front {
				front[point{p.X, p.Y}] = true
			} else if p.Label != "" {
				labels++
			}
		}
	}
	for _, l := range c.Lines {
		for i := range l.Dots {
			p := &l.Dots[i]
			if labels > manyLabels && i > 0 && i < len(l.Dots)-1 && !front[point{p.X, p.Y}] {
				p.Label = ""
			}
		}
	}
}

// AddTail puts the lines of another panel, of a percentile of the slowest requests, behind this one's.
func (c *Panel) AddTail(of *Panel, percentile string) {
	var tails []Line
	for _, l := range of.Lines {
		if !l.Published {
			l.Tail = true
			tails = append(tails, l)
		}
	}
	if tails != nil {
		c.Lines, c.Tail, c.Note = append(tails, c.Lines...), percentile, "pale line: "+percentile
		c.Slow = of.Y.Key
	}
}

// Empty reports whether there is nothing to draw.
func (c *Panel) Empty() bool { return len(c.Lines) == 0 && len(c.Groups) == 0 && c.Heat == nil }

// Seconds turns milliseconds into seconds where they are many.
func (c *Panel) Seconds() {
	var xs, ys, ranges []*float64
	for _, l := range c.Lines {
		for i := range l.Dots {
			d := &l.Dots[i]
			xs, ys, ranges = append(xs, &d.X), append(ys, &d.Y), append(ranges, &d.Low, &d.High, &d.From, &d.To)
		}
	}
	for _, g := range c.Groups {
		for i := range g.Bars {
			ys = append(ys, &g.Bars[i].Value)
			for j := range g.Bars[i].Published {
				ys = append(ys, &g.Bars[i].Published[j].Y)
			}
		}
	}
	c.X.seconds(xs, nil)
	c.Y.seconds(ys, ranges)
}

// seconds turns values, and what lies around them, into seconds where they are many.
func (a *Axis) seconds(values, ranges []*float64) {
	most := 0.0
	for _, v := range values {
		most = max(most, *v)
	}
	unit, per := number.Unit(a.Unit, most)
	a.Unit = unit
	for _, v := range slices.Concat(values, ranges) {
		*v /= per
	}
}

// Series are those of the chart, in their own order.
func (c *Panel) Series() []*Series {
	var all []*Series
	add := func(s *Series) {
		if s != nil && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	for _, l := range c.Lines {
		add(l.Series)
	}
	for _, g := range c.Groups {
		for _, b := range g.Bars {
			add(b.Series)
		}
	}
	if c.Heat != nil {
		add(c.Heat.Series)
	}
	slices.SortFunc(all, func(a, b *Series) int { return cmp.Compare(a.Index, b.Index) })
	return all
}
