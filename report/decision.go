package report

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"hclbench/report/chart"
	"hclbench/report/number"
	"hclbench/results"
)

// decision is a table to decide by: a row for each series, a column for each place, which is a
// level of service, a load or a case. Every value is one that a cell has; none is interpolated.
type decision struct {
	ID       string // unique in its answer: "median_ttft_ms-concurrency"
	Title    string
	Under    string // what its columns are
	Metric   string
	Unit     string
	Better   int // more is better: 1; less is: −1
	Places   []spot
	Rows     []decisionRow
	Baseline int // the row that changes are against; −1: none

	of    Metric
	unit  string // of its places, within a sentence: "in flight"; empty: they have names
	alone bool   // a series that is alone at a place leads there: no other one gets so far
}

// spot is a column of a decision.
type spot struct {
	Name  string  `json:"name"`            // above the column: "64", "≥ 20"
	Kind  string  `json:"kind,omitempty"`  // "peak": the most whatever users get; "slo": within the SLO; empty: any other
	Level float64 `json:"level,omitempty"` // how fast each user is served there at least; 0: whatever

	value string // within a sentence: "64"
}

type decisionRow struct {
	Choices []choice

	series *chart.Series
}

// choice is what a series offers at a place.
type choice struct {
	evidence
	Best   bool     // of all that is not in doubt; several are, where they are level
	Beyond bool     // it would be the best, were it not in doubt
	Change *float64 // against the baseline: 0.12 is 12 % more; nil: there is none
	At     string   // the load of its cell, where the place does not say it: "64 in flight"

	cell    *sample
	suspect *choice // beside one that is not in doubt: the best of its series there that is; nil: there is none
}

// known reports whether the series offers anything.
func (c *choice) known() bool { return c.N > 0 }

// choice is what the cell offers of a metric.
func (s *sample) choice(m Metric) choice {
	e, _ := s.weigh(m)
	return choice{evidence: e, cell: s}
}

// inFlight are the dimensions as sentences say them after a number.
var inFlight = map[string]string{"concurrency": "in flight", "rate": "requests a second", "batch": "requests at once",
	"input_tokens": "tokens in", "output_tokens": "tokens out"}

// byPlace is a metric at each load, or under each case, that cells of the answer have.
func (a *answer) byPlace(m Metric) *decision {
	d := newDecision(m, "load", "", "")
	if x := a.along; x != nil {
		d = newDecision(m, x.name, x.title+", "+x.unit, inFlight[x.name])
	}
	d.Places = a.places
	for _, series := range seriesIn(a.cells) {
		row := decisionRow{series: series, Choices: make([]choice, len(d.Places))}
		for n, s := range a.cells {
			if i := a.at[n]; s.series == series {
				row.Choices[i] = surer(m, row.Choices[i], s.choice(m))
			}
		}
		d.Rows = append(d.Rows, row)
	}
	return d
}

// byService is the most of a metric that each series gives while it serves every user at least so
// fast: of its cells, the one that gives most. The first place is the most whatever users get.
func (x slice) byService(m Metric) *decision {
	d := newDecision(m, "service", "by how fast each user is served: "+interactivity.Unit+" per user, at least",
		"tok/s per user")
	speeds := map[*sample]chart.Dot{}
	var seen []float64
	for _, s := range x.samples {
		if v, ok := s.value(interactivity); ok {
			speeds[s] = v
			seen = append(seen, v.Y)
		}
	}
	levels := levelsOf(seen)
	d.Places = []spot{{Name: "peak", Kind: "peak", value: "peak"}}
	if slices.ContainsFunc(x.samples, func(s *sample) bool { return metText(s.rows[0]) != "" }) {
		d.Places = append(d.Places, spot{Name: "within SLO", Kind: "slo", value: "within the SLO"})
	}
	first := len(d.Places)
	if first+len(levels) == 1 {
		return d
	}
	for _, v := range levels {
		d.Places = append(d.Places, spot{Name: "≥ " + number.Short(v), Level: v, value: number.Short(v)})
	}
	least := x.ticks()[0]
	d.alone = true // as far as each was tried where users wait least
	for _, series := range seriesIn(x.samples) {
		row := decisionRow{series: series, Choices: make([]choice, len(d.Places))}
		tried := false
		for _, s := range x.samples {
			if s.series != series {
				continue
			}
			tried = tried || s.at[x.along.name] == least
			c := s.choice(m)
			c.At = strings.TrimSpace(number.Short(s.at[x.along.name]) + " " + inFlight[x.along.name])
			row.Choices[0] = surer(m, row.Choices[0], c)
			speed, ok := speeds[s]
			c.Doubt = c.Doubt || speed.Doubt
			if first > 1 && !slices.ContainsFunc(s.rows, func(r *results.Row) bool { return metText(r) != "met" }) {
				row.Choices[1] = surer(m, row.Choices[1], c)
			}
			for i, v := range levels {
				if ok && speed.Y >= v {
					row.Choices[first+i] = surer(m, row.Choices[first+i], c)
				}
			}
		}
		d.alone = d.alone && tried
		d.Rows = append(d.Rows, row)
	}
	return d
}

