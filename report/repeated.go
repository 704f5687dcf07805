package report

import (
	"fmt"
	"io"
	"strings"

	"hclbench/report/number"
	"hclbench/results"
)

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
			if e, ok := weigh(m.raw(), c, nil); ok {
				x.Figures[m.Name] = e.Spread
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
	for i, m := range []Metric{outputThroughput, medianTTFT, medianTPOT, medianE2EL, goodput} {
		c := m.column(nil, 90-10*i).filled(len(repeated), func(i int) string {
			if of, ok := repeated[i].Figures[m.Name]; ok {
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
