package draw

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"hclbench/report/chart"
	"hclbench/report/figure"
)

// ownDot is a value of a chart with its series.
type ownDot struct {
	chart.Dot
	of *chart.Series
}

// dots are all values of a chart, those in doubt or all others.
func dots(c *chart.Panel, doubt bool) (all []ownDot) {
	for _, l := range c.Lines {
		if l.Published || l.Tail || l.Front {
			continue
		}
		for _, d := range l.Dots {
			if d.Doubt == doubt && !d.Fast {
				all = append(all, ownDot{d, l.Series})
			}
		}
	}
	return all
}

// Fronts are, of each kind of GPU, the points that no other one surpasses, what is farther right being
// better, and what they say.
func Fronts(c *chart.Panel, m figure.Metric) (all []chart.Line, said string) {
	count := map[*chart.Series]int{}
	sure := dots(c, false) // what is suspect leads nothing
	for _, of := range figure.Grouped(sure, func(d ownDot) string { return d.of.GPUs }) {
		height := func(d ownDot) float64 { return d.Y * float64(m.Better) }
		slices.SortStableFunc(of, func(a, b ownDot) int {
			return cmp.Or(cmp.Compare(b.X, a.X), cmp.Compare(height(b), height(a)))
		})
		front := chart.Line{Front: true}
		best := math.Inf(-1)
		for _, p := range of {
			if height(p) > best {
				best = height(p)
				front.Dots = append(front.Dots, chart.Dot{X: p.X, Y: p.Y, N: 1, Ref: p.Ref})
				count[p.of]++
			}
		}
		slices.Reverse(front.Dots)
		all = append(all, front)
	}
	var parts []string
	for _, s := range c.Series() {
		if n := count[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", s.Label, n))
		}
	}
	said = "Grey band: the points that no other valid one surpasses in both directions"
	if len(all) > 1 {
		said = "Grey bands: of each kind of GPU, the points that no other valid one surpasses in both directions"
	}
	if len(parts) > 1 {
		said += " (" + strings.Join(parts, ", ") + ")"
	}
	return all, said + "."
}
