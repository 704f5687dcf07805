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
	surely   = 2.8              // times as high as chance makes the longest wave of values on average
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
		note(c.inFlight(records, batches), crowd, crowding, emptying)
	}
	if w.Streams() {
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

// trend is where values, which follow each other, begin and end by the line of Theil and Sen; ok is true where
// they rise or fall far enough to matter, and by more than chance explains: their longest wave, of half a period,
// is held against what chance makes of it.
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
	return from, to, longRun(values, 1, 1) > surely*surely*chance(values) && math.Abs(to-from) > maxDrift*(from+to)/2
}

// chance is the mean square of the longest wave of values that go nowhere, as their shorter waves tell it: the mean of
// what processes would have that are like what was before to some degree, more or less, and have some noise of their own
// beside, each weighted by how likely it makes those waves (Whittle's likelihood).
func chance(values []float64) float64 {
	n := len(values)
	var squares []float64 // of the waves, from the second on
	for j := 2; j < n; j++ {
		squares = append(squares, longRun(values, j, j))
	}
	if slices.Max(squares) == 0 {
		return 0
	}
	var likely, longest []float64
	for _, like := range []float64{0, 0.3, 0.6, 0.9} { // neighbours, of as many values as there are batches
		for _, noise := range []float64{0, 1, 4} { // times as much
			if like == 0 && noise > 0 {
				continue
			}
			alike := math.Pow(like, batches/float64(n))
			spectrum := func(j int) float64 {
				return noise + (1-alike*alike)/(1+alike*alike-2*alike*math.Cos(math.Pi*float64(j)/float64(n)))
			}
			level, logs := 0.0, 0.0
			for i, square := range squares {
				level += square / spectrum(i+2) / float64(len(squares))
				logs += math.Log(spectrum(i + 2))
			}
			likely = append(likely, -(float64(len(squares))*math.Log(level)+logs)/2)
			longest = append(longest, level*spectrum(1))
		}
	}
	sum, weights, most := 0.0, 0.0, slices.Max(likely)
	for i := range likely {
		weight := math.Exp(likely[i] - most)
		sum, weights = sum+weight*longest[i], weights+weight
	}
	return sum / weights
}
