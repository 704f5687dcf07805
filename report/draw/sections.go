package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hclbench/report/chart"
	"hclbench/report/figure"
	"hclbench/report/say"
	"hclbench/results"
)

// Section are the figures of one benchmark, or of all of them.
type Section struct {
	ID, Title string
	Figures   []*Figure
	Left      []string // what is left out, and why
}

// Sections are the figures that the layout wants, and who is ahead where, drawn or not.
func Sections(rows []results.Row, all *figure.Series, about figure.About) (out []Section) {
	cells, layout := figure.Samples(rows, all), &about.Layout
	more := all.WithOthers(cells, rows, about)
	for _, found := range []Section{capacities(all.Capacities(rows, about.Capacities), all), tunings(figure.Tunings(rows, about.Tunings), rows, all)} {
		if len(found.Figures) > 0 {
			out = append(out, found)
		}
	}
	if len(layout.Charts) > 0 {
		out = append(out, asked(layout, more, rows))
	}
	benchmarks := benchmarkSections(more, layout)
	if layout.Draws(figure.AutomaticBenchmarks) {
		out = append(out, benchmarks...)
	}
	whole := Section{ID: "across", Title: "Prefix cache and latency details"}
	for _, f := range acrossBenchmarks {
		if !layout.Draws(f.kind) {
			continue
		}
		figures, why := f.draw(figure.Owned(cells), about)
		whole.Figures = append(whole.Figures, figures...)
		if len(figures) == 0 {
			whole.Left = append(whole.Left, why)
		}
	}
	if len(whole.Figures)+len(whole.Left) > 0 {
		out = append(out, whole)
	}
	ids := figure.Unique{}
	for i := range out {
		out[i].ID = strings.TrimPrefix(ids.Name("section "+out[i].ID), "section ")
		var titles []string
		for _, f := range out[i].Figures {
			f.ID, f.First = ids.Name(f.ID), !slices.Contains(titles, f.Title)
			titles = append(titles, f.Title)
			f.credits(more, about.References)
			for _, c := range f.Charts {
				c.Mark = c.Marked()
				if at, _, ok := strings.Cut(say.FastText(rows), ":"); ok {
					c.Mark = strings.Replace(c.Mark, "Rehearsal", at, 1)
				}
			}
		}
	}
	return out
}

// acrossBenchmarks are the figures that are not of one benchmark; one with nothing to show says why.
var acrossBenchmarks = []struct {
	kind string // by which a layout asks for it
	draw func(cells []*figure.Sample, about figure.About) (figures []*Figure, why string)
}{
	{figure.AutomaticPrefixCache, prefixFigures},
	{figure.AutomaticDistributions, distributionFigures},
	{figure.AutomaticTimeLines, timelines},
}

// views are the figures of a slice of a benchmark, in order.
var views = []struct {
	id      string                                          // in the names of files; empty: that of the dimension
	applies func(d figure.Dimension) bool                   // along which dimensions there is one
	draw    func(x figure.Slice, b *benchmarkCells) *Figure // without charts: there is nothing to show
}{
	{"pareto", figure.Pushed, pareto},
	{"latency", figure.Pushed, throughputAgainstLatency},
	{"cost", figure.Pushed, costAgainstInteractivity},
	{"roles", figure.Pushed, rolesAgainstInteractivity},
	{"", func(figure.Dimension) bool { return true }, againstDimension},
}

func benchmarkSections(cells []*figure.Sample, layout *figure.Layout) (out []Section) {
	for _, of := range figure.Grouped(cells, func(s *figure.Sample) string { return s.Benchmark }) {
		var own, published []results.Row
		for _, s := range of {
			switch {
			case s.By != "":
				published = append(published, *s.Rows[0])
			case !s.Void:
				own = append(own, *s.Rows[0])
			}
		}
		if own == nil {
			own = published
		}
		b := &benchmarkCells{of[0].Benchmark, of, figure.TailPercentile(own), layout}
		if x := b.section(); len(x.Figures) > 0 {
			out = append(out, x)
		}
	}
	return out
}

