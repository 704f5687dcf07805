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

// span is a part of a run, from one moment (included) to another. What is known of it is looked up among the
// records of the whole run: what was in flight when it began is of it, too.
type span struct{ from, to time.Duration }

// always is all of a run.
var always = span{math.MinInt64, math.MaxInt64}

// of is the part of a run in a window; nil: all of it.
func of(x *load.Window, records []load.Record) span {
	if x == nil {
		return always
	}
	first := load.FirstDispatch(records)
	return span{first + time.Duration(x.From), first + time.Duration(x.To)}
}

func (s span) has(t time.Duration) bool { return t >= s.from && t < s.to }

// sent are the records of the requests that were sent in it.
func (s span) sent(records []load.Record) []load.Record {
	if s == always {
		return records
	}
	first := load.FirstDispatch(records)
	return load.Window{From: load.Duration(s.from - first), To: load.Duration(s.to - first)}.Sent(records)
}

// overlap is how much of others, all together, is in it.
func (s span) overlap(others ...span) (sum time.Duration) {
	for _, x := range others {
		sum += max(0, min(x.to, s.to)-max(x.from, s.from))
	}
	return sum
}

// inFlight is the sum of the times in it that requests, failed ones too, were in flight.
func (s span) inFlight(records []load.Record) (sum time.Duration) {
	for i := range records {
		sum += s.overlap(span{records[i].Sent, records[i].End})
	}
	return sum
}

// cut is the part of a span that shows how much its figures vary, in batches.
type cut struct {
	from, to time.Duration
	lives    float64       // how often a request fits into the span, of those that completed
	round    time.Duration // how long the run's first requests took
}

// beginning is the most of a run that its first requests may take: beyond, one very
// long answer among them would leave too little of it.
const beginning = 4 // as a part: 1/4

// newCut is from the end of the run's ramp and of its first requests, to the last dispatch of the span.
// Those of a closed loop that all begin at once wait for each other as no others do, and so do for a while
// those that take their places; of an open one ever more are in flight until as many end as begin.
func newCut(w load.Workload, records []load.Record, s span) cut {
	const never = time.Duration(math.MaxInt64)
	c, first, over, took, completed := cut{from: never}, never, never, time.Duration(0), 0.0
	begun, last := never, time.Duration(0) // of the span
	for i := range records {
		r := &records[i]
		if first = min(first, r.Sent); r.OK() { // a failure says nothing of how long answers take
			over = min(over, r.End)
		}
		if !s.has(r.Sent) {
			continue
		}
		begun, c.to, last = min(begun, r.Sent), max(c.to, r.Sent), max(last, r.End)
		if r.OK() {
			took, completed = took+r.End-r.Sent, completed+1
		}
	}
	if completed > 0 && took > 0 {
		c.lives = float64(min(last, s.to)-max(begun, s.from)) / float64(took) * completed
	}
	if len(records) == 0 {
		return c
	}
	c.round = ended(records, over) - first
	c.from = max(s.from, first+time.Duration(w.Ramp), min(first+c.round, first+(c.to-first)/beginning))
	if w.Rate == 0 {
		c.from = max(c.from, over)
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
func (b *bins) variance() float64 { return longRun(b[:], 1, waves) }

// longRun is the variance of the sum of values that follow each other, by their waves from one of so many half
// periods to another.
func longRun(values []float64, from, to int) (v float64) {
	for j := from; j <= to; j++ {
		wave := 0.0
		for i, x := range values {
			wave += x * math.Cos(math.Pi*float64(j)*(float64(i)+0.5)/float64(len(values)))
		}
		v += 2 * wave * wave / float64(to-from+1)
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
