package measure

import (
	"math"
	"slices"
	"time"

	"hclbench/load"
)

// What counts as drifting; docs/method.md gives the reasons.
const (
	shortest = 30 * time.Second // that is judged
	perBatch = 5                // requests, at least
	rounds   = 10               // of a closed loop, at least
	answers  = 3                // times what the first requests of an open loop took, at least
	rivals   = 4                // waves that the longest is held against
	surely   = 5.598            // times as long as these: 1 of 200 by chance, by Student's t with as many degrees of freedom
	maxDrift = 0.1              // of the figure in the middle of the run
	crowd    = 2.0              // requests in flight, more or fewer, that are worth a word
)

// drifting looks for figures that rise or fall over a run, and so depend on how long it was:
// requests in flight of an open loop, the time to first token, and the gaps between chunks.
func (r *reasons) drifting(w load.Workload, records []load.Record, s span) {
	c := newCut(w, records, s)
	if c.to-c.from < shortest || len(s.sent(records)) < max(batches*perBatch, rounds*w.Concurrency) || !unchanging(w) ||
		w.Rate != 0 && c.to-c.from < answers*c.round || w.Dataset.Talks() { // whose turns grow
		return
	}
	note := func(values []float64, least float64, up, down doubt) {
		from, to, ok := trend(values)
		found := up
		if to < from {
			found = down
		}
		r.add(ok && math.Abs(to-from) >= least, 2*math.Abs(to-from)/(to+from), maxDrift, found, from, to)
	}
	if w.Rate != 0 {
		note(inFlight(records, c.from, (c.to-c.from)/batches, batches), crowd, crowding, emptying)
	}
	if w.Streams() {
		note(c.waits(records), 0, otherStart, otherStart)
		note(c.gaps(records), 0, otherPace, otherPace)
	}
}

// waits is the median time to first token of the requests sent in each batch.
func (c cut) waits(records []load.Record) []float64 {
	var of [batches][]float64
	for i := range records {
		if r := &records[i]; r.OK() && r.Sent >= c.from && r.Sent <= c.to {
			b := c.at(r.Sent)
			of[b] = append(of[b], load.Ms(r.First-r.Sent))
		}
	}
	medians := make([]float64, 0, batches)
	for _, v := range of {
		if slices.Sort(v); len(v) > 0 {
			medians = append(medians, load.Percentile(v, 50))
		}
	}
	return medians
}

// gaps is the mean of the gaps that ended in each batch.
func (c cut) gaps(records []load.Record) []float64 {
	var sum, n [batches]float64
	for i := range records {
		r := &records[i]
		at := r.First
		for _, g := range r.Gaps {
			if at += g; r.OK() && at >= c.from && at <= c.to {
				b := c.at(at)
				sum[b] += load.Ms(g)
				n[b]++
			}
		}
	}
	means := make([]float64, 0, batches)
	for b := range sum {
		if n[b] > 0 {
			means = append(means, sum[b]/n[b])
		}
	}
	return means
}

// trend is where values, which follow each other, begin and end by the line of Theil and Sen; ok is true where
// they rise or fall far enough to matter, and by more than chance explains: their longest wave, of half a period,
// is held against those after it, by Student's t. What is like what was before it has long waves anyway, and
// has them all.
func trend(values []float64) (from, to float64, ok bool) {
	n := len(values)
	if n < batches/2 {
		return 0, 0, false
	}
	slopes := make([]float64, 0, n*n/2)
	for i, a := range values {
		for j := i + 1; j < n; j++ {
			slopes = append(slopes, (values[j]-a)/float64(j-i))
		}
	}
	slices.Sort(slopes)
	slope := load.Percentile(slopes, 50)
	rest := make([]float64, n)
	for i, v := range values {
		rest[i] = v - slope*float64(i)
	}
	slices.Sort(rest)
	from = load.Percentile(rest, 50)
	to = from + slope*float64(n-1)
	least := slices.Min(values) // what grows fast begins above its line
	from, to = max(from, least), max(to, least)
	return from, to, longRun(values, 1, 1) > surely*surely*longRun(values, 2, 1+rivals) && math.Abs(to-from) > maxDrift*(from+to)/2
}
