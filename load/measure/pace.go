package measure

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"hclbench/load"
	"hclbench/load/prompts"
)

// pace is when sessions begin: at moments of their own, as in an open loop, one behind the other in
// workers, as in a closed loop, or, of stages, either.
type pace struct {
	due     []time.Duration // when each session begins
	limit   int             // most of those in flight; 0: any number
	sockets int             // connections made for them beforehand

	hours hours // in which a session goes on that has begun

	crew   []hours // workers of closed loops, and when each sends
	atOnce bool    // all that they send is due at the start, and waits for them in our queue
}

// share is a client's part of the pace: its sessions at their moments, and its workers in their
// hours.
func (x pace) share(s load.Share) pace {
	if s.Whole() {
		return x
	}
	x.due, x.crew = every(s, x.due), every(s, x.crew)
	x.limit, x.sockets = s.Part(x.limit), min(len(x.due), (x.sockets+s.Clients-1)/s.Clients)
	return x
}

func every[T any](s load.Share, all []T) (own []T) {
	for i := s.Client; i < len(all); i += s.Clients {
		own = append(own, all[i])
	}
	return own
}

// paceOf is the pace that a workload asks for. recorded are the times of a trace.
func paceOf(w load.Workload, seed uint64, recorded []time.Duration) pace {
	x := pace{limit: w.Concurrency, hours: hours{{0, cmp.Or(w.End(), forever)}}}
	switch {
	case recorded != nil:
		x.due = recorded
	case len(w.Stages) > 0:
		x.due, x.crew = arrivals(fit(legs(w), w.End()), legs(w), w.Burstiness, seed), stagedCrew(w)
	case w.Rate == 0 || w.Rate == load.Inf:
		x.crew = crew(cmp.Or(w.Concurrency, w.Requests), time.Duration(w.Ramp), time.Duration(w.Duration))
		x.atOnce = w.Rate == load.Inf
	default:
		x.due = arrivals(arriving(w), legs(w), w.Burstiness, seed)
		x.sockets = min(len(x.due), firstSockets(w))
	}
	return x
}

const dialsBeforehand = 1024 // bounds how many connections are made before a rate begins

// firstSockets is how many connections are made before a rate begins: those for
// the requests of its first tenth of a second.
func firstSockets(w load.Workload) int {
	n := max(int(min(w.Rate/10, dialsBeforehand)), 1)
	return min(n, cmp.Or(w.Concurrency, n))
}

func arriving(w load.Workload) int {
	if w.Duration == 0 {
		return w.Requests
	}
	return max(1, fit(legs(w), time.Duration(w.Duration)))
}

// connectAhead is how long before its first request a worker that begins later has a
// connection made: shorter than servers keep one that is not used.
const connectAhead = 500 * time.Millisecond

// atFirst is how many connections are needed when the clock starts.
func (x pace) atFirst() int {
	n := x.sockets
	for _, hours := range x.crew {
		if hours[0].from <= connectAhead {
			n++
		}
	}
	return n
}

// leg is a part of a schedule over which the pace goes evenly from low to high.
type leg struct {
	from, to  time.Duration
	low, high float64
}

const forever = time.Duration(math.MaxInt64) // ends the last leg of a schedule without an end

// legs are the rates of a workload, one after the other. Where a stage has a
// concurrency instead, its rate is 0.
func legs(w load.Workload) []leg {
	var parts []leg
	at := time.Duration(0)
	for _, s := range w.Stages {
		end, rate := at+time.Duration(s.Duration), float64(s.Rate)
		if s.Rate == load.Inf {
			rate = 0 // as many as the concurrency cap lets through
		}
		parts = append(parts, leg{at, end, rate, rate})
		at = end
	}
	if parts == nil {
		parts = []leg{{0, forever, float64(w.Rate), float64(w.Rate)}}
	}
	return ramped(parts, time.Duration(w.Ramp))
}

// ramped lets the pace of legs grow from nothing over the time of a ramp.
func ramped(parts []leg, ramp time.Duration) []leg {
	var out []leg
	for _, l := range parts {
		if l.from >= ramp {
			out = append(out, l)
			continue
		}
		share := func(t time.Duration) float64 { return float64(t) / float64(ramp) }
		end := min(l.to, ramp)
		out = append(out, leg{l.from, end, l.low * share(l.from), l.low * share(end)})
		if l.to > ramp {
			out = append(out, leg{ramp, l.to, l.low, l.high})
		}
	}
	return out
}