func newDecision(m Metric, along, under, unit string) *decision {
	return &decision{ID: m.Name + "-" + along, Title: m.Title, Under: under, Metric: m.Name, Unit: m.Unit,
		Better: m.Better, Baseline: -1, of: m, unit: unit}
}

// byService reports whether its places are levels of service.
func (d *decision) byService() bool { return d.Places[0].Kind == "peak" }

// maxLevels bounds the levels of service of a table.
const maxLevels = 7

// levelsOf are round numbers within the range of values, a few of them; nil: it is too narrow.
func levelsOf(values []float64) (levels []float64) {
	values = slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return !(v > 0) || math.IsInf(v, 1) })
	if len(values) < 2 {
		return nil
	}
	low, high := slices.Min(values), slices.Max(values)
	if high/low-1 < level {
		return nil
	}
	if high >= 8*low { // three decades have more levels than there is room for
		for decade := math.Pow(10, math.Floor(math.Log10(high))-2); 0 < decade && decade <= high; decade *= 10 {
			for _, v := range []float64{1, 2, 5} {
				if v *= decade; v > low && v <= high {
					levels = append(levels, v)
				}
			}
		}
		return levels[max(0, len(levels)-maxLevels):]
	}
	step := math.Pow(10, math.Floor(math.Log10((high-low)/maxLevels)))
	for _, by := range []float64{2, 2.5, 2} { // 1, 2, 5, 10
		if (high-low)/step < maxLevels {
			break
		}
		step *= by
	}
	for n := math.Ceil(low / step); step > 0 && n*step <= high; n++ {
		levels = append(levels, n*step)
	}
	return levels
}

// surer is the better of two choices of one series: one that is not in doubt before one that is, which
// it keeps beside it.
func surer(m Metric, a, b choice) choice {
	switch {
	case !a.known():
		return b
	case !b.known():
		return a
	case a.Doubt != b.Doubt:
		if a.Doubt {
			a, b = b, a
		}
		own := b
		b.suspect = &own
	case float64(m.Better)*b.Median > float64(m.Better)*a.Median:
		a, b = b, a
	}
	if a.suspect == nil || b.suspect != nil && float64(m.Better)*(b.suspect.Median-a.suspect.Median) > 0 {
		a.suspect = b.suspect
	}
	return a
}

// judge takes out series that offer nothing, marks the best at each place, and holds all others
// against the baseline: that of the answer's first table, where there is one already.
func (d *decision) judge(layout *Layout, first *decision) {
	d.Rows = slices.DeleteFunc(d.Rows, func(r decisionRow) bool {
		return !slices.ContainsFunc(r.Choices, func(c choice) bool { return c.known() })
	})
	for i := range d.Places {
		d.mark(i)
	}
	d.Baseline = d.baseline(layout, first)
	if d.Baseline < 0 {
		return
	}
	base := d.Rows[d.Baseline].Choices
	for n, r := range d.Rows {
		for i := range r.Choices {
			if c := &r.Choices[i]; n != d.Baseline && c.known() && base[i].known() && base[i].Median != 0 {
				c.Change = new(c.Median/base[i].Median - 1)
			}
		}
	}
}

// offer is a choice with its row.
type offer struct {
	*choice
	series *chart.Series
}

// offers are those at a place, the best first, of what is in doubt or of all else. A series may have
// one of either.
func (d *decision) offers(i int, doubt bool) (all []offer) {
	for _, r := range d.Rows {
		c := &r.Choices[i]
		if doubt && !c.Doubt && c.suspect != nil {
			c = c.suspect
		}
		if c.known() && c.Doubt == doubt {
			all = append(all, offer{c, r.series})
		}
	}
	slices.SortStableFunc(all, func(a, b offer) int {
		return cmp.Compare(b.Median*float64(d.Better), a.Median*float64(d.Better))
	})
	return all
}

// mark finds what leads at a place, and what would.
func (d *decision) mark(i int) {
	if len(d.Rows) < 2 {
		return
	}
	all := append(d.offers(i, false), d.offers(i, true)...)
	best, beyond := lead(d.Better, all, func(o offer) evidence { return o.evidence }, d.alone)
	for _, o := range best {
		o.Best = true
	}
	for _, o := range beyond {
		o.Beyond = true
	}
}

// baseline is the row that changes are against: that of the lab, or else where loads have names the
// first series, if it was tried under each of them, which all tables of an answer have in common.
func (d *decision) baseline(layout *Layout, first *decision) int {
	if layout.Baseline != "" {
		return slices.IndexFunc(d.Rows, func(r decisionRow) bool {
			return r.series.Engine == layout.Baseline || r.series.Label == layout.Baseline
		})
	}
	if first != nil {
		return slices.IndexFunc(d.Rows, func(r decisionRow) bool {
			return first.Baseline >= 0 && r.series == first.Rows[first.Baseline].series
		})
	}
	if d.unit != "" || len(d.Rows) < 2 ||
		slices.ContainsFunc(d.Rows[0].Choices, func(c choice) bool { return !c.known() }) {
		return -1
	}
	return 0
}
