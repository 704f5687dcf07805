package load

import (
	"math"
	"testing"
)

func TestNeeds(t *testing.T) {
	for p, want := range map[float64]int{50: 6, 90: 36, 95: 72, 99: 368, 99.9: 3688, 10: 36, 1: 368, 100: 1, 0: 1} {
		if got := Needs(p); got != want {
			t.Errorf("p%g needs %d, want %d", p, got, want)
		}
		if p == 0 || p == 100 {
			continue
		}
		if _, _, ok := Ranks(want, float64(want), p); !ok {
			t.Errorf("p%g: %d values do not carry it", p, want)
		}
		if _, _, ok := Ranks(want-1, float64(want-1), p); ok {
			t.Errorf("p%g: %d values carry it", p, want-1)
		}
	}
}

// TestRanks is against the places at which the binomial distribution leaves 2.5 % on either side.
func TestRanks(t *testing.T) {
	for _, x := range []struct {
		n               int
		independent, of float64
		low, high       float64
		ok              bool
	}{
		{100, 100, 50, 40.73, 60.27, true},
		{1000, 1000, 99, 983.91, 996.15, true},
		{1000, 100, 50, 401.85, 599.15, true}, // ten times each
		{1000, 100, 99, 0, 0, false},
		{3, 3, 50, 0, 0, false},
		{0, 0, 50, 0, 0, false},
		{1000, 0.5, 50, 0, 0, false},
		{2_000_000, 2_000_000, 50, 998614.6, 1001386.4, true},
	} {
		low, high, ok := Ranks(x.n, x.independent, x.of)
		if math.Abs(low-x.low) > 0.1 || math.Abs(high-x.high) > 0.1 || ok != x.ok {
			t.Errorf("p%g of %d, worth %g: %.2f to %.2f, %v; want %.2f to %.2f, %v", x.of, x.n, x.independent, low, high, ok, x.low, x.high, x.ok)
		}
	}
}

// TestEarlyStopping is MLPerf's table: how many values it takes for so many above the estimate.
func TestEarlyStopping(t *testing.T) {
	for p, sizes := range map[float64][]int{99: {459, 662, 838, 1001}, 95: {90, 130, 165}, 90: {44, 64, 81}} {
		for above, n := range sizes {
			if got := n - EarlyStopping(n, p); got != above {
				t.Errorf("p%g of %d values: %d above the estimate, want %d", p, n, got, above)
			}
		}
		if got := EarlyStopping(sizes[0]-1, p); got != 0 {
			t.Errorf("p%g of %d values: place %d, want none", p, sizes[0]-1, got)
		}
	}
}
