package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hclbench/results"
	"hclbench/where"
)

// Layout is what a lab wants in its report. The zero value leaves everything to what was measured.
type Layout struct {
	Title       string   `json:"title,omitempty"`
	Description string   `json:"description,omitempty"`
	Headline    string   `json:"headline,omitempty"` // before what was found; empty: that is it
	Notes       []string `json:"notes,omitempty"`
	// Series are the columns that make a series of the charts. Nil: the GPUs, the
	// engine, and what the lab varies of engines. Cells that are then the same in
	// all that a chart tells apart are shown as repetitions are.
	Series []string `json:"series,omitempty"`
	// Baseline is the engine, or the name of the series, that others are held against. Empty: where
	// loads have names, the first.
	Baseline string `json:"baseline,omitempty"`
	// Columns are the metrics of the tables, in order. Nil: those that matter most.
	Columns []string `json:"columns,omitempty"`
	// Intervals puts beside each figure of the tables where the truth behind it lies in 95 of
	// 100 runs, as far as its run tells.
	Intervals bool `json:"intervals,omitempty"`
	// Automatic are the kinds of charts that follow from what was measured, besides
	// Charts. Nil: all of them.
	Automatic []string `json:"automatic"`
	Charts    []Chart  `json:"charts,omitempty"`
	// NoReferences leaves out what others published; NoPrices leaves out money.
	NoReferences bool `json:"no_references,omitempty"`
	NoPrices     bool `json:"no_prices,omitempty"`
}

// Chart is a chart that a lab asks for.
type Chart struct {
	Title string   `json:"title"`
	X     string   `json:"x"`               // a quantity of the load, a metric, or another column
	Y     []string `json:"y"`               // metrics, each with a panel of its own
	Where string   `json:"where,omitempty"` // a condition of package where; empty: all cells
	// Label is, over a metric, the quantity of the load beside the points; empty: the one with most points.
	Label string `json:"label,omitempty"`
	Note  string `json:"note,omitempty"`
}

// The kinds of charts that follow from what was measured.
const (
	AutomaticBenchmarks    = "benchmarks"
	AutomaticPrefixCache   = "prefix-cache"
	AutomaticDistributions = "distributions"
	AutomaticTimeLines     = "time-lines"
)

func (l *Layout) automatic(kind string) bool {
	return l.Automatic == nil || slices.Contains(l.Automatic, kind)
}

// Apply is what the layout leaves of rows and of what is told beside them.
func (l Layout) Apply(rows []results.Row, about About) ([]results.Row, About) {
	about.Layout = l
	about.Title = cmp.Or(l.Title, about.Title)
	about.Description = cmp.Or(l.Description, about.Description)
	if l.NoReferences {
		about.References = nil
	}
	if l.NoPrices {
		about.Spending, rows = nil, slices.Clone(rows)
		for i := range rows {
			d := &rows[i].Deployment
			d.PricePerHour, d.Members = 0, slices.Clone(d.Members)
			for j := range d.Members {
				d.Members[j].Price = 0
			}
		}
	}
	return rows, about
}

// ConditionNames are all that conditions may be about, besides the axes of a lab and percentiles.
func ConditionNames() []string { return newFields(nil).names() }

func chosen(names []string) []Metric {
	var out []Metric
	for _, name := range names {
		if m, ok := metricNamed(name); ok {
			out = append(out, m)
		}
	}
	return out
}

// asked are the charts that the layout asks for, and why some of them are missing.
func (l *Layout) asked(cells []*sample, rows []results.Row) section {
	out := section{ID: "charts", Title: "Charts"}
	columns := newFields(rows)
	for i, c := range l.Charts {
		figures, why := c.figures(cells, columns)
		for n, f := range figures {
			f.ID = strings.TrimSuffix(fmt.Sprintf("chart-%d-%s", i+1, slug(c.Title)), "-")
			if n > 0 {
				f.ID += fmt.Sprintf("-%d", n+1)
			}
			f.Title = c.Title
			f.Hero = len(f.Charts) == 1 && f.Charts[0].Groups == nil
			if c.Note != "" {
				f.Notes = append([]string{c.Note}, f.Notes...)
			}
			out.Figures = append(out.Figures, f)
		}
		if why != "" {
			out.Left = append(out.Left, c.Title+": "+why)
		}
	}
	return out
}

