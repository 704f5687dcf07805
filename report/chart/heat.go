package chart

import (
	"slices"

	"hclbench/report/number"
)

// Heat is one series of a sweep: a value for each pair of places.
type Heat struct {
	Series     *Series
	Across, Up []string // names of the places, X and Y
	Cells      []HeatCell
}

// HeatCell is the value at a pair of places; where there is none, nothing was measured.
type HeatCell struct {
	X, Y  int // places
	Value float64
	Share float64 // of the best of all series and places, from 0 to 1: the more, the darker
	Best  bool    // of all series at these places
	Void  bool    // it measured nothing
	Hover string
	Ref   int // as of a [Dot]
	Trust     // in doubt: with an outline instead of a ground
}

const (
	heatRow   = 24
	heatHead  = 20
	darkest   = 0.38 // of its colour: letters stay legible on it
	lightest  = 0.04
	heatFoot  = 16
	heatTitle = 34
)

// draw paints a cell; right and bottom of its box are its width and its height.
func (h HeatCell) draw(d *Drawing, s *Series, at box) {
	left, top, right, bottom := at.left+1, at.top+1, at.left+at.right-1, at.top+at.bottom-1
	around := []point{{left, top}, {right, top}, {right, bottom}, {left, bottom}}
	text := piece{colour: ink, size: small, anchor: middle, hover: h.Hover, ref: h.Ref}
	ground := piece{shape: area, at: around, colour: 0, series: s, hover: h.Hover, ref: h.Ref,
		pale: 1 - lightest - (darkest-lightest)*h.Share}
	words := number.Text(h.Value)
	switch {
	case h.Void:
		words, text.colour, ground.pale = "void", faint, 1
	case h.Doubt:
		ground.pale = 1
	}
	d.add(ground)
	if h.Doubt || h.Best {
		line := piece{at: append(slices.Clone(around), around[0]), colour: 0, width: 1.5, series: s, ref: h.Ref}
		if text.bold = h.Best; h.Doubt {
			line.width, line.dash = 1, []float64{2, 2.5}
		}
		d.add(line)
	}
	d.label((left+right)/2, top+at.bottom*0.62, fit(words, small, right-left), text)
}
