package chart

import (
	"cmp"
	"math"
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
	Better string  // where good values are: "higher is better"
	Note   string  // what is the same for all of it, where nothing else says it
	Mark   string  // what it shows, where that is no measurement of ours
}

// Line is one series of a chart.
type Line struct {
	Series *Series
	Dots   []Dot
	Plain  bool // without markers: there are too many values
	Steps  bool // holds each value until the next one
	Front  bool // no series: what none of them surpasses

	Published bool // by others: thin, with crosses
}

// Dot is one value of a line.
type Dot struct {
	X, Y      float64
	Low, High float64 // of repetitions; equal: there was one
	N         int     // repetitions that it is the median of
	Of        int     // repetitions in all: those in doubt are left out where others are there
	Label     string  // beside it
	Hover     string
	Doubt     bool   // suspect: drawn hollow
	Mark      string // what it is, where it is no measurement of ours: "rehearsal", "imported"
}

// group are bars that belong together: one of each series, or with and without.
type Group struct {
	Label string
	Bars  []Bar
}

type Bar struct {
	Series *Series
	Label  string // at its foot; empty: the group's says it
	Value  float64
	After  string // beside the value
	Hover  string
	Before bool // what the next one is compared with
	Doubt  bool
	Mark   string
}

const (
	small      = 11 // height of text in charts
	tiny       = 10
	markHeight = 14 // of the line that says that it is no measurement
)

// Draw lays a chart out. With a legend it can stand alone.
func (c *Panel) Draw(width, height float64, legend bool) *Drawing {
	d := &Drawing{Width: width, Height: height, title: c.Title}
	top := 8.0
	if legend {
		top = c.legend(d, top)
	}
	if c.Mark != "" {
		d.label(0, top+8, c.Mark, piece{colour: ink, size: tiny, bold: true})
		top += markHeight
	}
	title := c.Title
	if c.Y.Unit != "" {
		title += ", " + c.Y.Unit
	}
	if c.Groups != nil {
		c.bars(d, title, top)
		return d
	}
	xs, ys := c.values()
	if len(xs) == 0 {
		return d
	}
	f := c.frame(d, xs, ys, top, 38)
	better := height - 4.0
	if c.Better != "" && f.start+textWidth(c.Better, small)+16+textWidth(f.foot, small) > width-6 {
		f = c.frame(d, xs, ys, top, 52) // in a line of its own
		better -= 14
	}
	if f.y.log {
		title += ", logarithmic"
	}
	d.label(0, top+12, title, piece{colour: ink, size: 12, bold: true})
	f.draw(d)
	if c.Better != "" {
		d.label(f.start, better, c.Better, piece{colour: faint, size: small})
	}
	if c.Note != "" {
		d.label(textWidth(title, 12.5)+14, top+12, c.Note, piece{colour: faint, size: small})
	}
	var taken []box
	for _, l := range c.Lines {
		taken = append(taken, l.draw(d, f.x, f.y)...)
	}
	for _, l := range c.Lines {
		for _, p := range l.Dots {
			if p.Label != "" {
				d.beside(point{f.x.at(p.X), f.y.at(p.Y)}, p.Label, l.Series, box{f.start, top + 18, width, f.base}, &taken)
			}
		}
	}
	return d
}

// frame are the axes of a panel with their ticks.
type frame struct {
	x, y           scale
	xticks, yticks []float64
	start, base    float64 // left of the y axis, above what stands below the x axis
	foot           string
}

// frame fits the axes to what they have to hold, with room below them.
func (c *Panel) frame(d *Drawing, xs, ys []float64, top, below float64) (f frame) {
	f.base = d.Height - below
	f.y, f.yticks = c.Y.fit(ys, f.base, top+30, int(d.Height/62))
	f.start = widest(f.yticks) + 10
	f.x, f.xticks = c.X.fit(xs, f.start, d.Width-14, int(d.Width/75))
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
	return f
}

func widest(ticks []float64) (w float64) {
	for _, t := range ticks {
		w = max(w, textWidth(number.Short(t), small))
	}
	return w
}

