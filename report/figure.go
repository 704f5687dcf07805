package report

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"hclbench/report/chart"
	"hclbench/results"
)

// figure is one or more charts that answer one question.
type figure struct {
	ID     string // in file names and links: "online-concurrency"
	Title  string
	Under  string // what is the same for all of it: "3,200 tokens in, 800 out"
	Notes  []string
	First  bool // of this title in its section, so that the contents name it
	Hero   bool // one chart that deserves the whole width
	Wide   bool // charts of time: low and wide
	Charts []*chart.Panel
}

// section are the figures of one benchmark, or of all of them.
type section struct {
	ID, Title string
	Figures   []*figure
	Left      []string // what is left out, and why
}

// across are the figures that are not of one benchmark; one with nothing to show says why.
var across = []struct {
	kind string // by which a layout asks for it
	draw func(cells []*sample, about About) (figures []*figure, why string)
}{
	{AutomaticPrefixCache, prefixFigures},
	{AutomaticDistributions, distributionFigures},
	{AutomaticTimeLines, timelines},
}

// sections are the figures that the layout wants, and who is ahead where, drawn or not.
func sections(rows []results.Row, all *seriesOf, about About) (out []section) {
	cells, layout := samples(rows, all), &about.Layout
	more := all.withOthers(cells, rows, about)
	if len(layout.Charts) > 0 {
		out = append(out, layout.asked(more, rows))
	}
	benchmarks := benchmarkSections(more, layout)
	if layout.automatic(AutomaticBenchmarks) {
		out = append(out, benchmarks...)
	}
	whole := section{ID: "across", Title: "Caches, distributions, time"}
	for _, f := range across {
		if !layout.automatic(f.kind) {
			continue
		}
		figures, why := f.draw(owned(cells), about)
		whole.Figures = append(whole.Figures, figures...)
		if len(figures) == 0 {
			whole.Left = append(whole.Left, why)
		}
	}
	if len(whole.Figures)+len(whole.Left) > 0 {
		out = append(out, whole)
	}
	ids := unique{}
	for i := range out {
		out[i].ID = strings.TrimPrefix(ids.name("section "+out[i].ID), "section ")
		var titles []string
		for _, f := range out[i].Figures {
			f.ID, f.First = ids.name(f.ID), !slices.Contains(titles, f.Title)
			titles = append(titles, f.Title)
			f.credits(more, about.References)
			for _, c := range f.Charts {
				c.Mark = c.Marked()
				if at, _, ok := strings.Cut(fastText(rows), ":"); ok {
					c.Mark = strings.Replace(c.Mark, "Rehearsal", at, 1)
				}
			}
		}
	}
	return out
}

// unique gives out names, each once.
type unique map[string]bool

// name is the name, with a number where it is taken.
func (u unique) name(name string) string {
	free := name
	for n := 2; u[free]; n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	u[free] = true
	return free
}

// drawn is the figure without charts that have nothing to draw; false: none is left.
func (f *figure) drawn() bool {
	f.Charts = slices.DeleteFunc(f.Charts, (*chart.Panel).Empty)
	return len(f.Charts) > 0
}

// slug is a name as a part of a file's name.
func slug(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s),
		func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9') })
	name := cmp.Or(strings.Join(words, "-"), "x") // of a name in another script
	if len(name) > maxSlug {
		name = fmt.Sprintf("%s-%08x", name[:maxSlug], crc32.ChecksumIEEE([]byte(s)))
	}
	return name
}

// maxSlug leaves room in a file's name for several of them.
const maxSlug = 60

// views are the figures of a slice of a benchmark, in order.
var views = []struct {
	id      string                              // in the names of files; empty: that of the dimension
	applies func(d dimension) bool              // along which dimensions there is one
	draw    func(x slice, b *benchmark) *figure // without charts: there is nothing to show
}{
	{"pareto", pushed, pareto},
	{"latency", pushed, throughputAgainstLatency},
	{"cost", pushed, costAgainstInteractivity},
	{"roles", pushed, rolesAgainstInteractivity},
	{"", func(dimension) bool { return true }, againstDimension},
}

// pushed reports whether more of a dimension is more load, not other requests.
func pushed(d dimension) bool {
	return d.name == "concurrency" || d.name == "rate" || d.name == "batch"
}

