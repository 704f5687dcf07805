package figure

import (
	"fmt"
	"slices"
	"strings"

	"hclbench/results"
	"hclbench/results/formats"
)

// Reference is a table of figures that someone else published for the cells of a
// benchmark. A column is an axis of the benchmark, a metric, or neither.
type Reference struct {
	Benchmark string
	Name      string
	Source    string           // where they are published, usually a URL
	Rows      []map[string]any // values are int64, float64, bool or string
}

// Compared is one published row beside what was measured.
type Compared struct {
	Benchmark string       `json:"benchmark"`
	Reference string       `json:"reference"`
	Source    string       `json:"source,omitempty"`
	Axes      results.Axes `json:"axes"`           // of the published row, as far as the lab has them
	Cell      string       `json:"cell,omitempty"` // that it is compared with; empty: there is none
	Figures   []Figure     `json:"figures"`

	row map[string]any // as it was published
}

func (c *Compared) Figure(name string) *Figure {
	for i := range c.Figures {
		if c.Figures[i].Metric == name {
			return &c.Figures[i]
		}
	}
	return nil
}

// Figure is one metric, published and measured.
type Figure struct {
	Metric    string   `json:"metric"`
	Unit      string   `json:"unit,omitempty"`
	Published float64  `json:"published"`
	Measured  *float64 `json:"measured,omitempty"`       // the median of the repetitions; nil: not measured
	Change    *float64 `json:"change_percent,omitempty"` // of measured against published
	Suspect   bool     `json:"suspect,omitempty"`        // what was measured is

	Of Metric `json:"-"`
}

// Compare finds for each published row the cell that it is of: the one whose axes
// have the values of the row's columns of the same names. A row that fits several
// cells that differ in more than their repetition is compared with none.
func Compare(rows []results.Row, references []Reference) []Compared {
	// What was published itself, simulated, or is of another lab than this one, is not
	// compared; and two things of the same axes are no repetitions.
	known := CellsOf(rows, func(r *results.Row) bool { return KindOfRun(r) == "" && !r.Stale })
	var out []Compared
	for _, ref := range references {
		for _, published := range ref.Rows {
			c := Compared{Benchmark: ref.Benchmark, Reference: ref.Name, Source: ref.Source, Axes: publishedAxes(published),
				row: published}
			fits := slices.DeleteFunc(slices.Clone(known), func(rows []*results.Row) bool {
				return rows[0].Benchmark != ref.Benchmark || !fit(rows[0].Axes, published)
			})
			var of []*results.Row
			if len(fits) == 1 {
				of = NotVoid(fits[0])
				c.Axes = fits[0][0].Axes
			}
			if len(of) > 0 {
				c.Cell = of[0].ID
			}
			for _, f := range publishedFigures(published) {
				if e, ok := Weigh(f.Of, of, nil); ok {
					f.Measured, f.Suspect = new(e.Median), e.Suspect
					if f.Published != 0 {
						f.Change = new((*f.Measured/f.Published - 1) * 100)
					}
				}
				c.Figures = append(c.Figures, f)
			}
			if len(c.Figures) > 0 {
				out = append(out, c)
			}
		}
	}
	return out
}

// Measured are the published rows that were measured, and how many were not.
func Measured(all []Compared) (with []Compared, without int) {
	with = slices.DeleteFunc(slices.Clone(all), func(c Compared) bool { return c.Cell == "" })
	return with, len(all) - len(with)
}

// fit reports whether a published row is of the cell: whatever both name is the same.
func fit(axes results.Axes, published map[string]any) bool {
	return !slices.ContainsFunc(axes, func(a results.Axis) bool {
		v, named := published[a.Name]
		return named && !sameValue(a.Value, v)
	})
}

// sameValue compares a lab's value with a published one, which may be text: files of
// comma-separated values have nothing else.
func sameValue(a, b any) bool {
	if x, ok := Float(a); ok {
		if y, ok := Float(b); ok {
			return x == y
		}
	}
	return strings.EqualFold(fmt.Sprint(a), fmt.Sprint(b))
}

// publishedAxes are the columns by which a row without a cell is told from others.
func publishedAxes(published map[string]any) results.Axes {
	var axes results.Axes
	for _, name := range []string{"model", "engine", "dataset", "input_tokens", "output_tokens", "concurrency", "rate",
		"batch"} {
		if v, ok := published[name]; ok {
			if f, isNumber := Float(v); isNumber {
				v = f
				if f == float64(int64(f)) {
					v = int64(f)
				}
			}
			axes = append(axes, results.Axis{Name: name, Value: v})
		}
	}
	return axes
}

// publishedFigures are a row's columns that are metrics, in the order of tables.
func publishedFigures(published map[string]any) []Figure {
	r := results.Row{Cell: results.Cell{Summary: formats.Figures(published)}}
	var figures []Figure
	for _, m := range AllMetrics([]results.Row{r}) {
		if v, ok := m.Value(&r); ok && m.Better != 0 && m.Name != Failed.Name && m.Name != Interactivity.Name {
			figures = append(figures, Figure{Metric: m.Name, Unit: m.Unit, Published: v, Of: m})
		}
	}
	slices.SortStableFunc(figures, func(a, b Figure) int { return tableOrder(a.Metric) - tableOrder(b.Metric) })
	return figures
}

// tableOrder orders metrics: throughputs, then each timing with its median first.
func tableOrder(name string) int {
	kinds := []string{"output_throughput", "total_throughput", "request_throughput", "input_throughput", "goodput",
		"_ttft_", "_tpot_", "_itl_", "_e2el_"}
	i := slices.IndexFunc(kinds, func(kind string) bool { return strings.Contains(name, kind) })
	if i < 0 || strings.HasPrefix(name, "peak") {
		return 1000
	}
	statistics := []string{"median", "mean", "p", ""}
	return 10*i + slices.IndexFunc(statistics, func(s string) bool { return strings.HasPrefix(name, s) })
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