func (f frame) draw(d *Drawing) {
	end := d.Width - 6
	for _, t := range f.yticks {
		y := f.y.at(t)
		d.add(piece{at: []point{{f.start, y}, {end, y}}, colour: hair, width: 1})
		d.label(f.start-6, y+3.8, number.Short(t), piece{colour: faint, anchor: right, size: small})
	}
	d.add(piece{at: []point{{f.start, f.base}, {end, f.base}}, colour: faint, width: 1})
	for _, t := range f.xticks {
		x := f.x.at(t)
		d.add(piece{at: []point{{x, f.base}, {x, f.base + 4}}, colour: faint, width: 1})
		d.label(x, f.base+17, number.Short(t), piece{colour: faint, anchor: middle, size: small})
	}
	d.label(end, d.Height-4, f.foot, piece{colour: faint, anchor: right, size: small})
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
			add(p.Mark)
		}
	}
	for _, g := range c.Groups {
		for _, b := range g.Bars {
			add(b.Mark)
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
			if p.N > 1 {
				ys = append(ys, p.Low, p.High)
			}
		}
	}
	return xs, ys
}

// legend names the series in a line or more and returns where they end.
func (c *Panel) legend(d *Drawing, top float64) float64 {
	x, y := 0.0, top+8
	for _, s := range c.Series() {
		w := 26 + textWidth(s.Label, small) + 14
		if x > 0 && x+w > d.Width {
			x, y = 0, y+18
		}
		d.add(piece{at: []point{{x, y - 4}, {x + 20, y - 4}}, colour: colourOf(s), width: 2, dash: dashOf(s)},
			piece{shape: symbolOf(s), at: []point{{x + 10, y - 4}}, size: 3.5, colour: colourOf(s)})
		d.label(x+26, y, s.Label, piece{colour: ink, size: small})
		x += w
	}
	return y + 12
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
	slices.SortFunc(all, func(a, b *Series) int { return cmp.Compare(a.Index, b.Index) })
	return all
}

type box struct{ left, top, right, bottom float64 }

