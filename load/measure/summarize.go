package measure

import (
	"math"
	"slices"
	"time"

	"hclbench/load"
)

// errorSamples is how many distinct error messages a summary keeps.
const errorSamples = 5

// summarize computes what records say, over a time d.
func summarize(w load.Workload, percentiles []float64, started time.Time, d time.Duration, records []load.Record) load.Summary {
	if percentiles == nil {
		percentiles = load.DefaultPercentiles()
	}
	s := load.Summary{Started: started, Duration: d.Seconds(), Requests: len(records)}
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
		queue = append(queue, load.Ms(r.Sent-r.Scheduled))
		lag = append(lag, load.Ms(r.Sent-r.Ready))
		if !r.OK() {
			failed(&s, r)
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
			ttft = append(ttft, load.Ms(r.First-r.Sent))
		}
		e2el = append(e2el, load.Ms(r.Last-r.Sent))
		if r.OutputTokens > 0 {
			perToken = append(perToken, load.Ms(r.Last-r.Sent)/float64(r.OutputTokens))
		}
		if r.OutputTokens > 1 && !w.NoStream {
			tpot = append(tpot, load.Ms(r.Last-r.First)/float64(r.OutputTokens-1))
		}
		for _, g := range r.Gaps {
			itl = append(itl, load.Ms(g))
		}
		lost += r.Dropped
		between += r.Last - r.First
	}
	s.TTFT = load.Describe(ttft, percentiles)
	s.TPOT = load.Describe(tpot, percentiles)
	s.ITL = load.Describe(itl, percentiles)
	if lost > 0 {
		s.ITL.Count += lost
		s.ITL.Mean = load.Ms(between) / float64(s.ITL.Count)
		s.ITLFrom = load.FromSample
	}
	if s.ITL.Count > 0 {
		s.MergedShare = float64(s.MergedChunks) / float64(s.ITL.Count)
	}
	s.E2EL = load.Describe(e2el, percentiles)
	s.PerToken = load.Describe(perToken, percentiles)
	s.Queue = load.Describe(queue, percentiles)
	s.SendLag = load.Describe(lag, percentiles)

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
	s.Verdict = judge(w, s, records)
	return s
}

func failed(s *load.Summary, r *load.Record) {
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

// mostInFlight sweeps over requests, failed ones too, from their sending to their
// end: the most in flight at one moment of those between two.
func mostInFlight(records []load.Record, from, to time.Duration) (peak int) {
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
func timeInFlight(records []load.Record) (sum time.Duration) {
	for i := range records {
		sum += records[i].End - records[i].Sent
	}
	return sum
}

// peakOutput is the most tokens of completed requests in one second, of seconds
// that count from the first dispatch. A request's tokens are spread evenly over
// its chunks.
func peakOutput(records []load.Record) float64 {
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