// section are the figures of the benchmark: of its slices, or else its cells side by side.
func (b *benchmarkCells) section() Section {
	out := Section{ID: figure.Slug(b.name), Title: b.name}
	swept := false
	for _, d := range figure.Dimensions {
		all := figure.SlicesAlong(d, b.cells)
		if more := len(all) - figure.Enough(all); more > 0 {
			swept = true
			out.Left = append(out.Left,
				fmt.Sprintf("%s: %d more combinations of the other axes have lines along %s; they are in the table.",
					b.name, more, strings.ToLower(d.Title)))
			all = all[:figure.Enough(all)]
		}
		for n, x := range all {
			out.Figures = append(out.Figures, b.figures(out.ID, d, n, x)...)
		}
	}
	if swept {
		out.Figures = append(b.sweepFigures(out.ID), out.Figures...)
	}
	if len(out.Figures) == 0 {
		if f := b.comparison(); f != nil {
			f.ID = out.ID + "-cells"
			out.Figures = append(out.Figures, f)
		}
	}
	return out
}

// figures are those of the n-th slice along a dimension.
func (b *benchmarkCells) figures(section string, d figure.Dimension, n int, x figure.Slice) (out []*Figure) {
	for _, v := range views {
		if !v.applies(d) {
			continue
		}
		f := v.draw(x, b)
		if !f.drawn() {
			continue
		}
		parts := []string{section, d.Name, v.id}
		switch {
		case v.id == "":
			parts = parts[:2]
		case d.Name == "concurrency": // most labs turn it
			parts = []string{section, v.id}
		}
		if f.ID = strings.Join(parts, "-"); n > 0 {
			f.ID += fmt.Sprintf("-%d", n+1)
		}
		f.Under = x.Words()
		out = append(out, f)
	}
	return out
}

func throughputAgainstLatency(x figure.Slice, _ *benchmarkCells) *Figure {
	f := &Figure{Hero: true, Notes: []string{beside(x)}}
	for _, m := range [][2]figure.Metric{{figure.MedianE2EL, figure.OutputThroughput}, {figure.MedianE2EL, figure.TotalThroughput},
		{figure.Duration, figure.TotalThroughput}} {
		c := Tradeoff(x, m[0], m[1])
		f.Title, f.Charts = m[1].Title+" against "+say.Lower(m[0].Title), []*chart.Panel{c}
		if !c.Empty() {
			c.Sparse()
			break
		}
	}
	return f
}

// main are the throughput of cells and what most of their requests had of each latency.
func (b *benchmarkCells) main(cells []*figure.Sample) []figure.Metric {
	metrics := []figure.Metric{figure.ThroughputOf(cells, b.layout, false)}
	for _, t := range figure.Timings {
		metrics = append(metrics, figure.Central(t, cells, b.layout))
	}
	return metrics
}

// againstDimension are the main figures along the slice's dimension, and who is ahead: of each latency
// what most requests had, and light what the slowest had.
func againstDimension(x figure.Slice, b *benchmarkCells) *Figure {
	f := &Figure{Title: "Against " + say.Lower(x.Along.Title)}
	metrics := b.main(figure.NotVoidSamples(x.Samples))
	if x.Along.Name == "batch" {
		metrics = append(metrics, figure.Duration)
	}
	for _, m := range append(metrics, figure.Goodput, figure.EnergyPerToken) {
		c := against(x, m)
		if c.Empty() {
			continue
		}
		if i := slices.IndexFunc(figure.Timings, func(t figure.Timing) bool { return t.Key == m.Timing }); i >= 0 {
			c.AddTail(against(x, figure.Latency(figure.Timings[i], b.tail)), b.tail)
		}
		c.Seconds()
		f.Charts = append(f.Charts, c)
	}
	return f
}

