package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/results"
)

// Repeated is a cell that was measured more than once, and how far its
// measurements lie apart. Void ones are not among them.
type Repeated struct {
	Benchmark   string            `json:"benchmark"`
	Engine      string            `json:"engine,omitempty"`
	Deployment  string            `json:"deployment_id,omitempty"`
	Axes        results.Axes      `json:"axes"`
	Repetitions int               `json:"repetitions"` // that were measured
	Figures     map[string]Spread `json:"figures"`     // by name, of those that are not suspect, or of all; docs/report.md lists them
	rows        []*results.Row
}

// Repetitions puts the repetitions of each cell together, in the order of their
// first: measurements of the same thing under the same names. A cell that was
// measured only once is left out.
func Repetitions(rows []results.Row) []Repeated {
	var all []*Repeated
	byKey := map[string]*Repeated{}
	for i := range rows {
		r := &rows[i]
		if r.Verdict().Verdict == load.Void {
			continue
		}
		key := groupOf(r)
		x := byKey[key]
		if x == nil {
			x = &Repeated{Benchmark: r.Benchmark, Engine: r.Deployment.Engine, Deployment: r.DeploymentID, Axes: r.Axes}
			byKey[key], all = x, append(all, x)
		}
		x.rows = append(x.rows, r)
		x.Repetitions++
	}
	metrics := allMetrics(rows)
	var out []Repeated
	for _, x := range all {
		if x.Repetitions < 2 {
			continue
		}
		x.Figures = map[string]Spread{}
		for _, m := range metrics {
			if values := trusted(m, x.rows); len(values) > 0 {
				x.Figures[m.name] = spread(values)
			}
		}
		out = append(out, *x)
	}
	return out
}

// Together prints repetitions as one line for each cell, and nothing where there
// are none.
func Together(w io.Writer, rows []results.Row) error {
	for _, line := range spreadLines(Repetitions(rows), 0) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// spreadLines are a table with one line for each repeated cell: the median of its
// repetitions, and how far the farthest is from it. What does not fit into width goes,
// the last column first.
func spreadLines(repeated []Repeated, width int) []string {
	if len(repeated) == 0 {
		return nil
	}
	g := &grid{rows: len(repeated)}
	add := func(weight int, group, name string, left bool, of func(Repeated) string) {
		c := column{group: group, name: name, left: left, weight: weight}
		for _, r := range repeated {
			c.cells = append(c.cells, of(r))
		}
		if weight == 0 || slices.ContainsFunc(c.cells, func(cell string) bool { return cell != none }) {
			g.columns = append(g.columns, c)
		}
	}
	add(0, "", "cell", true, func(r Repeated) string {
		words := []string{r.Benchmark}
		if r.Engine != "" {
			words = append(words, r.Engine)
		}
		for _, a := range r.Axes {
			if a.Name != "engine" {
				words = append(words, a.Name+"="+axisText(a.Value))
			}
		}
		return strings.Join(words, " ")
	})
	add(0, "", "n", false, func(r Repeated) string {
		used := 0
		for _, s := range r.Figures {
			used = max(used, s.N)
		}
		if used < r.Repetitions {
			return fmt.Sprintf("%d of %d", used, r.Repetitions)
		}
		return whole(r.Repetitions)
	})
	for i, m := range []metric{outputThroughput, latency(ttft, "median"), latency(tpot, "median"), latency(e2el, "median"), goodput} {
		add(90-10*i, m.group, strings.TrimSpace(m.short+" "+m.unit), false, func(r Repeated) string {
			if s, ok := r.Figures[m.name]; ok {
				return s.text()
			}
			return none
		})
	}
	g.fit(width)
	return append([]string{"Repetitions: their median, and how far the farthest is from it", ""}, g.lines()...)
}
