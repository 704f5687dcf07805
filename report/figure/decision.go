package figure

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"hclbench/report/chart"
	"hclbench/report/number"
	"hclbench/results"
)

// Decision is a table to decide by: a row for each series, a column for each place, which is a
// level of service, a load or a case. Every value is one that a cell has; none is interpolated.
type Decision struct {
	ID       string // unique in its answer: "median_ttft_ms-concurrency"
	Title    string
	Under    string // what its columns are
	Metric   string
	Unit     string
	Better   int // more is better: 1; less is: −1
	Places   []Spot
	Rows     []DecisionRow
	Baseline int // the row that changes are against; −1: none

	Of        Metric
	PlaceUnit string // of its places, within a sentence: "in flight"; empty: they have names
	alone     bool   // a series that is alone at a place leads there: no other one gets so far
}

// Spot is a column of a decision.
type Spot struct {
	Name  string  `json:"name"`            // above the column: "64", "≥ 20"
	Kind  string  `json:"kind,omitempty"`  // "peak": the most whatever users get; "slo": within the SLO; empty: any other
	Level float64 `json:"level,omitempty"` // how fast each user is served there at least; 0: whatever

	Value string `json:"-"` // within a sentence: "64"
}

// DecisionRow is what one series offers at each place.
type DecisionRow struct {
	Choices []Choice

	Series *chart.Series
}

// Choice is what a series offers at a place.
type Choice struct {
	Evidence
	Best   bool     // of all that is not in doubt; several are, where they are level
	Beyond bool     // it would be the best, were it not in doubt
	Change *float64 // against the baseline: 0.12 is 12 % more; nil: there is none
	At     string   // the load of its cell, where the place does not say it: "64 in flight"

	Cell    *Sample
	suspect *Choice // beside one that is not in doubt: the best of its series there that is; nil: there is none
}

// Known reports whether the series offers anything.
func (c *Choice) Known() bool { return c.N > 0 }

// choice is what the cell offers of a metric.
func (s *Sample) choice(m Metric) Choice {
	e, _ := s.Weigh(m)
	return Choice{Evidence: e, Cell: s}
}

func newDecision(m Metric, along, under, unit string) *Decision {
	return &Decision{ID: m.Name + "-" + along, Title: m.Title, Under: under, Metric: m.Name, Unit: m.Unit,
		Better: m.Better, Baseline: -1, Of: m, PlaceUnit: unit}
}

// ByService reports whether its places are levels of service.
func (d *Decision) ByService() bool { return d.Places[0].Kind == "peak" }

// maxLevels bounds the levels of service of a table.
const maxLevels = 7