type benchmark struct {
	name   string
	cells  []*sample // with those that are void or published
	tail   string    // percentile of its slowest requests: "p99"
	layout *Layout
}

func benchmarkSections(cells []*sample, layout *Layout) (out []section) {
	for _, of := range grouped(cells, func(s *sample) string { return s.benchmark }) {
		var own, published []results.Row
		for _, s := range of {
			switch {
			case s.by != "":
				published = append(published, *s.rows[0])
			case !s.void:
				own = append(own, *s.rows[0])
			}
		}
		if own == nil {
			own = published
		}
		b := &benchmark{of[0].benchmark, of, tailPercentile(own), layout}
		if x := b.section(); len(x.Figures) > 0 {
			out = append(out, x)
		}
	}
	return out
}

// section are the figures of the benchmark: of its slices, or else its cells side by side.
func (b *benchmark) section() section {
	out := section{ID: slug(b.name), Title: b.name}
	swept := false
	for _, d := range dimensions {
		all := slicesAlong(d, b.cells)
		if more := len(all) - enough(all); more > 0 {
			swept = true
			out.Left = append(out.Left,
				fmt.Sprintf("%s: %d more combinations of the other axes have lines along %s; they are in the table.",
					b.name, more, strings.ToLower(d.title)))
			all = all[:enough(all)]
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
func (b *benchmark) figures(section string, d dimension, n int, x slice) (out []*figure) {
	for _, v := range views {
		if !v.applies(d) {
			continue
		}
		f := v.draw(x, b)
		if !f.drawn() {
			continue
		}
		parts := []string{section, d.name, v.id}
		switch {
		case v.id == "":
			parts = parts[:2]
		case d.name == "concurrency": // most labs turn it
			parts = []string{section, v.id}
		}
		if f.ID = strings.Join(parts, "-"); n > 0 {
			f.ID += fmt.Sprintf("-%d", n+1)
		}
		f.Under = x.under()
		out = append(out, f)
	}
	return out
}

func throughputAgainstLatency(x slice, _ *benchmark) *figure {
	f := &figure{Hero: true, Notes: []string{beside(x)}}
	for _, m := range [][2]Metric{{medianE2EL, outputThroughput}, {medianE2EL, totalThroughput},
		{duration, totalThroughput}} {
		c := x.tradeoff(m[0], m[1])
		f.Title, f.Charts = m[1].Title+" against "+lower(m[0].Title), []*chart.Panel{c}
		if !c.Empty() {
			c.Sparse()
			break
		}
	}
	return f
}

// beside says what stands beside the points of a chart of one metric over another.
func beside(x slice) string { return "Numbers beside the points: " + lower(x.along.title) + "." }

// main are the throughput of cells and what most of their requests had of each latency.
func (b *benchmark) main(cells []*sample) []Metric {
	metrics := []Metric{throughputOf(cells, b.layout, false)}
	for _, t := range timings {
		metrics = append(metrics, central(t, cells, b.layout))
	}
	return metrics
}

func notVoidSamples(cells []*sample) []*sample {
	return slices.DeleteFunc(slices.Clone(cells), func(s *sample) bool { return s.void })
}

// againstDimension are the main figures along the slice's dimension, and who is ahead: of each latency
// what most requests had, and light what the slowest had.
func againstDimension(x slice, b *benchmark) *figure {
	f := &figure{Title: "Against " + lower(x.along.title)}
	metrics := b.main(notVoidSamples(x.samples))
	if x.along.name == "batch" {
		metrics = append(metrics, duration)
	}
	for _, m := range append(metrics, goodput, energyPerToken) {
		c := x.against(m)
		if c.Empty() {
			continue
		}
		if i := slices.IndexFunc(timings, func(t timing) bool { return t.Key == m.Timing }); i >= 0 {
			c.AddTail(x.against(latency(timings[i], b.tail)), b.tail)
		}
		c.Seconds()
		f.Charts = append(f.Charts, c)
	}
	return f
}

func pareto(x slice, _ *benchmark) *figure {
	f := &figure{Title: "Throughput per GPU against interactivity", Hero: true}
	f.overInteractivity(x, perGPU)
	return f
}

func costAgainstInteractivity(x slice, _ *benchmark) *figure {
	f := &figure{Title: "Cost and energy against interactivity"}
	f.overInteractivity(x, costOutput, energyPerToken)
	if len(f.Charts) == 1 {
		f.Title = f.Charts[0].Title + " against interactivity"
	}
	return f
}

// rolesAgainstInteractivity is how some publish what prefill and decode give when they are apart.
func rolesAgainstInteractivity(x slice, _ *benchmark) *figure {
	f := &figure{Title: "Each role's GPUs against interactivity"}
	f.overInteractivity(x, perDecodeGPU, perPrefillGPU)
	if f.Charts != nil {
		f.Notes = append(f.Notes, "A throughput per GPU of one role leaves out the GPUs of the other: "+
			"it cannot be held against that of an engine that does both.")
	}
	return f
}

// overInteractivity draws what serving users so fast gives or takes.
func (f *figure) overInteractivity(x slice, metrics ...Metric) {
	for _, m := range metrics {
		c := x.tradeoff(interactivity, m)
		if c.Empty() {
			continue
		}
		c.X.Title, c.X.Unit = "Interactivity", "output tokens per second per user"
		of, said := fronts(c, m)
		c.Lines = append(of, c.Lines...)
		c.Sparse()
		f.Charts = append(f.Charts, c)
		if of != nil {
			f.Notes = once(f.Notes, said)
		}
	}
	if f.Charts != nil {
		f.Notes = append(f.Notes, beside(x))
	}
}

const maxGroups = 12

// comparison shows cells that lie along no dimension as bars, those under the same load together,
// the best first; nil: there are too many.
func (b *benchmark) comparison() *figure {
	f := &figure{Title: "Cells side by side"}
	cells := notVoidSamples(b.cells)
	if len(cells) == 0 {
		return nil
	}
	for _, m := range append(b.main(cells), goodput, costOutput, energyPerToken) {
		c := loads(cells, m, func(s *sample) (string, bool) { return s.series.Label, true })
		if len(c.Groups) == 0 || len(c.Groups) > maxGroups {
			continue
		}
		f.Notes = once(f.Notes, ranked(c, m, b.layout)...)
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
func ranked(c *chart.Panel, m Metric, layout *Layout) (notes []string) {
	for _, g := range c.Groups {
		base := slices.IndexFunc(g.Bars, func(b chart.Bar) bool {
			return layout.Baseline != "" && (b.Series.Engine == layout.Baseline || b.Series.Label == layout.Baseline)
		})
		if base < 0 && layout.Baseline == "" && len(g.Bars) > 1 {
			base = 0 // the lab's first
		}
		if base >= 0 && g.Against(g.Bars[base]) {
			notes = once(notes, "Changes are against "+g.Bars[base].Series.Label+".")
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

// loads are a metric of cells as bars, those under the same load together; foot is
// what stands at a bar, and whether there is one. What others published of a cell is on its bar.
func loads(cells []*sample, m Metric, foot func(s *sample) (string, bool)) *chart.Panel {
	c := &chart.Panel{Title: m.Title, Y: chart.Axis{Unit: m.Unit, Key: m.Name}, Better: better(m)}
	byLoad := map[string]int{}
	for _, s := range cells {
		d, ok := s.value(m)
		label, has := foot(s)
		if !ok || !has || s.void {
			continue
		}
		i, known := byLoad[s.caseKey()]
		if !known {
			i = len(c.Groups)
			byLoad[s.caseKey()] = i
			label := s.load()
			if s.benchmark != cells[0].benchmark || cells[len(cells)-1].benchmark != cells[0].benchmark {
				label = listedWith(", ", s.benchmark, label)
			}
			c.Groups = append(c.Groups, chart.Group{Label: label})
		}
		g := &c.Groups[i]
		d.Hover = hover(s, d, "", m)
		if s.by == "" {
			g.Bars = append(g.Bars, chart.Bar{Series: s.series, Label: label, Value: d.Y, Hover: d.Hover, Trust: d.Trust,
				Ref: d.Ref})
			continue
		}
		of := slices.IndexFunc(g.Bars, func(b chart.Bar) bool { return b.Series == s.series && b.Label == label })
		if of < 0 {
			of = len(g.Bars)
			g.Bars = append(g.Bars, chart.Bar{Series: s.series, Label: label, None: true})
		}
		g.Bars[of].Published = append(g.Bars[of].Published, d)
	}
	return c
}
