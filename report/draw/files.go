package draw

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
	"hclbench/plain"
	"hclbench/report/chart"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/say"
	"hclbench/results"
)

// Pictures are files that were written.
type Pictures struct {
	Names []string
	Boxes string // letters that are boxes in them, each once: the font has no others
}

// SVG writes every chart of the page as a picture that stands alone, on white and on dark ground,
// into files of a folder, with its data beside it as CSV. The folder is made; files of the same names
// are replaced.
func SVG(dir string, rows []results.Row, about figure.About) (Pictures, error) {
	return files(dir, rows, about, ".svg", func(d *chart.Drawing, t chart.Theme, f *os.File) error {
		_, err := fmt.Fprintln(f, d.SVG(t))
		return err
	})
}

// PNG is [SVG] as pictures of twice as many pixels.
func PNG(dir string, rows []results.Row, about figure.About) (Pictures, error) {
	boxes := ""
	out, err := files(dir, rows, about, ".png", func(d *chart.Drawing, t chart.Theme, f *os.File) error {
		letters, err := d.Boxes()
		boxes += letters
		return errors.Join(err, d.PNG(f, t))
	})
	for _, r := range boxes {
		if !strings.ContainsRune(out.Boxes, r) {
			out.Boxes += string(r)
		}
	}
	return out, err
}

// folder is where files are written, and which.
type folder struct {
	dir   string
	taken figure.Unique
	Pictures
}

// create makes a new file: what is there of its name, which may be a link to elsewhere, is removed.
func (o *folder) create(name string, fill func(f *os.File) error) error {
	path := filepath.Join(o.dir, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	o.Names = append(o.Names, name)
	return errors.Join(fill(f), f.Close())
}

func files(dir string, rows []results.Row, about figure.About, suffix string,
	write func(d *chart.Drawing, t chart.Theme, f *os.File) error) (Pictures, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Pictures{}, err
	}
	out, current := &folder{dir: dir, taken: figure.Unique{}}, figure.Fresh(rows)
	shown := current
	if len(shown) == 0 {
		shown = figure.PublishedRows(nil, about)
	}
	drawn := Sections(current, about.Series(rows), about)
	for _, s := range drawn {
		source := SourceOf(s.rows(shown), about)
		for _, fig := range s.Figures {
			for i, c := range fig.Charts {
				name := fig.ID
				if len(fig.Charts) > 1 {
					name += "-" + figure.Slug(c.Title)
				}
				name = out.taken.Name(name)
				d := fig.picture(c, source)
				for ending, t := range map[string]chart.Theme{"": chart.Light, "-dark": chart.Dark} {
					if err := out.create(name+ending+suffix, func(f *os.File) error { return write(d, t, f) }); err != nil {
						return out.Pictures, fmt.Errorf("write chart %d of %s: %w", i+1, fig.ID, err)
					}
				}
			}
			data := func(f *os.File) error { _, err := f.WriteString(fig.CSV()); return err }
			if err := out.create(fig.ID+".csv", data); err != nil {
				return out.Pictures, fmt.Errorf("write the data of %s: %w", fig.ID, err)
			}
		}
	}
	return out.Pictures, nil
}

// rows are those that the section's figures are of.
func (s *Section) rows(all []results.Row) []results.Row {
	of := figure.Those(all, func(r *results.Row) bool { return r.Benchmark == s.Title })
	if len(of) == 0 {
		return all // it is of all benchmarks
	}
	rows := make([]results.Row, len(of))
	for i, r := range of {
		rows[i] = *r
	}
	return rows
}

// source is what pictures say of what they are made from.
type source struct {
	What []string // model, GPUs
	From []string // lab, run, date, hcl

	suspect []string // reasons against all of it
}

// SourceOf is what pictures say of these rows.
func SourceOf(rows []results.Row, about figure.About) (s source) {
	s.suspect = figure.SharedReasons(rows)
	var models, gpus []string
	for i := range rows {
		d := &rows[i].Deployment
		models = figure.Once(models, plain.Line(d.Model))
		gpus = figure.Once(gpus, figure.GPUName(plain.Line(d.GPUs)))
	}
	for _, of := range [][]string{models, gpus} {
		if text := strings.Join(slices.DeleteFunc(of, func(s string) bool { return s == "" }), ", "); text != "" {
			s.What = append(s.What, text)
		}
	}
	if !slices.ContainsFunc(rows, func(r results.Row) bool { return r.Run.Command == "published" }) {
		s.From = append(say.Origin(rows), say.Dates(rows))
	}
	s.From = append(s.From, strings.TrimSpace("hcl "+about.Version))
	s.From = slices.DeleteFunc(s.From, func(s string) bool { return s == "" })
	return s
}

// picture is a chart of the figure that stands alone.
func (f *Figure) picture(c *chart.Panel, of source) *chart.Drawing {
	width, height := fileWide, fileHigh
	switch {
	case f.Hero:
		width, height = fileHeroWide, fileHeroHigh
	case f.Wide:
		height = overHigh + 60
	}
	return f.Alone(c, of).Draw(width, height)
}

// Alone is a chart with all that it has to say where nothing stands beside it.
func (f *Figure) Alone(c *chart.Panel, of source) *chart.Picture {
	p := &chart.Picture{Panel: c, Title: f.title(c), Under: slices.Concat(of.What, []string{f.Under}), Key: f.key(c, of.suspect),
		Foot: slices.Concat(of.From, []string{say.Tallied(c)})}
	empty := func(s string) bool { return s == "" }
	p.Under, p.Foot = slices.DeleteFunc(p.Under, empty), slices.DeleteFunc(p.Foot, empty)
	if strings.HasPrefix(c.Mark, "Rehearsal") {
		at, _, _ := strings.Cut(c.Mark, ":")
		p.Stamp = strings.ToUpper(at)
	}
	return p
}

