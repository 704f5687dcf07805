package measure

import (
	"math"
	"slices"
	"time"

	"hclbench/load"
)

// maxPoints bounds a series: ten minutes at one second.
const maxPoints = 600

func newSeries(d time.Duration, records []load.Record) *load.Series {
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
		if !r.OK() {
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
