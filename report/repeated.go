package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/report/number"
	"hclbench/results"
)

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

// cells are the repetitions of each cell: measurements of the same thing under the same names.
func cells(rows []results.Row, keep func(r *results.Row) bool) [][]*results.Row {
	return grouped(those(rows, keep), cellOf)
}

// cellOf is the same for the repetitions of a cell alone.
func cellOf(r *results.Row) string { return labelOf(r) + "\x00" + identityOf(r) }

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

// labelOf is what a cell is called: its benchmark, its engine, and its axes in any order.
func labelOf(r *results.Row) string {
	key := r.Benchmark
	if _, ok := r.Axes.Value("engine"); !ok {
		key += "\x00" + r.Deployment.Engine
	}
	axes := slices.Clone(r.Axes)
	slices.SortFunc(axes, func(a, b results.Axis) int { return cmp.Compare(a.Name, b.Name) })
	for _, a := range axes {
		key += "\x00" + a.Name + "=" + axisText(a.Value)
	}
	return key
}

func valuesOf(m metric, rows []*results.Row) (values []float64) {
	for _, r := range rows {
		if v, ok := m.value(r); ok {
			values = append(values, v)
		}
	}
	return values
}

// trusted are the values of a metric over repetitions that are not in doubt, or, where
// all of them are, all: sure says which.
func trusted(m metric, rows []*results.Row, doubtful func(v load.Verdict) bool) (values []float64, sure bool) {
	certain := slices.DeleteFunc(slices.Clone(rows), func(r *results.Row) bool { return doubtful(r.Verdict()) })
	if values := valuesOf(m, certain); len(values) > 0 {
		return values, true
	}
	return valuesOf(m, rows), false
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
		t += fmt.Sprintf(" ±%.0f%%", math.Ceil(max(s.Max-s.Median, s.Median-s.Min)/s.Median*100))
	}
	return t
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
	metrics := allMetrics(rows)
	var out []Repeated
	for _, c := range cells(rows, isMeasured) {
		if len(c) < 2 {
			continue
		}
		r := c[0]
		x := Repeated{Benchmark: r.Benchmark, Engine: r.Deployment.Engine, Deployment: r.DeploymentID, Axes: r.Axes,
			Repetitions: len(c), Figures: map[string]Spread{}}
		for _, m := range metrics {
			if values, _ := trusted(m.raw(), c, isSuspect); len(values) > 0 {
				x.Figures[m.name] = spread(values)
			}
		}
		out = append(out, x)
	}
	return out
}

// Together prints repetitions as one line for each cell, and nothing where there are none.
func Together(w io.Writer, rows []results.Row) error {
	return writeBlocks(w, [][]string{spreadLines(Repetitions(rows), 0)})
}

// spreadLines are a table with one line for each repeated cell: the median of its repetitions, and
// how far the farthest is from it. What does not fit into width goes, the last column first.
func spreadLines(repeated []Repeated, width int) []string {
	if len(repeated) == 0 {
		return nil
	}
	s := &sheet{rows: len(repeated), columns: []column{
		column{name: "cell", left: true}.filled(len(repeated), func(i int) string {
			return strings.TrimSpace(repeated[i].Benchmark + " " + cellName(repeated[i].Engine, repeated[i].Axes))
		}),
		column{name: "n"}.filled(len(repeated), func(i int) string { return repeated[i].used() }),
	}}
	for i, m := range []metric{outputThroughput, medianTTFT, medianTPOT, medianE2EL, goodput} {
		c := m.column(nil, 90-10*i).filled(len(repeated), func(i int) string {
			if of, ok := repeated[i].Figures[m.name]; ok {
				return of.text()
			}
			return ""
		})
		if c.known() {
			s.columns = append(s.columns, c)
		}
	}
	s.fit(width)
	return append([]string{"Repetitions: their median, and how far the farthest is from it", ""}, s.lines()...)
}

// used is how many repetitions the figures are of, and of how many, where some are left out.
func (r Repeated) used() string {
	used := 0
	for _, s := range r.Figures {
		used = max(used, s.N)
	}
	if used < r.Repetitions {
		return fmt.Sprintf("%d of %d", used, r.Repetitions)
	}
	return number.Whole(r.Repetitions)
}

// cellName is a cell in a word or more: "vllm.h200 concurrency=16".
func cellName(engine string, axes results.Axes) string {
	var words []string
	if engine != "" {
		words = append(words, engine)
	}
	for _, a := range axes {
		if a.Name != "engine" {
			words = append(words, a.Name+"="+axisText(a.Value))
		}
	}
	return strings.Join(words, " ")
}
