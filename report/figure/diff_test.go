package figure

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestRankTest(t *testing.T) {
	var long, longer []float64
	for i := range 40 {
		long, longer = append(long, float64(i)), append(longer, float64(i)+8)
	}
	for _, c := range []struct {
		name string
		a, b []float64
		want float64
	}{
		{"the least for three", []float64{1, 2, 3}, []float64{4, 5, 6}, 2.0 / 20},
		{"the least for four", []float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, 2.0 / 70},
		{"ages of onset, Mann and Whitney's U of 17", []float64{19, 22, 16, 29, 24}, []float64{20, 11, 17, 12}, 0.1111},
		{"all the same", []float64{5, 5, 5, 5}, []float64{5, 5, 5}, 1},
		{"nothing", nil, []float64{1}, 1},
		// U is 512, its mean 800, its variance 10795.9: z is 287.5/103.9.
		{"by approximation", long, longer, 0.00566},
	} {
		if got := RankTest(c.a, c.b); math.Abs(got-c.want) > 0.0001*max(1, c.want/0.01) {
			t.Errorf("%s: p = %.5f, want %.5f", c.name, got, c.want)
		}
	}

	// Against every way to share the values out, ties included.
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n, m := 1+rng.IntN(4), 1+rng.IntN(4)
		var all []float64
		for range n + m {
			all = append(all, float64(rng.IntN(5)))
		}
		u := func(mask int) float64 {
			sum := 0.0
			for i := range all {
				for j := range all {
					if mask>>i&1 == 1 && mask>>j&1 == 0 {
						switch {
						case all[i] > all[j]:
							sum++
						case all[i] == all[j]:
							sum += 0.5
						}
					}
				}
			}
			return math.Abs(sum - float64(n*m)/2)
		}
		seen := u(1<<n - 1)
		ways, extreme := 0, 0
		for mask := range 1 << (n + m) {
			bits := 0
			for i := range n + m {
				bits += mask >> i & 1
			}
			if bits == n {
				ways++
				if u(mask) >= seen-1e-9 {
					extreme++
				}
			}
		}
		want := float64(extreme) / float64(ways)
		if got := RankTest(all[:n], all[n:]); math.Abs(got-want) > 1e-9 {
			t.Fatalf("%v against %v: p = %v, want %v", all[:n], all[n:], got, want)
		}
	}
}

func TestNeeded(t *testing.T) {
	// a difference of one standard deviation takes 17 of each for a t-test.
	a, b := []float64{-1, 1, -1, 1}, []float64{-1, 1, -1, 1}
	for i := range b {
		b[i] += math.Sqrt(4.0 / 3)
	}
	if got := Needed(a, b); got != 17 {
		t.Errorf("needed = %d, want 17", got)
	}
	if got := Needed([]float64{1}, []float64{2}); got != 0 {
		t.Errorf("needed of single values = %d, want that nothing is known", got)
	}
}
