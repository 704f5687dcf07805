package figure

import (
	"cmp"
	"fmt"
	"slices"

	"hclbench/load"
	"hclbench/results"
	"hclbench/results/formats"
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
	Automatic []string     `json:"automatic"`
	Charts    []AskedChart `json:"charts,omitempty"`
	// NoReferences leaves out what others published; NoPrices leaves out money.
	NoReferences bool `json:"no_references,omitempty"`
	NoPrices     bool `json:"no_prices,omitempty"`
}

// AskedChart is a chart that a lab asks for.
type AskedChart struct {
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

// Draws reports whether charts of a kind are drawn without being asked for.
func (l *Layout) Draws(kind string) bool {
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
		about.Spending, about.Tunings, rows = nil, slices.Clone(about.Tunings), slices.Clone(rows)
		for i, t := range about.Tunings {
			if t.Summary != nil {
				free := *t.Summary
				free.Cost = 0
				about.Tunings[i].Summary = &free
			}
		}
		for i := range rows {
			rows[i].Deployment = rows[i].Deployment.WithoutPrices()
		}
	}
	return rows, about
}

// About is what a report tells beside what is in its rows. The zero value is a
// report about the rows alone.
type About struct {
	Title       string
	Description string
	Version     string // of hcl
	Layout      Layout
	References  []Compared
	Planned     []Planned // the lab's cells; nil: the lab's text is not at hand
	Spending    []Spending
	Found
	// Records reads the requests of a cell, for its distributions. Nil: percentiles have to do.
	Records func(r *results.Row) ([]load.Record, error)
}

// Found is what was found out beside the cells, and by them.
type Found struct {
	Capacities []results.Capacity // by searches
	Tunings    []results.Ledger
	Scores     []results.Scored // of answers to questions
}

// Untried are the rows that no search has tried and no tuning made. What a search tries it leaves as soon as it is certain of
// the load, and of what a tuning starts in its search the best is too good: such a cell is no repetition of anything, and no rival.
func (f *Found) Untried(rows []results.Row) []results.Row {
	capacities, tunings := Capacities(rows, f.Capacities), Tunings(rows, f.Tunings)
	return slices.DeleteFunc(slices.Clone(rows), func(r results.Row) bool {
		_, l := TriedBy(capacities, &r)
		return l != nil || slices.ContainsFunc(tunings, func(t *Tuning) bool { return t.Made(&r) })
	})
}

// Series are those of rows and of what others published.
func (a *About) Series(rows []results.Row) *Series {
	return NewSeries(slices.Concat(rows, PublishedRows(rows, *a)), a.Layout.Series)
}

// PublishedRows are what others published, each as if it were a cell: the one that was measured, or
// else the only one that the lab plans and it can be of. What could be of several has no place
// among them. None is a repetition of another: two of one cell differ in what the lab has no axis for.
func PublishedRows(rows []results.Row, about About) (out []results.Row) {
	if slices.ContainsFunc(rows, func(r results.Row) bool { return IsFast(&r) }) {
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
