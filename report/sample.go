package report

import (
	"fmt"
	"slices"
	"strings"

	"hclbench/load"
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
	shared    []string // reasons against all cells, which set none of them apart
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

// doubtful reports whether a metric of a suspect cell is so for reasons of its own.
func (s *sample) doubtful(v load.Verdict, m metric) bool {
	if !isSuspect(v) || len(v.Reasons) == 0 {
		return isSuspect(v)
	}
	v.Reasons = slices.DeleteFunc(slices.Clone(v.Reasons),
		func(r load.Reason) bool { return slices.Contains(s.shared, r.Text) })
	return len(v.Reasons) > 0 && v.Doubts(m.name)
}

// samples are all cells that measured something, in their order.
func samples(rows []results.Row, all *seriesOf) (out []*sample) {
	shared := sharedReasons(rows)
	key := func(r *results.Row) string {
		if all.by == nil {
			return fmt.Sprint(all.find(r).Index, "\x00", cellOf(r))
		}
		// The lab says what is told apart; of the rest there is only the load.
		axes := slices.DeleteFunc(slices.Clone(r.Axes), func(a results.Axis) bool { return !ofLoad(a.Name) })
		return fmt.Sprint(r.Benchmark, "\x00", all.find(r).Index, "\x00", dataset(r), placeOf(r), axes)
	}
	for _, c := range grouped(those(rows, isMeasured), key) {
		out = append(out, &sample{benchmark: c[0].Benchmark, series: all.find(c[0]), rows: c, at: placeOf(c[0]),
			dataset: dataset(c[0]), shared: shared})
	}
	return out
}

// value is the median of a metric over the repetitions, with the lowest and the
// highest: over those that are not in doubt, or, where all of them are, over all.
func (s *sample) value(m metric) (d chart.Dot, ok bool) {
	values, sure := trusted(m, s.rows, func(v load.Verdict) bool { return s.doubtful(v, m) })
	if len(values) == 0 {
		return d, false
	}
	of := spread(values)
	return chart.Dot{Y: of.Median, Low: of.Min, High: of.Max, N: of.N, Of: len(valuesOf(m, s.rows)),
		Doubt: !sure, Mark: kindOfRun(s.rows[0])}, true
}

// load is the cell's place along the axes of the load, in words.
func (s *sample) load() string {
	return strings.Join(axisWords(s.rows[0].Axes, ofLoad), ", ")
}

// hover is what a point says of itself.
func hover(s *sample, d chart.Dot, along string, m metric) string {
	lines := []string{s.series.Label}
	if v, ok := s.at[along]; ok {
		lines[0] += fmt.Sprintf(", %s %s", strings.ReplaceAll(along, "_", " "), number.Short(v))
	}
	lines = append(lines, said(d.Y, m))
	if d.N > 1 {
		lines = append(lines, fmt.Sprintf("median of %d, %s to %s", d.N, number.Text(d.Low), number.Text(d.High)))
	}
	if d.Of > d.N {
		lines = append(lines, fmt.Sprintf("%d of %d repetitions: the others are suspect", d.N, d.Of))
	}
	if d.Doubt {
		lines = append(lines, "suspect")
	}
	return strings.Join(lines, "\n")
}

// said is a value with its unit: "1,234 tok/s".
func said(v float64, m metric) string {
	unit := m.unit
	if unit == "ms" && v >= chart.ManyMilliseconds {
		v, unit = v/1000, "s"
	}
	return strings.TrimSpace(number.Text(v)+" "+unit) + " " + lower(m.title)
}

// lower begins a name as it stands within a sentence.
func lower(s string) string {
	if len(s) > 1 && s[1] >= 'a' && s[1] <= 'z' {
		return strings.ToLower(s[:1]) + s[1:]
	}
	return s
}

func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
