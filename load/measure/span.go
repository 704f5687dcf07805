package measure

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"hclbench/load"
)

const (
	batches = load.Batches // of equal time
	waves   = load.Waves
)

// span is a part of a run, from one moment (included) to another. What is known of it is looked up among the
// records of the whole run: what was in flight when it began is of it, too.
type span struct{ from, to time.Duration }

// always is all of a run.
var always = span{math.MinInt64, math.MaxInt64}

// spanOf is the part of a run in a window; nil: all of it.
func spanOf(x *load.Window, records []load.Record) span {
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

// requests is for how long requests, failed ones too, were in flight in it, all together.
func (s span) requests(records []load.Record) (sum time.Duration) {
	for i := range records {
		sum += s.overlap(span{records[i].Sent, records[i].End})
	}
	return sum
}

// part is one of n equal parts of it.
func (s span) part(i, n int) span {
	parts := time.Duration(n)
	length, rest := (s.to-s.from)/parts, (s.to-s.from)%parts
	begin := func(k time.Duration) time.Duration { return s.from + length*k + rest*k/parts }
	return span{begin(time.Duration(i)), begin(time.Duration(i + 1))}
}

// at is the part of a moment; what comes before and after belongs to the first and the last.
func (s span) at(t time.Duration, n int) int {
	if s.to <= s.from {
		return 0
	}
	past := uint64(min(max(t, s.from), s.to) - s.from)
	high, low := bits.Mul64(past, uint64(n)) // the nanoseconds of a day, times its seconds, do not fit into 64 bits
	k, _ := bits.Div64(high, low, uint64(s.to-s.from))
	return min(n-1, int(k))
}

// inFlight is the mean number of requests in flight in each of n parts.
func (s span) inFlight(records []load.Record, n int) []float64 {
	means, whole := make([]float64, n), make([]float64, n+1) // whole: how many more than in the part before fill it
	for i := range records {
		x := span{max(records[i].Sent, s.from), min(records[i].End, s.to)}
		if x.to <= x.from {
			continue
		}
		first, last := s.at(x.from, n), s.at(x.to, n)
		for _, k := range slices.Compact([]int{first, last}) {
			part := s.part(k, n)
			means[k] += float64(part.overlap(x)) / float64(part.to-part.from)
		}
		if last > first+1 {
			whole[first+1]++
			whole[last]--
		}
	}
	sum := 0.0
	for k := range means {
		sum += whole[k]
		means[k] += sum
	}
	return means
}

// tokens is how many output tokens came in it: one with the first chunk, and the others evenly until the last.
func (s span) tokens(r *load.Record) float64 {
	n := 0.0
	if s.has(r.First) {
		n = 1
	}
	switch rest := float64(r.OutputTokens - 1); {
	case r.OutputTokens < 1:
		return 0
	case r.Last > r.First:
		return n + rest*(float64(s.overlap(span{r.First, r.Last}))/float64(r.Last-r.First))
	default:
		return n + rest*n
	}
}

// came is how many tokens of completed requests came in each of n parts.
func (s span) came(records []load.Record, n int) []float64 {
	sums := make([]float64, n)
	for i := range records {
		r := &records[i]
		for k := s.at(r.First, n); r.OK() && k <= s.at(r.Last, n); k++ {
			sums[k] += s.part(k, n).tokens(r)
		}
	}
	return sums
}

// values are those that are noted in each of n parts, sorted.
func (s span) values(n int, each func(noting)) [][]float64 {
	parts := make([][]float64, n)
	each(func(v float64, at time.Duration) {
		k := s.at(at, n)
		parts[k] = append(parts[k], v)
	})
	for _, values := range parts {
		slices.Sort(values)
	}
	return parts
}

// cut is the part of a span that shows how much its figures vary, in batches.
type cut struct {
	span
	lives float64       // how often a request fits into the span, of those that completed
	round time.Duration // how long the run's first requests took
}

// beginning is the most of a run that its first requests may take: beyond, one very
// long answer among them would leave too little of it.
const beginning = 4 // as a part: 1/4

// newCut is from the end of the run's ramp and of its first requests, to the last dispatch of the span.
// Those of a closed loop that all begin at once wait for each other as no others do, and so do for a while
// those that take their places; of an open one ever more are in flight until as many end as begin.
func newCut(w load.Workload, records []load.Record, s span) cut {
	const never = time.Duration(math.MaxInt64)
	c, first, over, took, completed := cut{span: span{from: never}}, never, never, time.Duration(0), 0.0
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

// batch is that of a moment; what comes before and after belongs to the first and the last.
func (c cut) batch(t time.Duration) int { return c.at(t, batches) }

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
func (b *bins) variance() float64 { return load.LongRun(b[:], 1, waves) }

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
