package load

import (
	"math"
	"math/bits"
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
	// Independent is how many independent values tell as much of a percentile as these do, of gaps
	// and where that is too few for it.
	Independent map[string]int `json:"independent,omitempty"`
}

// Tells notes how many independent values tell as much of a percentile, where they are too few.
func (s *Stats) Tells(percentile float64, independent int) {
	if independent >= min(s.Count, Needs(percentile)) {
		return
	}
	if s.Independent == nil {
		s.Independent = map[string]int{}
	}
	s.Independent[percentileKey(percentile)] = independent
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

// histogramBits is the resolution of a histogram: values of one bucket differ by
// less than 2⁻¹⁰ of themselves, so that three digits are right.
const histogramBits = 10

// Histogram counts times, however many, in less than half a megabyte. Its count,
// mean, standard deviation, least and greatest are exact.
type Histogram struct {
	buckets        []int64
	count          int64
	sum            time.Duration
	squares        float64 // of milliseconds
	least, largest time.Duration
}

// Add counts a time; one below 0 as 0.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	i := bucket(uint64(d))
	if i >= len(h.buckets) {
		h.buckets = append(h.buckets, make([]int64, i+1-len(h.buckets))...)
	}
	h.buckets[i]++
	if h.count == 0 {
		h.least = d
	}
	h.count++
	h.sum += d
	h.squares += Ms(d) * Ms(d)
	h.least, h.largest = min(h.least, d), max(h.largest, d)
}

// Merge counts what another has counted.
func (h *Histogram) Merge(other *Histogram) {
	if other.count == 0 {
		return
	}
	if n := len(other.buckets) - len(h.buckets); n > 0 {
		h.buckets = append(h.buckets, make([]int64, n)...)
	}
	for i, n := range other.buckets {
		h.buckets[i] += n
	}
	if h.count == 0 {
		h.least = other.least
	}
	h.count += other.count
	h.sum += other.sum
	h.squares += other.squares
	h.least, h.largest = min(h.least, other.least), max(h.largest, other.largest)
}

// bucket is the place of a value: the first 2¹¹ have one each, and every doubling beyond has 2¹⁰.
func bucket(v uint64) int {
	exponent := max(bits.Len64(v)-histogramBits-1, 0)
	return exponent<<histogramBits + int(v>>exponent)
}

func middle(i int) time.Duration {
	exponent := max(i>>histogramBits-1, 0)
	low := uint64(i-exponent<<histogramBits) << exponent
	return time.Duration(low + (uint64(1)<<exponent-1)/2)
}

// Stats describes what was counted.
func (h *Histogram) Stats(percentiles []float64) Stats {
	s := Stats{Count: int(h.count), Percentiles: make(map[string]float64, len(percentiles))}
	for _, p := range percentiles {
		s.Percentiles[percentileKey(p)] = h.percentile(p)
	}
	if h.count == 0 {
		return s
	}
	n := float64(h.count)
	s.Mean = Ms(h.sum) / n
	s.Std = math.Sqrt(max(h.squares/n-s.Mean*s.Mean, 0))
	s.Median, s.Min, s.Max = h.percentile(50), Ms(h.least), Ms(h.largest)
	return s
}

// Describe is stats, and nil of nothing.
func (h *Histogram) Describe(percentiles []float64) *Stats {
	if h == nil || h.count == 0 {
		return nil
	}
	return new(h.Stats(percentiles))
}

// percentile is that of the sorted values in milliseconds, as for exact ones,
// with the middle of a bucket for each value in it.
func (h *Histogram) percentile(p float64) float64 { return between(int(h.count), p, h.nth) }

// nth is the n-th of the sorted values, from 0.
func (h *Histogram) nth(n int) float64 {
	switch {
	case n <= 0:
		return Ms(h.least)
	case n >= int(h.count)-1:
		return Ms(h.largest)
	}
	for i, c := range h.buckets {
		if n -= int(c); n < 0 {
			return Ms(min(max(middle(i), h.least), h.largest))
		}
	}
	return Ms(h.largest)
}
