package measure

import (
	"time"

	"hclbench/load"
)

// pace is when requests leave: sessions at moments of their own, as in an open loop,
// one request after the other by workers that wait for their answers, as in a closed
// loop, or, of stages, either.
type pace struct {
	due     []time.Duration // when each session begins
	limit   int             // most of those in flight; 0: any number
	sockets int             // connections made for them beforehand

	crew   [][]shift // workers, and when each sends
	atOnce bool      // all that they send is due at the start, and waits for them in our queue
}

// paceOf is the pace that a workload asks for. recorded are the times of a trace.
func paceOf(w load.Workload, seed uint64, recorded []time.Duration) pace {
	limit, ramp := time.Duration(w.Duration), time.Duration(w.Ramp)
	switch {
	case recorded != nil:
		return pace{due: recorded, limit: w.Concurrency}
	case len(w.Stages) > 0:
		return pace{due: arrivals(fit(legs(w), w.End()), legs(w), w.Burstiness, seed), limit: w.Concurrency,
			crew: stagedCrew(w)}
	case w.Rate == 0:
		return pace{crew: crew(w.Concurrency, ramp, limit)}
	case w.Rate == load.Inf && w.Concurrency == 0:
		return pace{crew: crew(w.Requests, ramp, limit), atOnce: true}
	case w.Rate == load.Inf:
		return pace{crew: crew(w.Concurrency, ramp, limit), atOnce: true}
	}
	at := arrivals(arriving(w), legs(w), w.Burstiness, seed)
	return pace{due: at, limit: w.Concurrency, sockets: min(len(at), firstSockets(w))}
}

// dialsBeforehand bounds how many connections are made before a rate begins.
const dialsBeforehand = 1024

// firstSockets is how many connections are made before a rate begins: those for
// the requests of its first tenth of a second.
func firstSockets(w load.Workload) int {
	n := int(min(w.Rate/10, dialsBeforehand))
	if w.Concurrency > 0 {
		n = min(n, w.Concurrency)
	}
	return max(n, 1)
}

// arriving is how many requests, or conversations, a rate brings.
func arriving(w load.Workload) int {
	if w.Duration == 0 {
		return w.Requests
	}
	n := max(1, fit(legs(w), time.Duration(w.Duration)))
	if w.Requests > 0 {
		return min(w.Requests, n)
	}
	return n
}

// connectAhead is how long before its first request a worker that begins later has a
// connection made: shorter than servers keep one that is not used.
const connectAhead = 500 * time.Millisecond

// atFirst is how many connections are needed when the clock starts.
func (x pace) atFirst() int {
	n := x.sockets
	for _, shifts := range x.crew {
		if shifts[0].from <= connectAhead {
			n++
		}
	}
	return n
}
