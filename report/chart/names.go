package chart

import (
	"cmp"
	"slices"
)

// legend names the series in a line or more and returns where they end. Bars with names at their
// feet need none.
func (c *Panel) legend(d *Drawing, top float64) float64 {
	unnamed := func(b Bar) bool { return b.Label == "" }
	lacking := func(g Group) bool { return slices.ContainsFunc(g.Bars, unnamed) }
	if c.Heat != nil || c.Groups != nil && !slices.ContainsFunc(c.Groups, lacking) {
		return top
	}
	x, y := 0.0, top+8
	for _, s := range c.Series() {
		label := fit(s.Label, small, d.Width-26)
		w := 26 + textWidth(label, small) + 14
		if x > 0 && x+w-14 > d.Width {
			x, y = 0, y+18
		}
		d.add(piece{at: []point{{x, y - 4}, {x + 20, y - 4}}, colour: colourOf(s), width: 2, dash: dashOf(s)},
			piece{shape: symbolOf(s), at: []point{{x + 10, y - 4}}, size: 3.5, colour: colourOf(s)})
		d.label(x+26, y, label, piece{colour: ink, size: small})
		x += w
	}
	return y + 12
}

// nameRoom is how high a name at the end of a line is, and manyNames are too many to follow.
const (
	nameRoom  = 15
	manyNames = 8
)

// room is how wide the names at the ends of lines are. 0: they belong into a legend, for they are
// many or long, or there are no lines that end apart.
func (c *Panel) room(width, height float64) (room float64) {
	all := c.Series()
	if len(all) < 2 || len(all) > manyNames || float64(len(all))*nameRoom > height-60 {
		return 0
	}
	for _, l := range c.Lines {
		if l.Plain || l.Steps {
			return 0
		}
	}
	for _, s := range all {
		room = max(room, textWidth(s.Label, small*boldness)+26)
	}
	if room > 0.34*width {
		return 0
	}
	return room
}

// names writes each series beside where its line ends, one below the other.
func (c *Panel) names(d *Drawing, f frame) {
	type end struct {
		s    *Series
		from point
		y    float64
	}
	var ends []end
	for _, s := range c.Series() {
		last, found := Dot{}, false
		for _, l := range c.Lines {
			for _, p := range l.Dots {
				if l.Series == s && !l.Tail && (!found || p.X > last.X) {
					last, found = p, true
				}
			}
		}
		if found {
			at := f.at(last)
			ends = append(ends, end{s, at, at.y})
		}
	}
	slices.SortStableFunc(ends, func(a, b end) int {
		return cmp.Or(cmp.Compare(a.y, b.y), cmp.Compare(a.from.x, b.from.x))
	})
	for i := range ends {
		ends[i].y = max(ends[i].y, f.within.top+8+float64(i)*nameRoom)
		if i > 0 {
			ends[i].y = max(ends[i].y, ends[i-1].y+nameRoom)
		}
	}
	low := f.within.bottom
	for _, e := range slices.Backward(ends) {
		e.y = min(e.y, low)
		low = e.y - nameRoom
		x := f.within.right + 8
		d.add(piece{at: []point{{e.from.x + 6, e.from.y}, {x - 3, e.y}}, colour: colourOf(e.s), width: 1, pale: 0.65,
			series: e.s})
		d.label(x, e.y+4, e.s.Label, piece{colour: colourOf(e.s), size: small, bold: true, series: e.s})
	}
}

// LegendHeight is how high the legend is at this width.
func (c *Panel) LegendHeight(width float64) float64 { return c.legend(&Drawing{Width: width}, 8) }

// beside writes a label next to a point where nothing is yet, or not at all.
func (d *Drawing) beside(p point, text string, of piece, within box, taken *[]box) {
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
		of.colour, of.size, of.anchor = colourOf(of.series), tiny, o.a
		d.label(x, y, text, of)
		return
	}
}
