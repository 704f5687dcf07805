package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
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
	heroWide, heroHigh         = 1086., 430.
	panelWide, panelHigh       = 524., 280.
	phoneWide, phoneHigh       = 360., 250.
	phoneHero                  = 340.
	overHigh, overHighThin     = 190., 170.
	fileWide, fileHigh         = 720., 400.
	fileHeroWide, fileHeroHigh = 960., 520.
)

// drawing is a chart for a wide page and for a phone, with the shape that each takes up before it is there.
type drawing struct {
	Wide, Narrow           template.HTML
	WideShape, NarrowShape string // "524 / 280"
}

// Drawings are the figure's charts.
func (f *figure) Drawings() (all []drawing) {
	for _, c := range f.Charts {
		wide, high, thin := panelWide, panelHigh, phoneHigh
		switch {
		case f.Hero:
			wide, high, thin = heroWide, heroHigh, phoneHero
		case f.Wide:
			high, thin = overHigh, overHighThin
		}
		of, on := c.Draw(wide, c.Height(high), false), c.Draw(phoneWide, c.Height(thin), false)
		all = append(all, drawing{template.HTML(of.SVG(chart.OfPage)), template.HTML(on.SVG(chart.OfPage)), shape(of), shape(on)})
	}
	return all
}

func shape(d *chart.Drawing) string { return fmt.Sprintf("%.0f / %.0f", d.Width, d.Height) }

// Legend are the series of the figure; of charts over time its title names it.
func (f *figure) Legend() (all []*chart.Series) {
	for _, c := range f.Charts {
		if !f.Wide {
			all = once(all, c.Series()...)
		}
	}
	slices.SortFunc(all, func(a, b *chart.Series) int { return a.Index - b.Index })
	return all
}

// Told reports whether the page's data have all that the figure shows.
func (f *figure) Told() bool {
	return !slices.ContainsFunc(f.Charts, func(c *chart.Panel) bool { return !c.Told() })
}

// CSV is what the figure's charts are drawn from, a line for each value.
func (f *figure) CSV() string {
	var b bytes.Buffer
	out := csv.NewWriter(&b)
	write := func(c *chart.Panel, s *chart.Series, rest ...string) {
		line := append([]string{csvText(c.Title), csvText(s.Label), csvText(s.Engine), csvText(s.GPUs)}, rest...)
		_ = out.Write(line) // a buffer takes whatever is written
	}
	_ = out.Write([]string{"chart", "series", "engine", "gpus", "x", "x_unit", "y", "y_unit", "label", "repetitions",
		"lowest", "highest", "verdict"})
	for _, c := range f.Charts {
		for _, l := range c.Lines {
			if l.Series == nil {
				continue // what is joined is there already
			}
			for _, p := range l.Dots {
				if l.Tail {
					p.Label = c.Tail
				}
				write(c, l.Series, number.Exact(p.X), unit(c.X), number.Exact(p.Y), unit(c.Y),
					csvText(p.Label), strconv.Itoa(p.N), number.Exact(p.Low), number.Exact(p.High),
					p.Verdict())
			}
		}
		if h := c.Heat; h != nil {
			for _, x := range h.Cells {
				label, value, verdict := h.Across[x.X]+", "+h.Up[x.Y], number.Exact(x.Value), x.Verdict()
				if x.Void {
					value, verdict = "", load.Void
				}
				write(c, h.Series, "", "", value, strings.TrimSpace(c.Y.Unit), csvText(label), "", "", "", verdict)
			}
		}
		for _, g := range c.Groups {
			for _, x := range g.Bars {
				label := g.Label
				if x.Before {
					label += ", without"
				}
				bar := func(v float64, verdict string) {
					write(c, x.Series, "", "", number.Exact(v), unit(c.Y), csvText(label), "", "", "", verdict)
				}
				if !x.None {
					bar(x.Value, x.Verdict())
				}
				for _, p := range x.Published {
					bar(p.Y, p.Verdict())
				}
			}
		}
	}
	out.Flush()
	return b.String()
}

func unit(a chart.Axis) string { return strings.TrimSpace(a.Title + " " + a.Unit) }
