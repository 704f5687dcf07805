package report

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"hclbench/report/chart"
	"hclbench/report/number"
)

// sweep is a benchmark that turns two quantities of the load and more: its cells lie on a plane, and
// all else of the load is the same for them.
type sweep struct {
	slice  // its cells, and what they lie along across
	up     dimension
	x, y   []float64 // their places along both
	layout *Layout
}

// manySeries are too many planes to look at.
const manySeries = 12

// sweepFigures are what a sweep is by its two quantities that have the most values, of requests before
// those of load: one plane for each series, at the greatest load.
func (b *benchmark) sweepFigures(section string) (out []*figure) {
	values := func(d dimension) int {
		unknown := func(v float64) bool { return v == 0 }
		return len(slices.DeleteFunc(slice{along: d, samples: b.cells}.ticks(), unknown))
	}
	turned := slices.DeleteFunc(slices.Clone(dimensions), func(d dimension) bool { return values(d) < 2 })
	slices.SortStableFunc(turned, func(x, y dimension) int {
		of := map[bool]int{true: 1}
		return cmp.Or(of[pushed(x)]-of[pushed(y)], values(y)-values(x))
	})
	if len(turned) < 2 {
		return nil
	}
	across, upwards := slice{along: turned[0], samples: b.plane(turned[0], turned[1])}, slice{along: turned[1]}
	upwards.samples = across.samples
	w := sweep{across, turned[1], across.ticks(), upwards.ticks(), b.layout}
	known := notVoidSamples(w.samples)
	if len(known) == 0 || len(w.x) < 2 || len(w.y) < 2 {
		return nil
	}
	for _, m := range []metric{throughputOf(known, b.layout, true), central(ttft, known, b.layout),
		central(tpot, known, b.layout)} {
		f := w.figure(m)
		if f.drawn() && len(f.Charts) <= manySeries {
			f.ID = strings.Join([]string{section, "sweep", slug(m.name)}, "-")
			f.Under = w.under()
			out = append(out, f)
		}
	}
	return out
}

// plane are the cells that differ in their series and along two dimensions: those under the greatest load,
// and of several such those of the greatest plane.
func (b *benchmark) plane(across, up dimension) []*sample {
	own := slices.DeleteFunc(slices.Clone(b.cells), func(s *sample) bool {
		return s.by != "" || s.at[across.name] == 0 || s.at[up.name] == 0
	})
	weight := func(s *sample) (w float64) {
		for _, d := range dimensions {
			if d.name != across.name && d.name != up.name {
				w = math.Max(w, s.at[d.name])
			}
		}
		return w
	}
	planes := grouped(own, func(s *sample) string {
		key := s.dataset + "\x00" + strings.Join(s.others(), ",")
		for _, d := range dimensions {
			if d.name != across.name && d.name != up.name {
				key += "\x00" + number.Short(s.at[d.name])
			}
		}
		return key
	})
	if planes == nil {
		return nil
	}
	return slices.MaxFunc(planes, func(x, y []*sample) int {
		return cmp.Or(cmp.Compare(weight(x[0]), weight(y[0])), cmp.Compare(len(x), len(y)))
	})
}

// place is where a cell lies, as indices of the places along both dimensions.
func (w sweep) place(s *sample) [2]int {
	return [2]int{slices.Index(w.x, s.at[w.along.name]), slices.Index(w.y, s.at[w.up.name])}
}

// under says what is the same for all cells of the sweep.
func (w sweep) under() string {
	s := *w.samples[0]
	s.at = map[string]float64{}
	for name, v := range w.samples[0].at {
		if name != w.up.name {
			s.at[name] = v
		}
	}
	return slice{along: w.along, samples: []*sample{&s}}.under()
}

// figure is a metric of the sweep, a chart for each series.
func (w sweep) figure(m metric) *figure {
	f := &figure{Title: m.title + " by " + lower(w.along.title) + " and " + lower(w.up.title),
		Notes: []string{"Bold, with an outline: the best of all series at these places; the darker, the better."}}
	best, at := w.best(m)
	for _, of := range grouped(w.samples, func(s *sample) *chart.Series { return s.series }) {
		c := &chart.Panel{Title: of[0].series.Label, Better: better(m), X: chart.Axis{Title: lower(w.along.title)},
			Y: chart.Axis{Title: lower(w.up.title), Unit: m.unit, Key: m.name}, Along: w.along.name + " " + w.up.name}
		c.Heat = &chart.Heat{Series: of[0].series, Across: shorts(w.x), Up: shorts(w.y)}
		for _, s := range of {
			place := w.place(s)
			cell := chart.HeatCell{X: place[0], Y: place[1], Void: s.void, Ref: s.ref}
			if s.void {
				cell.Hover = of[0].series.Label + ", void"
			}
			d, ok := s.value(m)
			if ok {
				cell.Value, cell.Doubt, cell.Mark = d.Y, d.Doubt, d.Mark
				cell.Hover = hover(s, d, w.along.name, m) + "\n" + lower(w.up.title) + " " + number.Short(s.at[w.up.name])
				if cell.Share = d.Y / best; m.better < 0 {
					cell.Share = best / max(d.Y, best)
				}
				cell.Best = !d.Doubt && d.Y == at[place]
			}
			if ok || s.void {
				c.Heat.Cells = append(c.Heat.Cells, cell)
			}
		}
		if slices.ContainsFunc(c.Heat.Cells, func(x chart.HeatCell) bool { return !x.Void }) {
			f.Charts = append(f.Charts, c)
		}
	}
	return f
}

// best is the best value of the sweep that is not in doubt, and that at each pair of places where one
// of several series is ahead.
func (w sweep) best(m metric) (best float64, at map[[2]int]float64) {
	at, best = map[[2]int]float64{}, 1e-9
	count, level, known := map[[2]int]int{}, map[[2]int]bool{}, false
	ahead := func(a, b float64) bool { return a*float64(m.better) > b*float64(m.better) }
	for _, s := range w.samples {
		d, ok := s.value(m)
		if !ok || d.Doubt || s.void {
			continue
		}
		place := w.place(s)
		switch count[place]++; {
		case count[place] == 1 || ahead(d.Y, at[place]):
			at[place], level[place] = d.Y, false
		case d.Y == at[place]:
			level[place] = true
		}
		if !known || ahead(d.Y, best) {
			best, known = d.Y, true
		}
	}
	for place, n := range count {
		if n < 2 || level[place] {
			delete(at, place)
		}
	}
	return max(best, 1e-9), at
}

func shorts(values []float64) (names []string) {
	for _, v := range values {
		names = append(names, number.Short(v))
	}
	return names
}
