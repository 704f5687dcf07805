package measure

import (
	"math"
	"time"

	"hclbench/load"
)

const (
	batches = 20 // that a run is cut into, of equal time
	waves   = 8  // that tell how much they vary
)

// cut is the part of a run that shows how much its figures vary, in batches.
type cut struct {
	from, to time.Duration
	lives    float64 // how often a request fits into the run, of those that completed
}

// beginning is the most of a run that the first requests of a closed loop may take: beyond, one very
// long answer among them would leave too little of it.
const beginning = 4 // as a part: 1/4

// newCut is from the end of the ramp and, of a closed loop, of its first requests, to the last
// dispatch: those that all begin at once wait for each other as no others do, and so do for a while
// those that take their places.
func newCut(w load.Workload, records []load.Record) cut {
	c, over := cut{from: math.MaxInt64}, time.Duration(math.MaxInt64)
	first, last, took, completed := over, time.Duration(0), time.Duration(0), 0.0
	for i := range records {
		r := &records[i]
		first, c.to, over, last = min(first, r.Sent), max(c.to, r.Sent), min(over, r.End), max(last, r.End)
		if r.OK() {
			took, completed = took+r.End-r.Sent, completed+1
		}
	}
	if len(records) > 0 {
		c.from = first + time.Duration(w.Ramp)
	}
	if w.Rate == 0 {
		c.from = max(c.from, over, min(ended(records, over), first+(c.to-first)/beginning))
	}
	if took > 0 {
		c.lives = float64(last-first) / float64(took) * completed
	}
	return c
}

// ended is when all requests that were sent before a moment are over.
func ended(records []load.Record, before time.Duration) (last time.Duration) {
	for i := range records {
		if r := &records[i]; r.Sent < before {
			last = max(last, r.End)
		}
	}
	return last
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

// variance is that of a sum, from the bins' deviations from their share of it: by how much of these
// is in their longest waves, since what lasts for longer than a batch is in them as it is in the sum.
func (b *bins) variance() (v float64) {
	for j := 1; j <= waves; j++ {
		wave := 0.0
		for i, x := range b {
			wave += x * math.Cos(math.Pi*float64(j)*(float64(i)+0.5)/batches)
		}
		v += 2 * wave * wave / waves
	}
	return v
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

// likeness is the correlation of each value with the one before it, as far as it is more than chance
// makes of so few (one standard error), which would hide what else there is to see.
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
	return max(0, products/squares+1/n-1/math.Sqrt(n)) // what so few values show is low by about 1/n
}
