package chart

import (
	"math"
	"slices"
	"strings"

	"hclbench/report/number"
)

// Bars lie, so that their labels have room.
const (
	barHeight  = 11
	barGap     = 3
	groupGap   = 12
	groupTitle = 16
	symbolRoom = 10 // for the marker of its series
)

// values are all that the bar shows.
func (b Bar) values() []float64 {
	all := []float64{0}
	for _, p := range b.Published {
		all = append(all, p.Y)
	}
	if !b.None && !math.IsInf(b.Value, 0) {
		all = append(all, b.Value, b.To)
	}
	return all
}

// Against says beside the bars by how much they differ from one of them, measured from measured and
// published from published, and whether there is any.
func (g Group) Against(base Bar) (said bool) {
	for i := range g.Bars {
		b := &g.Bars[i]
		if b.Series != base.Series && b.None == base.None && base.Best() > 0 {
			b.After, said = number.Change(b.Best()/base.Best()-1), true
		}
	}
	return said
}

// Best is the value by which the bar has its place among others.
func (b Bar) Best() float64 {
	if b.None {
		return b.Published[0].Y
	}
	return b.Value
}

// draw paints a bar from its foot on, and what others published for it.
func (b Bar) draw(d *Drawing, foot, y float64, along func(v float64) float64) {
	colour := colourOf(b.Series)
	if b.Before {
		colour = shade
	}
	end := along(slices.Max(b.values()))
	if b.None { // all of it is of what was published
		b.Ref = b.Published[0].Ref
		middle := y + barHeight/2.0
		d.add(piece{at: []point{{foot, middle}, {end, middle}}, colour: colour, width: 1, series: b.Series, ref: b.Ref})
	} else {
		to := along(b.Value)
		at := []point{{foot, y}, {to, y}, {to, y + barHeight}, {foot, y + barHeight}}
		if b.Doubt { // an outline, as hollow as a hollow marker
			d.add(piece{shape: stroke, at: append(at, at[0]), colour: colour, width: 1.25, series: b.Series, hover: b.Hover,
				ref: b.Ref, cells: b.Cells})
		} else if b.Value > 0 || b.To == 0 && b.Text == "" {
			d.add(piece{shape: area, at: at, colour: colour, series: b.Series, hover: b.Hover, ref: b.Ref, cells: b.Cells})
		}
		if b.To > b.Value { // what nobody knows is an outline, pale within
			at := []point{{to, y}, {along(b.To), y}, {along(b.To), y + barHeight}, {to, y + barHeight}}
			d.add(piece{shape: area, at: at, colour: colour, pale: 0.75, series: b.Series, hover: b.Hover, cells: b.Cells},
				piece{at: append(at, at[0]), colour: colour, width: 1.25, series: b.Series, cells: b.Cells})
		}
	}
	after := end + 5
	if !b.Before { // colours alone may repeat
		after += symbolRoom
		m := piece{shape: symbolOf(b.Series), at: []point{{end + 8, y + barHeight/2.0}}, size: 3, colour: colour,
			series: b.Series, ref: b.Ref, cells: b.Cells}
		if b.Doubt {
			m.fill = paper
		}
		d.add(m)
	}
	for _, p := range b.Published {
		at := point{along(p.Y), y + barHeight/2.0}
		d.add(piece{shape: circle, at: []point{at}, size: 5, colour: paper, series: b.Series, ref: p.Ref},
			piece{shape: cross, at: []point{at}, size: 3, colour: colour, series: b.Series, hover: p.Hover,
				ref: p.Ref})
	}
	d.label(after, y+barHeight-2, b.text(), piece{colour: faint, size: tiny, series: b.Series, ref: b.Ref, cells: b.Cells})
}

// text is what stands after the bar.
func (b Bar) text() string {
	if b.Text != "" {
		return b.Text
	}
	text := strings.TrimSpace(number.Text(b.Best()) + "  " + b.After)
	if b.None {
		return "published " + text
	}
	return text
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
	To     float64 // where what it stands for may end, at most; 0: at its value
	Text   string  // after the bar; empty: its value
	None   bool    // there is no value, only what was published
	After  string  // beside the value
	Hover  string
	Ref    int   // as of a [Dot]
	Cells  []int // likewise
	Before bool  // what the next one is compared with
	Trust

	Published []Dot // of its cell, by others: their Y
}