func (b box) touches(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

// draw paints the line and returns the places of its markers.
func (l Line) draw(d *Drawing, sx, sy scale) (taken []box) {
	path := make([]point, 0, len(l.Dots))
	for i, p := range l.Dots {
		at := point{sx.at(p.X), sy.at(p.Y)}
		if l.Steps && i > 0 {
			path = append(path, point{at.x, path[len(path)-1].y})
		}
		path = append(path, at)
	}
	if l.Front {
		if len(path) > 1 {
			d.add(piece{at: path, colour: faint, width: 1, dash: []float64{3, 3}})
		}
		return nil
	}
	stroke := piece{at: path, colour: colourOf(l.Series), width: 1.75, dash: dashOf(l.Series), series: l.Series}
	if l.Plain {
		stroke.width = 1.5
	}
	if l.Published {
		stroke.width = 1
	}
	if len(path) > 1 {
		d.add(stroke)
	}
	every := max(1, len(l.Dots)/60) // place to point at, where there are no markers
	for i, p := range l.Dots {
		at := point{sx.at(p.X), sy.at(p.Y)}
		if l.Plain {
			if i%every == 0 {
				d.add(piece{shape: spot, at: []point{at}, size: 3, series: l.Series, hover: p.Hover})
			}
			continue
		}
		if p.N > 1 && p.High > p.Low {
			d.add(piece{at: []point{{at.x, sy.at(p.Low)}, {at.x, sy.at(p.High)}}, colour: colourOf(l.Series), width: 1,
				series: l.Series})
		}
		if l.Published {
			d.add(piece{shape: cross, at: []point{at}, size: 3, colour: colourOf(l.Series), series: l.Series, hover: p.Hover})
			continue
		}
		m := piece{shape: symbolOf(l.Series), at: []point{at}, size: 3.6, colour: colourOf(l.Series), series: l.Series,
			hover: p.Hover}
		if p.Doubt {
			m.fill = paper
		}
		d.add(m)
		taken = append(taken, box{at.x - 4, at.y - 4, at.x + 4, at.y + 4})
	}
	return taken
}

// beside writes a label next to a point where nothing is yet, or not at all.
func (d *Drawing) beside(p point, text string, s *Series, within box, taken *[]box) {
	w, h := textWidth(text, tiny), 9.0
	for _, o := range []struct {
		dx, dy float64
		a      anchor
	}{{0, -7, middle}, {7, 3.5, left}, {-7, 3.5, right}, {0, 15, middle}, {6, -6, left}, {-6, -6, right},
		{6, 13, left}, {-6, 13, right}} {
		x, y := p.x+o.dx, p.y+o.dy
		from := x - w*float64(o.a)/2
		b := box{from - 1, y - h, from + w + 1, y + 1}
		if b.left < within.left || b.right > within.right || b.top < within.top || b.bottom > within.bottom ||
			slices.ContainsFunc(*taken, b.touches) {
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

// BarsHeight is how high a chart of bars is, legend aside.
func (c *Panel) BarsHeight() float64 {
	h := 38.0
	if c.Mark != "" {
		h += markHeight
	}
	for _, g := range c.Groups {
		if g.Label != "" {
			h += groupTitle
		}
		h += float64(len(g.Bars))*(barHeight+barGap) + groupGap
	}
	return h
}

func (c *Panel) bars(d *Drawing, title string, top float64) {
	d.label(0, top+12, title, piece{colour: ink, size: 12, bold: true})
	most, after, foot := 0.0, 0.0, 0.0
	for _, g := range c.Groups {
		for _, b := range g.Bars {
			most = max(most, b.Value)
			after = max(after, textWidth(barText(b), tiny)+symbolRoom)
			foot = max(foot, textWidth(b.Label, tiny))
		}
	}
	if foot > 0 {
		foot += 8
	}
	room := d.Width - after - 10 - foot
	y := top + 28
	for _, g := range c.Groups {
		if g.Label != "" {
			d.label(0, y+10, g.Label, piece{colour: ink, size: small})
			y += groupTitle
		}
		for _, b := range g.Bars {
			w := 0.0
			if most > 0 && !math.IsInf(b.Value, 0) {
				w = max(1, b.Value/most*room)
			}
			colour := colourOf(b.Series)
			if b.Before {
				colour = shade
			}
			if b.Label != "" {
				d.label(foot-8, y+barHeight-2, b.Label, piece{colour: faint, size: tiny, anchor: right})
			}
			at := []point{{foot, y}, {foot + w, y}, {foot + w, y + barHeight}, {foot, y + barHeight}}
			if b.Doubt { // an outline, as hollow as a hollow marker
				d.add(piece{shape: stroke, at: append(at, at[0]), colour: colour, width: 1.25, series: b.Series, hover: b.Hover})
			} else {
				d.add(piece{shape: area, at: at, colour: colour, series: b.Series, hover: b.Hover})
			}
			if !b.Before { // colours alone may repeat
				d.add(piece{shape: symbolOf(b.Series), at: []point{{foot + w + 8, y + barHeight/2.0}}, size: 3, colour: colour,
					series: b.Series})
			}
			d.label(foot+w+5+symbolRoom, y+barHeight-2, barText(b), piece{colour: faint, size: tiny, series: b.Series})
			y += barHeight + barGap
		}
		y += groupGap
	}
}

func barText(b Bar) string { return strings.TrimSpace(number.Text(b.Value) + "  " + b.After) }

// LegendHeight is how high the legend is at this width.
func (c *Panel) LegendHeight(width float64) float64 { return c.legend(&Drawing{Width: width}, 8) }

// Empty reports whether there is nothing to draw.
func (c *Panel) Empty() bool { return len(c.Lines) == 0 && len(c.Groups) == 0 }

// ManyMilliseconds are so many that they are said in seconds.
const ManyMilliseconds = 5000

// Seconds turns milliseconds into seconds where they are many.
func (c *Panel) Seconds() {
	var xs, ys, ranges []*float64
	for _, l := range c.Lines {
		for i := range l.Dots {
			d := &l.Dots[i]
			xs, ys, ranges = append(xs, &d.X), append(ys, &d.Y), append(ranges, &d.Low, &d.High)
		}
	}
	for _, g := range c.Groups {
		for i := range g.Bars {
			ys = append(ys, &g.Bars[i].Value)
		}
	}
	c.X.seconds(xs, nil)
	c.Y.seconds(ys, ranges)
}

// seconds turns values, and what lies around them, into seconds where they are many.
func (a *Axis) seconds(values, ranges []*float64) {
	if a.Unit != "ms" || !slices.ContainsFunc(values, func(v *float64) bool { return *v >= ManyMilliseconds }) {
		return
	}
	a.Unit = "s"
	for _, v := range slices.Concat(values, ranges) {
		*v /= 1000
	}
}
