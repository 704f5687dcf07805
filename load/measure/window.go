package measure

import (
	"math"
	"slices"
	"time"

	"hclbench/load"
)

// What counts as a steady state.
const (
	steadyShare = 0.95             // of the concurrency, in every second
	minSteady   = 10 * time.Second // and of a run at least
	steadyOfRun = 0.1
)

// within is the part of the run in a window.
func (e evidence) within(x load.Window) load.Part {
	part := load.Part{Window: &x}
	s := of(&x, e.records)
	if s.to <= s.from || len(e.records) == 0 {
		part.Figures, part.Verdict = e.figures(0, span{}), void(noWindow)
		return part
	}
	part.Figures = e.between(s)
	part = part.Under(e.workload.SLO, e.records)
	e.boundRates(&part, cut{from: s.from, to: s.to, lives: newCut(e.workload, e.records, s).lives})
	part.Verdict = e.verdict(part, nil)
	return part
}

// between are the figures of a span. Latencies and counts are of the requests that
// were sent then; throughputs and concurrencies are of what happened then, whenever it began.
func (e evidence) between(s span) load.Figures {
	from, to := s.from, s.to
	f := e.figures(to-from, s)
	f.Adapters = e.adapters(func(own evidence) load.Figures { return own.between(s) })
	f.Sessions = e.sessions(to-from, s)
	completed, input, output, waiting := 0, 0, 0.0, time.Duration(0)
	for i := range e.records {
		r := &e.records[i]
		if !r.OK() {
			continue
		}
		if s.has(r.End) {
			completed++
		}
		if s.has(r.First) {
			input += r.InputTokens
		}
		output += tokensOf(r, from, to)
		waiting += max(0, min(r.Last, to)-max(r.Sent, from))
	}
	per := func(n float64) float64 { return n / (to - from).Seconds() }
	f.RequestThroughput = per(float64(completed))
	f.InputThroughput, f.OutputThroughput = per(float64(input)), per(output)
	f.TotalThroughput = f.InputThroughput + f.OutputThroughput
	f.MeanConcurrency = per(waiting.Seconds())
	f.PeakConcurrency = mostInFlight(e.records, s)
	f.PeakOutputThroughput = f.OutputThroughput
	if whole := int((to - from) / time.Second); whole > 0 {
		f.PeakOutputThroughput = slices.Max(spread(e.records, from, time.Second, whole))
	}
	return f
}

// tokensOf is how many output tokens came from one moment (included) to another:
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

// spread is how many tokens of completed requests came in each of n intervals from from on.
func spread(records []load.Record, from, width time.Duration, n int) []float64 {
	buckets := make([]float64, n)
	for i := range records {
		r := &records[i]
		if !r.OK() || r.Last < from {
			continue
		}
		first, last := max(0, int((r.First-from)/width)), min(n-1, int((r.Last-from)/width))
		for i := first; i <= last; i++ {
			at := from + time.Duration(i)*width
			buckets[i] += tokensOf(r, at, at+width)
		}
	}
	return buckets
}

// inFlight is the mean number of requests in flight in each bucket from from on.
func inFlight(records []load.Record, from, width time.Duration, n int) []float64 {
	means := make([]float64, n+1)
	steps := make([]float64, n+1) // of those that fill buckets whole
	for i := range records {
		a, b := max(0, records[i].Sent-from), min(records[i].End-from, time.Duration(n)*width)
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

// steady finds the longest run of whole seconds in each of which the mean number of requests in
// flight was nearly the concurrency of a closed loop. The first one counts among equals.
func steady(w load.Workload, d time.Duration, records []load.Record) (load.Window, bool) {
	if w.Concurrency == 0 || w.Rate != 0 && w.Rate != load.Inf || len(w.Stages) > 0 || w.Dataset.Timed() ||
		pauses(w, records) {
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
	return load.Window{From: load.Duration(time.Duration(best) * time.Second),
		To: load.Duration(time.Duration(best+length) * time.Second)}, true
}

const maxPoints = 600 // bounds a series: ten minutes at one second

// newSeries is a run of so long over time; nil of nothing.
func newSeries(d time.Duration, records []load.Record, streams bool) *load.Series {
	if d <= 0 {
		return nil
	}
	width := time.Second
	for d > maxPoints*width {
		width *= 2
	}
	n := int((d + width - 1) / width)
	first := load.FirstDispatch(records)
	s := &load.Series{Every: load.Duration(width), InFlight: inFlight(records, first, width, n),
		OutputTokens: spread(records, first, width, n+1), TTFT: make([]float64, n)}
	waits := make([][]float64, n)
	for i := range records {
		r := &records[i]
		if !r.OK() || !streams {
			continue
		}
		if at := int((r.First - first) / width); at >= 0 {
			at = min(at, n-1) // the last moment of the run is in it
			waits[at] = append(waits[at], load.Ms(r.First-r.Sent))
		}
	}
	s.OutputTokens[n-1] += s.OutputTokens[n]
	s.OutputTokens = s.OutputTokens[:n]
	for i := range n {
		length := min(width, d-time.Duration(i)*width) // of the interval that is in the run
		s.InFlight[i] = rounded(s.InFlight[i] * float64(width) / float64(length))
		s.OutputTokens[i] = rounded(s.OutputTokens[i] / length.Seconds())
		slices.Sort(waits[i])
		s.TTFT[i] = rounded(load.Percentile(waits[i], 50))
	}
	return s
}

// rounded keeps three decimals: a series is to be looked at.
func rounded(x float64) float64 { return math.Round(x*1000) / 1000 }
