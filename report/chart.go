package report

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// chart is what one panel shows: lines over an axis, or bars.
type chart struct {
	title  string // what is measured: "Output throughput"
	x, y   axis
	lines  []line
	groups []group // bars; there are no lines then
	better string  // where good values are: "higher is better"
	note   string  // what is the same for all of it, where nothing else says it
	mark   string  // what it shows, where that is no measurement of ours
	leads  []lead  // who is ahead along x; nil: there is nobody to be ahead of
}

// line is one series of a chart.
type line struct {
	series *series
	dots   []dot
	plain  bool // without markers: there are too many values
	steps  bool // holds each value until the next one
	front  bool // no series: what none of them surpasses

	published bool // by others: thin, with crosses
}

// dot is one value of a line.
type dot struct {
	x, y      float64
	low, high float64 // of repetitions; equal: there was one
	n         int     // repetitions that it is the median of
	of        int     // repetitions in all: those in doubt are left out where others are there
	label     string  // beside it
	hover     string
	doubt     bool   // suspect: drawn hollow
	mark      string // what it is, where it is no measurement of ours: "rehearsal", "imported"
}

// group are bars that belong together: one of each series, or with and without.
type group struct {
	label string
	bars  []bar
}

type bar struct {
	series *series
	label  string // at its foot; empty: the group's says it
	value  float64
	after  string // beside the value
	hover  string
	before bool // what the next one is compared with
	doubt  bool
	mark   string
}

const (
	small      = 11 // height of text in charts
	tiny       = 10
	markHeight = 14 // of the line that says that it is no measurement
)

// draw lays a chart out. With a legend it can stand alone.
func (c *chart) draw(width, height float64, legend bool) *drawing {
	d := &drawing{width: width, height: height, title: c.title}
	top := 8.0
	if legend {
		top = c.legend(d, top)
	}
	if c.mark != "" {
		d.label(0, top+8, c.mark, piece{colour: ink, size: tiny, bold: true})
		top += markHeight
	}
	title := c.title
	if c.y.unit != "" {
		title += ", " + c.y.unit
	}
	if c.groups != nil {
		c.bars(d, title, top)
		return d
	}
	xs, ys := c.values()
	if len(xs) == 0 {
		return d
	}
	rows, columns := int(height/62), int(width/75)
	var sx, sy scale
	var xticks, yticks []float64
	var start, base float64
	var foot string
	fit := func(below float64) { // the axes, with room for what stands below them
		base = height - below
		sy, yticks = c.y.fit(ys, base, top+30, rows)
		widest := 0.0
		for _, t := range yticks {
			widest = max(widest, textWidth(short(t), small))
		}
		start = widest + 10
		sx, xticks = c.x.fit(xs, start, width-14, columns)
		if c.x.ticks != nil {
			longest := 0.0
			for _, t := range c.x.ticks {
				longest = max(longest, textWidth(short(t), small))
			}
			xticks = spaced(c.x.ticks, sx, longest+8)
		}
		foot = c.x.title
		if c.x.unit != "" {
			foot += ", " + c.x.unit
		}
		if sx.log && c.x.ticks == nil {
			foot += ", logarithmic"
		}
	}
	fit(38)
	better := height - 4.0
	if c.better != "" && start+textWidth(c.better, small)+16+textWidth(foot, small) > width-6 {
		fit(52) // in a line of its own
		better -= 14
	}
	if sy.log {
		title += ", logarithmic"
	}
	d.label(0, top+12, title, piece{colour: ink, size: 12, bold: true})

	for _, t := range yticks {
		y := sy.at(t)
		d.add(piece{at: []point{{start, y}, {width - 6, y}}, colour: hair, width: 1})
		d.label(start-6, y+3.8, short(t), piece{colour: faint, anchor: right, size: small})
	}
	d.add(piece{at: []point{{start, base}, {width - 6, base}}, colour: faint, width: 1})
	for _, t := range xticks {
		x := sx.at(t)
		d.add(piece{at: []point{{x, base}, {x, base + 4}}, colour: faint, width: 1})
		d.label(x, base+17, short(t), piece{colour: faint, anchor: middle, size: small})
	}
	d.label(width-6, height-4, foot, piece{colour: faint, anchor: right, size: small})
	if c.better != "" {
		d.label(start, better, c.better, piece{colour: faint, size: small})
	}
	if c.note != "" {
		d.label(textWidth(title, 12.5)+14, top+12, c.note, piece{colour: faint, size: small})
	}
	var taken []box
	for _, l := range c.lines {
		taken = append(taken, l.draw(d, sx, sy)...)
	}
	for _, l := range c.lines {
		for _, p := range l.dots {
			if p.label != "" {
				d.beside(point{sx.at(p.x), sy.at(p.y)}, p.label, l.series, box{start, top + 18, width, base}, &taken)
			}
		}
	}
	return d
}

