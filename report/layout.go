package report

import (
	"cmp"
	"regexp"
	"slices"

	"hclbench/results"
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
			rows[i].Deployment.PricePerHour = 0
		}
	}
	return rows, about
}

var timingName = regexp.MustCompile(`^(mean|median|std|min|max|p\d+(?:\.\d+)?)_(ttft|tpot|itl|e2el)_ms$`)

// metricNamed is a metric by its name, whether any row has it or not.
func metricNamed(name string) (metric, bool) {
	if m := timingName.FindStringSubmatch(name); m != nil {
		for _, t := range timings {
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
func MetricNames() []string { return namesOf(allMetrics(nil)) }

func namesOf(metrics []metric) (names []string) {
	for _, m := range metrics {
		names = append(names, m.name)
	}
	return names
}

// IsMetric reports whether a layout may name a metric so.
func IsMetric(name string) bool { _, ok := metricNamed(name); return ok }

// ColumnNames are all that conditions may be about, besides the axes of a lab and
// percentiles.
func ColumnNames() []string { return newFields(nil).names() }

func chosen(names []string) []metric {
	var out []metric
	for _, name := range names {
		if m, ok := metricNamed(name); ok {
			out = append(out, m)
		}
	}
	return out
}
