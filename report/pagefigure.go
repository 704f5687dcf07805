package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
)

// Sizes of charts in a page, by the room there is.
const (
	heroWide, heroHigh     = 1086, 430
	panelWide, panelHigh   = 524, 280
	phoneWide, phoneHigh   = 360, 250
	phoneHero              = 340
	overHigh, overHighThin = 190, 170
)

func (f *figure) page() pageFigure {
	out := pageFigure{ID: f.id, Title: f.title, Short: f.title, Under: f.under, Hero: f.hero, Over: f.wide, CSV: scriptText(f.csv())}
	var legend []*series
	for _, c := range f.charts {
		for _, s := range c.series() {
			if !slices.Contains(legend, s) {
				legend = append(legend, s)
			}
		}
		wide, narrow := f.drawings(c)
		out.Charts = append(out.Charts, pageChart{template.HTML(wide.svg(false)), template.HTML(narrow.svg(false))})
	}
	slices.SortFunc(legend, func(a, b *series) int { return a.index - b.index })
	if f.wide {
		legend = nil // the title names it
	}
	for _, s := range legend {
		out.Legend = append(out.Legend, pageLegend{s.index, chip(s), s.label})
	}
	out.Notes = f.readings
	return out
}

// drawings are a chart for a wide and for a narrow page.
func (f *figure) drawings(c *chart) (wide, narrow *drawing) {
	switch {
	case c.groups != nil:
		return c.draw(panelWide, c.barsHeight(), false), c.draw(phoneWide, c.barsHeight(), false)
	case f.hero:
		return c.draw(heroWide, heroHigh, false), c.draw(phoneWide, phoneHero, false)
	case f.wide:
		return c.draw(panelWide, overHigh, false), c.draw(phoneWide, overHighThin, false)
	}
	return c.draw(panelWide, panelHigh, false), c.draw(phoneWide, phoneHigh, false)
}

// finding is who is ahead in one figure: a row for each of its charts, a column
// for each place along their axis.
func (f *figure) finding(of section) (finding, bool) {
	x := finding{Figure: of.title, Under: f.under}
	for _, c := range f.charts {
		if c.leads == nil {
			continue
		}
		if x.Rows == nil {
			x.Along = c.x.title
			for _, l := range c.leads {
				x.Head = append(x.Head, short(l.x))
			}
		}
		row := findingRow{Metric: c.title}
		for _, l := range c.leads {
			var cell findingCell
			switch {
			case l.level:
				cell.Label = "level"
			case l.series != nil:
				cell = findingCell{Chip: chip(l.series), Label: l.series.label, By: percent(l.by)}
			}
			if l.suspect != nil {
				cell.Besides = l.suspect.label + " is suspect, and left out"
			}
			row.Cells = append(row.Cells, cell)
		}
		x.Rows = append(x.Rows, row)
	}
	return x, x.Rows != nil
}

// chip is the marker of a series as it is in charts: a use of one of [chips].
func chip(s *series) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg width="22" height="10" aria-hidden="true"><use href="#k%d"/></svg>`, s.index+1))
}

// chips are the markers of all series, drawn once for a page.
func chips(all []*series) template.HTML {
	var b bytes.Buffer
	b.WriteString(`<svg width="0" height="0" class="chips" aria-hidden="true">`)
	for _, s := range all {
		fmt.Fprintf(&b, `<symbol id="k%d" viewBox="0 0 22 10">`, s.index+1)
		for _, m := range []piece{
			{at: []point{{1, 5}, {21, 5}}, colour: colourOf(s), width: 2, dash: dashOf(s)},
			{shape: symbolOf(s), at: []point{{11, 5}}, size: 3.5, colour: colourOf(s)},
		} {
			m.svg(&b, css)
		}
		b.WriteString("</symbol>\n")
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// scriptText is text as a string of JavaScript that cannot end its element.
func scriptText(s string) template.JS {
	b, err := json.Marshal(s)
	if err != nil {
		return `""` // a string always can be marshalled
	}
	return template.JS(b)
}
