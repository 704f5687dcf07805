package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"hclbench/report/chart"
	"hclbench/report/number"
	"hclbench/results"
)

// sample is a cell as charts show it.
type sample struct {
	benchmark string
	series    *chart.Series
	rows      []*results.Row     // all its repetitions
	at        map[string]float64 // along each dimension, by its name
	dataset   string
	told      []string // columns of published tables that are of the load
	shared    []string // reasons against all cells, which set none of them apart
	by        string   // whose it is, beside what the report is about: "imported", "published by …"
	void      bool     // it measured nothing
	ref       int      // its place in the page's data, from 1; 0: it has none
}

// samples are all cells that measured something, in their order.
func samples(rows []results.Row, all *seriesOf) (out []*sample) {
	shared := sharedReasons(rows)
	for _, c := range grouped(those(rows, isMeasured), all.place) {
		s := all.sample(c)
		s.shared = shared
		out = append(out, s)
	}
	return out
}

// owned are the cells that a report is about: what others measured stands beside them, and leads nothing.
func owned(cells []*sample) []*sample {
	return slices.DeleteFunc(slices.Clone(cells), func(s *sample) bool { return s.by != "" })
}

// withOthers are samples with all else that charts show: void cells, and what others published.
func (s *seriesOf) withOthers(measured []*sample, rows []results.Row, about About) []*sample {
	out := s.withVoid(measured, rows)
	published := publishedRows(rows, about)
	for i := range published {
		if r := &published[i]; s.find(r) != nil {
			x := s.sample([]*results.Row{r})
			x.by = creditOf(r)
			out = append(out, x)
		}
	}
	return out
}

// withVoid are samples with those of cells of which no repetition measured anything.
func (s *seriesOf) withVoid(measured []*sample, rows []results.Row) []*sample {
	known := map[place]bool{}
	for _, m := range measured {
		known[s.place(m.rows[0])] = true
	}
	out := slices.Clone(measured)
	for _, c := range grouped(those(rows, func(r *results.Row) bool { return !isMeasured(r) }), s.place) {
		if !known[s.place(c[0])] {
			x := s.sample(c)
			x.void = true
			out = append(out, x)
		}
	}
	return out
}

// place is that of a row in charts. Where the lab says what is told apart there is of the rest only the
// load; what was published of one cell is no repetition of it.
func (s *seriesOf) place(r *results.Row) place {
	p := placeOf(r)
	if s.by != nil {
		axes := slices.DeleteFunc(slices.Clone(r.Axes), func(a results.Axis) bool { return !ofLoad(a.Name) })
		p.label = fmt.Sprint(s.find(r).Index, underLoad(r, nil), axes)
		if p.kind != "published" {
			p.identity = ""
		}
	}
	return p
}

func (s *seriesOf) sample(of []*results.Row) *sample {
	x := &sample{benchmark: of[0].Benchmark, series: s.find(of[0]), rows: of, at: along(of[0]),
		dataset: dataset(of[0]), told: s.told, ref: s.refs[s.place(of[0])]}
	if kindOfRun(of[0]) != s.own[axisOf(of[0].Axes, sideAxis)] {
		x.by = creditOf(of[0])
	}
	return x
}

// creditOf says whose figures those are that are not the report's own.
func creditOf(r *results.Row) string {
	if r.Run.Command == "published" {
		return "published by " + r.Run.ID
	}
	return cmp.Or(kindOfRun(r), "measured")
}

// weigh is the evidence of a metric.
func (s *sample) weigh(m Metric) (evidence, bool) { return weigh(m, s.rows, s.shared) }

// value is the evidence as a chart shows it.
func (s *sample) value(m Metric) (chart.Dot, bool) {
	e, ok := s.weigh(m)
	return e.dot(s.ref), ok
}

// load is the cell's place along the axes of the load, in words.
func (s *sample) load() string {
	return strings.Join(axisWords(s.rows[0].Axes, s.ofLoad), ", ")
}

