package figure

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

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
	// Records reads the requests of a cell, for its distributions. Nil: percentiles have to do.
	Records func(r *results.Row) ([]load.Record, error)
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
		return named && !same(a.Value, v)
	})
}

// same compares a lab's value with a published one, which may be text: files of
// comma-separated values have nothing else.
func same(a, b any) bool {
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

// Spending is what one run had of one host.
type Spending struct {
	Run   string  `json:"run"`
	Host  string  `json:"host"`
	Price float64 `json:"price_per_hour,omitempty"` // USD; 0: not known

	// Held is the time from the first start of an engine to the end of the last, in
	// seconds. It divides into Starting (until engines served), Measuring (cells)
	// and Idle, which is the rest: stopping, checks, waiting.
	Held      float64 `json:"held_s"`
	Starting  float64 `json:"starting_s"`
	Measuring float64 `json:"measuring_s"`
	Idle      float64 `json:"idle_s"`

	Cost     float64 `json:"cost_usd,omitempty"`      // of Held
	IdleCost float64 `json:"idle_cost_usd,omitempty"` // of Idle
}

// String is what a run had of a host, in a line.
func (s Spending) String() string {
	part := func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v/max(s.Held, 1e-9)) }
	line := fmt.Sprintf("run %s held host %s for %s: %s starting engines, %s measuring, %s idle",
		s.Run, s.Host, s.HeldText(), part(s.Starting), part(s.Measuring), part(s.Idle))
	if s.Price > 0 {
		line += fmt.Sprintf("; %.2f USD, %.2f of it idle", s.Cost, s.IdleCost)
	}
	return line
}

func (s Spending) HeldText() string {
	return time.Duration(s.Held * float64(time.Second)).Round(time.Second).String()
}

// Spent adds up what runs had of their hosts. It knows what rows know: an engine that never came to
// a cell is not in them. What was imported or rehearsed has held no host.
func Spent(rows []results.Row) (out []Spending) {
	var all []usage
	for i := range rows {
		r := &rows[i]
		if r.Run.Command != "apply" || r.Deployment.Started.IsZero() {
			continue
		}
		for _, of := range Grouped(HostsOf(&r.Deployment), func(m results.Member) string { return m.Host }) {
			if of[0].Host != "" {
				all = append(all, usage{r, of[0]})
			}
		}
	}
	for _, of := range Grouped(all, func(u usage) [2]string { return [2]string{u.RunID, u.member.Host} }) {
		out = append(out, spent(of))
	}
	return out
}

type usage struct {
	*results.Row
	member results.Member
}

type span struct{ from, to time.Time }

// spent is what one run had of one host.
func spent(uses []usage) Spending {
	first := uses[0]
	s := Spending{Run: first.RunID, Host: first.member.Host}
	begin, end := first.Deployment.Started, first.Deployment.Started
	var busy []span // measuring
	served := map[string]bool{}
	for _, r := range uses {
		d := &r.Deployment
		s.Price = max(s.Price, r.member.Price)
		begin = slices.MinFunc([]time.Time{begin, d.Started, r.Started}, time.Time.Compare)
		end = slices.MaxFunc([]time.Time{end, d.Stopped, r.Finished}, time.Time.Compare)
		measured := span{r.Started, r.Finished}
		if r.Job.Batch != nil { // it loads the model itself
			measured.from = r.Finished
			if r.Summary != nil {
				measured.from = r.Finished.Add(-time.Duration(r.Summary.Duration * float64(time.Second)))
			}
			s.Starting += measured.from.Sub(r.Started).Seconds()
		}
		busy = append(busy, measured)
		if !served[d.ID] {
			served[d.ID] = true
			s.Starting += d.Ready
		}
	}
	s.Held = end.Sub(begin).Seconds()
	slices.SortFunc(busy, func(a, b span) int { return a.from.Compare(b.from) })
	var until time.Time // two engines may be measured on one host at once: time counts once
	for _, b := range busy {
		if b.from.Before(until) {
			b.from = until
		}
		if b.to.After(b.from) {
			s.Measuring += b.to.Sub(b.from).Seconds()
			until = b.to
		}
	}
	s.Idle = max(0, s.Held-s.Measuring-s.Starting)
	s.Cost, s.IdleCost = s.Price*s.Held/3600, s.Price*s.Idle/3600
	return s
}