// levelsOf are round numbers within the range of values, a few of them; nil: it is too narrow.
func levelsOf(values []float64) (levels []float64) {
	values = slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return !(v > 0) || math.IsInf(v, 1) })
	if len(values) < 2 {
		return nil
	}
	low, high := slices.Min(values), slices.Max(values)
	if high/low-1 < Level {
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
func surer(m Metric, a, b Choice) Choice {
	switch {
	case !a.Known():
		return b
	case !b.Known():
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

// Judge takes out series that offer nothing, marks the best at each place, and holds all others
// against the baseline: that of the answer's first table, where there is one already.
func (d *Decision) Judge(layout *Layout, first *Decision) {
	d.Rows = slices.DeleteFunc(d.Rows, func(r DecisionRow) bool {
		return !slices.ContainsFunc(r.Choices, func(c Choice) bool { return c.Known() })
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
			if c := &r.Choices[i]; n != d.Baseline && c.Known() && base[i].Known() && base[i].Median != 0 {
				c.Change = new(c.Median/base[i].Median - 1)
			}
		}
	}
}

// offer is a choice with its row.
type offer struct {
	*Choice
	Series *chart.Series
}

// Offers are those at a place, the best first, of what is in doubt or of all else. A series may have
// one of either.
func (d *Decision) Offers(i int, doubt bool) (all []offer) {
	for _, r := range d.Rows {
		c := &r.Choices[i]
		if doubt && !c.Doubt && c.suspect != nil {
			c = c.suspect
		}
		if c.Known() && c.Doubt == doubt {
			all = append(all, offer{c, r.Series})
		}
	}
	slices.SortStableFunc(all, func(a, b offer) int {
		return cmp.Compare(b.Median*float64(d.Better), a.Median*float64(d.Better))
	})
	return all
}

// mark finds what leads at a place, and what would.
func (d *Decision) mark(i int) {
	if len(d.Rows) < 2 {
		return
	}
	all := append(d.Offers(i, false), d.Offers(i, true)...)
	best, beyond := Lead(d.Better, all, func(o offer) Evidence { return o.Evidence }, d.alone)
	for _, o := range best {
		o.Best = true
	}
	for _, o := range beyond {
		o.Beyond = true
	}
}

// baseline is the row that changes are against: that of the lab, or else where loads have names the
// first series, if it was tried under each of them, which all tables of an answer have in common.
func (d *Decision) baseline(layout *Layout, first *Decision) int {
	if layout.Baseline != "" {
		return slices.IndexFunc(d.Rows, func(r DecisionRow) bool {
			return r.Series.Engine == layout.Baseline || r.Series.Label == layout.Baseline
		})
	}
	if first != nil {
		return slices.IndexFunc(d.Rows, func(r DecisionRow) bool {
			return first.Baseline >= 0 && r.Series == first.Rows[first.Baseline].Series
		})
	}
	if d.PlaceUnit != "" || len(d.Rows) < 2 ||
		slices.ContainsFunc(d.Rows[0].Choices, func(c Choice) bool { return !c.Known() }) {
		return -1
	}
	return 0
}

// Winner is who alone is the best at a place; nil: several are, or nobody is.
func (d *Decision) Winner(i int) (winner *chart.Series) {
	for _, r := range d.Rows {
		if r.Choices[i].Best {
			if winner != nil {
				return nil
			}
			winner = r.Series
		}
	}
	return winner
}

// Leader is who leads at the most places; nil: nobody does.
func (d *Decision) Leader() (who *chart.Series) {
	most := 0
	for _, r := range d.Rows {
		n := 0
		for i, p := range d.Places {
			if p.Kind == "" && d.Winner(i) == r.Series {
				n++
			}
		}
		if n > most {
			most, who = n, r.Series
		}
	}
	return who
}

// Held is the series to hold against the baseline: of those that were tried in the most places the one
// that is the best in the most of them, and then the one that differs most. What is suspect counts as
// tried, and for nothing else.
func (d *Decision) Held() (held *DecisionRow) {
	var most [3]float64 // places, of them as the best, the greatest change
	for n := range d.Rows {
		var of [3]float64
		for i, c := range d.Rows[n].Choices {
			if n == d.Baseline || c.Change == nil {
				continue
			}
			of[0]++
			if c.Best {
				of[1]++
			}
			if !c.Doubt && !d.Rows[d.Baseline].Choices[i].Doubt {
				of[2] = max(of[2], math.Abs(math.Log(1+*c.Change)))
			}
		}
		if slices.Compare(of[:], most[:]) > 0 {
			held, most = &d.Rows[n], of
		}
	}
	return held
}

// byService is the most of a metric that each series gives while it serves every user at least so
// fast: of its cells, the one that gives most. The first place is the most whatever users get.
func (x Slice) byService(m Metric) *Decision {
	d := newDecision(m, "service", "by how fast each user is served: "+Interactivity.Unit+" per user, at least",
		"tok/s per user")
	speeds := map[*Sample]chart.Dot{}
	var seen []float64
	for _, s := range x.Samples {
		if v, ok := s.Value(Interactivity); ok {
			speeds[s] = v
			seen = append(seen, v.Y)
		}
	}
	levels := levelsOf(seen)
	d.Places = []Spot{{Name: "peak", Kind: "peak", Value: "peak"}}
	if slices.ContainsFunc(x.Samples, func(s *Sample) bool { return MetText(s.Rows[0]) != "" }) {
		d.Places = append(d.Places, Spot{Name: "within SLO", Kind: "slo", Value: "within the SLO"})
	}
	first := len(d.Places)
	if first+len(levels) == 1 {
		return d
	}
	for _, v := range levels {
		d.Places = append(d.Places, Spot{Name: "≥ " + number.Short(v), Level: v, Value: number.Short(v)})
	}
	least := x.Ticks()[0]
	d.alone = true // as far as each was tried where users wait least
	for _, series := range seriesIn(x.Samples) {
		row := DecisionRow{Series: series, Choices: make([]Choice, len(d.Places))}
		tried := false
		for _, s := range x.Samples {
			if s.Series != series {
				continue
			}
			tried = tried || s.At[x.Along.Name] == least
			c := s.choice(m)
			c.At = strings.TrimSpace(number.Short(s.At[x.Along.Name]) + " " + inFlight[x.Along.Name])
			row.Choices[0] = surer(m, row.Choices[0], c)
			speed, ok := speeds[s]
			c.Doubt = c.Doubt || speed.Doubt
			if first > 1 && !slices.ContainsFunc(s.Rows, func(r *results.Row) bool { return MetText(r) != "met" }) {
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

// ThroughputOf is the throughput that cells are compared by: the first that the lab's columns name,
// or else output, of each GPU where that is wanted and known of all.
func ThroughputOf(cells []*Sample, layout *Layout, each bool) Metric {
	choice := []Metric{OutputThroughput, TotalThroughput, RequestThroughput}
	lacks := func(s *Sample) bool { _, ok := s.Value(PerGPU); return !ok }
	prompts := func(s *Sample) bool {
		r := s.Rows[0].Summary
		return r.OutputTokens > 0 && r.InputTokens >= promptsOutweigh*r.OutputTokens
	}
	embeds := func(s *Sample) bool { return s.Rows[0].Summary.Silent() }
	switch {
	case len(cells) > 0 && !slices.ContainsFunc(cells, func(s *Sample) bool { return !embeds(s) }):
		choice = []Metric{InputThroughput, RequestThroughput}
	case each && !slices.ContainsFunc(cells, lacks):
		choice = slices.Insert(choice, 0, PerGPU)
	case !each && slices.ContainsFunc(cells, prompts):
		choice = slices.Insert(choice, 0, TotalThroughput)
	}
	for _, m := range slices.Backward(Chosen(layout.Columns)) {
		if m.Better > 0 && (m.Group == "Throughput" || m.Name == RequestThroughput.Name) {
			choice = slices.Insert(choice, 0, m)
		}
	}
	return knownOf(cells, choice...)
}

// Central is the statistic that stands for a timing wherever there is room for one: the first of the
// lab's columns, or else the median, or the mean where nobody has the median.
func Central(t Timing, cells []*Sample, layout *Layout) Metric {
	choice := []Metric{Latency(t, "median"), Latency(t, "mean")}
	for _, m := range slices.Backward(Chosen(layout.Columns)) {
		if m.Group == choice[0].Group {
			choice = slices.Insert(choice, 0, m)
		}
	}
	return knownOf(cells, choice...)
}

// prompts that outweigh answers so many times make the total the throughput that tells more.
const promptsOutweigh = 10
