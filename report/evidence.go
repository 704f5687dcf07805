package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/report/chart"
	"hclbench/report/number"
	"hclbench/results"
)

// evidence is what is known of one figure of one cell. Tables, charts, comparisons, gates and the page
// take figures from nowhere else.
type evidence struct {
	Spread                     // of values
	chart.Trust                // how far they can be relied on, and of which kind of run they are
	values      []float64      // of the repetitions that count: of those in no doubt, or else of all
	of          int            // repetitions that have the figure
	bounds      *load.Interval // of a single one: where the truth lies in 95 of 100 runs; nil: it does not tell
	needs       int            // requests that the percentile needs, of which a repetition had too few; 0: none had
	judged      string         // by what it was worked out beside what was measured: SLO or price
}

// weigh is the evidence of a metric over the repetitions of a cell; false: none has it. Reasons that are
// shared stand against all cells of a report: they make a figure suspect, and set it apart from no other.
func weigh(m Metric, rows []*results.Row, shared []string) (e evidence, ok bool) {
	var sure, all []*results.Row
	suspects := 0
	for _, r := range rows {
		e.needs = max(e.needs, m.lacks(r))
		if _, ok := m.value(r); !ok {
			continue
		}
		all = append(all, r)
		if !doubtful(r.Verdict(), m, shared) {
			sure = append(sure, r)
		}
	}
	if len(all) == 0 {
		return e, false
	}
	e.of, e.Doubt, e.Kind, e.Fast = len(all), len(sure) == 0, kindOfRun(all[0]), isFast(all[0])
	if e.Doubt {
		sure = all
	}
	for _, r := range sure {
		v, _ := m.value(r) // it has one
		e.values = append(e.values, v)
		if r.Verdict().Doubts(m.Name) {
			suspects++
		}
		if m.judged != nil {
			e.judged = m.judged(r)
		}
	}
	e.Spread, e.Suspect = spread(e.values), suspects == len(sure)
	if x, ok := m.interval(all[0]); ok && len(all) == 1 {
		e.bounds = &x
	}
	return e, true
}

// doubtful reports whether a metric of a suspect row is so for reasons of its own.
func doubtful(v load.Verdict, m Metric, shared []string) bool {
	if isSuspect(v) && len(v.Reasons) > 0 && len(shared) > 0 {
		v.Reasons = slices.DeleteFunc(slices.Clone(v.Reasons), func(r load.Reason) bool { return slices.Contains(shared, r.Text) })
		return len(v.Reasons) > 0 && v.Doubts(m.Name)
	}
	return isSuspect(v) && v.Doubts(m.Name)
}

// sharedReasons are those that stand against every cell that measured something:
// they are about the report, not about a cell.
func sharedReasons(rows []results.Row) (shared []string) {
	for i, r := range those(rows, isMeasured) {
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

func spread(values []float64) Spread {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return Spread{N: n, Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1]}
}

// text is the median, with half the range of the repetitions.
func (s Spread) text() string {
	t := number.Text(s.Median)
	if s.N > 1 && s.Median > 0 {
		t += " ±" + number.Share(max(s.Max-s.Median, s.Median-s.Min)/s.Median)
	}
	return t
}

// dot is the evidence as charts show it.
func (e evidence) dot(ref int) chart.Dot {
	d := chart.Dot{Y: e.Median, Low: e.Min, High: e.Max, N: e.N, Of: e.of, Ref: ref, Trust: e.Trust}
	if e.bounds != nil {
		d.From, d.To = e.bounds.Low, e.bounds.High
	}
	return d
}

// place is what makes two rows the same cell: they are repetitions of it.
type place struct {
	label    string // what it is called
	identity string // what is known to have gone in
	kind     string // of run
	stale    bool
}

func placeOf(r *results.Row) place {
	p := place{labelOf(r), identityOf(r), kindOfRun(r), r.Stale}
	if p.kind == "published" { // what was published of one cell is no repetition of it
		p.identity += "\x00" + r.Run.ID
	}
	return p
}

// identityOf is what the plan says of the cell without its repetition, or else all
// that is known to have gone into the measurement.
func identityOf(r *results.Row) string {
	if r.Group != "" {
		return r.Group
	}
	identity := map[string]string{}
	maps.Copy(identity, r.Identity)
	delete(identity, "repetition")
	d := &r.Deployment
	known := struct {
		Cell, Deployment             map[string]string
		ID, Kind, GPUs, Model, Image string
		Command                      []string
		Work                         any
	}{identity, d.Identity, r.DeploymentID, d.Kind, d.GPUs, d.Model, d.Image, d.Command, r.Job.Work()}
	text, err := json.Marshal(known)
	if err != nil {
		text = fmt.Append(nil, known) // a rate that is no number
	}
	return string(text)
}

// labelOf is what a cell is called: its benchmark, its engine, be it an axis or not, and its axes in any order.
func labelOf(r *results.Row) string {
	engine := r.Deployment.Engine
	if v, ok := r.Axes.Value("engine"); ok {
		engine = axisText(v)
	}
	key := r.Benchmark + "\x00" + engine
	axes := slices.Clone(r.Axes)
	slices.SortFunc(axes, func(a, b results.Axis) int { return cmp.Compare(a.Name, b.Name) })
	for _, a := range axes {
		if a.Name != "engine" {
			key += "\x00" + a.Name + "=" + axisText(a.Value)
		}
	}
	return key
}

// under is what makes two cells cells under the same load.
type under struct {
	benchmark, dataset, words string
	at                        [5]float64 // along each of [dimensions]
}

// underLoad is the load of a row. Columns of published tables that are of the load are told, and what is
// left out is not looked at.
func underLoad(r *results.Row, told []string, without ...string) under {
	u := under{benchmark: r.Benchmark, dataset: dataset(r)}
	for i, d := range dimensions {
		if v, ok := d.value(r); ok && !slices.Contains(without, d.name) {
			u.at[i] = v
		}
	}
	u.words = fmt.Sprint(others(r, told))
	return u
}

// ownKind is the kind of run that a report is about: what was measured here, or else the nearest to it. What
// is of another kind stands beside that, and leads nothing.
func ownKind(rows []results.Row) string {
	kinds := []string{"", "rehearsal", "imported", "published"}
	own := len(kinds)
	for _, r := range those(rows, isMeasured) {
		own = min(own, slices.Index(kinds, kindOfRun(r)))
	}
	return slices.Concat(kinds, kinds[:1])[own]
}

// grouped puts together what has the same key, in the order of the first of each.
func grouped[T any, K comparable](all []T, key func(T) K) (groups [][]T) {
	at := map[K]int{}
	for _, x := range all {
		k := key(x)
		i, known := at[k]
		if !known {
			i = len(groups)
			at[k] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], x)
	}
	return groups
}

