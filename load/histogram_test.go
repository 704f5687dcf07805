package load

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func approx(tolerance float64) cmp.Option { return cmpopts.EquateApprox(tolerance, tolerance) }

// TestHistogram: three digits of every percentile are right, and the rest is
// exact, however the values are spread and in however many parts they come.
func TestHistogram(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	percentiles := []float64{0, 1, 50, 90, 99, 99.9, 100}
	for range 200 {
		var whole, part Histogram
		var values []float64
		scale := math.Pow(10, float64(r.IntN(11)))
		for i := range 1 + r.IntN(3000) {
			d := time.Duration(scale * r.ExpFloat64())
			values = append(values, Ms(d))
			if i%3 == 0 {
				part.Add(d)
			} else {
				whole.Add(d)
			}
		}
		whole.Merge(&part)
		want, got := Describe(values, percentiles), whole.Stats(percentiles)
		if diff := cmp.Diff(want, got, approx(1e-3)); diff != "" {
			t.Fatalf("of %d values (-exact +histogram):\n%s", len(values), diff)
		}
		want.Median, want.Percentiles = got.Median, got.Percentiles
		if diff := cmp.Diff(want, got, approx(1e-6)); diff != "" {
			t.Fatalf("of %d values (-exact +histogram):\n%s", len(values), diff)
		}
	}
}

func TestBuckets(t *testing.T) {
	values := []uint64{0, 1, 1023, 1024, 2047, 2048, 2049, 4095, 4096, 1 << 40, 1<<62 - 1}
	var places []int
	for _, v := range values {
		i := bucket(v)
		places = append(places, i)
		if m := float64(middle(i)); math.Abs(m-float64(v)) > float64(v)/1024 {
			t.Errorf("%d is counted as %.0f", v, m)
		}
	}
	if !slices.IsSorted(places) {
		t.Errorf("buckets %v of %v are not in order", places, values)
	}
	for v := range uint64(1 << 13) {
		if d := bucket(v+1) - bucket(v); d != 0 && d != 1 {
			t.Fatalf("from %d to %d there are %d buckets", v, v+1, d)
		}
	}
}
