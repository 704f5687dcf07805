package report

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hclbench/load"
	"hclbench/report/chart"
	"hclbench/report/number"
	"hclbench/results"
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

type drawing struct{ Wide, Narrow template.HTML }

// Drawings are the figure's charts.
func (f *figure) Drawings() (all []drawing) {
	for _, c := range f.Charts {
		wide, high, thin := panelWide, panelHigh, phoneHigh
		switch {
		case c.Groups != nil:
			high, thin = c.BarsHeight(), c.BarsHeight()
		case f.Hero:
			wide, high, thin = heroWide, heroHigh, phoneHero
		case f.Wide:
			high, thin = overHigh, overHighThin
		}
		all = append(all, drawing{template.HTML(c.Draw(wide, high, false).SVG(false)),
			template.HTML(c.Draw(phoneWide, thin, false).SVG(false))})
	}
	return all
}

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

// file is a chart that stands alone, with a legend and with what is the same for all of it.
func (f *figure) file(c *chart.Panel) *chart.Drawing {
	width, height := fileWide, fileHigh
	switch {
	case c.Groups != nil:
		height = c.BarsHeight() + c.LegendHeight(width)
	case f.Hero:
		width, height = fileHeroWide, fileHeroHigh
	case f.Wide:
		height = overHigh + 60
	}
	alone := *c
	if f.Under != "" && f.ID != "prefix-cache" {
		alone.Note = f.Under
	}
	d := alone.Draw(width, height, true)
	d.Margin = 16
	return d
}

// CSV is what the figure's charts are drawn from, a line for each value.
func (f *figure) CSV() string {
	var b bytes.Buffer
	out := csv.NewWriter(&b)
	write := func(c *chart.Panel, s *chart.Series, rest ...string) {
		line := append([]string{c.Title, csvText(s.Label), csvText(s.Engine), csvText(s.GPUs)}, rest...)
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

func dotVerdict(published, doubt bool, mark string) string {
	switch {
	case published:
		return "published"
	case doubt:
		return load.Suspect
	}
	return cmp.Or(mark, load.Valid)
}

func unit(a chart.Axis) string { return strings.TrimSpace(a.Title + " " + a.Unit) }

// SVG writes every chart of the page as a file of a folder, with its data beside it as CSV, and
// returns their names. The folder is made; files of the same names are replaced.
func SVG(dir string, rows []results.Row, about About) ([]string, error) {
	return files(dir, rows, about, ".svg", func(d *chart.Drawing, f *os.File) error {
		_, err := fmt.Fprintln(f, d.SVG(true))
		return err
	})
}

// PNG is [SVG] as pictures of twice as many pixels.
func PNG(dir string, rows []results.Row, about About) ([]string, error) {
	return files(dir, rows, about, ".png", func(d *chart.Drawing, f *os.File) error { return d.PNG(f) })
}

func files(dir string, rows []results.Row, about About, suffix string,
	write func(d *chart.Drawing, f *os.File) error) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var names []string
	create := func(name string, fill func(f *os.File) error) error {
		path := filepath.Join(dir, name)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err // not a link to elsewhere: what is written is a new file
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		names = append(names, name)
		return errors.Join(fill(f), f.Close())
	}
	taken := unique{}
	drawn, _ := sections(fresh(rows), newSeries(rows, about.Layout.Series), about)
	for _, s := range drawn {
		for _, fig := range s.Figures {
			for i, c := range fig.Charts {
				name := fig.ID
				if len(fig.Charts) > 1 {
					name += "-" + slug(c.Title)
				}
				drawing := func(f *os.File) error { return write(fig.file(c), f) }
				if err := create(taken.name(name)+suffix, drawing); err != nil {
					return names, fmt.Errorf("write chart %d of %s: %w", i+1, fig.ID, err)
				}
			}
			data := func(f *os.File) error { _, err := f.WriteString(fig.CSV()); return err }
			if err := create(fig.ID+".csv", data); err != nil {
				return names, fmt.Errorf("write the data of %s: %w", fig.ID, err)
			}
		}
	}
	return names, nil
}
