package figure

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hclbench/report/chart"
	"hclbench/report/number"
	"hclbench/results"
)

// Sample is a cell as charts show it.
type Sample struct {
	Benchmark string
	Series    *chart.Series
	Rows      []*results.Row     // all its repetitions
	At        map[string]float64 // along each dimension, by its name
	dataset   string
	Told      []string // columns of published tables that are of the load
	Shared    []string // reasons against all cells, which set none of them apart
	By        string   // whose it is, beside what the report is about: "imported", "published by …"
	Void      bool     // it measured nothing
	Ref       int      // its place in the page's data, from 1; 0: it has none
}

// Samples are all cells that measured something, in their order.
func Samples(rows []results.Row, all *Series) (out []*Sample) {
	shared := SharedReasons(rows)
	for _, c := range Grouped(Those(rows, IsMeasured), all.Place) {
		s := all.Sample(c)
		s.Shared = shared
		out = append(out, s)
	}
	return out
}

// Owned are the cells that a report is about: what others measured stands beside them, and leads nothing.
func Owned(cells []*Sample) []*Sample {
	return slices.DeleteFunc(slices.Clone(cells), func(s *Sample) bool { return s.By != "" })
}

// WithOthers are samples with all else that charts show: void cells, and what others published.
func (s *Series) WithOthers(measured []*Sample, rows []results.Row, about About) []*Sample {
	out := s.WithVoid(measured, rows)
	published := PublishedRows(rows, about)
	for i := range published {
		if r := &published[i]; s.Find(r) != nil {
			x := s.Sample([]*results.Row{r})
			x.By = CreditOf(r)
			out = append(out, x)
		}
	}
	return out
}

// WithVoid are samples with those of cells of which no repetition measured anything.
func (s *Series) WithVoid(measured []*Sample, rows []results.Row) []*Sample {
	known := map[Place]bool{}
	for _, m := range measured {
		known[s.Place(m.Rows[0])] = true
	}
	out := slices.Clone(measured)
	for _, c := range Grouped(Those(rows, func(r *results.Row) bool { return !IsMeasured(r) }), s.Place) {
		if !known[s.Place(c[0])] {
			x := s.Sample(c)
			x.Void = true
			out = append(out, x)
		}
	}
	return out
}

// Place is that of a row in charts. Where the lab says what is told apart there is of the rest only the
// load; what was published of one cell is no repetition of it.
func (s *Series) Place(r *results.Row) Place {
	p := PlaceOf(r)
	if s.by != nil {
		p.Label = Label{axes: strings.Join(AxisWords(r.Axes, ofLoad), ", ")}
		p.series, p.load = s.Find(r).Index+1, LoadOf(r, nil)
		if p.kind != "published" {
			p.Identity = ""
		}
	}
	return p
}

// Sample is the cell of these repetitions.
func (s *Series) Sample(of []*results.Row) *Sample {
	x := &Sample{Benchmark: of[0].Benchmark, Series: s.Find(of[0]), Rows: of, At: Along(of[0]),
		dataset: dataset(of[0]), Told: s.Told, Ref: s.Refs[s.Place(of[0])]}
	if KindOfRun(of[0]) != s.own[AxisOf(of[0].Axes, SideAxis)] {
		x.By = CreditOf(of[0])
	}
	return x
}

// Cells are those of rows, as [Sample.Ref]; nil: they have no places.
func (s *Series) Cells(rows []*results.Row) (cells []int) {
	for _, r := range rows {
		if ref := s.Refs[s.Place(r)]; ref > 0 {
			cells = Once(cells, ref)
		}
	}
	return cells
}

// CreditOf says whose figures those are that are not the report's own.
func CreditOf(r *results.Row) string {
	if r.Run.Command == "published" {
		return "published by " + r.Run.ID
	}
	return cmp.Or(KindOfRun(r), "measured")
}

// Weigh is the evidence of a metric.
func (s *Sample) Weigh(m Metric) (Evidence, bool) { return Weigh(m, s.Rows, s.Shared) }

// Value is the evidence as a chart shows it.
func (s *Sample) Value(m Metric) (chart.Dot, bool) {
	e, ok := s.Weigh(m)
	return e.dot(s.Ref), ok
}

// Load is the cell's place along the axes of the load, in words.
func (s *Sample) Load() string {
	return strings.Join(AxisWords(s.Rows[0].Axes, s.ofLoad), ", ")
}

// ofLoad reports whether an axis of the cell says what was sent.
func (s *Sample) ofLoad(name string) bool { return ofLoad(name) || slices.Contains(s.Told, name) }

// others are what published columns say of the cell's load beside dimensions and data set, in words.
func (s *Sample) others() []string { return otherWords(s.Rows[0], s.Told) }

// caseNames are short names of the loads of cells, each its own.
func caseNames(cells []*Sample) map[Case]string {
	names := map[Case]string{}
	taken := Unique{}
	for _, of := range Grouped(cells, func(s *Sample) string { return s.Benchmark }) {
		loads := Grouped(of, (*Sample).Case)
		tells := func(name string) bool {
			values := map[string]bool{}
			for _, load := range loads {
				values[AxisOf(load[0].Rows[0].Axes, name)] = true
			}
			return len(values) == len(loads)
		}
		var axes []string // that tell them apart: one of them, if one does
		for _, load := range loads {
			for _, a := range load[0].Rows[0].Axes {
				if load[0].ofLoad(a.Name) {
					axes = Once(axes, a.Name)
				}
			}
		}
		if i := slices.IndexFunc(axes, tells); i >= 0 {
			axes = axes[i : i+1]
		}
		short := map[string]int{}
		for _, load := range loads {
			short[load[0].caseName(axes)]++
		}
		for _, load := range loads {
			name := of[0].Benchmark
			if len(loads) > 1 {
				name = load[0].caseName(axes)
			}
			if short[name] > 1 && len(axes) == 1 { // text.isl512 beside sharegpt.isl512
				name = AxisOf(load[0].Rows[0].Axes, axes[0])
			}
			if name == "" && slices.ContainsFunc(axes, limits) {
				name = "no limit"
			}
			names[load[0].Case()] = taken.Name(cmp.Or(name, "all"))
		}
	}
	return names
}

