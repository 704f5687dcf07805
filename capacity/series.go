package capacity

import (
	"math"
	"slices"

	"hclbench/load"
)

// Before a load is judged.
const (
	roundsToPass = 10 // times as many requests as are in flight: those of one round share their fate
	roundsOpen   = 40 // and in an open loop, whose queue may build up only now and then
	roundsToFail = 2
	leastToFail  = 200  // whatever is in flight: what lasts for long shows in it
	surelyToFail = 10   // in an open loop that seems to keep up
	looks        = 8    // a load is looked at again when it has had this part more: 1/8
	farWithin    = 0.25 // of a bound, is what 95 % are within
	crowd        = 2    // more in flight that are worth a word
	failed       = 100  // times the bound is what a request took that failed
	fewMisses    = 50   // do not tell how they come
	mostWaves    = 24   // that tell how much a number of requests varies, of a load that was sent for long
	unsure       = 4    // by this over the waves, more of an inflation counts
	spread       = 1.   // of what is won, as a logarithm, is about what is lost by betting on several at once
)

// line is what the requests at a load say to one line of the SLO.
type line struct {
	name       string
	asked      float64   // of all, to be within the bound
	values     []float64 // times the bound
	within     int
	pass, fail []bet
	verdict    Verdict
	elsewhere  float64 // the inflation at a load near by whose misses are many
}

// bet is a test of one alternative: the logarithm of how much likelier it is than that the line is just met.
type bet struct{ hit, miss, sum float64 }

// newLine bets on odds of a miss that are lower and higher than those at which the line is just met, by factors from
// little to much: whichever is near the truth wins, and all together stay a valid test.
func newLine(o load.Objective) line {
	l := line{name: o.Name(), asked: o.Percentile / 100, verdict: Unresolved}
	just := 1 - o.Percentile/100
	bets := func(factors ...float64) (all []bet) {
		for _, f := range factors {
			odds := f * just / (1 - just)
			p := odds / (1 + odds)
			all = append(all, bet{hit: math.Log((1 - p) / (1 - just)), miss: math.Log(p / just)})
		}
		return all
	}
	l.pass, l.fail = bets(1/1.25, 1/1.7, 1/3., 1/8., 1/40.), bets(1.3, 1.6, 2.5, 6, 40, 400)
	return l
}

// gain is the logarithm of what bets of equal stakes have won.
func gain(bets []bet) float64 {
	most, sum := math.Inf(-1), 0.0
	for _, b := range bets {
		most = max(most, b.sum)
	}
	for _, b := range bets {
		sum += math.Exp(b.sum - most)
	}
	return most + math.Log(sum/float64(len(bets)))
}

func (l *line) add(value float64) {
	value = min(value, failed)
	l.values = append(l.values, value)
	won := func(bets []bet) {
		for i := range bets {
			if b := &bets[i]; value <= 1 {
				b.sum += b.hit
			} else {
				b.sum += b.miss
			}
		}
	}
	if value <= 1 {
		l.within++
	}
	won(l.pass)
	won(l.fail)
}

// inflation is how much more the number of requests within a bound varies than that of independent ones, at least 1: of
// the line's own bound, and, for as long as few miss it, of the middle of the values, which shows that requests share their fate
// before one misses. It is by so many of the longest waves, and what they say beyond 1 counts the more the fewer they are. far
// says that the values are so far within the bound that neither this nor how they change tells of misses.
func (l *line) inflation(waves int) (most float64, far bool) {
	sorted := slices.Sorted(slices.Values(l.values))
	most, far = 1, load.Percentile(sorted, 95) < farWithin
	bounds := []float64{1, load.Percentile(sorted, 50)}
	if far || len(l.values)-l.within >= fewMisses {
		bounds = bounds[:1]
	}
	batches := min(len(l.values), max(load.Batches, 3*waves))
	for _, bound := range bounds {
		above, _ := slices.BinarySearchFunc(sorted, bound, func(v, bound float64) int {
			if v <= bound {
				return -1
			}
			return 1
		})
		n := float64(len(sorted))
		p := float64(above) / n // within
		if p == 0 || p == 1 {
			continue
		}
		sums := make([]float64, batches)
		for i, v := range l.values {
			if v <= bound {
				sums[i*batches/len(l.values)] += 1 - p
			} else {
				sums[i*batches/len(l.values)] -= p
			}
		}
		if x := load.LongRun(sums, 1, min(waves, batches-1)) / (n * p * (1 - p)); x > 1 {
			most = max(most, 1+(x-1)*(1+unsure/float64(waves)))
		}
	}
	return most, far
}

