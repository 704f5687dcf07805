package page

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"hclbench/report/chart"
	"hclbench/report/reporttest"
	"hclbench/results"
)

func TestCurve(t *testing.T) {
	for _, c := range []struct {
		parts int
		y     []float64
		want  string
	}{
		{3, []float64{10, 20, 73}, "{0 [0,2,10,73,10,73] AK_}"},
		{2, []float64{10, 20, 30, 50}, "{0 [0,3,15,40,10,50] A_}"},
		{60, []float64{5, 5}, "{0 [0,1,5,5,5,5] AA}"},
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
	if got := curveOf([]chart.Dot{{X: 5, Y: 1}, {X: 0, Y: 1}, {X: 6, Y: 2}}, 3); got.At != "A._" || got.Range[0] != 0 || got.Range[1] != 6 {
		t.Errorf("times that fall: %+v", got)
	}
}

// TestTimes: a page has room for so many curves, the busiest cells' first, and none is cut.
func TestTimes(t *testing.T) {
	own := reporttest.Measured()
	var rows []results.Row
	for range 200 {
		rows = append(rows, own...)
	}
	for i := 0; i < len(rows); i += 7 {
		if s := rows[i].Summary; s != nil { // as it is imported
			r := *s
			r.Series = nil
			rows[i].Summary, rows[i].Telemetry = &r, nil
		}
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
	if letters > curveRoom || letters < curveRoom*9/10 {
		t.Errorf("%d letters of %d are used", letters, curveRoom)
	}
	for i := range rows {
		if r := &rows[i]; r.Summary != nil && r.Repetition == 1 && r.Job.Workload.Concurrency == 1 && times.Rows[i] != nil {
			t.Fatal("an idle cell has curves, a busy one has none")
		}
	}
	for i := range rows {
		s := rows[i].Summary
		if _, drawn := times.Rows[i]; (drawn || slices.Contains(times.Left, i)) != (s != nil && s.Series != nil) {
			t.Fatalf("row %d, %s: drawn %v, left %v", i, rows[i].ID, drawn, !drawn)
		}
	}
	if all := newTimes(own); len(all.Left) > 0 || len(all.Rows) != 44 {
		t.Errorf("of %d cells %d have curves", len(own), len(all.Rows))
	}
}
