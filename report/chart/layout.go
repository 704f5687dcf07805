package chart

import (
	"slices"
	"strings"

	"hclbench/report/number"
)

// Draw lays a chart out. Named, it can stand alone: it says which series are whose.
func (c *Panel) Draw(width, height float64, named bool) *Drawing {
	d := &Drawing{Width: width, Height: height, title: c.description(),
		keys: []string{"x", c.X.Key, "y", c.Y.Key, "slow", c.Slow, "along", c.Along}}
	c.draw(d, 8, height, named)
	return d
}

// description says what the chart shows, for who cannot see it.
func (c *Panel) description() string {
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
	if y := f.y.at(c.Asked); c.Asked > 0 {
		d.add(piece{at: []point{{f.within.left, y}, {f.within.right - 6, y}}, colour: faint, width: 1.25, dash: []float64{6, 4}})
	}
	for _, l := range c.Lines {
		taken = append(taken, l.draw(d, f)...)
	}
	for _, l := range c.Lines {
		for _, p := range l.Dots {
			if p.Label != "" {
				d.beside(f.at(p), p.Label, piece{series: l.Series, ref: p.Ref, cells: p.Cells}, f.within, &taken)
			}
		}
		for _, g := range l.Gaps {
			d.beside(point{f.x.at(g.X), f.within.bottom - 2}, "void", piece{series: l.Series, ref: g.Ref}, f.within, &taken)
		}
	}
}

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

// barsHeight is how high the bars are, with their title.
func (c *Panel) barsHeight() float64 {
	h := 38.0
	for _, g := range c.Groups {
		if g.Label != "" {
			h += groupTitle
		}
		h += float64(len(g.Bars))*(barHeight+barGap) + groupGap
	}
	return h
}

// bars draws the bars; their names at their feet have at most a third of the width.
func (c *Panel) bars(d *Drawing, title string, top float64) {
	c.heading(d, title, top)
	most, after, foot := 0.0, 0.0, 0.0
	for _, g := range c.Groups {
		for _, b := range g.Bars {
			most = max(most, slices.Max(b.values()))
			after = max(after, textWidth(b.text(), tiny)+symbolRoom)
			foot = max(foot, textWidth(b.Label, tiny)+8)
		}
	}
	if foot = min(foot, 0.36*d.Width); foot <= 8 {
		foot = 0
	}
	along := func(v float64) float64 {
		if most <= 0 {
			return foot
		}
		return foot + max(1, v/most*(d.Width-after-10-foot))
	}
	y := top + 28
	for _, g := range c.Groups {
		if g.Label != "" {
			d.label(0, y+10, fit(g.Label, small, d.Width), piece{colour: ink, size: small})
			y += groupTitle
		}
		for _, b := range g.Bars {
			d.label(foot-8, y+barHeight-2, fit(b.Label, tiny, foot-8), piece{colour: faint, size: tiny, anchor: right})
			b.draw(d, foot, y, along)
			y += barHeight + barGap
		}
		y += groupGap
	}
}

// heat draws the places as a table whose cells are the darker the better.
func (c *Panel) heat(d *Drawing, title string, top float64) {
	h := c.Heat
	c.heading(d, title, top)
	side := 0.0
	for _, name := range h.Up {
		side = max(side, textWidth(name, small)+10)
	}
	side = min(side, d.Width/3)
	width := (d.Width - side) / float64(max(1, len(h.Across)))
	y := top + heatTitle
	for i, name := range h.Across {
		d.label(side+(float64(i)+0.5)*width, y, fit(name, small, width-4), piece{colour: faint, size: small, anchor: middle})
	}
	y += heatHead - 12
	for i, name := range h.Up {
		d.label(side-8, y+float64(i)*heatRow+heatRow*0.65, fit(name, small, side-10),
			piece{colour: faint, size: small, anchor: right})
	}
	for _, cell := range h.Cells {
		cell.draw(d, h.Series, box{side + float64(cell.X)*width, y + float64(cell.Y)*heatRow, width, heatRow})
	}
	foot := y + float64(len(h.Up))*heatRow + heatFoot
	d.label(0, foot, fit(c.Better+", across: "+c.X.Title+", down: "+c.Y.Title, small, d.Width),
		piece{colour: faint, size: small})
}

// Height is how high the panel is, where its contents say it, its names aside; else it is as said.
func (c *Panel) Height(otherwise float64) float64 {
	height := otherwise
	switch {
	case c.Groups != nil:
		height = c.barsHeight()
	case c.Heat != nil:
		height = heatTitle + heatHead + float64(len(c.Heat.Up))*heatRow + heatFoot + 4
	default:
		return otherwise
	}
	if c.Mark != "" {
		height += markHeight
	}
	return height
}