// listedWith are the texts that are not empty.
func listedWith(separator string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), separator)
}

// once appends what is not among all yet.
func once[T comparable](all []T, more ...T) []T {
	for _, x := range more {
		if !slices.Contains(all, x) {
			all = append(all, x)
		}
	}
	return all
}

// those are the rows that are to be kept.
func those(rows []results.Row, keep func(r *results.Row) bool) (kept []*results.Row) {
	for i := range rows {
		if keep(&rows[i]) {
			kept = append(kept, &rows[i])
		}
	}
	return kept
}

// cells are the repetitions of each cell.
func cells(rows []results.Row, keep func(r *results.Row) bool) [][]*results.Row {
	return grouped(those(rows, keep), placeOf)
}

func valuesOf(m Metric, rows []*results.Row) (values []float64) {
	for _, r := range rows {
		if v, ok := m.value(r); ok {
			values = append(values, v)
		}
	}
	return values
}

// level is how little two figures may differ, as a share, before one of them is ahead.
const level = 0.01

// certainty is what can be said of a question.
type certainty int

const (
	unknown certainty = iota // too few repetitions tell
	so
	notSo
)

// differs says whether two figures differ by more than chance and a hundredth: repetitions tell, or else
// nobody does.
func (e evidence) differs(from evidence) certainty {
	switch {
	case e.judged != from.judged || e.needs > 0 || from.needs > 0:
		return unknown
	case e.N >= fewest && from.N >= fewest:
		if rankTest(e.values, from.values) < significance {
			return so
		}
		return notSo
	case rankTest(e.values, from.values) < significance:
		return so
	case e.Median == from.Median || math.Abs(e.Median/from.Median-1) < level:
		return notSo
	}
	return unknown
}

// even reports whether nobody can say which of two is ahead: they do not differ, or their ranges, where
// repetitions are too few for a test, have a value in common.
func (e evidence) even(with evidence) bool {
	if e.Median == with.Median || math.Abs(e.Median/with.Median-1) < level {
		return true
	}
	switch e.differs(with) {
	case so:
		return false
	case notSo:
		return true
	}
	return e.N+with.N > 2 && e.Min <= with.Max && with.Min <= e.Max
}

// lead is the one ranking: of offers under one load the best, with all that are level with it, and those
// that would be the best were they not in doubt. Who is alone leads where alone says so.
func lead[T any](better int, all []T, of func(T) evidence, alone bool) (best, beyond []T) {
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
		if ahead && of(doubted[0]).even(of(x)) {
			beyond = append(beyond, x)
		}
	}
	for _, x := range sure {
		if (len(sure) > 1 || alone) && of(sure[0]).even(of(x)) {
			best = append(best, x)
		}
	}
	return best, beyond
}

// rivals are the cells under each load, as their repetitions, of the kind of run that the rows are about.
func rivals(rows []results.Row) (loads [][][]*results.Row) {
	own := ownKind(rows)
	_, told := caseAxes(rows)
	current := those(rows, func(r *results.Row) bool { return isMeasured(r) && !r.Stale && kindOfRun(r) == own })
	for _, of := range grouped(current, func(r *results.Row) under { return underLoad(r, told) }) {
		if cells := grouped(of, placeOf); len(cells) > 1 {
			loads = append(loads, cells)
		}
	}
	return loads
}

// leaders are the cells that lead under each load.
func leaders(m Metric, loads [][][]*results.Row, shared []string) (all [][]*results.Row) {
	type cell struct {
		rows []*results.Row
		evidence
	}
	for _, of := range loads {
		var cells []cell
		for _, rows := range of {
			if e, ok := weigh(m, rows, shared); ok {
				cells = append(cells, cell{rows, e})
			}
		}
		best, _ := lead(m.Better, cells, func(c cell) evidence { return c.evidence }, false)
		for _, c := range best {
			all = append(all, c.rows)
		}
	}
	return all
}
