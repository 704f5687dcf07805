package chart

import (
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
	Better string  // where good values are: "higher is better"
	Tail   string  // the percentile of its lines that are tails: "p99"
	Slow   string  // as [Axis.Key], what those lines measure
	Along  string  // as [Axis.Key], what its cells lie along, with blanks between several
	Note   string  // what is the same for all of it, where nothing else says it
	Mark   string  // what it shows, where that is no measurement of ours
}

// Group are bars that belong together: one of each series, or with and without.
type Group struct {
	Label string
	Bars  []Bar
}

type Bar struct {
	Series *Series
	Label  string // at its foot; empty: the group's says it
	Value  float64
	None   bool   // there is no value, only what was published
	After  string // beside the value
	Hover  string
	Ref    int  // as of a [Dot]
	Before bool // what the next one is compared with
	Trust

	Published []Dot // of its cell, by others: their Y
}

const (
	small      = 11 // height of text in charts
	tiny       = 10
	markerSize = 3.6
	crossSize  = 3
	markHeight = 14 // of the line that says that it is no measurement
)

// Draw lays a chart out. Named, it can stand alone: it says which series are whose.
func (c *Panel) Draw(width, height float64, named bool) *Drawing {
	d := &Drawing{Width: width, Height: height, title: c.said(),
		keys: []string{"x", c.X.Key, "y", c.Y.Key, "slow", c.Slow, "along", c.Along}}
	c.draw(d, 8, height, named)
	return d
}

// said is what the chart shows, for who cannot see it.
func (c *Panel) said() string {
	text := c.Title
	if c.Y.Unit != "" {
		text += " in " + c.Y.Unit
	}
	if c.X.Title != "" {
		text += " against " + strings.ToLower(c.X.Title[:1]) + c.X.Title[1:]
	}
	var names []string
	for _, s := range c.Series() {
		names = append(names, s.Label)
	}
	if len(names) > 0 {
		text += ": " + strings.Join(names, ", ")
	}
	return text
}

// draw lays the chart out between two heights.
func (c *Panel) draw(d *Drawing, top, bottom float64, named bool) {
	right := d.Width
	ends := named && c.room(d.Width, bottom-top) > 0
	switch {
	case ends:
		right -= c.room(d.Width, bottom-top)
	case named:
		top = c.legend(d, top)
	}
	if c.Mark != "" {
		d.label(0, top+8, fit(c.Mark, tiny*boldness, d.Width), piece{colour: ink, size: tiny, bold: true})
		top += markHeight
	}
	title := c.Title
	if c.Y.Unit != "" {
		title += ", " + c.Y.Unit
	}
	xs, ys := c.values()
	switch {
	case c.Groups != nil:
		c.bars(d, title, top)
		return
	case c.Heat != nil:
		c.heat(d, title, top)
		return
	}
	if len(xs) == 0 {
		return
	}
	f := c.frame(xs, ys, box{0, top, right, bottom - 38})
	better := bottom - 4
	if c.Better != "" && f.within.left+textWidth(c.Better, small)+16+textWidth(f.foot, small) > right-6 {
		f = c.frame(xs, ys, box{0, top, right, bottom - 52}) // in a line of its own
		better -= 14
	}
	if f.y.log {
		title += ", logarithmic"
	}
	c.heading(d, title, top)
	f.draw(d, bottom-4)
	if c.Better != "" {
		d.label(f.within.left, better, c.Better, piece{colour: faint, size: small})
	}
	c.lines(d, f)
	if ends {
		c.names(d, f)
	}
}

// heading is the title, and beside it what is the same for all of the chart.
func (c *Panel) heading(d *Drawing, title string, top float64) {
	title = fit(title, 12*boldness, d.Width)
	d.label(0, top+12, title, piece{colour: ink, size: 12, bold: true})
	after := textWidth(title, 12*boldness) + 14
	if note := fit(c.Note, small, d.Width-after); note != "" {
		d.label(after, top+12, note, piece{colour: faint, size: small})
	}
}

// lines are all lines, and beside their points what fits there.
func (c *Panel) lines(d *Drawing, f frame) {
	var taken []box
	for _, l := range c.Lines {
		taken = append(taken, l.draw(d, f)...)
	}
	for _, l := range c.Lines {
		for _, p := range l.Dots {
			if p.Label != "" {
				d.beside(f.at(p), p.Label, piece{series: l.Series, ref: p.Ref}, f.within, &taken)
			}
		}
		for _, g := range l.Gaps {
			d.beside(point{f.x.at(g.X), f.within.bottom - 2}, "void", piece{series: l.Series, ref: g.Ref}, f.within, &taken)
		}
	}
}

// frame are the axes of a panel with their ticks.
type frame struct {
	x, y           scale
	xticks, yticks []float64
	within         box // the axes
	foot           string
}

func (f frame) at(p Dot) point { return point{f.x.at(p.X), f.y.at(p.Y)} }

// frame fits the axes to what they have to hold.
func (c *Panel) frame(xs, ys []float64, within box) (f frame) {
	width, height := within.right-within.left, within.bottom-within.top
	f.y, f.yticks = c.Y.fit(ys, within.bottom, within.top+30, int((height+38)/62))
	within.left += widest(f.yticks) + 10
	_, ticks := c.X.fit(xs, within.left, within.right-14, int(width/75))
	f.x, f.xticks = c.X.fit(xs, within.left, within.right-max(14, widest(ticks)/2), int(width/75))
	if c.X.Ticks != nil {
		f.xticks = spaced(c.X.Ticks, f.x, widest(c.X.Ticks)+8)
	}
	f.foot = c.X.Title
	if c.X.Unit != "" {
		f.foot += ", " + c.X.Unit
	}
	if f.x.log && c.X.Ticks == nil {
		f.foot += ", logarithmic"
	}
	f.foot = fit(f.foot, small, width)
	within.top += 18
	f.within = within
	return f
}

func widest(ticks []float64) (w float64) {
	for _, t := range ticks {
		w = max(w, textWidth(number.Short(t), small))
	}
	return w
}

func (f frame) draw(d *Drawing, foot float64) {
	start, end, base := f.within.left, f.within.right-6, f.within.bottom
	for _, t := range f.yticks {
		y := f.y.at(t)
		d.add(piece{at: []point{{start, y}, {end, y}}, colour: hair, width: 1})
		d.label(start-6, y+3.8, number.Short(t), piece{colour: faint, anchor: right, size: small})
	}
	d.add(piece{at: []point{{start, base}, {end, base}}, colour: faint, width: 1})
	for _, t := range f.xticks {
		x := f.x.at(t)
		d.add(piece{at: []point{{x, base}, {x, base + 4}}, colour: faint, width: 1})
		d.label(x, base+17, number.Short(t), piece{colour: faint, anchor: middle, size: small})
	}
	d.label(end, foot, f.foot, piece{colour: faint, anchor: right, size: small})
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
	return xs, ys
}

type box struct{ left, top, right, bottom float64 }

func (b box) touches(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
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