// limits reports whether an axis says how much a load may send at most: without it there is no limit.
func limits(name string) bool {
	return slices.Contains([]string{"concurrency", "max_concurrency", "rate", "request_rate"}, name)
}

// Case is a load of a benchmark.
type Case struct{ benchmark, load string }

// Case is the load that the cell is under.
func (s *Sample) Case() Case { return Case{s.Benchmark, s.Load()} }

// caseName is what the axes of the load among these say of a cell: of one alone its value.
func (s *Sample) caseName(axes []string) string {
	if len(axes) != 1 {
		return s.Load()
	}
	value := AxisOf(s.Rows[0].Axes, axes[0])
	if axes[0] == "dataset" {
		if _, own, ok := strings.Cut(value, "."); ok {
			return own
		}
	}
	if IsNumber(value) {
		return fmt.Sprintf("%s %s", strings.ReplaceAll(axes[0], "_", " "), value)
	}
	return value
}

// seriesIn are the series of cells, in their order.
func seriesIn(cells []*Sample) (all []*chart.Series) {
	for _, s := range cells {
		all = Once(all, s.Series)
	}
	slices.SortFunc(all, func(a, b *chart.Series) int { return a.Index - b.Index })
	return all
}

// knownOf is the first of some metrics that any of the cells has, or else the first.
func knownOf(cells []*Sample, choice ...Metric) Metric {
	for _, m := range choice {
		if slices.ContainsFunc(cells, func(s *Sample) bool { _, ok := s.Value(m); return ok }) {
			return m
		}
	}
	return choice[0]
}

// NotVoidSamples are the cells that measured something.
func NotVoidSamples(cells []*Sample) []*Sample {
	return slices.DeleteFunc(slices.Clone(cells), func(s *Sample) bool { return s.Void })
}

// Slice is a projection of the cells of a benchmark: they differ in their series and
// along one dimension, and are the same in all others.
type Slice struct {
	Along   Dimension
	Samples []*Sample
	Points  int
}

// MaxSlices bounds the figures of one kind: what else there is stands in the table.
const MaxSlices = 4

// manyPoints are so many that no more slices are drawn: a page has them several times.
const manyPoints = 400

// Enough is how many of the slices are drawn.
func Enough(all []Slice) (n int) {
	for points := 0; n < min(len(all), MaxSlices) && points < manyPoints; n++ {
		points += all[n].Points
	}
	return n
}

// SlicesAlong finds the slices with a line in them, those with the most points first.
func SlicesAlong(along Dimension, samples []*Sample) (out []Slice) {
	lying := slices.DeleteFunc(slices.Clone(samples), func(s *Sample) bool { return s.At[along.Name] == 0 })
	for _, of := range Grouped(lying, func(s *Sample) Load {
		return LoadOf(s.Rows[0], s.Told, along.Name, map[string]string{"batch": "concurrency"}[along.Name])
	}) {
		x := Slice{Along: along, Samples: of}
		for _, line := range Grouped(of, func(s *Sample) *chart.Series { return s.Series }) {
			line = slices.DeleteFunc(line, func(s *Sample) bool { return s.Void })
			if places := (Slice{Along: along, Samples: line}).Ticks(); len(places) > 1 {
				x.Points += len(places)
			}
		}
		if x.Points > 0 {
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b Slice) int { return b.Points - a.Points })
	return out
}

// Words says what is the same for all cells of the slice.
func (x Slice) Words() string {
	s := x.Samples[0]
	var parts []string
	for _, p := range [][2]string{{"input_tokens", "%s tokens in"}, {"output_tokens", "%s tokens out"},
		{"concurrency", "%s in flight"}, {"rate", "%s requests per second"}, {"batch", "batches of %s"}} {
		if v, ok := s.At[p[0]]; ok && p[0] != x.Along.Name {
			parts = append(parts, fmt.Sprintf(p[1], number.Short(v)))
		}
	}
	if s.dataset != "" && x.Along.Name != "" {
		parts = append(parts, s.dataset)
	}
	parts = append(parts, s.others()...)
	return strings.Join(parts, ", ")
}

// Ticks are where its cells lie, rising.
func (x Slice) Ticks() []float64 {
	var ticks []float64
	for _, s := range x.Samples {
		ticks = append(ticks, s.At[x.Along.Name])
	}
	slices.Sort(ticks)
	return slices.Compact(ticks)
}

// busiest reports whether none of these cells was under a greater load than the slice, prompts
// being of the same data set.
func (x Slice) busiest(cells []*Sample) bool {
	own := x.Samples[0]
	return !slices.ContainsFunc(cells, func(s *Sample) bool {
		return s.dataset == own.dataset && slices.ContainsFunc(Dimensions, func(d Dimension) bool {
			return Pushed(d) && s.At[d.Name] > own.At[d.Name]
		})
	})
}
