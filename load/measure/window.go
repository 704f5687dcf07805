package measure

import (
	"time"

	"hclbench/load"
)

// What counts as a steady state.
const (
	steadyShare = 0.95             // of the concurrency, in every second
	minSteady   = 10 * time.Second // and of a run at least
	steadyOfRun = 0.1
)

// Summarize computes what a run measured from its records; docs/method.md
// defines each number. d is the time from the first dispatch to the last
// response. Where the workload cuts the beginning or the end, the summary is of
// what is left, with that of the whole run beside it. What records do not hold
// (the warm-up requests and the client's CPU share) stays zero.
func Summarize(w load.Workload, percentiles []float64, started time.Time, d time.Duration, records []load.Record) load.Summary {
	whole := summarize(w, percentiles, started, d, records)
	s := whole
	if w.CutBeginning > 0 || w.CutEnd > 0 {
		window := load.Window{From: w.CutBeginning, To: load.Duration(d) - w.CutEnd}
		s = summarizeWindow(window, w, percentiles, started, records)
		s.Untrimmed = &whole
	}
	if window, ok := steady(w, d, records); ok {
		x := summarizeWindow(window, w, percentiles, started, records)
		s.Steady = &x
	}
	s.Series = newSeries(d, records)
	return s.Under(w.SLO, records)
}

// summarize is the summary of a window. Latencies and counts are of the requests
// that were sent in it; throughputs and concurrencies are of what happened in it,
// whenever it began.
func summarizeWindow(x load.Window, w load.Workload, percentiles []float64, started time.Time, records []load.Record) load.Summary {
	first := load.FirstDispatch(records)
	from, to := first+time.Duration(x.From), first+time.Duration(x.To)
	if to <= from || len(records) == 0 {
		s := summarize(w, percentiles, started, 0, nil)
		s.Window = &x
		s.Verdict = void(noWindow)
		return s
	}
	inside := x.Sent(records)
	s := summarize(w, percentiles, started, to-from, inside)
	s.Window = &x
	completed, input, output, waiting := 0, 0, 0.0, time.Duration(0)
	for i := range records {
		r := &records[i]
		if !r.OK() {
			continue
		}
		if r.End >= from && r.End < to {
			completed++
		}
		if r.First >= from && r.First < to {
			input += r.InputTokens
		}
		output += tokensOf(r, from, to)
		waiting += max(0, min(r.Last, to)-max(r.Sent, from))
	}
	per := func(n float64) float64 { return n / (to - from).Seconds() }
	s.RequestThroughput = per(float64(completed))
	s.InputThroughput, s.OutputThroughput = per(float64(input)), per(output)
	s.TotalThroughput = s.InputThroughput + s.OutputThroughput
	s.MeanConcurrency = per(waiting.Seconds())
	s.PeakConcurrency = mostInFlight(records, from, to)
	s.PeakOutputThroughput = s.OutputThroughput
	if whole := int((to - from) / time.Second); whole > 0 {
		tokens := make([]float64, whole)
		for i := range records {
			if records[i].OK() {
				spread(&records[i], from, time.Second, tokens)
			}
		}
		s.PeakOutputThroughput = 0
		for _, n := range tokens {
			s.PeakOutputThroughput = max(s.PeakOutputThroughput, n)
		}
	}
	s.Verdict = judged(&s, w, records)
	return s
}

// judged is the verdict on a summary of a run with these records.
func judged(s *load.Summary, w load.Workload, records []load.Record) load.Verdict {
	if s.Window == nil {
		return judge(w, *s, records)
	}
	if s.Window.To <= s.Window.From {
		return s.Verdict
	}
	if s.Requests == 0 {
		return void(emptyWindow, s.Window.From, s.Window.To)
	}
	v := judge(w, *s, s.Window.Sent(records))
	if v.Verdict == load.Void || w.Rate != 0 || w.Concurrency == 0 || w.Dataset.Kind == load.Trace {
		return v
	}
	first := load.FirstDispatch(records)
	from, to := first+time.Duration(s.Window.From), first+time.Duration(s.Window.To)
	area := time.Duration(0)
	for i := range records {
		area += max(0, min(records[i].End, to)-max(records[i].Sent, from))
	}
	mean := float64(area) / float64(to-from)
	found := reasons(v.Reasons)
	found.below(mean, (1-load.MaxLittle)*float64(w.Concurrency), notFull, mean, w.Concurrency)
	return found.verdict()
}

// tokens is how many output tokens came from one moment (included) to another:
// one with the first chunk, and the others evenly until the last.
func tokensOf(r *load.Record, from, to time.Duration) float64 {
	n := 0.0
	if r.First >= from && r.First < to {
		n = 1
	}
	switch rest := float64(r.OutputTokens - 1); {
	case r.OutputTokens < 1:
		return 0
	case r.Last > r.First:
		return n + rest*float64(max(0, min(r.Last, to)-max(r.First, from)))/float64(r.Last-r.First)
	default:
		return n + rest*n
	}
}

// spread adds a request's tokens to the buckets that begin at from.
func spread(r *load.Record, from, width time.Duration, buckets []float64) {
	first := max(0, int((r.First-from)/width))
	last := min(len(buckets)-1, int((r.Last-from)/width))
	if r.Last < from {
		return
	}
	for i := first; i <= last; i++ {
		at := from + time.Duration(i)*width
		buckets[i] += tokensOf(r, at, at+width)
	}
}

// inFlight is the mean number of requests in flight in each bucket from from on.
func inFlight(records []load.Record, from, width time.Duration, n int) []float64 {
	means := make([]float64, n+1)
	steps := make([]float64, n+1) // of those that fill buckets whole
	for i := range records {
		a, b := max(0, records[i].Sent-from), records[i].End-from
		if b > time.Duration(n)*width {
			b = time.Duration(n) * width
		}
		if b <= a {
			continue
		}
		first, last := int(a/width), int(b/width)
		part := func(d time.Duration) float64 { return float64(d) / float64(width) }
		if first == last {
			means[first] += part(b - a)
			continue
		}
		means[first] += part(time.Duration(first+1)*width - a)
		means[last] += part(b - time.Duration(last)*width)
		steps[first+1]++
		steps[last]--
	}
	whole := 0.0
	for i := range means {
		whole += steps[i]
		means[i] += whole
	}
	return means[:n]
}

// steady finds the longest run of whole seconds in each of which the mean number
// of requests in flight was nearly the concurrency of a closed loop. The first
// one counts among equals.
func steady(w load.Workload, d time.Duration, records []load.Record) (load.Window, bool) {
	if w.Concurrency == 0 || w.Rate != 0 && w.Rate != load.Inf || len(w.Stages) > 0 || w.Dataset.Kind == load.Trace {
		return load.Window{}, false
	}
	n := int(d / time.Second)
	means := inFlight(records, load.FirstDispatch(records), time.Second, n)
	best, length := 0, 0
	for i := 0; i < n; i++ {
		start := i
		for i < n && means[i] >= steadyShare*float64(w.Concurrency) {
			i++
		}
		if i-start > length {
			best, length = start, i-start
		}
	}
	if time.Duration(length)*time.Second < max(minSteady, time.Duration(steadyOfRun*float64(d))) {
		return load.Window{}, false
	}
	return load.Window{From: load.Duration(time.Duration(best) * time.Second), To: load.Duration(time.Duration(best+length) * time.Second)}, true
}
