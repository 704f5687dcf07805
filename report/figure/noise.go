package figure

import (
	"fmt"
	"math"

	"hclbench/results"
)

// unrest is what is known of the noise under the values of a figure.
type unrest struct {
	of     *results.Noise // nil: its box was not proved
	spread float64        // of the logarithm, between starts
	starts int            // in which the values were measured
}

// unrestOf is that of the rows of a cell.
func unrestOf(m Metric, rows []*results.Row) (u unrest) {
	for _, r := range rows {
		if n := r.Noise; n != nil && n.Spread[m.Name] > u.spread && KindOfRun(r) == "" {
			u.of, u.spread = n, n.Spread[m.Name]
		}
	}
	if u.of != nil { // most boxes are not proved
		u.starts = len(Grouped(rows, func(r *results.Row) [2]string { return [2]string{r.RunID, r.DeploymentID} }))
	}
	return u
}

// student are the 97.5th percentiles of Student's t with 1, 2, … degrees of freedom (NIST/SEMATECH e-Handbook of
// Statistical Methods, 1.3.6.7.2). With more, the last is a little too wide.
var student = []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
	2.120, 2.110, 2.101, 2.093, 2.086}

// floor is how far, as a difference of logarithms, two figures must be apart before it is more than what starts of one
// engine differ by: t·√(s₁²/n₁ + s₂²/n₂), where n are the starts that each was measured in, s the spread between starts of
// a proved box, and t has one degree of freedom less than the starts that tell the spread. That is the prediction
// interval for the difference of two means (Hahn and Meeker, Statistical Intervals, 4.8; with n₁ = n₂ = 1 it is the
// repeatability limit of ISO 5725-6): of two that are the same, 5 of 100 are further apart, however few starts told
// the spread. 0: of neither box is anything known.
func (u unrest) floor(from unrest) float64 {
	variance, freedom := 0.0, len(student)
	for _, x := range []unrest{u, from} {
		if x.of != nil {
			variance += x.spread * x.spread / float64(max(x.starts, 1))
			freedom = max(min(freedom, x.of.Starts-1), 1)
		}
	}
	return student[freedom-1] * math.Sqrt(variance)
}

// Floor is the least change that the boxes of two figures can show, as a share: 0.06 is 6 %. 0: they were not proved.
func (e Evidence) Floor(from Evidence) float64 { return math.Expm1(e.unrest.floor(from.unrest)) }

// Box is the box that was proved under the figure; empty: none was.
func (u unrest) Box() string {
	if u.of == nil {
		return ""
	}
	return u.of.Box
}

// LeastShown is the least change of a metric that a box can show, when A and B are measured in one start each, as a share;
// 0: nobody knows.
func LeastShown(n *results.Noise, m Metric) float64 {
	u := unrest{n, n.Spread[m.Name], 1}
	return math.Expm1(u.floor(u))
}

// Within reports whether two figures are closer than what their boxes can show.
func (e Evidence) Within(from Evidence) bool {
	floor := e.unrest.floor(from.unrest)
	return floor > 0 && e.Median > 0 && from.Median > 0 && math.Abs(math.Log(e.Median/from.Median)) < floor
}

// Floors are the metrics whose floors are shown where nobody asks for others.
func Floors() []Metric {
	return []Metric{OutputThroughput, MedianTTFT, Latency(TTFT, "p99"), MedianTPOT, Latency(ITL, "median"), MedianE2EL}
}

// NoiseOf is how far the starts of a proof lie apart: rows are its cells. Every start has measured every load; a metric is
// there that all of them know. False: no two starts have measured the same, so that nothing is known of the noise. Starts on
// several machines, as pods may be, tell the noise of none: its Box is empty.
func NoiseOf(rows []results.Row) (n results.Noise, ok bool) {
	measured := Those(rows, IsMeasured)
	starts := Grouped(measured, func(r *results.Row) string { return r.DeploymentID })
	if len(starts) < 2 {
		return n, false
	}
	r := measured[0]
	d := &r.Deployment
	n = results.Noise{Box: d.Box(), Engine: d.Engine, Kind: d.Kind, Version: d.Versions[d.Kind], Host: d.Host, RunID: r.RunID,
		Measured: r.Finished, Starts: len(starts), Spread: map[string]float64{}}
	for _, start := range starts {
		if start[0].Deployment.Box() != n.Box {
			n.Box = ""
		}
	}
	whole := false
	for _, m := range AllMetrics(rows) {
		worst := 0.0
		for _, load := range Grouped(measured, func(r *results.Row) string { return r.Benchmark + fmt.Sprint(r.Axes) }) {
			var logs []float64
			for _, v := range ValuesOf(m.Raw(), load) {
				if v > 0 {
					logs = append(logs, math.Log(v))
				}
			}
			if len(logs) == len(starts) {
				whole = true
				worst = max(worst, math.Sqrt(variance(logs)))
			}
		}
		if worst > 0 && m.Better != 0 {
			n.Spread[m.Name] = worst
		}
	}
	return n, whole
}