// marked says what the chart shows, where that is no measurement of ours.
func (c *chart) marked() string {
	var kinds []string
	add := func(kind string) {
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	for _, l := range c.lines {
		if l.published || l.front {
			continue
		}
		for _, p := range l.dots {
			add(p.mark)
		}
	}
	for _, g := range c.groups {
		for _, b := range g.bars {
			add(b.mark)
		}
	}
	text := map[string]string{"rehearsal": "Rehearsal: simulated, not a measurement", "imported": "Imported: measured by others"}
	var words []string
	for _, kind := range kinds {
		if kind != "" {
			words = append(words, text[kind])
		}
	}
	if len(words) > 0 && len(kinds) > len(words) {
		words = append(words, "and measurements")
	}
	return strings.Join(words, "; ")
}

// values are all that the axes have to hold.
func (c *chart) values() (xs, ys []float64) {
	for _, l := range c.lines {
		for _, p := range l.dots {
			xs, ys = append(xs, p.x), append(ys, p.y)
			if p.n > 1 {
				ys = append(ys, p.low, p.high)
			}
		}
	}
	return xs, ys
}

// legend names the series in a line or more and returns where they end.
func (c *chart) legend(d *drawing, top float64) float64 {
	x, y := 0.0, top+8
	for _, s := range c.series() {
		w := 26 + textWidth(s.label, small) + 14
		if x > 0 && x+w > d.width {
			x, y = 0, y+18
		}
		d.add(piece{at: []point{{x, y - 4}, {x + 20, y - 4}}, colour: colourOf(s), width: 2, dash: dashOf(s)},
			piece{shape: symbolOf(s), at: []point{{x + 10, y - 4}}, size: 3.5, colour: colourOf(s)})
		d.label(x+26, y, s.label, piece{colour: ink, size: small})
		x += w
	}
	return y + 12
}

// series are those of the chart, in their own order.
func (c *chart) series() []*series {
	var all []*series
	add := func(s *series) {
		if s != nil && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	for _, l := range c.lines {
		add(l.series)
	}
	for _, g := range c.groups {
		for _, b := range g.bars {
			add(b.series)
		}
	}
	slices.SortFunc(all, func(a, b *series) int { return cmp.Compare(a.index, b.index) })
	return all
}

type box struct{ left, top, right, bottom float64 }

func (b box) touches(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

// draw paints the line and returns the places of its markers.
func (l line) draw(d *drawing, sx, sy scale) (taken []box) {
	path := make([]point, 0, len(l.dots))
	for i, p := range l.dots {
		at := point{sx.at(p.x), sy.at(p.y)}
		if l.steps && i > 0 {
			path = append(path, point{at.x, path[len(path)-1].y})
		}
		path = append(path, at)
	}
	stroke := piece{at: path, colour: colourOf(l.series), width: 1.75, dash: dashOf(l.series), series: l.series}
	if l.front {
		stroke.colour, stroke.width, stroke.dash = faint, 1, []float64{3, 3}
	}
	if l.plain {
		stroke.width = 1.5
	}
	if l.published {
		stroke.width = 1
	}
	if len(path) > 1 {
		d.add(stroke)
	}
	if l.front {
		return nil
	}
	every := 1
	if l.plain {
		every = max(1, len(l.dots)/60) // places to point at
	}
	for i, p := range l.dots {
		at := point{sx.at(p.x), sy.at(p.y)}
		if l.plain {
			if i%every == 0 {
				d.add(piece{shape: spot, at: []point{at}, size: 3, series: l.series, hover: p.hover})
			}
			continue
		}
		if p.n > 1 && p.high > p.low {
			d.add(piece{at: []point{{at.x, sy.at(p.low)}, {at.x, sy.at(p.high)}}, colour: colourOf(l.series), width: 1, series: l.series})
		}
		if l.published {
			d.add(piece{shape: cross, at: []point{at}, size: 3, colour: colourOf(l.series), series: l.series, hover: p.hover})
			continue
		}
		m := piece{shape: symbolOf(l.series), at: []point{at}, size: 3.6, colour: colourOf(l.series), series: l.series, hover: p.hover}
		if p.doubt {
			m.fill = paper
		}
		d.add(m)
		taken = append(taken, box{at.x - 4, at.y - 4, at.x + 4, at.y + 4})
	}
	return taken
}

// beside writes a label next to a point where nothing is yet, or not at all.
func (d *drawing) beside(p point, text string, s *series, within box, taken *[]box) {
	w, h := textWidth(text, tiny), 9.0
	for _, o := range []struct {
		dx, dy float64
		a      anchor
	}{{0, -7, middle}, {7, 3.5, left}, {-7, 3.5, right}, {0, 15, middle}, {6, -6, left}, {-6, -6, right}, {6, 13, left}, {-6, 13, right}} {
		x, y := p.x+o.dx, p.y+o.dy
		from := x - w*float64(o.a)/2
		b := box{from - 1, y - h, from + w + 1, y + 1}
		if b.left < within.left || b.right > within.right || b.top < within.top || b.bottom > within.bottom {
			continue
		}
		if slices.ContainsFunc(*taken, b.touches) {
			continue
		}
		*taken = append(*taken, b)
		d.label(x, y, text, piece{colour: colourOf(s), size: tiny, anchor: o.a, series: s})
		return
	}
}

// Bars lie, so that their labels have room.
const (
	barHeight  = 11
	barGap     = 3
	groupGap   = 12
	groupTitle = 16
	symbolRoom = 10 // for the marker of its series
)

// barsHeight is how high a chart of bars is, legend aside.
func (c *chart) barsHeight() float64 {
	h := 38.0
	if c.mark != "" {
		h += markHeight
	}
	for _, g := range c.groups {
		if g.label != "" {
			h += groupTitle
		}
		h += float64(len(g.bars))*(barHeight+barGap) + groupGap
	}
	return h
}

func (c *chart) bars(d *drawing, title string, top float64) {
	d.label(0, top+12, title, piece{colour: ink, size: 12, bold: true})
	most, after, foot := 0.0, 0.0, 0.0
	for _, g := range c.groups {
		for _, b := range g.bars {
			most = max(most, b.value)
			after = max(after, textWidth(barText(b), tiny)+symbolRoom)
			foot = max(foot, textWidth(b.label, tiny))
		}
	}
	if foot > 0 {
		foot += 8
	}
	room := d.width - after - 10 - foot
	y := top + 28
	for _, g := range c.groups {
		if g.label != "" {
			d.label(0, y+10, g.label, piece{colour: ink, size: small})
			y += groupTitle
		}
		for _, b := range g.bars {
			w := 0.0
			if most > 0 && !math.IsInf(b.value, 0) {
				w = max(1, b.value/most*room)
			}
			colour := colourOf(b.series)
			if b.before {
				colour = shade
			}
			if b.label != "" {
				d.label(foot-8, y+barHeight-2, b.label, piece{colour: faint, size: tiny, anchor: right})
			}
			at := []point{{foot, y}, {foot + w, y}, {foot + w, y + barHeight}, {foot, y + barHeight}}
			if b.doubt { // an outline, as hollow as a hollow marker
				d.add(piece{shape: stroke, at: append(at, at[0]), colour: colour, width: 1.25, series: b.series, hover: b.hover})
			} else {
				d.add(piece{shape: area, at: at, colour: colour, series: b.series, hover: b.hover})
			}
			if !b.before { // colours alone may repeat
				d.add(piece{shape: symbolOf(b.series), at: []point{{foot + w + 8, y + barHeight/2.0}}, size: 3, colour: colour, series: b.series})
			}
			d.label(foot+w+5+symbolRoom, y+barHeight-2, barText(b), piece{colour: faint, size: tiny, series: b.series})
			y += barHeight + barGap
		}
		y += groupGap
	}
}

func barText(b bar) string { return strings.TrimSpace(number(b.value) + "  " + b.after) }