// hover is what a point says of itself.
func hover(s *sample, d chart.Dot, along string, m Metric) string {
	lines := []string{s.series.Label}
	if v, ok := s.at[along]; ok {
		lines[0] += fmt.Sprintf(", %s %s", strings.ReplaceAll(along, "_", " "), number.Short(v))
	}
	lines = append(lines, said(d.Y, m))
	if d.N > 1 {
		lines = append(lines, fmt.Sprintf("median of %d, %s to %s", d.N, number.Text(d.Low), number.Text(d.High)))
	}
	if low, high, ok := d.Range(); ok && d.N == 1 {
		lines = append(lines, fmt.Sprintf("in 95 of 100 runs %s to %s", number.Text(low), number.Text(high)))
	}
	if d.Of > d.N {
		lines = append(lines, fmt.Sprintf("%d of %d repetitions: the others are suspect", d.N, d.Of))
	}
	if d.Doubt || d.Suspect {
		lines = append(lines, "suspect")
	}
	if text := forced(s.rows[0]); text != "" && !strings.Contains(s.series.Label, text) {
		lines = append(lines, text)
	}
	if s.by != "" {
		lines = append(lines, s.by)
	}
	return strings.Join(lines, "\n")
}

// said is a value with its unit: "1,234 tok/s".
func said(v float64, m Metric) string {
	unit := m.Unit
	if unit == "ms" && v >= chart.ManyMilliseconds {
		v, unit = v/1000, "s"
	}
	return strings.TrimSpace(number.Text(v)+" "+unit) + " " + lower(m.Title)
}

// lower begins a name as it stands within a sentence.
func lower(s string) string {
	if len(s) > 1 && s[1] >= 'a' && s[1] <= 'z' {
		return strings.ToLower(s[:1]) + s[1:]
	}
	return s
}

func sentence(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + s[size:]
}

// slice is a projection of the cells of a benchmark: they differ in their series and
// along one dimension, and are the same in all others.
type slice struct {
	along   dimension
	samples []*sample
	points  int
}

// maxSlices bounds the figures of one kind: what else there is stands in the table.
const maxSlices = 4

// manyPoints are so many that no more slices are drawn: a page has them several times.
const manyPoints = 400

// enough is how many of the slices are drawn.
func enough(all []slice) (n int) {
	for points := 0; n < min(len(all), maxSlices) && points < manyPoints; n++ {
		points += all[n].points
	}
	return n
}

// slicesAlong finds the slices with a line in them, those with the most points first.
func slicesAlong(along dimension, samples []*sample) (out []slice) {
	lying := slices.DeleteFunc(slices.Clone(samples), func(s *sample) bool { return s.at[along.name] == 0 })
	for _, of := range grouped(lying, func(s *sample) under {
		return underLoad(s.rows[0], s.told, along.name, map[string]string{"batch": "concurrency"}[along.name])
	}) {
		x := slice{along: along, samples: of}
		for _, line := range grouped(of, func(s *sample) *chart.Series { return s.series }) {
			line = slices.DeleteFunc(line, func(s *sample) bool { return s.void })
			if places := (slice{along: along, samples: line}).ticks(); len(places) > 1 {
				x.points += len(places)
			}
		}
		if x.points > 0 {
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b slice) int { return b.points - a.points })
	return out
}

// under says what is the same for all cells of the slice.
func (x slice) under() string {
	s := x.samples[0]
	var parts []string
	for _, p := range [][2]string{{"input_tokens", "%s tokens in"}, {"output_tokens", "%s tokens out"},
		{"concurrency", "%s in flight"}, {"rate", "%s requests per second"}, {"batch", "batches of %s"}} {
		if v, ok := s.at[p[0]]; ok && p[0] != x.along.name {
			parts = append(parts, fmt.Sprintf(p[1], number.Short(v)))
		}
	}
	if s.dataset != "" && x.along.name != "" {
		parts = append(parts, s.dataset)
	}
	parts = append(parts, s.others()...)
	return strings.Join(parts, ", ")
}

