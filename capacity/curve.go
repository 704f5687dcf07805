package capacity

import "math"

// curve is what is likely of how the misses of a line of the SLO grow with the load. It chooses what to try next, and is
// evidence of nothing: a search by a wrong one takes longer, and is no more often wrong.
type curve struct {
	asked  float64 // of requests that miss, at most
	just   float64 // standard deviations that so many exceed
	shapes []shape
}

// shape is one way in which misses may grow: by the tail of a normal distribution, over doublings of the load.
type shape struct{ knee, steep, weight float64 }

// Shapes that are thought of.
const knees = 48

var steeps = []float64{0.1, 0.25, 0.5, 1, 3, 10, 40} // standard deviations of a doubling

// misses is the part of requests that miss at a load.
func (c *curve) misses(of shape, at float64) float64 {
	z := c.just - of.steep*math.Log2(at/of.knee)
	return min(0.99, max(1e-3, math.Erfc(z/math.Sqrt2)/2))
}

// curve is what the loads that were tried say of a line, which is just met between two loads.
func (s *Search) curve(line int, low, high float64) *curve {
	c := &curve{asked: 1 - s.SLO[line].Percentile/100}
	c.just = math.Sqrt2 * math.Erfinv(1-2*c.asked)
	low, high = math.Log(low), math.Log(high)
	best := math.Inf(-1)
	for i := range knees {
		for _, steep := range steeps {
			x := shape{knee: math.Exp(low + (high-low)*float64(i)/(knees-1)), steep: steep}
			for _, t := range s.loads {
				if len(t.Lines) > 0 && t.Lines[line].Counted > 0 {
					l, p := t.Lines[line], c.misses(x, t.Load)
					x.weight += (float64(l.Counted-l.Within)*math.Log(p) + float64(l.Within)*math.Log1p(-p)) / l.Inflation
				}
			}
			best = max(best, x.weight)
			c.shapes = append(c.shapes, x)
		}
	}
	kept, sum := c.shapes[:0], 0.0
	for _, x := range c.shapes {
		if x.weight = math.Exp(x.weight - best); x.weight > 1e-3 {
			kept, sum = append(kept, x), sum+x.weight
		}
	}
	for i := range kept {
		kept[i].weight /= sum
	}
	c.shapes = kept
	return c
}

// chances are how likely a load would pass the line, and would fail it, with so many more requests: by where the
// logarithm of what the bets win goes, and how much it wanders. pass and fail are what they lack.
func (c *curve) chances(at, requests, pass, fail float64) (passes, fails float64) {
	for _, x := range c.shapes {
		p := c.misses(x, at)
		won := requests * (p*math.Log(p/c.asked) + (1-p)*math.Log((1-p)/(1-c.asked)))
		reached := func(lack float64) float64 { return x.weight * math.Erfc((lack-won)/math.Sqrt(4*won+1e-9)) / 2 }
		switch {
		case p < c.asked:
			passes += reached(pass)
		case p > c.asked:
			fails += reached(fail)
		}
	}
	return passes, fails
}
