package figure

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"hclbench/report/reporttest"
	"hclbench/results"
)

// startsOf are cells of one engine, each measured in a start of its own on a proved box.
func startsOf(noise *results.Noise, values ...float64) (all []*results.Row) {
	rows := reporttest.Repeated("vllm.h200", 4, values...)
	for i := range rows {
		rows[i].DeploymentID, rows[i].Noise = fmt.Sprintf("start %d", i), noise
		all = append(all, &rows[i])
	}
	return all
}

// proof are the cells of a proof: of each load the throughput of every start.
func proof(loads ...[]float64) (rows []results.Row) {
	for i, values := range loads {
		for _, r := range startsOf(nil, values...) {
			r.Axes = results.Axes{{Name: "concurrency", Value: int64(i)}}
			rows = append(rows, *r)
		}
	}
	return rows
}

// TestFloor: of figures that are the same but for the starts they were measured in, no more than 5 of 100 are called
// different, however few starts have told the noise. The trials are enough to see 7 of 100.
func TestFloor(t *testing.T) {
	const boxes, sigma = 2000, 0.02
	from := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) (values []float64) {
		for range n {
			values = append(values, 1000*math.Exp(sigma*from.NormFloat64()))
		}
		return values
	}
	for _, c := range []struct{ starts, a, b int }{{2, 1, 1}, {4, 1, 1}, {4, 3, 1}, {8, 2, 2}} {
		differ := 0
		for range boxes {
			n, ok := NoiseOf(proof(draw(c.starts)))
			a, okA := Weigh(OutputThroughput, startsOf(&n, Mean(draw(c.a))), nil)
			b, okB := Weigh(OutputThroughput, startsOf(&n, Mean(draw(c.b))), nil)
			if !ok || !okA || !okB {
				t.Fatal("there is no evidence")
			}
			a.starts, b.starts = c.a, c.b
			if !b.Within(a) {
				differ++
			}
		}
		if share := float64(differ) / boxes; share < 0.035 || share > 0.065 {
			t.Errorf("noise of %d starts, figures of %d and %d: %.1f%% differ, want 5%%", c.starts, c.a, c.b, 100*share)
		}
	}
}

// TestNoiseOf: the spread is that of the load where it is largest, over the starts that measured.
func TestNoiseOf(t *testing.T) {
	rows := proof([]float64{100, 100 * math.Exp(0.02)}, []float64{100, 100 * math.Exp(0.04)})
	for i := range rows {
		rows[i].Deployment.Kind, rows[i].Deployment.Versions = "vllm", map[string]string{"vllm": "0.7.3"}
	}
	n, ok := NoiseOf(rows)
	if got, want := n.Spread["output_throughput"], 0.04/math.Sqrt2; !ok || math.Abs(got-want) > 1e-12 {
		t.Errorf("spread %v, want %v", got, want)
	}
	if n.Starts != 2 || n.Engine != "vllm.h200" || n.Version != "0.7.3" || n.Spread["median_ttft_ms"] != 0 {
		t.Errorf("NoiseOf = %+v", n)
	}
	// t·√2·s: 12.706 · √2 · 0.04/√2, as a share
	if got, want := LeastShown(&n, OutputThroughput), math.Expm1(12.706*0.04); math.Abs(got-want) > 1e-9 {
		t.Errorf("LeastShown = %v, want %v", got, want)
	}
	rows[1].Summary, rows[2].Summary = nil, nil
	if n, ok := NoiseOf(rows); ok {
		t.Errorf("of two starts that have measured another load each: %+v", n)
	}
	rows[2].Summary = rows[0].Summary
	rows[3].Summary = nil
	if n, ok := NoiseOf(rows); ok {
		t.Errorf("of one start: %+v", n)
	}
}

// TestWithinFloor: below the floor nothing differs, whatever repetitions of one start say; more starts see more; boxes
// that nobody proved, and rehearsals, have no floor.
func TestWithinFloor(t *testing.T) {
	noise := &results.Noise{Box: "b", Starts: 4, Spread: map[string]float64{"output_throughput": 0.02}}
	weigh := func(rows []*results.Row) Evidence {
		e, ok := Weigh(OutputThroughput, rows, nil)
		if !ok {
			t.Fatal("there is no evidence")
		}
		return e
	}
	one := func(rows []*results.Row, change func(*results.Row)) []*results.Row {
		for _, r := range rows {
			r.DeploymentID = "one start"
			if change != nil {
				change(r)
			}
		}
		return rows
	}
	a, b := []float64{1000, 1001, 1002, 1003}, []float64{1060, 1061, 1062, 1063} // 6 %
	for _, c := range []struct {
		name  string
		a, b  []*results.Row
		floor float64
		want  certainty
	}{
		{"not proved", one(startsOf(nil, a...), nil), one(startsOf(nil, b...), nil), 0, so},
		{"proved, of one start each", one(startsOf(noise, a...), nil), one(startsOf(noise, b...), nil), math.Expm1(3.182 * 0.02 * math.Sqrt2), NotSo},
		{"proved, of four starts each", startsOf(noise, a...), startsOf(noise, b...), math.Expm1(3.182 * 0.02 / math.Sqrt2), so},
		{"one box of two proved", one(startsOf(nil, a...), nil), one(startsOf(noise, b...), nil), math.Expm1(3.182 * 0.02), NotSo},
		{"rehearsed", one(startsOf(noise, a...), func(r *results.Row) { r.Run.Command = "rehearse" }),
			one(startsOf(noise, b...), func(r *results.Row) { r.Run.Command = "rehearse" }), 0, so},
	} {
		x, y := weigh(c.a), weigh(c.b)
		if got := y.Floor(x); math.Abs(got-c.floor) > 1e-9 {
			t.Errorf("%s: the floor is %.4f, want %.4f", c.name, got, c.floor)
		}
		if got := y.Differs(x); got != c.want || y.Even(x) != (c.want == NotSo) {
			t.Errorf("%s: Differs = %v, Even = %v; want %v", c.name, got, y.Even(x), c.want)
		}
	}
}