// title is what a chart of the figure shows, where it stands alone.
func (f *Figure) title(c *chart.Panel) string {
	switch {
	case len(f.Charts) == 1 || f.Wide:
		return f.Title
	case strings.HasSuffix(f.Title, " against "+say.Lower(c.X.Title)) || strings.HasPrefix(f.Title, "Against "):
		return c.Title + " against " + say.Lower(c.X.Title)
	}
	return f.Title + ": " + say.Lower(c.Title)
}

// key says what the marks of a chart mean.
func (f *Figure) key(c *chart.Panel, suspect []string) []string {
	key := slices.Clone(f.Notes)
	for _, reason := range suspect {
		key = append(key, "All values are suspect: "+strings.TrimSuffix(reason, ".")+".")
	}
	if c.Tail != "" {
		key = append(key, "Light lines: "+c.Tail+".")
	}
	for _, l := range c.Lines {
		for _, p := range l.Dots {
			if p.Doubt && !l.Published {
				key = figure.Once(key, "Hollow: suspect.")
			}
			if _, _, ok := p.Range(); ok && !l.Plain && !l.Tail {
				key = figure.Once(key, map[bool]string{true: "Upright lines: from the lowest to the highest repetition.",
					false: "Upright lines: where the truth lies in 95 of 100 runs."}[p.N > 1])
			}
		}
		if len(l.Gaps) > 0 {
			key = figure.Once(key, "Where a line has a gap, the cell is void.")
		}
	}
	if c.Heat != nil && slices.ContainsFunc(c.Heat.Cells, func(x chart.HeatCell) bool { return x.Doubt }) {
		key = figure.Once(key, "Dashed outline: suspect.")
	}
	for _, g := range c.Groups {
		if slices.ContainsFunc(g.Bars, func(b chart.Bar) bool { return b.Doubt }) {
			key = figure.Once(key, "Hollow: suspect.")
		}
	}
	return key
}

// HeroSVG is the figure that the page shows first of a benchmark, as an SVG picture of that width that
// stands alone; empty: there is nothing to draw yet.
func HeroSVG(rows []results.Row, about figure.About, benchmark string, width float64, dark bool) string {
	about.Records = nil // which only other figures are drawn from
	current := figure.Fresh(rows)
	all := about.Series(current)
	own := slices.DeleteFunc(slices.Clone(current), func(r results.Row) bool { return r.Benchmark != benchmark })
	if len(own) == 0 {
		return ""
	}
	theme, height := chart.Light, max(phoneHero, width*fileHeroHigh/fileHeroWide)
	if dark {
		theme = chart.Dark
	}
	drawn := Sections(own, all, about)
	for _, heroes := range []bool{true, false} {
		for _, s := range drawn {
			for _, f := range s.Figures {
				if f.Hero == heroes && s.Title == benchmark {
					return f.Alone(f.Charts[0], SourceOf(own, about)).Draw(width, height).SVG(theme)
				}
			}
		}
	}
	return ""
}

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
func (f *Figure) Drawings() (all []drawing) {
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

// Legend are the series of the figure; of charts over time its title names it, and of others numbers may.
func (f *Figure) Legend() (all []*chart.Series) {
	for _, c := range f.Charts {
		if !f.Wide && !f.Unnamed {
			all = figure.Once(all, c.Series()...)
		}
	}
	slices.SortFunc(all, func(a, b *chart.Series) int { return a.Index - b.Index })
	return all
}

// Told reports whether the page's data have all that the figure shows.
func (f *Figure) Told() bool {
	return !slices.ContainsFunc(f.Charts, func(c *chart.Panel) bool { return !c.Told() })
}

// CSV is what the figure's charts are drawn from, a line for each value.
func (f *Figure) CSV() string {
	var b bytes.Buffer
	out := csv.NewWriter(&b)
	write := func(c *chart.Panel, s *chart.Series, rest ...string) {
		line := append([]string{plain.CSV(c.Title), plain.CSV(s.Label), plain.CSV(s.Engine), plain.CSV(s.GPUs)}, rest...)
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
					plain.CSV(cmp.Or(p.Label, p.Found)), strconv.Itoa(p.N), number.Exact(p.Low), number.Exact(p.High),
					p.Verdict())
			}
		}
		if h := c.Heat; h != nil {
			for _, x := range h.Cells {
				label, value, verdict := h.Across[x.X]+", "+h.Up[x.Y], number.Exact(x.Value), x.Verdict()
				if x.Void {
					value, verdict = "", load.Void
				}
				write(c, h.Series, "", "", value, strings.TrimSpace(c.Y.Unit), plain.CSV(label), "", "", "", verdict)
			}
		}
		for _, g := range c.Groups {
			for _, x := range g.Bars {
				label, low, high := cmp.Or(g.Label, x.Text), "", ""
				if x.Before {
					label += ", without"
				}
				if x.To > x.Value {
					low, high = number.Exact(x.Value), number.Exact(x.To)
				}
				bar := func(v float64, verdict string) {
					write(c, x.Series, "", "", number.Exact(v), unit(c.Y), plain.CSV(label), "", low, high, verdict)
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
