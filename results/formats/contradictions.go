package formats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"hclbench/load"
)

// Contradictions says which of a summary's figures cannot be true together, each
// in words: what was measured always agrees, what is published need not.
// limit is the highest concurrency that was allowed; 0: not known.
//
// By Little's law the mean number of requests in flight is their throughput times
// their mean latency. A summary of a window is not looked at, because its counts
// and its throughputs are of different requests.
func Contradictions(s *load.Summary, limit int) []load.Reason {
	if s.Window != nil || s.Duration <= 0 {
		return nil
	}
	var found contradictions
	found.concurrency(s, limit)
	found.throughput(s)
	found.latencies(s)
	return found
}

// ofFlight are what Little's law holds together.
var ofFlight = []string{"mean_concurrency", "request_throughput", "e2el", "normalized_latency"}

type contradictions []load.Reason

// add notes that metrics cannot be true together.
func (c *contradictions) add(metrics []string, format string, args ...any) {
	*c = append(*c, load.Reason{Code: "contradiction", Text: fmt.Sprintf(format, args...), Metrics: metrics})
}

// differs reports whether a stated figure differs from what it is by more than a share,
// and than rounding makes.
func differs(stated, is, by float64) bool {
	return stated > 0 && is > 0 && math.Abs(stated-is) > by*is+halfCent
}

// concurrency holds the mean number in flight against Little's law. Where all else fits
// the concurrency that was asked for, only the stated mean is doubted.
func (c *contradictions) concurrency(s *load.Summary, limit int) {
	flying := float64(s.Completed) * s.E2EL.Mean / 1e3 / s.Duration
	if differs(s.MeanConcurrency, flying, load.MaxLittle) {
		metrics := []string{"mean_concurrency"}
		if differs(float64(limit), flying, load.MaxLittle) || limit == 0 {
			metrics = ofFlight
		}
		c.add(metrics,
			"the mean concurrency is given as %.2f, but %d requests of %.2f s in %.2f s make it %.2f (Little's law)",
			s.MeanConcurrency, s.Completed, s.E2EL.Mean/1e3, s.Duration, flying)
	}
	if limit > 0 && flying > (1+load.MaxLittle)*float64(limit) {
		c.add(ofFlight,
			"Little's law: %d requests of %.2f s in %.2f s make %.2f in flight, and no more than %d were allowed",
			s.Completed, s.E2EL.Mean/1e3, s.Duration, flying, limit)
	}
}

// throughput holds each against its count. A duration of which two decimals are printed
// may be half a hundredth off, which is much of a short one.
func (c *contradictions) throughput(s *load.Summary) {
	rounding := maxRounding + min(halfCent/s.Duration, 1)
	for _, t := range []struct {
		metrics       []string
		name          string
		stated, count float64
	}{
		{[]string{"request_throughput"}, "a request throughput", s.RequestThroughput, float64(s.Completed)},
		{[]string{"input_throughput", "total_throughput"}, "an input throughput", s.InputThroughput,
			float64(s.InputTokens)},
		{[]string{"output_throughput", "total_throughput"}, "an output throughput", s.OutputThroughput,
			float64(s.OutputTokens)},
	} {
		if is := t.count / s.Duration; differs(t.stated, is, rounding) {
			c.add(t.metrics, "%s of %.2f/s is given, and %.0f in %.2f s make %.2f/s", t.name, t.stated, t.count,
				s.Duration, is)
		}
	}
}

func (c *contradictions) latencies(s *load.Summary) {
	if s.TTFT.Count > 0 && s.E2EL.Count > 0 && s.TTFT.Mean > s.E2EL.Mean {
		c.add([]string{"ttft", "e2el"}, "the first token comes after %.2f ms on average, and the last after %.2f ms",
			s.TTFT.Mean, s.E2EL.Mean)
	}
	for _, t := range []struct {
		name  string
		stats load.Stats
	}{{"TTFT", s.TTFT}, {"TPOT", s.TPOT}, {"ITL", s.ITL}, {"E2EL", s.E2EL}} {
		if wrong := disorder(t.stats); wrong != "" {
			c.add([]string{strings.ToLower(t.name)}, "%s: %s", t.name, wrong)
		}
	}
	// Where all answers are of one length, the means of requests add up, and a gap
	// between chunks holds at least one token. Of a few answers the sum is a multiple by chance.
	n := int64(s.Completed)
	if n < fewAnswers || s.OutputTokens%n != 0 || s.OutputTokens <= n || s.TTFT.Mean <= 0 || s.TPOT.Mean <= 0 {
		return
	}
	outputs := float64(s.OutputTokens / n)
	if sum := s.TTFT.Mean + (outputs-1)*s.TPOT.Mean; differs(s.E2EL.Mean, sum, load.MaxLittle) {
		c.add([]string{"ttft", "tpot", "e2el"},
			"a mean E2EL of %.2f ms is given, and a TTFT of %.2f ms with %.0f times a TPOT of %.2f ms make %.2f ms",
			s.E2EL.Mean, s.TTFT.Mean, outputs-1, s.TPOT.Mean, sum)
	}
	// Some tools count a gap before the end of a stream, too.
	if outputs > 1/load.MaxLittle && s.ITL.Mean > 0 && s.ITL.Mean < (1-load.MaxLittle)*s.TPOT.Mean-halfCent {
		c.add([]string{"tpot", "itl"}, "a mean ITL of %.2f ms is given, and it cannot be below the TPOT of %.2f ms",
			s.ITL.Mean, s.TPOT.Mean)
	}
}

// disorder names two statistics of which the smaller is larger.
func disorder(s load.Stats) string {
	type point struct {
		at    float64
		name  string
		value float64
	}
	points := []point{{50, "median", s.Median}, {100, "max", s.Max}, {0, "min", s.Min}}
	for name, v := range s.Percentiles {
		if at, err := strconv.ParseFloat(name, 64); err == nil {
			points = append(points, point{at, "p" + name, v})
		}
	}
	points = slices.DeleteFunc(points, func(p point) bool { return p.value <= 0 }) // not given
	slices.SortFunc(points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.name, b.name))
	})
	for i := 1; i < len(points); i++ {
		if a, b := points[i-1], points[i]; a.value > b.value+halfCent && a.at < b.at {
			return fmt.Sprintf("the %s of %.2f ms is above the %s of %.2f ms", a.name, a.value, b.name, b.value)
		}
	}
	return ""
}

// fewAnswers are so many that one in as many runs of any lengths looks as if all were of one.
const fewAnswers = 100

// A throughput may be off from its count by its time by a share, and all that is
// printed with two decimals by half a hundredth.
const (
	maxRounding = 0.01
	halfCent    = 0.005
)
