package report

import (
	"slices"

	"hclbench/report/chart"
	"hclbench/results"
)

// Hero is the figure that the page shows first of a benchmark, as an SVG picture of that width that
// stands alone; empty: there is nothing to draw yet.
func Hero(rows []results.Row, about About, benchmark string, width float64, dark bool) string {
	about.Records = nil // which only other figures are drawn from
	current := fresh(rows)
	all := about.series(current)
	own := slices.DeleteFunc(slices.Clone(current), func(r results.Row) bool { return r.Benchmark != benchmark })
	if len(own) == 0 {
		return ""
	}
	theme, height := chart.Light, max(phoneHero, width*fileHeroHigh/fileHeroWide)
	if dark {
		theme = chart.Dark
	}
	drawn := sections(own, all, about)
	for _, heroes := range []bool{true, false} {
		for _, s := range drawn {
			for _, f := range s.Figures {
				if f.Hero == heroes && s.Title == benchmark {
					return f.alone(f.Charts[0], sourceOf(own, about)).Draw(width, height).SVG(theme)
				}
			}
		}
	}
	return ""
}
