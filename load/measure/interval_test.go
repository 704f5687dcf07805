package measure

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"hclbench/load"
)

// TestGoodputInterval: a goodput has an interval where some requests are good and others are not, of closed
// loops and of open ones; another SLO has none.
func TestGoodputInterval(t *testing.T) {
	closed := toy{Workload: load.Workload{Concurrency: 16, Requests: 1000}, uneven: 0.5, noise: 0.1}
	open := toy{Workload: load.Workload{Rate: 20, Requests: 4000}, uneven: 0.5, noise: 0.1}
	for name, x := range map[string]struct {
		toy
		bound time.Duration
		why   string // empty: it has one
	}{
		"closed": {closed, 700 * msec, ""}, "open": {open, 500 * msec, ""},
		"closed, all good": {closed, time.Hour, "^requests are all good, or none is$"}, "open, all good": {open, time.Hour, "^requests are all good, or none is$"},
		"open, nearly all": {open, 1030 * msec, `^the run is \d+ times as long as a request, and this needs \d+ times$`},
	} {
		x.SLO = []load.Objective{{Metric: "e2el", Max: load.Duration(x.bound)}}
		records, d := x.run(3)
		s := Summarize(x.Workload, nil, time.Time{}, d, records)
		i, ok := s.Intervals["goodput"]
		if ok != (x.why == "") || ok && (i.Low >= *s.Goodput || i.High <= *s.Goodput || i.High-i.Low > 0.3**s.Goodput) {
			t.Errorf("%s: goodput %g of %g is in %+v; unbounded %+v", name, *s.Goodput, s.RequestThroughput, i, s.Unbounded)
		}
		if x.why != "" {
			unbounded(t, s, map[string]string{"goodput": x.why})
		}
		again, other := s.Under(x.SLO, records), s.Under([]load.Objective{{Metric: "ttft", Max: 1}}, records)
		if again.Intervals["goodput"] != i {
			t.Errorf("%s: the same SLO has another interval", name)
		}
		if _, ok := other.Intervals["goodput"]; ok || len(other.Intervals) == 0 {
			t.Errorf("%s: another SLO has %+v", name, other.Intervals)
		}
	}
}

// steps is a closed loop on an engine whose steps all take 10 ms, whatever it serves.
func steps(w load.Workload, length func(*rand.Rand) int, seed uint64) (records []load.Record, d time.Duration) {
	rng, free := rand.New(rand.NewPCG(seed, 13)), make([]time.Duration, w.Concurrency)
	for i := range w.Requests {
		k := 0
		for j, at := range free {
			if at < free[k] {
				k = j
			}
		}
		n, at := length(rng), free[k]
		free[k] = at + time.Duration(n)*10*msec
		d = max(d, free[k])
		records = append(records, load.Record{Seq: i, Sent: at, First: at + 10*msec, Last: free[k], End: free[k], OutputTokens: n, AskedOutput: n, InputTokens: 9})
	}
	return records, d
}

// TestTwoLengths: where answers are of two kinds a run's throughput varies by its end: by how long that takes, and
// by how many tokens are then to come.
func TestTwoLengths(t *testing.T) {
	const runs = 150
	two := func(share float64, long, short int) func(*rand.Rand) int {
		return func(rng *rand.Rand) int {
			if rng.Float64() < share {
				return long
			}
			return short
		}
	}
	for name, x := range map[string]struct {
		concurrency, requests int
		length                func(*rand.Rand) int
	}{
		"even":         {64, 3000, func(rng *rand.Rand) int { return 100 + rng.IntN(200) }},
		"10 % of 1000": {32, 2000, two(0.1, 1000, 100)},
		"5 % of 2000":  {64, 4000, two(0.05, 2000, 50)},
		"20 % of 2000": {64, 4000, two(0.2, 2000, 200)},
		"lognormal":    {64, 3000, func(rng *rand.Rand) int { return min(4000, 1+int(200*math.Exp(rng.NormFloat64()))) }},
	} {
		w := load.Workload{Concurrency: x.concurrency, Requests: x.requests}
		var intervals []load.Interval
		mean := 0.0
		for seed := range uint64(runs) {
			records, d := steps(w, x.length, seed)
			s := Summarize(w, []float64{50}, time.Time{}, d, records)
			if i, ok := s.Intervals["output_throughput"]; ok {
				intervals = append(intervals, i)
			}
			mean += s.OutputThroughput / runs
		}
		held, width := 0, 0.0
		for _, i := range intervals {
			width += (i.High - i.Low) / 2 / mean / float64(len(intervals))
			if i.Low <= mean && mean <= i.High {
				held++
			}
		}
		t.Logf("%s: %d of %d hold %.1f, ± %.2f %%", name, held, len(intervals), mean, 100*width)
		if float64(held) < 0.88*float64(len(intervals)) || len(intervals) < runs/2 {
			t.Errorf("%s: %d of %d intervals hold the mean of all runs", name, held, len(intervals))
		}
	}
}

// TestClusteredGoodput: where only a short part of the run is good, or only a short part is not, the goodput
// may be none, and no more than the requests.
func TestClusteredGoodput(t *testing.T) {
	for _, good := range []bool{true, false} {
		var records []load.Record
		for at := time.Duration(0); at < 400*time.Second; at += time.Second {
			for range 4 {
				first := at + time.Second/2
				if part := at >= 100*time.Second && at < 120*time.Second; part == good {
					first = at + msec
				}
				records = append(records, load.Record{Seq: len(records), Sent: at, First: first, Last: at + time.Second,
					End: at + time.Second, InputTokens: 1, OutputTokens: 2})
			}
		}
		w := load.Workload{Concurrency: 4, Requests: len(records), SLO: []load.Objective{line("ttft", 0, 100*msec)}}
		s := Summarize(w, nil, time.Time{}, 400*time.Second, records)
		x, ok := s.Intervals["goodput"]
		if most := s.Intervals["request_throughput"].High; !ok || x.Low < 0 || x.High > most || x.Low >= *s.Goodput || x.High <= *s.Goodput {
			t.Errorf("goodput %g is in %+v (%v), of at most %g requests/s", *s.Goodput, x, ok, most)
		}
	}
}
