// Package draw lays slices of cells out as charts, and writes them as pictures. It decides nothing, and knows no page.
package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hclbench/report/chart"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/say"
)

// Figure is one or more charts that answer one question.
type Figure struct {
	ID      string // in file names and links: "online-concurrency"
	Title   string
	Under   string // what is the same for all of it: "3,200 tokens in, 800 out"
	Notes   []string
	First   bool // of this title in its section, so that the contents name it
	Hero    bool // one chart that deserves the whole width
	Wide    bool // charts of time: low and wide
	Unnamed bool // its marks have numbers, which the page explains
	Charts  []*chart.Panel
}

// drawn is the figure without charts that have nothing to draw; false: none is left.
func (f *Figure) drawn() bool {
	f.Charts = slices.DeleteFunc(f.Charts, (*chart.Panel).Empty)
	return len(f.Charts) > 0
}

// beside says what stands beside the points of a chart of one metric over another.
func beside(x figure.Slice) string {
	return "Numbers beside the points: " + say.Lower(x.Along.Title) + "."
}

// overInteractivity draws what serving users so fast gives or takes.
func (f *Figure) overInteractivity(x figure.Slice, metrics ...figure.Metric) {
	for _, m := range metrics {
		c := Tradeoff(x, figure.Interactivity, m)
		if c.Empty() {
			continue
		}
		c.X.Title, c.X.Unit = "Interactivity", "output tokens per second per user"
		of, said := Fronts(c, m)
		c.Lines = append(of, c.Lines...)
		c.Sparse()
		f.Charts = append(f.Charts, c)
		if of != nil {
			f.Notes = figure.Once(f.Notes, said)
		}
	}
	if f.Charts != nil {
		f.Notes = append(f.Notes, beside(x))
	}
}

// loads are a metric of cells as bars, those under the same load together; foot is
// what stands at a bar, and whether there is one. What others published of a cell is on its bar.
func loads(cells []*figure.Sample, m figure.Metric, foot func(s *figure.Sample) (string, bool)) *chart.Panel {
	c := &chart.Panel{Title: m.Title, Y: chart.Axis{Unit: m.Unit, Key: m.Name}, Better: say.Better(m)}
	byLoad := map[figure.Case]int{}
	for _, s := range cells {
		d, ok := s.Value(m)
		label, has := foot(s)
		if !ok || !has || s.Void {
			continue
		}
		i, known := byLoad[s.Case()]
		if !known {
			i = len(c.Groups)
			byLoad[s.Case()] = i
			label := s.Load()
			if s.Benchmark != cells[0].Benchmark || cells[len(cells)-1].Benchmark != cells[0].Benchmark {
				label = figure.ListedWith(", ", s.Benchmark, label)
			}
			c.Groups = append(c.Groups, chart.Group{Label: label})
		}
		g := &c.Groups[i]
		d.Hover = Hover(s, d, "", m)
		if s.By == "" {
			g.Bars = append(g.Bars, chart.Bar{Series: s.Series, Label: label, Value: d.Y, Hover: d.Hover, Trust: d.Trust,
				Ref: d.Ref})
			continue
		}
		of := slices.IndexFunc(g.Bars, func(b chart.Bar) bool { return b.Series == s.Series && b.Label == label })
		if of < 0 {
			of = len(g.Bars)
			g.Bars = append(g.Bars, chart.Bar{Series: s.Series, Label: label, None: true})
		}
		g.Bars[of].Published = append(g.Bars[of].Published, d)
	}
	return c
}

// credits say whose figures those are that the figure draws beside the report's own.
func (f *Figure) credits(cells []*figure.Sample, references []figure.Compared) {
	for _, s := range cells {
		if s.By == "" || !slices.ContainsFunc(f.Charts, func(p *chart.Panel) bool { return p.Has(figure.KindOfRun(s.Rows[0])) }) {
			continue
		}
		text := s.By
		for _, c := range references {
			if s.By == "published by "+c.Reference && s.Benchmark == c.Benchmark {
				text = strings.TrimSuffix(s.By+", "+c.Source, ", ")
			}
		}
		if mark := say.Mark(s.Rows[0]); s.By == figure.KindOfRun(s.Rows[0]) {
			text = strings.Replace(mark, ":", ",", 1)
		}
		f.Notes = figure.Once(f.Notes, "Crosses: "+text+".")
	}
}

