package measure

import (
	"math"
	"time"

	"hclbench/load"
)

const (
	batches = 20  // that a run is cut into, of equal time
	likest  = 0.5 // that a batch may be to the one before it; with more, the run was too short to tell
)

// cut is the part of a run that shows how much its figures vary, in batches.
type cut struct{ from, to time.Duration }

// newCut is from the end of the ramp and, of a closed loop, of its first request, to the last
// dispatch: the requests that all begin at once wait for each other as no others do.
func newCut(w load.Workload, records []load.Record) cut {
	c, over := cut{from: math.MaxInt64}, time.Duration(math.MaxInt64)
	for i := range records {
		r := &records[i]
		c.from, c.to, over = min(c.from, r.Sent), max(c.to, r.Sent), min(over, r.End)
	}
	if len(records) > 0 {
		c.from += time.Duration(w.Ramp)
	}
	if w.Rate == 0 {
		c.from = max(c.from, over)
	}
	return c
}

// telling reports whether the cut is enough of so many seconds to speak for them.
func (c cut) telling(duration float64) bool {
	return duration > 0 && c.to > c.from && (c.to-c.from).Seconds() >= duration/2
}

// at is the batch of a moment; what comes before and after belongs to the first and the last.
func (c cut) at(t time.Duration) int {
	if c.to <= c.from {
		return 0
	}
	return min(batches-1, max(0, int(float64(t-c.from)/float64(c.to-c.from)*batches)))
}

// end is when a batch ends.
func (c cut) end(batch int) time.Duration {
	return c.from + (c.to-c.from)*time.Duration(batch+1)/batches
}

// bins are sums, one for each batch.
type bins [batches]float64

func (b *bins) sum() (sum float64) {
	for _, v := range b {
		sum += v
	}
	return sum
}

// less is the bins less so much for each unit of others.
func (b *bins) less(share float64, of *bins) *bins {
	var rest bins
	for i := range b {
		rest[i] = b[i] - share*of[i]
	}
	return &rest
}

// variance is that of the sum of all. Where a batch is like the one before it, the sum varies by
// more than batches tell that are each taken for itself; ok is false where they are too much alike.
func (b *bins) variance() (v float64, ok bool) {
	like := likeness(b[:])
	return batches * spreadOf(b[:]) * (1 + like) / (1 - like), like <= likest
}

// spreadOf is the variance of values, of which these are a sample.
func spreadOf(values []float64) float64 {
	n, mean, squares := float64(len(values)), 0.0, 0.0
	for _, v := range values {
		mean += v / n
	}
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return squares / (n - 1)
}

// likeness is the correlation of each value with the one before it, 0 where they rather alternate.
func likeness(values []float64) float64 {
	n, mean, products := float64(len(values)), 0.0, 0.0
	for _, v := range values {
		mean += v / n
	}
	for i := 1; i < len(values); i++ {
		products += (values[i] - mean) * (values[i-1] - mean)
	}
	squares := spreadOf(values) * (n - 1)
	if squares == 0 {
		return 0
	}
	return max(0, products/squares+1/n) // what so few values show is low by about 1/n
}
