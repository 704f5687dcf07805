package load

import (
	"fmt"
	"math"
)

// Contradictions says which of a summary's figures cannot be true together, each
// in words: what was measured always agrees, what is published need not.
// limit is the highest concurrency that was allowed; 0: not known.
//
// By Little's law the mean number of requests in flight is their throughput times
// their mean latency. A summary of a window is not looked at, because its counts
// and its throughputs are of different requests.
func (s Summary) Contradictions(limit int) []string {
	if s.Window != nil || s.Duration <= 0 {
		return nil
	}
	var found []string
	differ := func(stated, is, by float64, format string, args ...any) {
		if stated > 0 && is > 0 && math.Abs(stated-is) > by*is+halfCent {
			found = append(found, fmt.Sprintf(format, args...))
		}
	}
	flying := float64(s.Completed) * s.E2EL.Mean / 1e3 / s.Duration
	differ(s.MeanConcurrency, flying, maxLittle,
		"Little's law: a mean concurrency of %.2f is given, and %d requests of %.2f s in %.2f s make %.2f",
		s.MeanConcurrency, s.Completed, s.E2EL.Mean/1e3, s.Duration, flying)
	if limit > 0 && flying > (1+maxLittle)*float64(limit) {
		found = append(found, fmt.Sprintf("Little's law: %d requests of %.2f s in %.2f s make %.2f in flight, and no more than %d were allowed",
			s.Completed, s.E2EL.Mean/1e3, s.Duration, flying, limit))
	}
	rate := func(name string, stated, count float64) {
		differ(stated, count/s.Duration, maxRounding, "%s of %.2f/s is given, and %.0f in %.2f s make %.2f/s",
			name, stated, count, s.Duration, count/s.Duration)
	}
	rate("a request throughput", s.RequestThroughput, float64(s.Completed))
	rate("an input throughput", s.InputThroughput, float64(s.InputTokens))
	rate("an output throughput", s.OutputThroughput, float64(s.OutputTokens))
	if s.TTFT.Count > 0 && s.E2EL.Count > 0 && s.TTFT.Mean > s.E2EL.Mean {
		found = append(found, fmt.Sprintf("the first token comes after %.2f ms on average, and the last after %.2f ms", s.TTFT.Mean, s.E2EL.Mean))
	}
	return found
}

// A throughput may be off from its count by its time by a share, and all that is
// printed with two decimals by half a hundredth.
const (
	maxRounding = 0.01
	halfCent    = 0.005
)
