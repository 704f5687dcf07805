package draw

import (
	"strings"
	"testing"

	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
)

// TestHero: the first picture of a benchmark, of the cells that are there, wide and narrow, light and dark.
func TestHero(t *testing.T) {
	rows := reporttest.Quickstart()
	for _, tt := range []struct {
		name      string
		rows      []results.Row
		benchmark string
		width     float64
		dark      bool
		want      []string // empty: there is nothing to draw
	}{
		{"all", rows, rows[0].Benchmark, 960, false, []string{`width="992"`, "<polyline"}},
		{"a phone in the dark", rows, rows[0].Benchmark, 400, true, []string{`width="432"`, "<polyline"}},
		{"the first cell", rows[:1], rows[0].Benchmark, 960, false, []string{"1 value: "}},
		{"another benchmark", rows, "other", 960, false, nil},
		{"nothing", nil, "online", 960, false, nil},
	} {
		got := HeroSVG(tt.rows, figure.About{Title: "lab"}, tt.benchmark, tt.width, tt.dark)
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: the picture has no %q:\n%.300s", tt.name, want, got)
			}
		}
		if tt.want == nil && got != "" {
			t.Errorf("%s: there is a picture:\n%.300s", tt.name, got)
		}
	}
}