// lines are the series of the slice, drawn from their points along its dimension, and beside them
// what others published.
func lines(x figure.Slice, point func(s *figure.Sample) (chart.Dot, bool)) (lines []chart.Line) {
	samples := slices.Clone(x.Samples)
	slices.SortStableFunc(samples, func(a, b *figure.Sample) int { return cmp.Compare(a.At[x.Along.Name], b.At[x.Along.Name]) })
	type owner struct {
		series *chart.Series
		by     string
	}
	for _, of := range figure.Grouped(samples, func(s *figure.Sample) owner { return owner{s.Series, s.By} }) {
		l := chart.Line{Series: of[0].Series, Published: of[0].By != ""}
		void := false
		for _, s := range of {
			if s.Void {
				l.Gaps, void = append(l.Gaps, chart.Gap{X: s.At[x.Along.Name], Ref: s.Ref}), true
			} else if d, ok := point(s); ok {
				d.Apart = void
				l.Dots, void = append(l.Dots, d), false
			}
		}
		if l.Dots != nil {
			lines = append(lines, l)
		}
	}
	slices.SortStableFunc(lines, func(a, b chart.Line) int { return cmp.Compare(a.Series.Index, b.Series.Index) })
	return lines
}

// against is a metric along the slice's dimension, latencies in milliseconds.
func against(x figure.Slice, m figure.Metric) *chart.Panel {
	ticks := x.Ticks()
	c := &chart.Panel{Title: m.Title, Better: say.Better(m),
		X: chart.Axis{Title: x.Along.Title, Unit: x.Along.Unit, Ticks: ticks,
			Log: len(ticks) > 2 && ticks[len(ticks)-1]/ticks[0] >= 4},
		Y: chart.Axis{Unit: m.Unit, Key: m.Name, Zero: true, Linear: m.Better > 0}, Along: x.Along.Name}
	c.Lines = lines(x, func(s *figure.Sample) (chart.Dot, bool) {
		d, ok := s.Value(m)
		d.X = s.At[x.Along.Name]
		d.Hover = Hover(s, d, x.Along.Name, m)
		return d, ok
	})
	return c
}

// Tradeoff is one metric over another, a point for each place along the slice's dimension.
func Tradeoff(x figure.Slice, mx, my figure.Metric) *chart.Panel {
	c := &chart.Panel{Title: my.Title, Better: say.Corner(mx, my),
		X: chart.Axis{Title: mx.Title, Unit: mx.Unit, Key: mx.Name},
		Y: chart.Axis{Unit: my.Unit, Key: my.Name, Zero: true, Linear: my.Better > 0}, Along: x.Along.Name}
	c.Lines = lines(x, func(s *figure.Sample) (chart.Dot, bool) {
		dx, okX := s.Value(mx)
		d, okY := s.Value(my)
		d.X, d.Doubt = dx.Y, d.Doubt || dx.Doubt
		d.Label = number.Short(s.At[x.Along.Name])
		d.Hover = Hover(s, d, x.Along.Name, my) + "\n" + say.Value(dx.Y, mx)
		return d, okX && okY
	})
	for i := range c.Lines {
		c.Lines[i].Gaps = nil // a void cell has no place in it
	}
	c.Seconds()
	return c
}

// Hover is what a point says of itself.
func Hover(s *figure.Sample, d chart.Dot, along string, m figure.Metric) string {
	lines := []string{s.Series.Label}
	if v, ok := s.At[along]; ok {
		lines[0] += fmt.Sprintf(", %s %s", strings.ReplaceAll(along, "_", " "), number.Short(v))
	}
	lines = append(lines, say.Value(d.Y, m))
	if d.N > 1 {
		lines = append(lines, fmt.Sprintf("median of %d, %s to %s", d.N, number.Text(d.Low), number.Text(d.High)))
	}
	if low, high, ok := d.Range(); ok && d.N == 1 {
		lines = append(lines, fmt.Sprintf("in 95 of 100 runs %s to %s", number.Text(low), number.Text(high)))
	}
	if d.Of > d.N {
		lines = append(lines, fmt.Sprintf("%d of %d repetitions: the others are suspect", d.N, d.Of))
	}
	if d.Doubt || d.Suspect {
		lines = append(lines, "suspect")
	}
	if text := figure.Forced(s.Rows[0]); text != "" && !strings.Contains(s.Series.Label, text) {
		lines = append(lines, text)
	}
	if s.By != "" {
		lines = append(lines, s.By)
	}
	return strings.Join(lines, "\n")
}

const maxGroups = 12

type benchmarkCells struct {
	name   string
	cells  []*figure.Sample // with those that are void or published
	tail   string           // percentile of its slowest requests: "p99"
	layout *figure.Layout
}
