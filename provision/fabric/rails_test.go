package fabric

import (
	"slices"
	"testing"
)

// TestRounds: each meets each other once, and nobody two others at a time.
func TestRounds(t *testing.T) {
	for n := range 17 {
		met := map[[2]int]int{}
		all := rounds(n)
		for _, round := range all {
			var busy []int
			for _, pair := range round {
				busy = append(busy, pair[:]...)
				met[pair]++
			}
			slices.Sort(busy)
			if len(slices.Compact(slices.Clone(busy))) != len(busy) {
				t.Errorf("%d: somebody has two partners: %v", n, round)
			}
		}
		for pair, times := range met {
			if times != 1 || pair[0] >= pair[1] {
				t.Errorf("%d: %v meet %d times", n, pair, times)
			}
		}
		if len(met) != n*(n-1)/2 || len(all) > n {
			t.Errorf("%d: %d pairs in %d rounds", n, len(met), len(all))
		}
	}
}
