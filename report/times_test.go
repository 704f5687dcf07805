package report

import (
	"encoding/json"
	"fmt"
	"testing"

	"hclbench/report/chart"
	"hclbench/results"
)

func TestCurve(t *testing.T) {
	for _, c := range []struct {
		parts int
		y     []float64
		want  string
	}{
		{3, []float64{10, 20, 73}, "{0 [0,2,10,73] AK_}"},
		{2, []float64{10, 20, 30, 50}, "{0 [0,3,15,40] A_}"},
		{60, []float64{5, 5}, "{0 [0,1,5,5] AA}"},
	} {
		var dots []chart.Dot
		for i, y := range c.y {
			dots = append(dots, chart.Dot{X: float64(i), Y: y})
		}
		got := curveOf(dots, c.parts)
		bounds, _ := json.Marshal(got.Range)
		if text := fmt.Sprintf("{%d %s %s}", got.Of, bounds, got.At); text != c.want {
			t.Errorf("%v in %d parts: %s, want %s", c.y, c.parts, text, c.want)
		}
	}
	if got := curveOf([]chart.Dot{{X: 0, Y: 1}, {X: 0.1, Y: 1}, {X: 3, Y: 2}}, 3).At; got != "A._" {
		t.Errorf("a part without readings: %s", got)
	}
}

// TestTimes: a page has room for so many curves, the busiest cells' first, and none is cut.
func TestTimes(t *testing.T) {
	own, _ := measured(t)
	var rows []results.Row
	for range 200 {
		rows = append(rows, own...)
	}
	times := newTimes(rows)
	letters := 0
	for i, curves := range times.Rows {
		if r := &rows[i]; r.Repetition != 1 || len(curves) != 5 {
			t.Fatalf("%s, repetition %d, has %d curves", r.ID, r.Repetition, len(curves))
		}
		for _, c := range curves {
			letters += len(c.At) + curveHead
		}
	}
	if !times.More || letters > curveRoom || letters < curveRoom*9/10 {
		t.Errorf("%d letters of %d are used, more: %v", letters, curveRoom, times.More)
	}
	for i := range rows {
		if r := &rows[i]; r.Summary != nil && r.Repetition == 1 && r.Job.Workload.Concurrency == 1 && times.Rows[i] != nil {
			t.Fatal("an idle cell has curves, a busy one has none")
		}
	}
	if all := newTimes(own); all.More || len(all.Rows) != 44 {
		t.Errorf("of %d cells %d have curves", len(own), len(all.Rows))
	}
}
