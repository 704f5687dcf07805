package figure

import (
	"cmp"
	"slices"
	"strings"

	"hclbench/report/number"
	"hclbench/results"
)

// Answer is what was measured of one workload, as tables to decide by.
type Answer struct {
	ID       string      // in addresses: "online-3-200-tokens-in-800-tokens-out"
	Workload string      // what its cells have in common, in words
	Tables   []*Decision // what decides comes first

	Cells  []*Sample
	Along  *Dimension // that they lie along; nil: none
	places []Spot     // where they are: their loads or their cases
	At     []int      // of each cell, its place
	Main   []Metric   // that matter most
}

// Answers are those of all workloads: of the slices, those with the most points first, and of the
// cells that lie along nothing, side by side.
func Answers(rows []results.Row, all *Series, layout *Layout) (out []*Answer) {
	cells := Owned(Samples(rows, all))
	lines, rest := workloads(cells)
	found := slices.DeleteFunc(lines, func(x Slice) bool { // of lengths, the greatest load says it
		own := func(s *Sample) bool { return s.Benchmark == x.Samples[0].Benchmark }
		return !Pushed(x.Along) && !x.busiest(slices.DeleteFunc(slices.Clone(cells), func(s *Sample) bool { return !own(s) }))
	})
	for _, x := range found {
		out = append(out, x.answer(layout))
	}
	if len(rest) > 0 {
		out = append(out, sideBySide(rest, layout))
	}
	out = slices.DeleteFunc(out, func(a *Answer) bool { return len(a.Tables) == 0 })
	ids := Unique{}
	for _, a := range out {
		a.ID = ids.Name(Slug(a.Workload))
	}
	return out
}

// workloads are the lines that cells lie on, those with the most points first, and the cells that lie on
// none. A cell may lie on several.
func workloads(cells []*Sample) (lines []Slice, rest []*Sample) {
	lying := map[*Sample]bool{}
	for _, of := range Grouped(cells, func(s *Sample) string { return s.Benchmark }) {
		for _, d := range Dimensions {
			for _, x := range SlicesAlong(d, of) {
				lines = append(lines, x)
				for _, s := range x.Samples {
					lying[s] = true
				}
			}
		}
	}
	slices.SortStableFunc(lines, func(a, b Slice) int { return b.Points - a.Points })
	return lines, slices.DeleteFunc(slices.Clone(cells), func(s *Sample) bool { return lying[s] })
}

// Workloads divides rows as [Answers] does, but each row is in one workload: that along which it is pushed
// harder, if there is one, or else that of its lengths. Series by series, the load of its rows grows. Rows of
// no line are the last, as they come.
func Workloads(rows []results.Row, all *Series) (out [][]results.Row) {
	var cells []*Sample
	for _, of := range Grouped(Those(rows, func(*results.Row) bool { return true }), all.Place) {
		s := all.Sample(of)
		s.Void = !slices.ContainsFunc(of, IsMeasured)
		cells = append(cells, s)
	}
	lines, _ := workloads(cells)
	line := map[*Sample]int{} // of each cell, from 1
	for _, pushed := range []bool{true, false} {
		for i, x := range lines {
			for _, s := range x.Samples {
				if Pushed(x.Along) == pushed && line[s] == 0 {
					line[s] = i + 1
				}
			}
		}
	}
	at := map[*results.Row]*Sample{}
	for _, s := range cells {
		for _, r := range s.Rows {
			at[r] = s
		}
	}
	parts := make([][]results.Row, len(lines)+1)
	for i := range rows {
		n := line[at[&rows[i]]]
		parts[n] = append(parts[n], rows[i])
	}
	for i, x := range lines {
		place := func(r results.Row) float64 { return Along(&r)[x.Along.Name] }
		slices.SortStableFunc(parts[i+1], func(a, b results.Row) int {
			return cmp.Or(all.Find(&a).Index-all.Find(&b).Index, cmp.Compare(place(a), place(b)))
		})
	}
	return slices.DeleteFunc(append(parts[1:], parts[0]), func(part []results.Row) bool { return len(part) == 0 })
}

// answer is that of a slice: who gives how much at which service, and every figure along it.
func (x Slice) answer(layout *Layout) *Answer {
	name := strings.Trim(x.Samples[0].Benchmark+": "+x.Words(), ": ")
	if !Pushed(x.Along) {
		name += ", by " + strings.ToLower(x.Along.Title)
	}
	a, ticks := &Answer{Workload: name, Cells: x.Samples, Along: &x.Along}, x.Ticks()
	for _, v := range ticks {
		a.places = append(a.places, Spot{Name: number.Short(v), Value: number.Short(v)})
	}
	for _, s := range x.Samples {
		a.At = append(a.At, slices.Index(ticks, s.At[x.Along.Name]))
	}
	throughput, wait := ThroughputOf(x.Samples, layout, true), Central(TTFT, x.Samples, layout)
	a.Main = []Metric{throughput, wait}
	if Pushed(x.Along) {
		a.add(x.byService(throughput), layout)
	}
	for _, m := range []Metric{wait, throughput, Central(TPOT, x.Samples, layout), Central(E2EL, x.Samples, layout),
		Goodput, CostOutput, EnergyPerToken} {
		a.add(a.byPlace(m), layout)
	}
	return a
}

// sideBySide is the answer of cells that lie along nothing: each load is a place.
func sideBySide(cells []*Sample, layout *Layout) *Answer {
	a := &Answer{Workload: "all loads", Cells: cells}
	names := caseNames(cells)
	var keys []Case
	for _, s := range cells {
		key := s.Case()
		if i := slices.Index(keys, key); i >= 0 {
			a.At = append(a.At, i)
			continue
		}
		a.At = append(a.At, len(keys))
		keys, a.places = append(keys, key), append(a.places, Spot{Name: names[key], Value: names[key]})
	}
	if len(names) == 1 {
		a.Workload = strings.Trim(cells[0].Benchmark+": "+Slice{Samples: cells[:1]}.Words(), ": ")
	}
	throughput, wait := ThroughputOf(cells, layout, false), Central(TTFT, cells, layout)
	a.Main = []Metric{throughput, wait}
	for _, m := range []Metric{throughput, wait, Central(TPOT, cells, layout), Central(E2EL, cells, layout),
		Goodput, CostOutput, EnergyPerToken} {
		a.add(a.byPlace(m), layout)
	}
	return a
}

// add keeps a table that has something in it, as it is to be read.
func (a *Answer) add(d *Decision, layout *Layout) {
	var first *Decision
	if len(a.Tables) > 0 {
		first = a.Tables[0]
	}
	if d.Judge(layout, first); len(d.Rows) > 0 {
		a.Tables = append(a.Tables, d)
	}
}

// byPlace is a metric at each load, or under each case, that cells of the answer have.
func (a *Answer) byPlace(m Metric) *Decision {
	d := newDecision(m, "load", "", "")
	if x := a.Along; x != nil {
		d = newDecision(m, x.Name, x.Title+", "+x.Unit, inFlight[x.Name])
	}
	d.Places = a.places
	for _, series := range seriesIn(a.Cells) {
		row := DecisionRow{Series: series, Choices: make([]Choice, len(d.Places))}
		for n, s := range a.Cells {
			if i := a.At[n]; s.Series == series {
				row.Choices[i] = surer(m, row.Choices[i], s.choice(m))
			}
		}
		d.Rows = append(d.Rows, row)
	}
	return d
}
