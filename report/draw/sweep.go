package draw

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"hclbench/report/chart"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/say"
)

// sweep is a benchmark that turns two quantities of the load and more: its cells lie on a plane, and
// all else of the load is the same for them.
type sweep struct {
	figure.Slice // its cells, and what they lie along across
	up           figure.Dimension
	x, y         []float64 // their places along both
	layout       *figure.Layout
}

// manySeries are too many planes to look at.
const manySeries = 12

// sweepFigures are what a sweep is by its two quantities that have the most values, of requests before
// those of load: one plane for each series, at the greatest load.
func (b *benchmarkCells) sweepFigures(section string) (out []*Figure) {
	values := func(d figure.Dimension) int {
		unknown := func(v float64) bool { return v == 0 }
		return len(slices.DeleteFunc(figure.Slice{Along: d, Samples: b.cells}.Ticks(), unknown))
	}
	turned := slices.DeleteFunc(slices.Clone(figure.Dimensions), func(d figure.Dimension) bool { return values(d) < 2 })
	slices.SortStableFunc(turned, func(x, y figure.Dimension) int {
		of := map[bool]int{true: 1}
		return cmp.Or(of[figure.Pushed(x)]-of[figure.Pushed(y)], values(y)-values(x))
	})
	if len(turned) < 2 {
		return nil
	}
	across, upwards := figure.Slice{Along: turned[0], Samples: b.plane(turned[0], turned[1])}, figure.Slice{Along: turned[1]}
	upwards.Samples = across.Samples
	w := sweep{across, turned[1], across.Ticks(), upwards.Ticks(), b.layout}
	known := figure.NotVoidSamples(w.Samples)
	if len(known) == 0 || len(w.x) < 2 || len(w.y) < 2 {
		return nil
	}
	for _, m := range []figure.Metric{figure.ThroughputOf(known, b.layout, true), figure.Central(figure.TTFT, known, b.layout),
		figure.Central(figure.TPOT, known, b.layout)} {
		f := w.figure(m)
		if f.drawn() && len(f.Charts) <= manySeries {
			f.ID = strings.Join([]string{section, "sweep", figure.Slug(m.Name)}, "-")
			f.Under = w.under()
			out = append(out, f)
		}
	}
	return out
}

// plane are the cells that differ in their series and along two dimensions: those under the greatest load,
// and of several such those of the greatest plane.
func (b *benchmarkCells) plane(across, up figure.Dimension) []*figure.Sample {
	own := slices.DeleteFunc(slices.Clone(b.cells), func(s *figure.Sample) bool {
		return s.By != "" || s.At[across.Name] == 0 || s.At[up.Name] == 0
	})
	weight := func(s *figure.Sample) (w float64) {
		for _, d := range figure.Dimensions {
			if d.Name != across.Name && d.Name != up.Name {
				w = math.Max(w, s.At[d.Name])
			}
		}
		return w
	}
	planes := figure.Grouped(own, func(s *figure.Sample) figure.Load { return figure.LoadOf(s.Rows[0], s.Told, across.Name, up.Name) })
	if planes == nil {
		return nil
	}
	return slices.MaxFunc(planes, func(x, y []*figure.Sample) int {
		return cmp.Or(cmp.Compare(weight(x[0]), weight(y[0])), cmp.Compare(len(x), len(y)))
	})
}

// under says what is the same for all cells of the sweep.
func (w sweep) under() string {
	s := *w.Samples[0]
	s.At = map[string]float64{}
	for name, v := range w.Samples[0].At {
		if name != w.up.Name {
			s.At[name] = v
		}
	}
	return figure.Slice{Along: w.Along, Samples: []*figure.Sample{&s}}.Words()
}

// figure is a metric of the sweep, a chart for each series.
func (w sweep) figure(m figure.Metric) *Figure {
	f := &Figure{Title: m.Title + " by " + say.Lower(w.Along.Title) + " and " + say.Lower(w.up.Title),
		Notes: []string{"Bold, with an outline: the best of all series at these places, or level with it; the darker, the better."}}
	type spot struct {
		*figure.Sample
		figure.Evidence
		x, y int
	}
	var known []spot
	leading, most := map[*figure.Sample]bool{}, 1e-9
	for _, s := range w.Samples {
		if e, ok := s.Weigh(m); ok && !s.Void {
			known = append(known, spot{s, e, slices.Index(w.x, s.At[w.Along.Name]), slices.Index(w.y, s.At[w.up.Name])})
		}
	}
	for _, of := range figure.Grouped(known, func(p spot) [2]int { return [2]int{p.x, p.y} }) {
		best, _ := figure.Lead(m.Better, of, func(p spot) figure.Evidence { return p.Evidence }, false)
		for _, p := range best {
			leading[p.Sample] = len(best) < len(of)
		}
	}
	if best, _ := figure.Lead(m.Better, known, func(p spot) figure.Evidence { return p.Evidence }, true); best != nil {
		most = max(most, best[0].Median)
	}
	for _, of := range figure.Grouped(w.Samples, func(s *figure.Sample) *chart.Series { return s.Series }) {
		c := &chart.Panel{Title: of[0].Series.Label, Better: say.Better(m), X: chart.Axis{Title: say.Lower(w.Along.Title)},
			Y: chart.Axis{Title: say.Lower(w.up.Title), Unit: m.Unit, Key: m.Name}, Along: w.Along.Name + " " + w.up.Name}
		c.Heat = &chart.Heat{Series: of[0].Series, Across: shorts(w.x), Up: shorts(w.y)}
		for _, s := range of {
			cell := chart.HeatCell{X: slices.Index(w.x, s.At[w.Along.Name]), Y: slices.Index(w.y, s.At[w.up.Name]),
				Void: s.Void, Ref: s.Ref}
			if s.Void {
				cell.Hover = of[0].Series.Label + ", void"
			}
			d, ok := s.Value(m)
			if ok {
				cell.Value, cell.Trust, cell.Best = d.Y, d.Trust, leading[s]
				cell.Hover = Hover(s, d, w.Along.Name, m) + "\n" + say.Lower(w.up.Title) + " " + number.Short(s.At[w.up.Name])
				if cell.Share = d.Y / most; m.Better < 0 {
					cell.Share = most / max(d.Y, most)
				}
			}
			if ok || s.Void {
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
