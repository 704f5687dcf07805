package load

import (
	"math"
	"slices"
	"time"
)

// errorSamples is how many distinct error messages a summary keeps.
const errorSamples = 5

// summarize computes what records say, over a time d.
func summarize(w Workload, percentiles []float64, started time.Time, d time.Duration, records []Record) Summary {
	if percentiles == nil {
		percentiles = DefaultPercentiles()
	}
	s := Summary{Started: started, Duration: d.Seconds(), Requests: len(records)}
	list := func() []float64 { return make([]float64, 0, len(records)) }
	ttft, tpot, e2el, perToken, queue, lag := list(), list(), list(), list(), list(), list()
	gaps := 0
	lost, between := 0, time.Duration(0) // gaps that were not kept, and the time of all gaps
	for i := range records {
		gaps += len(records[i].Gaps)
	}
	itl := make([]float64, 0, gaps)
	for i := range records {
		r := &records[i]
		queue = append(queue, ms(r.Sent-r.Scheduled))
		lag = append(lag, ms(r.Sent-r.Ready))
		if !r.OK() {
			s.fail(r)
			continue
		}
		s.Completed++
		s.InputTokens += int64(r.InputTokens)
		s.OutputTokens += int64(r.OutputTokens)
		s.AskedInput += int64(r.AskedInput)
		s.AskedOutput += int64(r.AskedOutput)
		s.MergedChunks += r.Merged
		if r.NoUsage {
			s.UsageMissing++
		}
		if !w.NoStream {
			ttft = append(ttft, ms(r.First-r.Sent))
		}
		e2el = append(e2el, ms(r.Last-r.Sent))
		if r.OutputTokens > 0 {
			perToken = append(perToken, ms(r.Last-r.Sent)/float64(r.OutputTokens))
		}
		if r.OutputTokens > 1 && !w.NoStream {
			tpot = append(tpot, ms(r.Last-r.First)/float64(r.OutputTokens-1))
		}
		for _, g := range r.Gaps {
			itl = append(itl, ms(g))
		}
		lost += r.Dropped
		between += r.Last - r.First
	}
	s.TTFT = describe(ttft, percentiles)
	s.TPOT = describe(tpot, percentiles)
	s.ITL = describe(itl, percentiles)
	if lost > 0 {
		s.ITL.Count += lost
		s.ITL.Mean = ms(between) / float64(s.ITL.Count)
		s.ITLFrom = FromSample
	}
	if s.ITL.Count > 0 {
		s.MergedShare = float64(s.MergedChunks) / float64(s.ITL.Count)
	}
	s.E2EL = describe(e2el, percentiles)
	s.PerToken = describe(perToken, percentiles)
	s.Queue = describe(queue, percentiles)
	s.SendLag = describe(lag, percentiles)

	s.PeakConcurrency = mostInFlight(records, math.MinInt64, math.MaxInt64)
	if d > 0 {
		per := func(n float64) float64 { return n / d.Seconds() }
		s.RequestThroughput = per(float64(s.Completed))
		s.InputThroughput = per(float64(s.InputTokens))
		s.OutputThroughput = per(float64(s.OutputTokens))
		s.TotalThroughput = per(float64(s.InputTokens + s.OutputTokens))
		s.MeanConcurrency = per(s.E2EL.Mean * float64(s.E2EL.Count) / 1e3)
		if s.PeakOutputThroughput = peakOutput(records); d < time.Second {
			s.PeakOutputThroughput = s.OutputThroughput // there is no better second
		}
	}
	s.Objectives, s.Goodput = s.attained(w.SLO, records), s.goodput(w.SLO, records)
	s.Verdict = judge(w, s, records)
	return s
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func (s *Summary) fail(r *Record) {
	s.Failed++
	if s.Errors == nil {
		s.Errors = map[string]int{}
	}
	s.Errors[r.Class]++
	if r.Status != 0 {
		if s.Statuses == nil {
			s.Statuses = map[int]int{}
		}
		s.Statuses[r.Status]++
	}
	text := r.Class + ": " + r.Error
	if len(s.ErrorSamples) < errorSamples && !slices.Contains(s.ErrorSamples, text) {
		s.ErrorSamples = append(s.ErrorSamples, text)
	}
}

// describe sorts x.
func describe(x, percentiles []float64) Stats {
	s := Stats{Count: len(x), Percentiles: make(map[string]float64, len(percentiles))}
	slices.Sort(x)
	for _, p := range percentiles {
		s.Percentiles[percentileKey(p)] = percentile(x, p)
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
	s.Median, s.Min, s.Max = percentile(x, 50), x[0], x[len(x)-1]
	return s
}

// percentile interpolates linearly between the two nearest of the sorted values,
// as numpy.percentile does unless told otherwise. Of nothing it is 0.
func percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	h := float64(len(sorted)-1) * p / 100
	i := int(h)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (h-float64(i))*(sorted[i+1]-sorted[i])
}

// mostInFlight sweeps over requests, failed ones too, from their sending to their
// end: the most in flight at one moment of those between two.
func mostInFlight(records []Record, from, to time.Duration) (peak int) {
	starts := make([]time.Duration, 0, len(records))
	ends := make([]time.Duration, 0, len(records))
	for i := range records {
		if r := &records[i]; r.End > from && r.Sent < to {
			starts, ends = append(starts, max(r.Sent, from)), append(ends, min(r.End, to))
		}
	}
	slices.Sort(starts)
	slices.Sort(ends)
	over := 0
	for i, t := range starts {
		// One that ends when another starts has made room for it.
		for over < len(ends) && ends[over] <= t {
			over++
		}
		peak = max(peak, i+1-over)
	}
	return peak
}

// timeInFlight is the sum of the times of all requests, failed ones too.
func timeInFlight(records []Record) (sum time.Duration) {
	for i := range records {
		sum += records[i].End - records[i].Sent
	}
	return sum
}

// peakOutput is the most tokens of completed requests in one second, of seconds
// that count from the first dispatch. A request's tokens are spread evenly over
// its chunks.
func peakOutput(records []Record) float64 {
	zero := time.Duration(math.MaxInt64)
	for i := range records {
		zero = min(zero, records[i].Sent)
	}
	var seconds []float64
	add := func(at time.Duration, tokens float64) {
		i := int((at - zero) / time.Second)
		for len(seconds) <= i {
			seconds = append(seconds, 0)
		}
		seconds[i] += tokens
	}
	for i := range records {
		r := &records[i]
		if !r.OK() {
			continue
		}
		chunks := len(r.Gaps) + r.Dropped + 1
		each := float64(r.OutputTokens) / float64(chunks)
		at := r.First
		add(at, each)
		for i := 1; i < chunks; i++ {
			if r.Dropped > 0 { // evenly in time, too
				at = r.First + time.Duration(i)*(r.Last-r.First)/time.Duration(chunks-1)
			} else {
				at += r.Gaps[i-1]
			}
			add(at, each)
		}
	}
	if len(seconds) == 0 {
		return 0
	}
	return slices.Max(seconds)
}