func (x slice) ticks() []float64 {
	var ticks []float64
	for _, s := range x.samples {
		ticks = append(ticks, s.at[x.along.name])
	}
	slices.Sort(ticks)
	return slices.Compact(ticks)
}

// lines are the series of the slice, drawn from their points along its dimension, and beside them
// what others published.
func (x slice) lines(point func(s *sample) (chart.Dot, bool)) (lines []chart.Line) {
	samples := slices.Clone(x.samples)
	slices.SortStableFunc(samples, func(a, b *sample) int { return cmp.Compare(a.at[x.along.name], b.at[x.along.name]) })
	type owner struct {
		series *chart.Series
		by     string
	}
	for _, of := range grouped(samples, func(s *sample) owner { return owner{s.series, s.by} }) {
		l := chart.Line{Series: of[0].series, Published: of[0].by != ""}
		void := false
		for _, s := range of {
			if s.void {
				l.Gaps, void = append(l.Gaps, chart.Gap{X: s.at[x.along.name], Ref: s.ref}), true
			} else if d, ok := point(s); ok {
				d.Apart = void
				l.Dots, void = append(l.Dots, d), false
			}
		}
		if l.Dots != nil {
			lines = append(lines, l)
		}
	}
	slices.SortStableFunc(lines, func(a, b chart.Line) int { return cmp.Compare(a.Series.Index, b.Series.Index) })
	return lines
}

// against is a metric along the slice's dimension, latencies in milliseconds.
func (x slice) against(m Metric) *chart.Panel {
	ticks := x.ticks()
	c := &chart.Panel{Title: m.Title, Better: better(m),
		X: chart.Axis{Title: x.along.title, Unit: x.along.unit, Ticks: ticks,
			Log: len(ticks) > 2 && ticks[len(ticks)-1]/ticks[0] >= 4},
		Y: chart.Axis{Unit: m.Unit, Key: m.Name, Zero: true, Linear: m.Better > 0}, Along: x.along.name}
	c.Lines = x.lines(func(s *sample) (chart.Dot, bool) {
		d, ok := s.value(m)
		d.X = s.at[x.along.name]
		d.Hover = hover(s, d, x.along.name, m)
		return d, ok
	})
	return c
}

// tradeoff is one metric over another, a point for each place along the slice's dimension.
func (x slice) tradeoff(mx, my Metric) *chart.Panel {
	c := &chart.Panel{Title: my.Title, Better: corner(mx, my),
		X: chart.Axis{Title: mx.Title, Unit: mx.Unit, Key: mx.Name},
		Y: chart.Axis{Unit: my.Unit, Key: my.Name, Zero: true, Linear: my.Better > 0}, Along: x.along.name}
	c.Lines = x.lines(func(s *sample) (chart.Dot, bool) {
		dx, okX := s.value(mx)
		d, okY := s.value(my)
		d.X, d.Doubt = dx.Y, d.Doubt || dx.Doubt
		d.Label = number.Short(s.at[x.along.name])
		d.Hover = hover(s, d, x.along.name, my) + "\n" + said(dx.Y, mx)
		return d, okX && okY
	})
	for i := range c.Lines {
		c.Lines[i].Gaps = nil // a void cell has no place in it
	}
	c.Seconds()
	return c
}

// better says where good values of a metric are.
func better(m Metric) string {
	return map[int]string{1: "higher is better", -1: "lower is better"}[m.Better]
}

// corner says where good points are.
func corner(mx, my Metric) string {
	if mx.Better == 0 || my.Better == 0 {
		return ""
	}
	across, up := "right", "up"
	if mx.Better < 0 {
		across = "left"
	}
	if my.Better < 0 {
		up = "down"
	}
	return up + " and to the " + across + " is better"
}
