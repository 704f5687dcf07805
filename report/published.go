package report

import (
	"fmt"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/report/chart"
	"hclbench/results"
	"hclbench/results/formats"
)

// publishedRows are what others published, each as if it were a cell: the one that was measured, or
// else the only one that the lab plans and it can be of. What could be of several has no place
// among them. None is a repetition of another: two of one cell differ in what the lab has no axis for.
func publishedRows(rows []results.Row, about About) (out []results.Row) {
	if slices.ContainsFunc(rows, func(r results.Row) bool { return isFast(&r) }) {
		return nil // nothing published is like it
	}
	for i := range about.References {
		c := &about.References[i]
		of := c.cell(rows, about.Planned)
		if of == nil {
			continue
		}
		r := results.Row{Run: results.Run{ID: c.Reference, Command: "published"}}
		r.ID, r.Benchmark, r.Axes, r.Job, r.Deployment = of.ID, of.Benchmark, of.Axes, of.Job, of.Deployment
		r.Group = fmt.Sprint("published ", i)
		r.Deployment.PricePerHour, r.Deployment.Members = 0, nil // what theirs cost is not known
		r.Summary = formats.Figures(c.row)
		r.Summary.Verdict.Verdict = load.Imported
		out = append(out, r)
	}
	return out
}

// cell is the one that the published row is of; nil: it is not known.
func (c *Compared) cell(rows []results.Row, planned []Planned) (of *results.Row) {
	if i := slices.IndexFunc(rows, func(r results.Row) bool { return r.ID == c.Cell }); c.Cell != "" && i >= 0 {
		return &rows[i]
	}
	for i := range planned {
		p := &planned[i]
		if p.Row == nil || p.Benchmark != c.Benchmark || p.Repetition > 1 || !fit(p.Axes, c.row) {
			continue
		}
		if of != nil {
			return nil
		}
		of = p.Row
	}
	return of
}

// credits say whose figures those are that the figure draws beside the report's own.
func (f *figure) credits(cells []*sample, references []Compared) {
	for _, s := range cells {
		if s.by == "" || !slices.ContainsFunc(f.Charts, func(p *chart.Panel) bool { return p.Has(kindOfRun(s.rows[0])) }) {
			continue
		}
		text := s.by
		for _, c := range references {
			if s.by == "published by "+c.Reference && s.benchmark == c.Benchmark {
				text = strings.TrimSuffix(s.by+", "+c.Source, ", ")
			}
		}
		if mark := mark(s.rows[0]); s.by == kindOfRun(s.rows[0]) {
			text = strings.Replace(mark, ":", ",", 1)
		}
		f.Notes = once(f.Notes, "Crosses: "+text+".")
	}
}

// series are those of rows and of what others published.
func (a *About) series(rows []results.Row) *seriesOf {
	return newSeries(slices.Concat(rows, publishedRows(rows, *a)), a.Layout.Series)
}