// mass is how many arrivals a leg has until t.
func (l leg) mass(t time.Duration) float64 {
	t = min(t, l.to)
	if t <= l.from || l.high == 0 {
		return 0
	}
	if t == forever {
		return math.Inf(1)
	}
	d := (t - l.from).Seconds()
	slope := (l.high - l.low) / (l.to - l.from).Seconds()
	return l.low*d + slope*d*d/2
}

// fit is how many whole arrivals there are until t.
func fit(parts []leg, t time.Duration) int {
	sum := 0.0
	for _, l := range parts {
		sum += l.mass(t)
	}
	return int(math.Floor(sum + 1e-9)) // 0.1 × 30 s are 3
}

// momentOf is the moment by which u arrivals have come.
func momentOf(parts []leg, u float64) time.Duration {
	for i, l := range parts {
		m := l.mass(l.to)
		if u > m && i < len(parts)-1 {
			u -= m
			continue
		}
		u = min(u, m)
		if u == 0 {
			return l.from
		}
		slope := (l.high - l.low) / (l.to - l.from).Seconds()
		// Of low·t + slope·t²/2 = u, the form that needs no slope.
		return l.from + seconds(2*u/(l.low+math.Sqrt(l.low*l.low+2*slope*u)))
	}
	return 0
}

// arrivals is the absolute schedule of n requests: gaps drawn from a gamma distribution of the
// given shape (1: Poisson; +Inf: constant), cumulated, and stretched so that the last arrival is
// exactly when the rates have brought n, as vllm bench serve does: the mean rate is the one that
// was asked for, not a draw around it. Shape 0 means 1.
func arrivals(n int, parts []leg, shape load.Rate, seed uint64) []time.Duration {
	r := prompts.Random(seed, prompts.ForArrivals, 0)
	sums := make([]float64, n)
	sum := 0.0
	for i := range sums {
		if shape == load.Inf {
			sum++
		} else {
			sum += gamma(r, float64(cmp.Or(shape, 1)))
		}
		sums[i] = sum
	}
	at := make([]time.Duration, n)
	for i := range at {
		at[i] = momentOf(parts, sums[i]/sum*float64(n))
	}
	return at
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

// gamma draws from a gamma distribution of scale 1 (Marsaglia and Tsang, "A
// simple method for generating gamma variables", 2000).
func gamma(r *rand.Rand, shape float64) float64 {
	if shape == 1 {
		return r.ExpFloat64()
	}
	if shape < 1 {
		return gamma(r, shape+1) * math.Pow(1-r.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-r.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// hours are the parts of a run in which a worker sends, in their order.
type hours []span

// firstFrom is the first moment of the hours from one on; ok is false when there is none.
func (h hours) firstFrom(t time.Duration) (at time.Duration, ok bool) {
	for _, x := range h {
		if t < x.to {
			return max(t, x.from), true
		}
	}
	return 0, false
}

func (h hours) end() time.Duration { return h[len(h)-1].to }

// crew are the hours of n workers, of whom one after the other begins while the ramp lasts.
func crew(n int, ramp, limit time.Duration) []hours {
	all := make([]hours, n)
	for k := range all {
		all[k] = hours{{span{to: ramp}.part(k, n).from, cmp.Or(limit, forever)}}
	}
	return all
}

// stagedCrew are the hours of the workers of stages with a concurrency: worker
// k sends in those that have more than k.
func stagedCrew(w load.Workload) []hours {
	var all []hours
	at := time.Duration(0)
	for _, s := range w.Stages {
		n, end := s.Concurrency, at+time.Duration(s.Duration)
		if s.Rate == load.Inf {
			n = w.Concurrency
		}
		all = append(all, make([]hours, max(0, n-len(all)))...)
		for k := range n {
			if from := max(at, min(end, span{to: time.Duration(w.Ramp)}.part(k, n).from)); from < end {
				all[k] = append(all[k], span{from, end})
			}
		}
		at = end
	}
	return slices.DeleteFunc(all, func(h hours) bool { return len(h) == 0 })
}

// timed reports whether requests have a time at which they are due, whatever the server does.
func timed(w load.Workload) bool {
	return w.Rate > 0 && w.Rate != load.Inf || w.Dataset.Timed() ||
		slices.ContainsFunc(w.Stages, func(s load.Stage) bool { return s.Rate > 0 && s.Rate != load.Inf })
}
