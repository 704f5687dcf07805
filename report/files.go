package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"hclbench/report/chart"
	"hclbench/results"
)

// SVG writes every chart of the page as a file of a folder, with its data beside
// it as CSV, and returns their names. The folder is made; files of the same names
// are replaced.
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
				d := fig.file(c)
				if err := create(taken.name(name)+suffix, func(f *os.File) error { return write(d, f) }); err != nil {
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
