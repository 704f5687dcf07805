package report

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"hclbench/load"
	"hclbench/report/chart"
	"hclbench/report/number"
)

// Sizes of charts, by the room there is: on a wide page, on a phone, in a file.
const (
	heroWide, heroHigh         = 1086, 430
	panelWide, panelHigh       = 524, 280
	phoneWide, phoneHigh       = 360, 250
	phoneHero                  = 340
	overHigh, overHighThin     = 190, 170
	fileWide, fileHigh         = 720, 400
	fileHeroWide, fileHeroHigh = 960, 520
)

// page is the figure with its charts drawn for a wide and a narrow page.
func (f *figure) page() pageFigure {
	out := pageFigure{ID: f.id, Title: f.title, Short: f.title, Under: f.under, Hero: f.hero, Over: f.wide,
		Notes: f.readings, CSV: scriptText(f.csv())}
	for _, c := range f.charts {
		wide, narrow := f.drawings(c)
		out.Charts = append(out.Charts, pageChart{template.HTML(wide.SVG(false)), template.HTML(narrow.SVG(false))})
		if !f.wide { // else the title names it
			out.Legend = once(out.Legend, c.Series()...)
		}
	}
	slices.SortFunc(out.Legend, func(a, b *chart.Series) int { return a.Index - b.Index })
	return out
}

// drawings are a chart for a wide and for a narrow page.
func (f *figure) drawings(c *chart.Panel) (wide, narrow *chart.Drawing) {
	switch {
	case c.Groups != nil:
		return c.Draw(panelWide, c.BarsHeight(), false), c.Draw(phoneWide, c.BarsHeight(), false)
	case f.hero:
		return c.Draw(heroWide, heroHigh, false), c.Draw(phoneWide, phoneHero, false)
	case f.wide:
		return c.Draw(panelWide, overHigh, false), c.Draw(phoneWide, overHighThin, false)
	}
	return c.Draw(panelWide, panelHigh, false), c.Draw(phoneWide, phoneHigh, false)
}

// file is a chart that stands alone: with its legend, and with what is the same
// for all of it as the end of its title.
func (f *figure) file(c *chart.Panel) *chart.Drawing {
	width, height := float64(fileWide), float64(fileHigh)
	switch {
	case c.Groups != nil:
		height = c.BarsHeight() + c.LegendHeight(width)
	case f.hero:
		width, height = fileHeroWide, fileHeroHigh
	case f.wide:
		height = overHigh + 60
	}
	alone := *c
	if f.under != "" && f.id != "prefix-cache" {
		alone.Note = f.under
	}
	d := alone.Draw(width, height, true)
	d.Margin = 16
	return d
}

// csv is what the figure's charts are drawn from, a line for each value.
func (f *figure) csv() string {
	var b bytes.Buffer
	out := csv.NewWriter(&b)
	write := func(c *chart.Panel, s *chart.Series, rest ...string) {
		line := append([]string{c.Title, csvText(s.Label), csvText(s.Engine), csvText(s.GPUs)}, rest...)
		_ = out.Write(line) // a buffer takes whatever is written
	}
	_ = out.Write([]string{"chart", "series", "engine", "gpus", "x", "x_unit", "y", "y_unit", "label", "repetitions",
		"lowest", "highest", "verdict"})
	for _, c := range f.charts {
		for _, l := range c.Lines {
			if l.Series == nil {
				continue // what is joined is there already
			}
			for _, p := range l.Dots {
				write(c, l.Series, number.Exact(p.X), unit(c.X), number.Exact(p.Y), unit(c.Y),
					csvText(p.Label), strconv.Itoa(p.N), number.Exact(p.Low), number.Exact(p.High),
					dotVerdict(l.Published, p.Doubt, p.Mark))
			}
		}
		for _, g := range c.Groups {
			for _, x := range g.Bars {
				label := g.Label
				if x.Before {
					label += ", without"
				}
				write(c, x.Series, "", "", number.Exact(x.Value), unit(c.Y), csvText(label), "", "", "",
					dotVerdict(false, x.Doubt, x.Mark))
			}
		}
	}
	out.Flush()
	return b.String()
}

// dotVerdict is that of a value in a chart.
func dotVerdict(published, doubt bool, mark string) string {
	switch {
	case published:
		return "published"
	case doubt:
		return load.Suspect
	}
	return cmp.Or(mark, load.Valid)
}

// unit says what an axis counts.
func unit(a chart.Axis) string { return strings.TrimSpace(a.Title + " " + a.Unit) }
