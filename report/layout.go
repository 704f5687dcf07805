package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"hclbench/results"
	"hclbench/where"
)

// Layout is what a lab wants in its report. The zero value leaves everything to
// what was measured.
type Layout struct {
	Title       string   `json:"title,omitempty"`
	Description string   `json:"description,omitempty"`
	Notes       []string `json:"notes,omitempty"`
	// Series are the columns that make a series of the charts. Nil: the GPUs, the
	// engine, and what the lab varies of engines. Cells that are then the same in
	// all that a chart tells apart are shown as repetitions are.
	Series []string `json:"series,omitempty"`
	// Columns are the metrics of the tables, in order. Nil: those that matter most.
	Columns []string `json:"columns,omitempty"`
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
	Label string   `json:"label,omitempty"` // over a metric: the quantity of the load beside the points; empty: the one with most points
	Note  string   `json:"note,omitempty"`
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

// priced are the rows as the layout shows them: without prices, where it wants none.
func (l *Layout) priced(rows []results.Row) []results.Row {
	if !l.NoPrices {
		return rows
	}
	rows = slices.Clone(rows)
	for i := range rows {
		rows[i].Deployment.PricePerHour = 0
	}
	return rows
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
		about.Spending = nil
	}
	return l.priced(rows), about
}

var timingName = regexp.MustCompile(`^(mean|median|std|min|max|p\d+(?:\.\d+)?)_(ttft|tpot|itl|e2el)_ms$`)

// metricNamed is a metric by its name, whether any row has it or not.
func metricNamed(name string) (metric, bool) {
	if m := timingName.FindStringSubmatch(name); m != nil {
		for _, t := range []timing{ttft, tpot, itl, e2el} {
			if t.key == m[2] {
				return latency(t, m[1]), true
			}
		}
	}
	all := allMetrics(nil)
	i := slices.IndexFunc(all, func(m metric) bool { return m.name == name })
	if i < 0 {
		return metric{}, false
	}
	return all[i], true
}

// MetricNames are the metrics that a layout may name, in the order of [CSV];
// besides them any percentile, such as p99_ttft_ms.
func MetricNames() []string {
	var names []string
	for _, m := range allMetrics(nil) {
		names = append(names, m.name)
	}
	return names
}

// IsMetric reports whether a layout may name a metric so.
func IsMetric(name string) bool { _, ok := metricNamed(name); return ok }

// ColumnNames are all that conditions may be about, besides the axes of a lab and
// percentiles.
func ColumnNames() []string { return newFields(nil).names() }

// chosen are the metrics of these names.
func chosen(names []string) []metric {
	var out []metric
	for _, name := range names {
		if m, ok := metricNamed(name); ok {
			out = append(out, m)
		}
	}
	return out
}

// asked are the charts that the layout asks for, and why some of them are missing.
func (l *Layout) asked(cells []*sample, rows []results.Row, published publishedOf) section {
	out := section{id: "charts", title: "Charts"}
	columns := newFields(rows)
	for i, c := range l.Charts {
		figures, why := c.figures(cells, columns, published)
		for n, f := range figures {
			f.id = strings.TrimSuffix(fmt.Sprintf("chart-%d-%s", i+1, slug(c.Title)), "-")
			if n > 0 {
				f.id += fmt.Sprintf("-%d", n+1)
			}
			f.title = c.Title
			f.hero = len(f.charts) == 1 && f.charts[0].groups == nil
			if c.Note != "" {
				f.readings = append([]string{c.Note}, f.readings...)
			}
			out.figures = append(out.figures, f)
		}
		if why != "" {
			out.left = append(out.left, c.Title+": "+why)
		}
	}
	return out
}

// figures draws the chart: one for each combination of what else differs in the
// load.
func (c Chart) figures(cells []*sample, columns fields, published publishedOf) (figures []*figure, why string) {
	if c.Where != "" {
		holds, err := where.Parse(c.Where, columns.names())
		if err != nil { // a column that none of these results has
			return nil, "no result has what its condition is about."
		}
		var kept []*sample
		for _, s := range cells {
			if holds(columns.of(s.rows[0])) {
				kept = append(kept, s)
			}
		}
		cells = kept
	}
	if len(cells) == 0 {
		return nil, "no result meets its condition."
	}
	metrics := chosen(c.Y)
	if mx, over := metricNamed(c.X); over {
		along := c.label(cells)
		return sliced(slicesAlong(along, cells), func(x slice) *figure {
			f := &figure{readings: []string{"Numbers beside the points: " + lower(along.title) + "."}}
			for _, my := range metrics {
				chart := x.tradeoff(mx, my)
				chart.better = corner(mx, my)
				f.charts = append(f.charts, chart)
			}
			return f
		})
	}
	if i := slices.IndexFunc(dimensions, func(d dimension) bool { return d.name == c.X }); i >= 0 {
		return sliced(slicesAlong(dimensions[i], cells), func(x slice) *figure {
			f := &figure{}
			for _, m := range metrics {
				chart := x.against(m)
				f.cite(published.add(chart, x, m))
				f.charts = append(f.charts, chart)
			}
			return f
		})
	}
	return c.sideBySide(cells, columns[c.X], metrics)
}

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
		f.under = x.under()
		if f.charts = slices.DeleteFunc(f.charts, (*chart).empty); len(f.charts) > 0 {
			figures = append(figures, f)
		}
	}
	if len(figures) == 0 {
		return nil, "no result has its figures."
	}
	return figures, why
}

// corner says where good points are.
func corner(mx, my metric) string {
	if mx.better == 0 || my.better == 0 {
		return ""
	}
	across, up := "right", "up"
	if mx.better < 0 {
		across = "left"
	}
	if my.better < 0 {
		up = "down"
	}
	return up + " and to the " + across + " is better"
}

// label is the quantity that stands beside the points of a chart over a metric.
func (c Chart) label(cells []*sample) dimension {
	best, most := dimensions[0], -1
	for _, d := range dimensions {
		points := 0
		for _, x := range slicesAlong(d, cells) {
			points = max(points, x.points)
		}
		if d.name == c.Label {
			return d
		}
		if points > most {
			best, most = d, points
		}
	}
	return best
}

// sideBySide are bars, one for each value of a column, those under the same load
// together.
func (c Chart) sideBySide(cells []*sample, column field, metrics []metric) ([]*figure, string) {
	if column == nil {
		return nil, fmt.Sprintf("no result has a column %q.", c.X)
	}
	f := &figure{}
	for _, m := range metrics {
		bars := loads(cells, m, func(s *sample) (string, bool) {
			v, has := column(s.rows[0])
			return columnText(v), has
		})
		if len(bars.groups) > maxGroups {
			return nil, fmt.Sprintf("%d loads are too many for bars; a condition picks some.", len(bars.groups))
		}
		bars.secondsOfBars()
		if !bars.empty() {
			f.charts = append(f.charts, bars)
		}
	}
	if len(f.charts) == 0 {
		return nil, "no result has its figures."
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
