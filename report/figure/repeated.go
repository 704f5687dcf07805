package figure

import (
	"fmt"

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
	metrics := AllMetrics(rows)
	var out []Repeated
	for _, c := range CellsOf(rows, IsMeasured) {
		if len(c) < 2 {
			continue
		}
		r := c[0]
		x := Repeated{Benchmark: r.Benchmark, Engine: r.Deployment.Engine, Deployment: r.DeploymentID, Axes: r.Axes,
			Repetitions: len(c), Figures: map[string]Spread{}}
		for _, m := range metrics {
			if e, ok := Weigh(m.Raw(), c, nil); ok {
				x.Figures[m.Name] = e.Spread
			}
		}
		out = append(out, x)
	}
	return out
}

// Used is how many repetitions the figures are of, and of how many, where some are left out.
func (r Repeated) Used() string {
	used := 0
	for _, s := range r.Figures {
		used = max(used, s.N)
	}
	if used < r.Repetitions {
		return fmt.Sprintf("%d of %d", used, r.Repetitions)
	}
	return number.Whole(r.Repetitions)
}
