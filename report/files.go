package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/report/chart"
	"hclbench/report/number"
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
func SVG(dir string, rows []results.Row, about About) (Pictures, error) {
	return files(dir, rows, about, ".svg", func(d *chart.Drawing, t chart.Theme, f *os.File) error {
		_, err := fmt.Fprintln(f, d.SVG(t))
		return err
	})
}

// PNG is [SVG] as pictures of twice as many pixels.
func PNG(dir string, rows []results.Row, about About) (Pictures, error) {
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
	taken unique
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

func files(dir string, rows []results.Row, about About, suffix string,
	write func(d *chart.Drawing, t chart.Theme, f *os.File) error) (Pictures, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Pictures{}, err
	}
	out, current := &folder{dir: dir, taken: unique{}}, fresh(rows)
	shown := current
	if len(shown) == 0 {
		shown = publishedRows(nil, about)
	}
	drawn := sections(current, about.series(rows), about)
	for _, s := range drawn {
		source := sourceOf(s.rows(shown), about)
		for _, fig := range s.Figures {
			for i, c := range fig.Charts {
				name := fig.ID
				if len(fig.Charts) > 1 {
					name += "-" + slug(c.Title)
				}
				name = out.taken.name(name)
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
func (s *section) rows(all []results.Row) []results.Row {
	of := those(all, func(r *results.Row) bool { return r.Benchmark == s.Title })
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
	what []string // model, GPUs
	from []string // lab, run, date, hcl

	suspect []string // reasons against all of it
}

func sourceOf(rows []results.Row, about About) (s source) {
	s.suspect = sharedReasons(rows)
	var models, gpus []string
	for i := range rows {
		d := &rows[i].Deployment
		models = once(models, plain.Line(d.Model))
		gpus = once(gpus, gpuName(plain.Line(d.GPUs)))
	}
	for _, of := range [][]string{models, gpus} {
		if text := strings.Join(slices.DeleteFunc(of, func(s string) bool { return s == "" }), ", "); text != "" {
			s.what = append(s.what, text)
		}
	}
	if !slices.ContainsFunc(rows, func(r results.Row) bool { return r.Run.Command == "published" }) {
		s.from = append(origin(rows), dates(rows))
	}
	s.from = append(s.from, strings.TrimSpace("hcl "+about.Version))
	s.from = slices.DeleteFunc(s.from, func(s string) bool { return s == "" })
	return s
}

// picture is a chart of the figure that stands alone.
func (f *figure) picture(c *chart.Panel, of source) *chart.Drawing {
	width, height := fileWide, fileHigh
	switch {
	case f.Hero:
		width, height = fileHeroWide, fileHeroHigh
	case f.Wide:
		height = overHigh + 60
	}
	return f.alone(c, of).Draw(width, height)
}

// alone is a chart with all that it has to say where nothing stands beside it.
func (f *figure) alone(c *chart.Panel, of source) *chart.Picture {
	p := &chart.Picture{Panel: c, Title: f.title(c), Under: slices.Concat(of.what, []string{f.Under}), Key: f.key(c, of.suspect),
		Foot: slices.Concat(of.from, []string{tallied(c)})}
	empty := func(s string) bool { return s == "" }
	p.Under, p.Foot = slices.DeleteFunc(p.Under, empty), slices.DeleteFunc(p.Foot, empty)
	if strings.HasPrefix(c.Mark, "Rehearsal") {
		at, _, _ := strings.Cut(c.Mark, ":")
		p.Stamp = strings.ToUpper(at)
	}
	return p
}

// title is what a chart of the figure shows, where it stands alone.
func (f *figure) title(c *chart.Panel) string {
	switch {
	case len(f.Charts) == 1 || f.Wide:
		return f.Title
	case strings.HasSuffix(f.Title, " against "+lower(c.X.Title)) || strings.HasPrefix(f.Title, "Against "):
		return c.Title + " against " + lower(c.X.Title)
	}
	return f.Title + ": " + lower(c.Title)
}

// key says what the marks of a chart mean.
func (f *figure) key(c *chart.Panel, suspect []string) []string {
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
				key = once(key, "Hollow: suspect.")
			}
			if _, _, ok := p.Range(); ok && !l.Plain && !l.Tail {
				key = once(key, map[bool]string{true: "Upright lines: from the lowest to the highest repetition.",
					false: "Upright lines: where the truth lies in 95 of 100 runs."}[p.N > 1])
			}
		}
		if len(l.Gaps) > 0 {
			key = once(key, "Where a line has a gap, the cell is void.")
		}
	}
	if c.Heat != nil && slices.ContainsFunc(c.Heat.Cells, func(x chart.HeatCell) bool { return x.Doubt }) {
		key = once(key, "Dashed outline: suspect.")
	}
	for _, g := range c.Groups {
		if slices.ContainsFunc(g.Bars, func(b chart.Bar) bool { return b.Doubt }) {
			key = once(key, "Hollow: suspect.")
		}
	}
	return key
}

// tallied says how many values a chart shows, by verdict.
func tallied(c *chart.Panel) string {
	n, all := map[string]int{}, 0
	add := func(verdict string) { n[verdict]++; all++ }
	for _, l := range c.Lines {
		if l.Series == nil || l.Tail || l.Plain {
			continue
		}
		for _, p := range l.Dots {
			add(p.Verdict())
		}
		n[load.Void] += len(l.Gaps)
	}
	for _, g := range c.Groups {
		for _, b := range g.Bars {
			if b.None {
				all++
			} else {
				add(b.Verdict())
			}
			n["published"] += len(b.Published)
		}
	}
	if c.Heat != nil {
		for _, x := range c.Heat.Cells {
			if x.Void {
				n[load.Void]++
			} else {
				add(x.Verdict())
			}
		}
	}
	var parts []string
	for _, verdict := range []string{load.Valid, load.Suspect, load.Void, "rehearsal", load.Imported, "published"} {
		if n[verdict] > 0 {
			parts = append(parts, number.Whole(n[verdict])+" "+verdict)
		}
	}
	if all == 0 {
		return ""
	}
	return number.Count(all, "value") + ": " + strings.Join(parts, ", ")
}
