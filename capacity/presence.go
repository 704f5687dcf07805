package capacity

import (
	"slices"
	"time"

	"hclbench/load"
)

// leastGone requests that failed in a row, and as many as are in flight, are more than bad luck.
const leastGone = 20

// presence is whether a server still answers, by the requests of a try. The zero value is that of one that has none yet.
type presence struct {
	atOnce   float64       // that are in flight, of a closed loop
	over     int           // that were not stopped
	answered time.Duration // when the last answer was there; 0: there was none
	failures []failure     // since then
}

// failure is a request that has failed.
type failure struct {
	sent, end time.Duration
	silent    bool // nothing has come of it for as long as that may take
}

// hear takes a request that is over, in any order.
func (p *presence) hear(r *load.Record) {
	switch {
	case r.Class == load.ClassCancelled:
		return
	case r.OK():
		p.answered = max(p.answered, r.End)
		p.failures = slices.DeleteFunc(p.failures, func(f failure) bool { return f.end <= p.answered })
	case r.End > p.answered:
		p.failures = append(p.failures, failure{r.Sent, r.End, r.First == 0 && (r.Class == load.ClassStall || r.Class == load.ClassTimeout)})
	}
	p.over++
}

// silent reports whether nothing was answered for as long as a request may take, and as many have failed as are in flight. Where none
// that was sent earlier still is, there is no use in sending more.
func (p *presence) silent() bool {
	return float64(len(p.failures)) >= p.atOnce && slices.ContainsFunc(p.failures, func(f failure) bool { return f.silent && f.sent >= p.answered })
}

// gone reports whether a try that is over has ended without an answer: its last requests failed, or all that it had.
func (p *presence) gone() bool {
	n := len(p.failures)
	return n > 0 && (n == p.over || float64(n) >= max(leastGone, p.atOnce) || p.silent())
}
