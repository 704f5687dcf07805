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

// newCut is from the end of the ramp and, of a closed loop, of its first request, to the last
// dispatch: the requests that all begin at once wait for each other as no others do.
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
		c.from = max(c.from, over)
	}
	if took > 0 {
		c.lives = float64(last-first) / float64(took) * completed
	}
	return c
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
