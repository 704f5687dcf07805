package load

import (
	"testing"
	"time"
)

// TestGoodput has one request with a TTFT of 100 ms, gaps of 20 and 40 ms and
// five tokens, and bounds just under and just over each of its values.
func TestGoodput(t *testing.T) {
	ms := time.Millisecond
	r := Record{Sent: 50 * ms, First: 150 * ms, Last: 210 * ms, Gaps: []time.Duration{20 * ms, 40 * ms}, OutputTokens: 5}
	for metric, is := range map[string]time.Duration{
		"ttft": 100 * ms, "tpot": 15 * ms, "itl": 30 * ms, "e2el": 160 * ms, "normalized_latency": 32 * ms,
	} {
		if !r.good([]Objective{{Metric: metric, Max: Duration(is)}}) {
			t.Errorf("%s is %v and seems longer", metric, is)
		}
		if r.good([]Objective{{Metric: metric, Max: Duration(is - 1)}}) {
			t.Errorf("%s is %v and seems shorter", metric, is)
		}
	}
	// Gaps that were not kept count all the same.
	r.Gaps, r.Dropped = nil, 2
	if r.good([]Objective{{Metric: "itl", Max: Duration(29 * ms)}}) || !r.good([]Objective{{Metric: "itl", Max: Duration(30 * ms)}}) {
		t.Error("the ITL of a request without its gaps is not 30 ms")
	}
	// Of one chunk there is none.
	r.Dropped, r.Last, r.OutputTokens = 0, r.First, 1
	if !r.good([]Objective{{Metric: "itl", Max: 1}, {Metric: "tpot", Max: 1}}) {
		t.Error("a request of one token is not within every ITL and TPOT")
	}
}
