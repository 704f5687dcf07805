package draw

import (
	"strings"
	"testing"

	"hclbench/capacity"
	"hclbench/report/chart"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
)

// TestCapacities: bars are full as far as is certain and outlined as far as nobody knows; loads that were tried have their
// share at each line of the SLO, and a marker for what is certain of it.
func TestCapacities(t *testing.T) {
	rows, found := reporttest.Searched(
		reporttest.Search{Engine: "sglang.h200", Pass: []float64{4, 79}, Open: []float64{91}, Fail: []float64{99}},
		reporttest.Search{Engine: "vllm.big", Pass: []float64{128}, Most: 128},
		reporttest.Search{Engine: "vllm.tiny", Fail: []float64{2}},
		reporttest.Search{Engine: "vllm.old", Pass: []float64{4}, Flaw: "drifting"})
	about := figure.About{Found: figure.Found{Capacities: found}}
	sections := Sections(rows, figure.NewSeries(rows, nil), about)
	if s := sections[0]; s.ID != CapacityID || len(s.Figures) != 2 || len(s.Figures[1].Charts) != 2 {
		t.Fatalf("the first section is %+v", s)
	}
	answers, lines := sections[0].Figures[0], sections[0].Figures[1]
	var bars []string
	for _, b := range answers.Charts[0].Groups[0].Bars {
		bars = append(bars, strings.Join([]string{b.Series.Engine, b.Text}, " "))
		if b.Hover == "" {
			t.Error("a bar says nothing")
		}
	}
	reporttest.Check(t, "bars", []string{"sglang.h200 79 to 99", "vllm.big 128 or more", "vllm.tiny below 2", "vllm.old no answer"}, bars)
	b := answers.Charts[0].Groups[0].Bars[0]
	if b.Value != 79 || b.To != 99 {
		t.Errorf("from %v to %v", b.Value, b.To)
	}
	c := lines.Charts[0]
	if c.Title != "TTFT p95 ≤ 1s" || c.Asked != 95 || c.Y.From != 80 || c.Y.To != 100 {
		t.Errorf("%+v", c)
	}
	type mark struct {
		at    float64
		found string
		sign  chart.Sign
	}
	var marks []mark
	for _, d := range c.Lines[0].Dots {
		marks = append(marks, mark{d.X, d.Found, d.Sign})
	}
	pass, open, fail := string(capacity.Pass), string(capacity.Unresolved), string(capacity.Fail)
	want := []mark{{4, pass, chart.Full}, {79, pass, chart.Full}, {91, open, chart.Hollow}, {99, fail, chart.Crossed}}
	for i := range want {
		if i >= len(marks) || marks[i] != want[i] {
			t.Fatalf("marks %+v, want %+v", marks, want)
		}
	}
	reporttest.Holds(t, answers.CSV(), ",79,", ",79,99,")
	reporttest.Holds(t, lines.CSV(), ",PASS,", ",FAIL,", ",UNRESOLVED,")
}