func pareto(x figure.Slice, _ *benchmarkCells) *Figure {
	f := &Figure{Title: "Throughput per GPU against interactivity", Hero: true}
	f.overInteractivity(x, figure.PerGPU)
	return f
}

func costAgainstInteractivity(x figure.Slice, _ *benchmarkCells) *Figure {
	f := &Figure{Title: "Cost and energy against interactivity"}
	f.overInteractivity(x, figure.CostOutput, figure.EnergyPerToken)
	if len(f.Charts) == 1 {
		f.Title = f.Charts[0].Title + " against interactivity"
	}
	return f
}

// rolesAgainstInteractivity is how some publish what prefill and decode give when they are apart.
func rolesAgainstInteractivity(x figure.Slice, _ *benchmarkCells) *Figure {
	f := &Figure{Title: "Each role's GPUs against interactivity"}
	f.overInteractivity(x, figure.PerDecodeGPU, figure.PerPrefillGPU)
	if f.Charts != nil {
		f.Notes = append(f.Notes, "A throughput per GPU of one role leaves out the GPUs of the other: "+
			"it cannot be held against that of an engine that does both.")
	}
	return f
}

// comparison shows cells that lie along no dimension as bars, those under the same load together,
// the best first; nil: there are too many.
func (b *benchmarkCells) comparison() *Figure {
	f := &Figure{Title: "By load"}
	cells := figure.NotVoidSamples(b.cells)
	if len(cells) == 0 {
		return nil
	}
	for _, m := range append(b.main(cells), figure.Goodput, figure.CostOutput, figure.EnergyPerToken) {
		c := loads(cells, m, func(s *figure.Sample) (string, bool) { return s.Series.Label, true })
		if len(c.Groups) == 0 || len(c.Groups) > maxGroups {
			continue
		}
		f.Notes = figure.Once(f.Notes, ranked(c, m, b.layout)...)
		c.Seconds()
		f.Charts = append(f.Charts, c)
	}
	if len(f.Charts) == 0 {
		return nil
	}
	return f
}

// ranked puts the bars of each group into the order of what is better, and says by how much each
// differs from the baseline.
func ranked(c *chart.Panel, m figure.Metric, layout *figure.Layout) (notes []string) {
	for _, g := range c.Groups {
		base := slices.IndexFunc(g.Bars, func(b chart.Bar) bool {
			return layout.Baseline != "" && (b.Series.Engine == layout.Baseline || b.Series.Label == layout.Baseline)
		})
		if base < 0 && layout.Baseline == "" && len(g.Bars) > 1 {
			base = 0 // the lab's first
		}
		if base >= 0 && g.Against(g.Bars[base]) {
			notes = figure.Once(notes, "Changes are against "+g.Bars[base].Series.Label+".")
		}
		slices.SortStableFunc(g.Bars, func(a, b chart.Bar) int {
			return cmp.Compare(b.Best()*float64(m.Better), a.Best()*float64(m.Better))
		})
	}
	if len(notes) > 1 {
		return []string{"Changes are against the first series that the lab names of those beside it."}
	}
	return notes
}

// asked are the charts that the layout asks for, and why some of them are missing.
func asked(l *figure.Layout, cells []*figure.Sample, rows []results.Row) Section {
	out := Section{ID: "charts", Title: "Charts"}
	columns := figure.NewFields(rows)
	for i, c := range l.Charts {
		figures, why := chartFigures(c, cells, columns)
		for n, f := range figures {
			f.ID = strings.TrimSuffix(fmt.Sprintf("chart-%d-%s", i+1, figure.Slug(c.Title)), "-")
			if n > 0 {
				f.ID += fmt.Sprintf("-%d", n+1)
			}
			f.Title = c.Title
			f.Hero = len(f.Charts) == 1 && f.Charts[0].Groups == nil
			if c.Note != "" {
				f.Notes = append([]string{c.Note}, f.Notes...)
			}
			out.Figures = append(out.Figures, f)
		}
		if why != "" {
			out.Left = append(out.Left, c.Title+": "+why)
		}
	}
	return out
}
