package report

import (
	"fmt"
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
	leads  map[*chart.Panel][]lead // who is ahead along the charts that say it
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
func sections(rows []results.Row, all *seriesOf, about About) (out []section, found []finding) {
	cells := samples(rows, all)
	layout, published := &about.Layout, published(about.References)
	if len(layout.Charts) > 0 {
		out = append(out, layout.asked(cells, rows, published))
	}
	benchmarks := benchmarkSections(cells, published)
	if layout.automatic(AutomaticBenchmarks) {
		out = append(out, benchmarks...)
	}
	more := section{ID: "across", Title: "Caches, tails, time"}
	for _, f := range across {
		if !layout.automatic(f.kind) {
			continue
		}
		figures, why := f.draw(cells, about)
		more.Figures = append(more.Figures, figures...)
		if len(figures) == 0 {
			more.Left = append(more.Left, why)
		}
	}
	if len(more.Figures)+len(more.Left) > 0 {
		out = append(out, more)
	}
	ids := unique{}
	for i := range out {
		out[i].ID = strings.TrimPrefix(ids.name("section "+out[i].ID), "section ")
		var titles []string
		for _, f := range out[i].Figures {
			f.ID, f.First = ids.name(f.ID), !slices.Contains(titles, f.Title)
			titles = append(titles, f.Title)
			for _, c := range f.Charts {
				c.Mark = c.Marked()
			}
		}
	}
	return out, findings(benchmarks)
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

// publishedOf are the published figures of each cell, by its id.
type publishedOf map[string][]Compared

func published(all []Compared) publishedOf {
	of := publishedOf{}
	for _, c := range all {
		of[c.Cell] = append(of[c.Cell], c)
	}
	return of
}

// add draws what was published for the cells of a slice, in their colours, and says by whom.
func (of publishedOf) add(f *figure, c *chart.Panel, x slice, m metric) {
	for _, l := range c.Lines {
		l = chart.Line{Series: l.Series, Published: true}
		for _, s := range x.samples {
			if s.series == l.Series {
				l.Dots = append(l.Dots, of.dots(f, c, s, x.along.name, m)...)
			}
		}
		sortDots(l.Dots, func(d chart.Dot) float64 { return d.X })
		if len(l.Dots) > 0 {
			c.Lines = append(c.Lines, l)
		}
	}
}

// dots are what was published of a metric for one cell.
func (of publishedOf) dots(f *figure, c *chart.Panel, s *sample, along string, m metric) (dots []chart.Dot) {
	for _, r := range s.rows {
		for _, p := range of[r.ID] {
			figure := p.figure(m.name)
			if figure == nil {
				continue
			}
			d := chart.Dot{X: s.at[along], Y: figure.Published, N: 1}
			d.Hover = hover(s, d, along, m) + "\npublished by " + p.Reference
			if m.unit == "ms" && c.Y.Unit == "s" {
				d.Y /= 1000
			}
			d.Low, d.High = d.Y, d.Y
			dots = append(dots, d)
			f.Notes = once(f.Notes, p.by())
		}
	}
	return dots
}

// slug is a name as a part of a file's name.
func slug(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s),
		func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9') })
	if len(words) == 0 {
		return "x" // a name in another script
	}
	return strings.Join(words, "-")
}

// views are the figures of a slice of a benchmark, in order.
var views = []struct {
	id      string                              // in the names of files; empty: that of the dimension
	applies func(d dimension) bool              // along which dimensions there is one
	draw    func(x slice, b *benchmark) *figure // without charts: there is nothing to show
}{
	{"latency", pushed, throughputAgainstLatency},
	{"", func(dimension) bool { return true }, againstDimension},
	{"tails", pushed, tails},
	{"pareto", pushed, pareto},
}

// pushed reports whether more of a dimension is more load, not other requests.
func pushed(d dimension) bool {
	return d.name == "concurrency" || d.name == "rate" || d.name == "batch"
}

type benchmark struct {
	name      string
	cells     []*sample
	tail      string // percentile of its slowest requests: "p99"
	published publishedOf
}

func benchmarkSections(cells []*sample, published publishedOf) (out []section) {
	for _, of := range grouped(cells, func(s *sample) string { return s.benchmark }) {
		var rows []results.Row
		for _, s := range of {
			rows = append(rows, *s.rows[0])
		}
		b := &benchmark{of[0].benchmark, of, tailPercentile(rows), published}
		if x := b.section(); len(x.Figures) > 0 {
			out = append(out, x)
		}
	}
	return out
}

// section are the figures of the benchmark: of its slices, or else its cells side by side.
func (b *benchmark) section() section {
	out := section{ID: slug(b.name), Title: b.name}
	for _, d := range dimensions {
		all := slicesAlong(d, b.cells)
		if more := len(all) - maxSlices; more > 0 {
			out.Left = append(out.Left,
				fmt.Sprintf("%s: %d more combinations of the other axes have lines along %s; they are in the table.",
					b.name, more, strings.ToLower(d.title)))
			all = all[:maxSlices]
		}
		for n, x := range all {
			out.Figures = append(out.Figures, b.figures(out.ID, d, n, x)...)
		}
	}
	if len(out.Figures) == 0 {
		if f := comparison(b.cells); f != nil {
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
	for _, m := range [][2]metric{{medianE2EL, outputThroughput}, {medianE2EL, totalThroughput},
		{duration, totalThroughput}} {
		c := x.tradeoff(m[0], m[1])
		f.Title, f.Charts = m[1].title+" against "+lower(m[0].title), []*chart.Panel{c}
		if !c.Empty() {
			break
		}
	}
	return f
}

// beside says what stands beside the points of a chart of one metric over another.
func beside(x slice) string { return "Numbers beside the points: " + lower(x.along.title) + "." }

// againstDimension are the main figures along the slice's dimension, and who is ahead.
func againstDimension(x slice, b *benchmark) *figure {
	f := &figure{Title: "Against " + lower(x.along.title), leads: map[*chart.Panel][]lead{}}
	whole := []metric{medianE2EL}
	if x.along.name == "batch" {
		whole = append(whole, duration)
	}
	for _, choice := range [][]metric{{outputThroughput, totalThroughput}, {medianTTFT}, {medianTPOT}, whole,
		{goodput}, {energyPerToken}} {
		for _, m := range choice {
			c := x.against(m)
			if c.Empty() {
				continue
			}
			f.leads[c] = leads(c, m)
			b.published.add(f, c, x, m)
			f.Charts = append(f.Charts, c)
			break
		}
	}
	return f
}

func tails(x slice, b *benchmark) *figure {
	f := &figure{Title: "Tails against " + lower(x.along.title)}
	for _, t := range timings {
		f.Charts = append(f.Charts, x.against(latency(t, b.tail)))
	}
	return f
}

func pareto(x slice, _ *benchmark) *figure {
	c := x.tradeoff(interactivity, perGPU)
	c.X.Title, c.X.Unit = "Interactivity", "output tokens per second per user"
	f := &figure{Title: "Throughput per GPU against interactivity", Hero: true, Charts: []*chart.Panel{c}}
	if of, said := fronts(c); of != nil {
		c.Lines = append(of, c.Lines...)
		f.Notes = []string{said}
	}
	return f
}

const maxGroups = 12

// comparison shows cells that lie along no dimension as bars; nil: there are too many.
func comparison(cells []*sample) *figure {
	f := &figure{Title: "Cells side by side"}
	for _, m := range []metric{outputThroughput, totalThroughput, medianTTFT, medianTPOT, medianE2EL} {
		c := loads(cells, m, func(*sample) (string, bool) { return "", true })
		if len(c.Groups) > 0 && len(c.Groups) <= maxGroups && !(m.name == totalThroughput.name && len(f.Charts) > 0) {
			f.Charts = append(f.Charts, c)
		}
	}
	if len(f.Charts) == 0 {
		return nil
	}
	return f
}

// loads are a metric of cells as bars, those under the same load together; foot is
// what stands at a bar, and whether there is one.
func loads(cells []*sample, m metric, foot func(s *sample) (string, bool)) *chart.Panel {
	c := &chart.Panel{Title: m.title, Y: chart.Axis{Unit: m.unit}, Better: better(m)}
	byLoad := map[string]int{}
	for _, s := range cells {
		d, ok := s.value(m)
		label, has := foot(s)
		if !ok || !has {
			continue
		}
		i, known := byLoad[s.load()]
		if !known {
			i = len(c.Groups)
			byLoad[s.load()] = i
			c.Groups = append(c.Groups, chart.Group{Label: s.load()})
		}
		c.Groups[i].Bars = append(c.Groups[i].Bars, chart.Bar{Series: s.series, Label: label, Value: d.Y,
			Hover: hover(s, d, "", m), Doubt: d.Doubt, Mark: d.Mark})
	}
	return c
}
