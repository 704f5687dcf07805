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

// across are the figures that are not of one benchmark, in order. One that has nothing
// to show says why.
var across = []struct {
	kind string // by which a layout asks for it
	draw func(cells []*sample, about About) (figures []*figure, why string)
}{
	{AutomaticPrefixCache, prefixFigures},
	{AutomaticDistributions, distributionFigures},
	{AutomaticTimeLines, timelines},
}

// sections are the figures of rows that the layout wants, and who is ahead where,
// whether it is drawn or not.
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

// add draws what was published of a metric for the cells of a slice, in the colours
// of their series, and says by whom.
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
			f.Notes = once(f.Notes, "Thin lines with crosses: published by "+p.Reference+".")
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
