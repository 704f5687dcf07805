package measure

import (
	"math"
	"time"

	"hclbench/load"
)

// What counts as drifting; docs/method.md gives the reasons.
const (
	shortest = 30 * time.Second // that is judged
	perBatch = 5                // requests, at least
	rounds   = 10               // of a closed loop, at least
	answers  = 3                // times what the first requests of an open loop took, at least
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
		from, to, ok := load.Trend(values)
		found := up
		if to < from {
			found = down
		}
		r.add(ok && math.Abs(to-from) >= least, 2*math.Abs(to-from)/(to+from), load.MaxDrift, found, from, to)
	}
	if w.Rate != 0 {
		note(c.inFlight(records, batches), crowd, crowding, emptying)
	}
	if w.TimesTokens() {
		note(c.waits(records), 0, otherStart, otherStart)
		note(c.gaps(records), 0, otherPace, otherPace)
	}
}

// waits is the median time to first token of the requests sent in each batch.
func (c cut) waits(records []load.Record) []float64 {
	medians := make([]float64, 0, batches)
	for _, waits := range c.values(batches, func(note noting) {
		for i := range records {
			if r := &records[i]; r.OK() && r.Sent >= c.from && r.Sent <= c.to {
				note(load.Ms(r.First-r.Sent), r.Sent)
			}
		}
	}) {
		if len(waits) > 0 {
			medians = append(medians, load.Percentile(waits, 50))
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
				b := c.batch(at)
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
