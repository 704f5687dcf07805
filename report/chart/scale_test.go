package chart

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/report/number"
)

// Whatever the values, they lie within the axis, ticks rise, and there are neither none nor many.
func TestScale(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		values := make([]float64, 1+random.IntN(6))
		size := math.Pow(10, float64(random.IntN(12)-4))
		for i := range values {
			values[i] = size * random.Float64() * math.Pow(10, float64(random.IntN(3)))
		}
		a := Axis{Zero: random.IntN(2) == 0, Log: random.IntN(4) == 0, Linear: random.IntN(4) == 0}
		if slices.Min(values) <= 0 {
			a.Log = false
		}
		s, ticks := a.fit(values, 0, 500, 2+random.IntN(8))
		for _, v := range values {
			if at := s.at(v); math.IsNaN(at) || at < -1e-6 || at > 500+1e-6 {
				t.Fatalf("%+v of %v: %v is drawn at %v of 500", a, values, v, at)
			}
		}
		if len(ticks) < 1 || len(ticks) > 16 || !slices.IsSorted(ticks) {
			t.Fatalf("%+v of %v has the ticks %v", a, values, ticks)
		}
		for _, v := range ticks {
			if text := number.Short(v); len(text) > 14 && !s.log {
				t.Fatalf("%+v of %v has the tick %s", a, values, text)
			}
		}
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		axis   Axis
		values []float64
		want   []float64
	}{
		{Axis{Zero: true}, []float64{83, 915}, []float64{0, 250, 500, 750, 1000}},
		{Axis{Zero: true}, []float64{20, 137}, []float64{0, 50, 100, 150}},
		{Axis{Zero: true}, []float64{300, 27_000}, []float64{500, 1000, 2000, 5000, 10_000, 20_000}},
		{Axis{Zero: true, Linear: true, To: 100}, []float64{1, 99}, []float64{0, 25, 50, 75, 100}},
		{Axis{Zero: true}, []float64{7, 7}, []float64{0, 2, 4, 6, 8}},
		{Axis{Ticks: []float64{4, 8, 16}}, []float64{4, 8, 16}, []float64{4, 8, 16}},
	} {
		_, got := c.axis.fit(c.values, 0, 300, 4)
		if c.values[1] == 27_000 {
			_, got = c.axis.fit(c.values, 0, 300, 6)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%+v of %v (-want +got):\n%s", c.axis, c.values, diff)
		}
	}
}

// TestLook: no two series of a report look alike.
func TestLook(t *testing.T) {
	for _, c := range []struct{ kinds, engines, gpus int }{{3, 1, 2}, {3, 4, 4}, {1, 8, 4}, {8, 2, 2}, {12, 2, 5}, {1, 32, 1}} {
		var all []*Series
		for g := range c.gpus {
			for k := range c.kinds {
				for range c.engines {
					all = append(all, &Series{GPU: g, Kind: fmt.Sprint("kind", k)})
				}
			}
		}
		Look(all)
		lines, bars, hues := map[[3]int]bool{}, map[[2]int]bool{}, map[string]map[int]bool{}
		for _, s := range all {
			lines[[3]int{s.hue, s.marker, s.dash}] = true
			bars[[2]int{s.hue, s.marker}] = true
			if hues[s.Kind] == nil {
				hues[s.Kind] = map[int]bool{}
			}
			hues[s.Kind][s.hue] = true
		}
		if len(lines) != len(all) || len(all) <= 32 && len(bars) != len(all) {
			t.Errorf("%+v: %d series have %d looks, and %d without dashes", c, len(all), len(lines), len(bars))
		}
		if c.engines == 1 && c.kinds <= 8 {
			for kind, of := range hues {
				if len(of) != 1 {
					t.Errorf("%+v: %s has %d hues", c, kind, len(of))
				}
			}
		}
	}
}
