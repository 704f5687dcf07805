package figure

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"hclbench/load"
	"hclbench/report/chart"
	"hclbench/report/number"
	"hclbench/results"
)

// Evidence is what is known of one figure of one cell. Tables, charts, comparisons, gates and the page
// take figures from nowhere else.
type Evidence struct {
	Spread                     // of values
	chart.Trust                // how far they can be relied on, and of which kind of run they are
	Values      []float64      // of the repetitions that count: of those in no doubt, or else of all
	Of          int            // repetitions that have the figure
	bounds      *load.Interval // of a single one: where the truth lies in 95 of 100 runs; nil: it does not tell
	Needs       int            // requests that the percentile needs, of which a repetition had too few; 0: none had
	unrest                     // of the boxes that it was measured on
	Judged      string         // by what it was worked out beside what was measured: SLO or price
}

// Weigh is the evidence of a metric over the repetitions of a cell; false: none has it. Reasons that are
// shared stand against all cells of a report: they make a figure suspect, and set it apart from no other.
func Weigh(m Metric, rows []*results.Row, shared []string) (e Evidence, ok bool) {
	var sure, all []*results.Row
	suspects := 0
	for _, r := range rows {
		e.Needs = max(e.Needs, m.Lacks(r))
		if _, ok := m.Value(r); !ok {
			continue
		}
		all = append(all, r)
		if !Doubtful(r.Verdict(), m, shared) {
			sure = append(sure, r)
		}
	}
	if len(all) == 0 {
		return e, false
	}
	e.Of, e.Doubt, e.Kind, e.Fast = len(all), len(sure) == 0, KindOfRun(all[0]), IsFast(all[0])
	if e.Doubt {
		sure = all
	}
	for _, r := range sure {
		v, _ := m.Value(r) // it has one
		e.Values = append(e.Values, v)
		if r.Verdict().Doubts(m.Name) {
			suspects++
		}
		if m.judged != nil {
			e.Judged = m.judged(r)
		}
	}
	e.Spread, e.Suspect, e.unrest = SpreadOf(e.Values), suspects == len(sure), unrestOf(m, sure)
	if x, ok := m.Interval(all[0]); ok && len(all) == 1 {
		e.bounds = &x
	}
	return e, true
}

// Doubtful reports whether a metric of a suspect row is so for reasons of its own.
func Doubtful(v load.Verdict, m Metric, shared []string) bool {
	if IsSuspect(v) && len(v.Reasons) > 0 && len(shared) > 0 {
		v.Reasons = slices.DeleteFunc(slices.Clone(v.Reasons), func(r load.Reason) bool { return slices.Contains(shared, r.Text) })
		return len(v.Reasons) > 0 && v.Doubts(m.Name)
	}
	return IsSuspect(v) && v.Doubts(m.Name)
}

// SharedReasons are those that stand against every cell that measured something:
// they are about the report, not about a cell.
func SharedReasons(rows []results.Row) (shared []string) {
	for i, r := range Those(rows, IsMeasured) {
		reasons := r.Verdict().Texts()
		if i == 0 {
			shared = slices.Clone(reasons)
		}
		shared = slices.DeleteFunc(shared, func(reason string) bool { return !slices.Contains(reasons, reason) })
	}
	return shared
}

