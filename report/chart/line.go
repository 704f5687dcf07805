package chart

import (
	"hclbench/report/number"
	"slices"
)

// Line is one series of a chart.
type Line struct {
	Series *Series
	Dots   []Dot
	Plain  bool // without markers: there are too many values
	Steps  bool // holds each value until the next one
	Front  bool // no series: what none of them surpasses
	Tail   bool // of the slowest requests, beside a line of most of them: light
	Gaps   []Gap

	Published bool // by others: thin, with crosses
}

// Gap is where a line has a void cell.
type Gap struct {
	X   float64
	Ref int // as of a [Dot]
}

// Dot is one value of a line.
type Dot struct {
	X, Y      float64
	Low, High float64 // of repetitions; equal: there was one
	From, To  float64 // of a single one, where the truth lies in 95 of 100 runs; equal: it does not tell
	N         int     // repetitions that it is the median of
	Of        int     // repetitions in all: those in doubt are left out where others are there
	Label     string  // beside it
	Hover     string
	Ref       int    // by which the page knows its cell, from 1; 0: it does not
	Cells     []int  // those that it says more of than the page knows, each as Ref; then Ref is 0
	Found     string // what was found at it, for data files: "PASS"
	Sign      Sign   // how its marker is drawn; a dot in doubt is hollow
	Apart     bool   // nothing joins it with the one before: a void cell is between them
	Trust
}

// Sign is how the marker of a dot is drawn.
type Sign int

// The signs.
const (
	Full    Sign = iota
	Hollow       // as a dot in doubt
	Crossed      // a cross in the place of the series' own marker
)

// Trust is how far a value can be relied on.
type Trust struct {
	Kind    string // of run, where it is no measurement of ours: "rehearsal", "imported", "published"
	Suspect bool   // that is its verdict
	Fast    bool   // rehearsed at another speed than real: it says nothing of an engine, and leads nothing
	Doubt   bool   // for reasons that set it apart from other cells: it is drawn hollow, and leads nothing
}

// Verdict is what data files and tallies call the value.
func (t Trust) Verdict() string {
	switch {
	case t.Kind == "published":
		return t.Kind
	case t.Suspect || t.Doubt:
		return "suspect"
	case t.Kind != "":
		return t.Kind
	}
	return "valid"
}

// Range is from where to where an upright line on the dot goes, and whether there is one.
func (p Dot) Range() (low, high float64, ok bool) {
	if p.N > 1 {
		return p.Low, p.High, p.High > p.Low
	}
	return p.From, p.To, p.To > p.From
}

// draw paints the line and returns the places of its markers.
func (l Line) draw(d *Drawing, f frame) (taken []box) {
	part := d.part(l)
	var cells []int
	for _, p := range l.Dots {
		cells = append(cells, p.Cells...)
	}
	for _, path := range l.paths(f) {
		m := l.stroke(path)
		m.part, m.cells, m.joins = part, cells, true
		d.add(m)
	}
	if l.Front {
		return nil
	}
	every := 1
	if l.Plain {
		every = max(1, len(l.Dots)/60) // places to point at, where there are no markers
	}
	for i, p := range l.Dots {
		at := f.at(p)
		m := piece{shape: symbolOf(l.Series), at: []point{at}, size: markerSize, colour: colourOf(l.Series), series: l.Series,
			hover: p.Hover, ref: p.Ref, cells: p.Cells, part: part, apart: p.Apart}
		switch {
		case l.Plain || l.Tail:
			if m.shape, m.size = spot, 3; i%every == 0 {
				d.add(m)
			}
			continue
		case l.Published:
			m.shape, m.size = cross, crossSize
			d.add(m)
			continue
		case p.Sign == Crossed:
			m.shape, m.size = cross, markerSize
		case p.Doubt || p.Sign == Hollow:
			m.fill = paper
		}
		if low, high, ok := p.Range(); ok {
			d.add(piece{at: []point{{at.x, f.y.at(low)}, {at.x, f.y.at(high)}}, colour: colourOf(l.Series), width: 1,
				series: l.Series, ref: p.Ref, cells: p.Cells, part: part})
		}
		d.add(m)
		taken = append(taken, box{at.x - 4, at.y - 4, at.x + 4, at.y + 4})
	}
	return taken
}

// part is a number for the line, if the page knows the cells of all its points.
func (d *Drawing) part(l Line) int {
	if l.Front || l.Steps || slices.ContainsFunc(l.Dots, func(p Dot) bool { return p.Ref == 0 }) {
		return 0
	}
	d.parts++
	return d.parts
}

// paths are the line as it is drawn: over a gap it is not.
func (l Line) paths(f frame) (paths [][]point) {
	var path []point
	for i, p := range l.Dots {
		at := f.at(p)
		if i > 0 && p.Apart {
			paths, path = append(paths, path), nil
		}
		if l.Steps && len(path) > 0 {
			path = append(path, point{at.x, path[len(path)-1].y})
		}
		path = append(path, at)
	}
	if l.Front && len(path) == 1 {
		path = append(path, path[0]) // a spot
	}
	return slices.DeleteFunc(append(paths, path), func(path []point) bool { return len(path) < 2 })
}

// stroke is the line through points.
func (l Line) stroke(path []point) piece {
	if l.Front {
		return piece{at: path, colour: shade, width: 9, pale: 0.45, class: "front"}
	}
	m := piece{at: path, colour: colourOf(l.Series), width: 1.75, dash: dashOf(l.Series), series: l.Series}
	switch {
	case l.Published:
		m.width = 1
	case l.Tail:
		m.width, m.pale = 1.5, 0.6
	case l.Plain:
		m.width = 1.5
	}
	return m
}

// frame are the axes of a panel with their ticks.
type frame struct {
	x, y           scale
	xticks, yticks []float64
	within         box // the axes
	foot           string
}

func (f frame) at(p Dot) point { return point{f.x.at(p.X), f.y.at(p.Y)} }

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
