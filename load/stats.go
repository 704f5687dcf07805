package load

import (
	"math"
	"slices"
	"strconv"
	"time"
)

// percentileKey is how a percentile is named in [Stats].
func percentileKey(p float64) string { return strconv.FormatFloat(p, 'f', -1, 64) }

// Stats describe one metric over the successful requests (ITL: over all gaps).
// Milliseconds, except where the metric is not a time.
type Stats struct {
	Count       int                `json:"count"`
	Mean        float64            `json:"mean"`
	Median      float64            `json:"median"`
	Std         float64            `json:"std"` // population, ddof 0, as numpy
	Min         float64            `json:"min"`
	Max         float64            `json:"max"`
	Percentiles map[string]float64 `json:"percentiles"` // "99", "99.9": linear interpolation, as numpy
}

// Ms is a time in milliseconds.
func Ms(d time.Duration) float64 { return float64(d) / 1e6 }

// Describe is the statistics of x, which it sorts.
func Describe(x, percentiles []float64) Stats {
	s := Stats{Count: len(x), Percentiles: make(map[string]float64, len(percentiles))}
	slices.Sort(x)
	for _, p := range percentiles {
		s.Percentiles[percentileKey(p)] = Percentile(x, p)
	}
	if len(x) == 0 {
		return s
	}
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	s.Mean = sum / float64(len(x))
	squares := 0.0
	for _, v := range x {
		squares += (v - s.Mean) * (v - s.Mean)
	}
	s.Std = math.Sqrt(squares / float64(len(x)))
	s.Median, s.Min, s.Max = Percentile(x, 50), x[0], x[len(x)-1]
	return s
}

// Percentile interpolates linearly between the two nearest of the sorted values,
// as numpy.percentile does unless told otherwise. Of nothing it is 0.
func Percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return between(len(sorted), p, func(i int) float64 { return sorted[i] })
}

// between is a percentile of n values, of which at tells the i-th of the sorted ones.
func between(n int, p float64, at func(i int) float64) float64 {
	h := float64(n-1) * p / 100
	i := int(h)
	low := at(i)
	if part := h - float64(i); part > 0 && i+1 < n {
		return low + part*(at(i+1)-low)
	}
	return low
}
