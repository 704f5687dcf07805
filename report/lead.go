package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"hclbench/report/chart"
	"hclbench/report/number"
)

// lead is who is ahead at one place along a chart, and by how much.
type lead struct {
	x      float64
	Series *chart.Series // nil: fewer than two were measured there, or two are level
	by     float64       // of the next one's value: 0.12 is 12 % more, −0.12 less
	Level  bool
	// Suspect is one that would be first or second, were it not in doubt: the lead says
	// nothing of it. Nil: there is none.
	Suspect *chart.Series
}

// By is how far it is ahead, for people.
func (l lead) By() string { return number.Change(l.by) }

// level is how little the first and the second may differ, as a share, before one of them is ahead.
const level = 0.01

// leads are those of a chart at each of its ticks; nil: there is nobody to be ahead of.
func leads(c *chart.Panel, m metric) (out []lead) {
	if m.better == 0 || len(c.Lines) < 2 {
		return nil
	}
	for _, x := range c.X.Ticks {
		out = append(out, leadAt(c, m, x))
	}
	if !slices.ContainsFunc(out, func(l lead) bool { return l.Level || l.Series != nil }) {
		return nil
	}
	return out
}

// owned is a value of a chart with its series.
type owned struct {
	chart.Dot
	of *chart.Series
}

// dots are all values of a chart, those in doubt or all others.
func dots(c *chart.Panel, doubt bool) (all []owned) {
	for _, l := range c.Lines {
		if l.Published || l.Tail || l.Front {
			continue
		}
		for _, d := range l.Dots {
			if d.Doubt == doubt {
				all = append(all, owned{d, l.Series})
			}
		}
	}
	return all
}

func leadAt(c *chart.Panel, m metric, x float64) lead {
	elsewhere := func(d owned) bool { return d.X != x }
	sure, doubted := slices.DeleteFunc(dots(c, false), elsewhere), slices.DeleteFunc(dots(c, true), elsewhere)
	best := func(a, b owned) int { return cmp.Compare(b.Y*float64(m.better), a.Y*float64(m.better)) }
	slices.SortStableFunc(sure, best)
	slices.SortStableFunc(doubted, best)
	p := lead{x: x}
	if len(doubted) > 0 && (len(sure) < 2 || best(doubted[0], sure[1]) < 0) {
		p.Suspect = doubted[0].of
	}
	if len(sure) < 2 {
		return p
	}
	first, second := sure[0], sure[1]
	p.by = first.Y/second.Y - 1
	if p.Level = first.Y == second.Y || math.Abs(p.by) < level; !p.Level {
		p.Series = first.of
	}
	return p
}

// finding is who is ahead in a figure: a row for each chart, a column for each place along it.
type finding struct {
	Figure, Under, Along string
	Head                 []string
	Rows                 []findingRow
}

type findingRow struct {
	Metric string
	Leads  []lead
}

// findings are who is ahead in the figures, in the first of each title.
func findings(sections []section) (out []finding) {
	for _, s := range sections {
		found := map[string]bool{}
		for _, f := range s.Figures {
			if x := f.finding(s); x.Rows != nil && !found[f.Title] {
				found[f.Title] = true
				out = append(out, x)
			}
		}
	}
	return out
}

func (f *figure) finding(of section) finding {
	x := finding{Figure: of.Title, Under: f.Under}
	for _, c := range f.Charts {
		leads := f.leads[c]
		if leads == nil {
			continue
		}
		x.Rows = append(x.Rows, findingRow{c.Title, leads})
		x.Along, x.Head = c.X.Title, nil // the same in all charts of a figure
		for _, l := range leads {
			x.Head = append(x.Head, number.Short(l.x))
		}
	}
	return x
}

// fronts are, of each kind of GPU, the points that no other one surpasses, what is farther right being
// better, and what they say.
func fronts(c *chart.Panel, m metric) (all []chart.Line, said string) {
	count := map[*chart.Series]int{}
	sure := dots(c, false) // what is suspect leads nothing
	for _, of := range grouped(sure, func(d owned) string { return d.of.GPUs }) {
		height := func(d owned) float64 { return d.Y * float64(m.better) }
		slices.SortStableFunc(of, func(a, b owned) int {
			return cmp.Or(cmp.Compare(b.X, a.X), cmp.Compare(height(b), height(a)))
		})
		front := chart.Line{Front: true}
		best := math.Inf(-1)
		for _, p := range of {
			if height(p) > best {
				best = height(p)
				front.Dots = append(front.Dots, chart.Dot{X: p.X, Y: p.Y, N: 1})
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
