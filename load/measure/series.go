package measure

import (
	"math"
	"time"

	"hclbench/load"
)

// What counts as a steady state.
const (
	steadyShare = 0.95             // of the concurrency, in every second
	minSteady   = 10 * time.Second // and of a run at least
	steadyOfRun = 0.1
)

// steady finds the longest run of whole seconds in each of which the mean number of requests in
// flight was nearly the concurrency of a closed loop. The first one counts among equals.
func steady(w load.Workload, d time.Duration, records []load.Record) (load.Window, bool) {
	if w.Concurrency == 0 || w.Rate != 0 && w.Rate != load.Inf || len(w.Stages) > 0 || w.Dataset.Timed() ||
		pauses(w, records) {
		return load.Window{}, false
	}
	n := int(d / time.Second)
	first := load.FirstDispatch(records)
	means := span{first, first + time.Duration(n)*time.Second}.inFlight(records, n)
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
	run := span{first, first + time.Duration(n)*width + 1} // its last moment is in it
	s := &load.Series{Every: load.Duration(width), InFlight: run.inFlight(records, n), OutputTokens: run.came(records, n),
		TTFT: make([]float64, n)}
	waits := run.values(n, func(note noting) {
		for i := range records {
			if r := &records[i]; r.OK() && streams {
				note(load.Ms(r.First-r.Sent), r.First)
			}
		}
	})
	for i := range n {
		length := min(width, d-time.Duration(i)*width) // of the interval that is in the run
		s.InFlight[i] = rounded(s.InFlight[i] * float64(width) / float64(length))
		s.OutputTokens[i] = rounded(s.OutputTokens[i] / length.Seconds())
		s.TTFT[i] = rounded(load.Percentile(waits[i], 50))
	}
	return s
}

// rounded keeps three decimals: a series is to be looked at.
func rounded(x float64) float64 { return math.Round(x*1000) / 1000 }
