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
	for _, m := range []Metric{throughputOf(known, b.layout, true), central(ttft, known, b.layout),
		central(tpot, known, b.layout)} {
		f := w.figure(m)
		if f.drawn() && len(f.Charts) <= manySeries {
			f.ID = strings.Join([]string{section, "sweep", slug(m.Name)}, "-")
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
	planes := grouped(own, func(s *sample) under { return underLoad(s.rows[0], s.told, across.name, up.name) })
	if planes == nil {
		return nil
	}
	return slices.MaxFunc(planes, func(x, y []*sample) int {
		return cmp.Or(cmp.Compare(weight(x[0]), weight(y[0])), cmp.Compare(len(x), len(y)))
	})
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
func (w sweep) figure(m Metric) *figure {
	f := &figure{Title: m.Title + " by " + lower(w.along.title) + " and " + lower(w.up.title),
		Notes: []string{"Bold, with an outline: the best of all series at these places, or level with it; the darker, the better."}}
	type spot struct {
		*sample
		evidence
		x, y int
	}
	var known []spot
	leading, most := map[*sample]bool{}, 1e-9
	for _, s := range w.samples {
		if e, ok := s.weigh(m); ok && !s.void {
			known = append(known, spot{s, e, slices.Index(w.x, s.at[w.along.name]), slices.Index(w.y, s.at[w.up.name])})
		}
	}
	for _, of := range grouped(known, func(p spot) [2]int { return [2]int{p.x, p.y} }) {
		best, _ := lead(m.Better, of, func(p spot) evidence { return p.evidence }, false)
		for _, p := range best {
			leading[p.sample] = len(best) < len(of)
		}
	}
	if best, _ := lead(m.Better, known, func(p spot) evidence { return p.evidence }, true); best != nil {
		most = max(most, best[0].Median)
	}
	for _, of := range grouped(w.samples, func(s *sample) *chart.Series { return s.series }) {
		c := &chart.Panel{Title: of[0].series.Label, Better: better(m), X: chart.Axis{Title: lower(w.along.title)},
			Y: chart.Axis{Title: lower(w.up.title), Unit: m.Unit, Key: m.Name}, Along: w.along.name + " " + w.up.name}
		c.Heat = &chart.Heat{Series: of[0].series, Across: shorts(w.x), Up: shorts(w.y)}
		for _, s := range of {
			cell := chart.HeatCell{X: slices.Index(w.x, s.at[w.along.name]), Y: slices.Index(w.y, s.at[w.up.name]),
				Void: s.void, Ref: s.ref}
			if s.void {
				cell.Hover = of[0].series.Label + ", void"
			}
			d, ok := s.value(m)
			if ok {
				cell.Value, cell.Trust, cell.Best = d.Y, d.Trust, leading[s]
				cell.Hover = hover(s, d, w.along.name, m) + "\n" + lower(w.up.title) + " " + number.Short(s.at[w.up.name])
				if cell.Share = d.Y / most; m.Better < 0 {
					cell.Share = most / max(d.Y, most)
				}
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

func shorts(values []float64) (names []string) {
	for _, v := range values {
		names = append(names, number.Short(v))
	}
	return names
}
