package load

import "testing"

// TestLengths: answers are shorter than others where that is more than MLPerf allows and more than chance explains.
func TestLengths(t *testing.T) {
	of := func(completed, tokens, ended int) *Figures {
		return &Figures{Completed: completed, OutputTokens: int64(tokens), EndedEarly: ended}
	}
	for _, x := range []struct {
		name       string
		own, other *Figures
		by         float64
		ends       bool
	}{
		{"the same", of(1000, 100_000, 900), of(1000, 100_000, 900), 0, false},
		{"within a tenth", of(10_000, 910_000, 9000), of(10_000, 1_000_000, 9400), 0, false},
		{"shorter", of(1000, 60_000, 1000), of(1000, 100_000, 900), 0.4, true},
		{"longer", of(1000, 100_000, 900), of(1000, 60_000, 900), 0, false},
		{"too few to tell", of(20, 1200, 20), of(20, 2000, 18), 0, false},
		{"never ends", of(1000, 128_000, 0), of(1000, 100_000, 900), 0, true},
		{"nothing", of(0, 0, 0), of(1000, 100_000, 900), 0, false},
		{"not counted", &Figures{Completed: 1000, UsageMissing: 1}, of(1000, 100_000, 0), 0, false},
	} {
		if by := x.own.Shorter(x.other); by != x.by {
			t.Errorf("%s: shorter by %v, want %v", x.name, by, x.by)
		}
		if ends := x.own.EndsOtherwise(x.other); ends != x.ends || ends != x.other.EndsOtherwise(x.own) {
			t.Errorf("%s: ends otherwise: %v, want %v", x.name, ends, x.ends)
		}
	}
}
