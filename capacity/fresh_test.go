package capacity

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The worlds of this file came after those by which the rules were first chosen. They are not all unseen: 19 of the 24 had been looked
// at before the rules were done, and two rules were changed for what "bistable" showed. Five were looked at only afterwards.

// server is a closed loop at a server of which draw makes what requests take, as a part of the bounds, at a load.
func server(name string, knee float64, ask func(*Question), draw func(rng *rand.Rand, at float64, before int) func(v []float64)) world {
	w := world{name: "closed " + name, whole: true, holds: steady(knee), ask: ask}
	q := w.question()
	w.send = func(rng *rand.Rand, at float64, before int) func() ([]float64, float64) {
		next, v := draw(rng, at, before), make([]float64, len(q.SLO))
		return func() ([]float64, float64) {
			next(v)
			return v, at
		}
	}
	return w
}

// octaves is by how many doublings a load is above another.
func octaves(at, above float64) float64 { return math.Log2(at / above) }

func oneLine(q *Question) { q.SLO = lines(95) }

func freshWorlds() []world {
	const knee = 96.5
	// margin is by how many standard deviations the bound of a p95 is above the middle.
	margin := func(at, knee float64) float64 { return normalAbove(0.05) - 0.35*octaves(at, knee) }
	within := func(least, most float64) func(*Question) {
		return func(q *Question) { q.Least, q.Most = least, most }
	}
	pareto := server("Pareto", knee, oneLine, func(rng *rand.Rand, at float64, _ int) func([]float64) {
		misses := min(0.9, 0.05*at/knee)
		return func(v []float64) { v[0] = math.Pow(misses/(1-rng.Float64()), 1/1.5) }
	})
	neighbours := server("AR(1) 0.9", knee, oneLine, func(rng *rand.Rand, at float64, _ int) func([]float64) {
		z := rng.NormFloat64()
		return func(v []float64) {
			z = 0.9*z + math.Sqrt(1-0.81)*rng.NormFloat64()
			v[0] = math.Exp(0.3 * (z - margin(at, knee)))
		}
	})
	lengths := server("two lengths", knee, oneLine, func(rng *rand.Rand, at float64, _ int) func([]float64) {
		return func(v []float64) { // of ten requests one is long, and misses as often as not at the knee
			if v[0] = math.Exp(0.3*rng.NormFloat64()) / 10; rng.Float64() < 0.1 {
				v[0] = math.Exp(0.3 * (rng.NormFloat64() + 0.7*octaves(at, knee)))
			}
		}
	})
	batching := server("batching", knee, oneLine, func(rng *rand.Rand, at float64, _ int) func([]float64) {
		n, step := 0, 0.0
		return func(v []float64) { // those of a step share a part, and from 1.3 knees on requests are preempted
			if n++; n%(int(at)/4+1) == 0 || n == 1 {
				step = rng.NormFloat64()
			}
			z := math.Sqrt(0.3)*step + math.Sqrt(0.7)*rng.NormFloat64()
			u := math.Erfc(-z/math.Sqrt2) / 2
			if v[0] = math.Sqrt(at/knee) * (0.5 + u*0.5/0.95); at > 1.3*knee && rng.Float64() < 0.3 {
				v[0] *= 5
			}
		}
	})
	bistable := server("bistable", knee, oneLine, func(rng *rand.Rand, at float64, _ int) func([]float64) {
		share := min(0.9, 0.04/0.29*math.Pow(at/knee, 1.5)) // of requests that meet the bad state: 30 % of them miss, and else 1 %
		bad := rng.Float64() < share
		return func(v []float64) {
			if rng.Float64() < 0.02 { // it is drawn again, 50 requests apart
				bad = rng.Float64() < share
			}
			misses := 0.01
			if bad {
				misses = 0.3
			}
			v[0] = math.Pow(misses/(1-rng.Float64()), 0.3)
		}
	})
	const period = 3000
	waved := func(n int) float64 { return 0.3 * math.Sin(2*math.Pi*float64(n)/period) }
	mean := func(at float64) (misses float64) { // over a period, of a wave around a knee of 100
		for i := range 100 {
			misses += math.Erfc((margin(at, 100)+waved(i*period/100))/math.Sqrt2) / 2 / 100
		}
		return misses
	}
	low, high := 50.0, 150.0
	for range 40 {
		if x := (low + high) / 2; mean(x) <= 0.05 {
			low = x
		} else {
			high = x
		}
	}
	wave := server("slow wave", low, oneLine, func(rng *rand.Rand, at float64, before int) func([]float64) {
		n, start := before, rng.IntN(period)
		return func(v []float64) {
			n++
			v[0] = math.Exp(0.3 * (rng.NormFloat64() - margin(at, 100) - waved(n+start)))
		}
	})
	three := server("three lines", 60, func(q *Question) {
		q.SLO, q.Least, q.Most, q.Confidence = lines(90, 95, 99), 7, 345, 0.9
	}, func(rng *rand.Rand, at float64, _ int) func([]float64) {
		return func(v []float64) {
			z := rng.NormFloat64()
			for i, miss := range []float64{0.1, 0.05, 0.01} {
				own := math.Sqrt(0.5)*z + math.Sqrt(0.5)*rng.NormFloat64()
				v[i] = math.Exp(0.3 * (own - normalAbove(miss) + 0.5*octaves(at, []float64{75, 60, 66}[i])))
			}
		}
	})
	named := func(w world, name string, ask func(*Question)) world {
		w.name, w.ask = w.name[:len("closed ")]+name, ask
		return w
	}
	smooth := func(knee float64) world { return closed("", 0.35, 0, 0, 1, steady(knee)) }
	timed := named(smooth(knee), "in time", func(q *Question) { q.Budget, q.Timed = 3600, true })
	timed.takes = func(at float64) float64 { return (5 + at/10) / at }
	sudden := closed("sudden", 0.35, 0, 0, 1, func(n int) float64 {
		if n < budget/2 {
			return knee
		}
		return 60
	})
	heavy := open("Pareto", 0, exponential, func(rng *rand.Rand, _ int) float64 { return 0.6 * math.Pow(1-rng.Float64(), -1/2.5) }, nil, steady(100))
	heavy.holds = steady(found(heavy))
	modulated := open("modulated", 0, func(rng *rand.Rand, n int) float64 {
		if n/100%2 == 0 {
			return rng.ExpFloat64() / 0.8
		}
		return rng.ExpFloat64() / 1.2
	}, exponential, nil, steady(100))
	modulated.holds = steady(found(modulated))
	slow := open("slow", 0, exponential, exponential, steady(mm1(100, 0)), steady(100))
	slow.ask = within(50, 90)
	long := server("AR(1) 0.98", knee, oneLine, func(rng *rand.Rand, at float64, _ int) func([]float64) {
		z := rng.NormFloat64()
		return func(v []float64) {
			z = 0.98*z + math.Sqrt(1-0.98*0.98)*rng.NormFloat64()
			v[0] = math.Exp(0.3 * (z - margin(at, knee)))
		}
	})
	p99 := server("Pareto p99", knee, func(q *Question) { q.SLO, q.Budget = lines(99), 60_000 }, func(rng *rand.Rand, at float64, _ int) func([]float64) {
		misses := min(0.9, 0.01*math.Pow(at/knee, 2))
		return func(v []float64) { v[0] = math.Pow(misses/(1-rng.Float64()), 1/1.2) }
	})
	plateau := server("plateau", 140, oneLine, func(rng *rand.Rand, at float64, _ int) func([]float64) {
		misses := 0.04 // as close to what is asked for as makes it hard, from 40 up to a cliff
		switch {
		case at < 40:
			misses = 0.01
		case at > 140:
			misses = 0.2
		}
		return func(v []float64) { v[0] = math.Exp(0.3 * (rng.NormFloat64() - normalAbove(misses))) }
	})
	worse := server("bistable, longer", knee, oneLine, func(rng *rand.Rand, at float64, _ int) func([]float64) {
		share := min(0.9, 0.03/0.18*math.Pow(at/knee, 1.5)) // 20 % and 2 % miss
		bad := rng.Float64() < share
		return func(v []float64) {
			if rng.Float64() < 0.01 {
				bad = rng.Float64() < share
			}
			misses := 0.02
			if bad {
				misses = 0.2
			}
			v[0] = math.Pow(misses/(1-rng.Float64()), 0.3)
		}
	})
	mixed := open("two lengths", 0, exponential, func(rng *rand.Rand, _ int) float64 {
		if rng.Float64() < 0.1 {
			return 4.6
		}
		return 0.6
	}, nil, steady(100))
	mixed.holds = steady(found(mixed))
	return []world{long, p99, plateau, worse, mixed, pareto, neighbours, lengths, batching, bistable, wave, three,
		named(smooth(3), "left", nil), named(smooth(900), "right", nil), named(smooth(knee), "90 %", func(q *Question) { q.Confidence = 0.9 }),
		named(smooth(knee), "99 %", func(q *Question) { q.Confidence = 0.99 }), named(smooth(knee), "3,000 requests", func(q *Question) { q.Budget = 3000 }),
		named(smooth(knee), "60,000 requests", func(q *Question) { q.Budget = 60_000 }), named(smooth(knee), "7 to 345", within(7, 345)),
		timed, sudden, heavy, modulated, slow}
}

// TestSlowFresh: with seeds that were kept aside until the rules were done, at most 4 of 50 searches are wrong, also of two states
// whose worse comes seldom and lasts for long.
func TestSlowFresh(t *testing.T) {
	searches, most, seed := asked(t, 50, 4, 100_001)
	for _, w := range freshWorlds() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			o := w.searches(seed, searches, w.search)
			t.Logf("| %s | %.3g | %.3g to %.3g | %.2f | %.0f | %d | %d |", w.name, w.holds(0), o.holds, o.breaks, o.width, o.requests, o.wrong, o.open)
			if o.wrong > most {
				t.Errorf("%d of %d answers are wrong", o.wrong, searches)
			}
			if o.outside > 0 {
				t.Errorf("%d searches left the range or the budget", o.outside)
			}
		})
	}
}