// Spread is a metric over the repetitions of a cell.
type Spread struct {
	N      int     `json:"n"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// SpreadOf is the spread of values, of which there must be one.
func SpreadOf(values []float64) Spread {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return Spread{N: n, Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1]}
}

// dot is the evidence as charts show it.
func (e Evidence) dot(ref int) chart.Dot {
	d := chart.Dot{Y: e.Median, Low: e.Min, High: e.Max, N: e.N, Of: e.Of, Ref: ref, Trust: e.Trust}
	if e.bounds != nil {
		d.From, d.To = e.bounds.Low, e.bounds.High
	}
	return d
}

// Level is how little two figures may differ, as a share, before one of them is ahead.
const Level = 0.01

// certainty is what can be said of a question.
type certainty int

const (
	Unknown certainty = iota // too few repetitions tell
	so
	NotSo
)

// Differs says whether two figures differ by more than chance, a hundredth, and what their boxes can show: repetitions
// tell, or else nobody does. Those of one start know nothing of other starts, so that a box's noise goes before them.
func (e Evidence) Differs(from Evidence) certainty {
	switch {
	case e.Judged != from.Judged || e.Needs > 0 || from.Needs > 0:
		return Unknown
	case e.Within(from):
		return NotSo
	case e.N >= Fewest && from.N >= Fewest:
		if RankTest(e.Values, from.Values) < Significance {
			return so
		}
		return NotSo
	case RankTest(e.Values, from.Values) < Significance:
		return so
	case e.Median == from.Median || math.Abs(e.Median/from.Median-1) < Level:
		return NotSo
	}
	return Unknown
}

// Even reports whether nobody can say which of two is ahead: they do not differ, or their ranges, where
// repetitions are too few for a test, have a value in common.
func (e Evidence) Even(with Evidence) bool {
	if e.Median == with.Median || math.Abs(e.Median/with.Median-1) < Level {
		return true
	}
	switch e.Differs(with) {
	case so:
		return false
	case NotSo:
		return true
	}
	return e.N+with.N > 2 && e.Min <= with.Max && with.Min <= e.Max
}

// Lead is the one ranking: of offers under one load the best, with all that are level with it, and those
// that would be the best were they not in doubt. Who is alone leads where alone says so.
func Lead[T any](better int, all []T, of func(T) Evidence, alone bool) (best, beyond []T) {
	order := func(doubt bool) []T {
		list := slices.DeleteFunc(slices.Clone(all), func(x T) bool { return of(x).Doubt != doubt })
		slices.SortStableFunc(list, func(a, b T) int {
			return cmp.Compare(of(b).Median*float64(better), of(a).Median*float64(better))
		})
		return list
	}
	if better == 0 || slices.ContainsFunc(all, func(x T) bool { return of(x).Fast }) {
		return nil, nil
	}
	sure, doubted := order(false), order(true)
	for _, x := range doubted {
		ahead := len(sure) == 0 || (of(x).Median-of(sure[0]).Median)*float64(better) > 0
		if ahead && of(doubted[0]).Even(of(x)) {
			beyond = append(beyond, x)
		}
	}
	for _, x := range sure {
		if (len(sure) > 1 || alone) && of(sure[0]).Even(of(x)) {
			best = append(best, x)
		}
	}
	return best, beyond
}

// Rivals are the cells under each load, as their repetitions, of the kind of run that the rows are about.
func Rivals(rows []results.Row) (loads [][][]*results.Row) {
	own := OwnKind(rows)
	_, told := CaseAxes(rows)
	current := Those(rows, func(r *results.Row) bool { return IsMeasured(r) && !r.Stale && KindOfRun(r) == own })
	for _, of := range Grouped(current, func(r *results.Row) Load { return LoadOf(r, told) }) {
		if cells := Grouped(of, PlaceOf); len(cells) > 1 {
			loads = append(loads, cells)
		}
	}
	return loads
}

// Leaders are the cells that lead under each load.
func Leaders(m Metric, loads [][][]*results.Row, shared []string) (all [][]*results.Row) {
	type cell struct {
		rows []*results.Row
		Evidence
	}
	for _, of := range loads {
		var cells []cell
		for _, rows := range of {
			if e, ok := Weigh(m, rows, shared); ok {
				cells = append(cells, cell{rows, e})
			}
		}
		best, _ := Lead(m.Better, cells, func(c cell) Evidence { return c.Evidence }, false)
		for _, c := range best {
			all = append(all, c.rows)
		}
	}
	return all
}

// NoneFailed reports whether it is known that no request failed in any repetition.
func NoneFailed(rows []*results.Row) bool {
	values := ValuesOf(Failed, rows)
	return len(values) > 0 && len(values) == len(NotVoid(rows)) && slices.Max(values) == 0
}

// MostFailed is how many requests failed in the worst of the repetitions.
func MostFailed(rows []*results.Row) int {
	most := 0
	for _, r := range rows {
		if r.Summary != nil {
			most = max(most, r.Summary.Failed)
		}
	}
	return most
}

// ValuesOf are the values of the rows that have the metric.
func ValuesOf(m Metric, rows []*results.Row) (values []float64) {
	for _, r := range rows {
		if v, ok := m.Value(r); ok {
			values = append(values, v)
		}
	}
	return values
}

// Repeated is a cell that was measured more than once, and how far its
// measurements lie apart. Void ones are not among them.
type Repeated struct {
	Benchmark   string       `json:"benchmark"`
	Engine      string       `json:"engine,omitempty"`
	Deployment  string       `json:"deployment_id,omitempty"`
	Axes        results.Axes `json:"axes"`
	Repetitions int          `json:"repetitions"` // that were measured
	// Figures are, by name, of those that are not suspect, or of all; docs/report.md lists them.
	Figures map[string]Spread `json:"figures"`
}

// Repetitions puts the repetitions of each cell together, in the order of their first: measurements
// of the same thing under the same names. A cell that was measured only once is left out.
func Repetitions(rows []results.Row) []Repeated {
	metrics := AllMetrics(rows)
	var out []Repeated
	for _, c := range CellsOf(rows, IsMeasured) {
		if len(c) < 2 {
			continue
		}
		r := c[0]
		x := Repeated{Benchmark: r.Benchmark, Engine: r.Deployment.Engine, Deployment: r.DeploymentID, Axes: r.Axes,
			Repetitions: len(c), Figures: map[string]Spread{}}
		for _, m := range metrics {
			if e, ok := Weigh(m.Raw(), c, nil); ok {
				x.Figures[m.Name] = e.Spread
			}
		}
		out = append(out, x)
	}
	return out
}

// Used is how many repetitions the figures are of, and of how many, where some are left out.
func (r Repeated) Used() string {
	used := 0
	for _, s := range r.Figures {
		used = max(used, s.N)
	}
	if used < r.Repetitions {
		return fmt.Sprintf("%d of %d", used, r.Repetitions)
	}
	return number.Whole(r.Repetitions)
}