// figures draws the chart: one for each combination of what else differs in the load.
func (c Chart) figures(cells []*sample, columns fields) (figures []*figure, why string) {
	if c.Where != "" {
		holds, err := where.Parse(c.Where, columns.names())
		if err != nil { // a column that none of these results has
			return nil, "no result has what its condition is about."
		}
		cells = slices.DeleteFunc(slices.Clone(cells), func(s *sample) bool { return !holds(columns.of(s.rows[0])) })
	}
	if len(cells) == 0 {
		return nil, "no result meets its condition."
	}
	metrics := chosen(c.Y)
	if mx, over := metricNamed(c.X); over {
		return sliced(slicesAlong(c.label(cells), cells), func(x slice) *figure {
			f := &figure{Notes: []string{beside(x)}}
			for _, my := range metrics {
				f.Charts = append(f.Charts, x.tradeoff(mx, my))
			}
			return f
		})
	}
	if i := slices.IndexFunc(dimensions, func(d dimension) bool { return d.name == c.X }); i >= 0 {
		return sliced(slicesAlong(dimensions[i], cells), func(x slice) *figure {
			f := &figure{}
			for _, m := range metrics {
				panel := x.against(m)
				panel.Seconds()
				f.Charts = append(f.Charts, panel)
			}
			return f
		})
	}
	return c.sideBySide(cells, columns[c.X], metrics)
}

const noFigures = "no result has its figures."

// sliced draws a figure for each slice that has something to show.
func sliced(all []slice, draw func(x slice) *figure) (figures []*figure, why string) {
	if len(all) == 0 {
		return nil, "no series was measured at two places along it."
	}
	if more := len(all) - maxSlices; more > 0 {
		why = fmt.Sprintf("%d more combinations of what else differs; a condition picks one.", more)
		all = all[:maxSlices]
	}
	for _, x := range all {
		f := draw(x)
		f.Under = x.under()
		if f.drawn() {
			figures = append(figures, f)
		}
	}
	if len(figures) == 0 {
		return nil, noFigures
	}
	return figures, why
}

// label is the quantity that stands beside the points of a chart over a metric.
func (c Chart) label(cells []*sample) dimension {
	best, most := dimensions[0], 0
	for _, d := range dimensions {
		if d.name == c.Label {
			return d
		}
		if all := slicesAlong(d, cells); len(all) > 0 && all[0].points > most {
			best, most = d, all[0].points
		}
	}
	return best
}

// sideBySide are bars, one for each value of a column, those under the same load together.
func (c Chart) sideBySide(cells []*sample, column field, metrics []Metric) ([]*figure, string) {
	if column == nil {
		return nil, fmt.Sprintf("no result has a column %q.", c.X)
	}
	f := &figure{}
	for _, m := range metrics {
		bars := loads(cells, m, func(s *sample) (string, bool) {
			v, has := column(s.rows[0])
			return columnText(v), has
		})
		if len(bars.Groups) > maxGroups {
			return nil, fmt.Sprintf("%d loads are too many for bars; a condition picks some.", len(bars.Groups))
		}
		bars.Seconds()
		f.Charts = append(f.Charts, bars)
	}
	if !f.drawn() {
		return nil, noFigures
	}
	return []*figure{f}, ""
}

// columnText is a value of a column as a chart shows it.
func columnText(v any) string {
	if names, ok := v.([]string); ok {
		v = names[0]
	}
	return axisText(v)
}