// judge looks whether the line is surely met, or surely not, by as much as chance would do it so seldom. Requests that take
// ever longer pass nothing, and such as take ever less time fail nothing: they tell of how long the load has lasted.
func (l *line) judge(leastPass, leastFail float64, crowding func() bool, toPass, toFail float64) {
	n := float64(len(l.values))
	pass := n >= leastPass && gain(l.pass) >= -math.Log(toPass)
	fail := n >= max(leastToFail, leastFail) && gain(l.fail) >= -math.Log(toFail)
	if l.verdict != Unresolved || !pass && !fail {
		return
	}
	inflation, far := l.inflation(min(mostWaves, max(load.Waves, int(load.Waves/2*n/leastPass))))
	toll := inflation
	if !far {
		toll = max(inflation, math.Sqrt(inflation*l.elsewhere)) // what is seldom may come in crowds though none came
	}
	if pass = pass && gain(l.pass)/toll >= -math.Log(toPass); !pass {
		if fail = fail && gain(l.fail)/inflation >= -math.Log(toFail); !fail {
			return
		}
	}
	from, to, drifts := load.Trend(inBatches(l.values, func(part []float64) float64 {
		return load.Percentile(slices.Sorted(slices.Values(part)), 50)
	}))
	switch {
	case pass && (far || !drifts || to < from) && !crowding():
		l.verdict = Pass
	case !pass && !(drifts && to < from):
		l.verdict = Fail
	}
}

// inBatches is what is said of each of the batches of values; nothing where they are too few.
func inBatches(values []float64, say func([]float64) float64) (all []float64) {
	for i := range load.Batches {
		if part := values[i*len(values)/load.Batches : (i+1)*len(values)/load.Batches]; len(part) > 0 {
			all = append(all, say(part))
		}
	}
	return all
}

// add takes the next request in the order sent: how long it took, as a multiple of the bound of each line, NaN of one that
// has no such value, and how many were in flight as it was sent.
func (s *series) add(values []float64, inFlight float64) {
	if s.also != nil {
		s.also.add(values, inFlight)
	}
	for i, v := range values {
		if !math.IsNaN(v) {
			s.lines[i].add(v)
		}
	}
	if s.inFlight = append(s.inFlight, inFlight); len(s.inFlight) >= s.look {
		s.judge()
	}
}

// end judges a load by all that it has had, as no more comes.
func (s *series) end() {
	if s.also != nil {
		s.also.end()
	}
	if len(s.inFlight) > 0 {
		s.judge()
	}
}

func (s *series) judge() {
	if s.verdict != Unresolved {
		return
	}
	s.look = len(s.inFlight) + 1 + len(s.inFlight)/looks
	round, met := mean(s.inFlight), true
	toPass, toFail := float64(roundsToPass), float64(roundsToFail)
	if !s.closed {
		if toPass = roundsOpen; !s.crowding() {
			toFail = surelyToFail
		}
	}
	for i := range s.lines {
		l := &s.lines[i]
		l.judge(toPass*round, toFail*round, s.crowding, s.chance, s.chance/float64(len(s.lines)))
		if met = met && l.verdict == Pass; l.verdict == Fail {
			s.verdict = Fail
			return
		}
	}
	if met {
		s.verdict = Pass
	}
}

// crowding reports whether ever more requests are in flight: the server does not keep up.
func (s *series) crowding() bool {
	from, to, ok := load.Trend(inBatches(s.inFlight, mean))
	return ok && to-from >= crowd
}

func mean(values []float64) (m float64) {
	for _, v := range values {
		m += v / float64(len(values))
	}
	return m
}

// Over takes a request that is over, in any order, and reports whether the load has its verdict. Requests that were sent
// before the first answer was there began together, and do not count; one that was stopped tells nothing.
func (s *series) Over(r *load.Record) (decided bool) {
	if s.waiting == nil {
		s.waiting = map[int]load.Record{}
	}
	s.waiting[r.Seq] = *r
	s.hear(r)
	for {
		r, ok := s.waiting[s.next]
		if !ok {
			return !s.patient && len(s.waiting) == 0 && s.silent() || s.decided() && float64(s.over) >= s.enough
		}
		delete(s.waiting, s.next)
		s.next++
		s.take(&r)
	}
}

func (s *series) take(r *load.Record) {
	if s.begun == 0 {
		s.begun = r.End
	}
	before, _ := slices.BinarySearch(s.ends, r.Sent)
	inFlight := s.next - before
	at, _ := slices.BinarySearch(s.ends, r.End)
	s.ends = slices.Insert(s.ends, at, r.End)
	if r.Sent < s.begun || r.Class == load.ClassCancelled {
		return
	}
	values := make([]float64, len(s.objects))
	for i, o := range s.objects {
		values[i] = math.NaN()
		if v, ok := o.Of(r); ok {
			values[i] = float64(v) / float64(o.Max)
		}
	}
	s.add(values, float64(inFlight))
}

// Begin says that the load is sent once more, as a measurement of its own: it goes on with what it knows.
func (s *series) Begin() {
	s.waiting, s.next, s.begun, s.ends = nil, 0, 0, nil
	s.presence = presence{atOnce: s.atOnce}
}

func (s *series) figures() (all []Line) {
	for i := range s.lines {
		l := &s.lines[i]
		x := Line{Name: l.name, Counted: len(l.values), Within: l.within, Inflation: 1, Verdict: l.verdict, asked: l.asked}
		if x.Counted > 0 {
			x.Inflation, _ = l.inflation(load.Waves)
		}
		all = append(all, x)
	}
	return all
}

// decided reports whether the load has its verdict.
func (s *series) decided() bool {
	return s.verdict != Unresolved && (s.verdict == Fail && !s.failed || s.also == nil || s.also.verdict != Unresolved)
}
