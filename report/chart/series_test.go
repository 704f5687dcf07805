package chart

import (
	"fmt"
	"testing"
)

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
