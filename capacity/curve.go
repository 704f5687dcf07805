package capacity

import (
	"math"

	"hclbench/load"
)

// curve is what is likely of how the misses of a line of the SLO grow with the load. It chooses what to try next, and is
// evidence of nothing: a search by a wrong one takes longer, and is no more often wrong.
type curve struct {
	asked  float64 // of requests that miss, at most
	just   float64 // standard deviations that so many exceed
	shapes []shape
}

// shape is one way in which misses may grow: by the tail of a normal distribution, over doublings of the load, beside such as stall
// at every load.
type shape struct{ knee, steep, stalls, weight float64 }

// Shapes that are thought of.
const knees = 48

var steeps = []float64{0.1, 0.25, 0.5, 1, 3, 10, 40} // standard deviations of a doubling

// misses is the part of requests that miss at a load.
func (c *curve) misses(of shape, at float64) float64 {
	just := c.just
	if of.stalls > 0 {
		just = normalAbove((c.asked - of.stalls) / (1 - of.stalls))
	}
	z := just - of.steep*math.Log2(at/of.knee)
	return min(0.99, max(1e-3, of.stalls+(1-of.stalls)*math.Erfc(z/math.Sqrt2)/2))
}

// likelihood is the logarithm of how likely so many requests within a line are at a load.
func (c *curve) likelihood(of shape, at float64, counted, within int, inflation float64) float64 {
	p := c.misses(of, at)
	return (float64(counted-within)*math.Log(p) + float64(within)*math.Log1p(-p)) / inflation
}

// newCurve knows nothing yet of a line that so many may miss.
func newCurve(asked float64) *curve { return &curve{asked: asked, just: normalAbove(asked)} }

// normalAbove is what a standard normal variable exceeds with that probability.
func normalAbove(p float64) float64 { return math.Sqrt2 * math.Erfinv(1-2*p) }

// curve is what the loads that were tried say of a line, which is just met between two loads.
func (s *Search) curve(line int, low, high float64) *curve {
	c := newCurve(1 - s.SLO[line].Percentile/100)
	low, high = math.Log(low), math.Log(high)
	best := math.Inf(-1)
	for i := range knees {
		for _, steep := range steeps {
			x := shape{knee: math.Exp(low + (high-low)*float64(i)/(knees-1)), steep: steep}
			for _, t := range s.loads {
				if len(t.Lines) > 0 && t.Lines[line].Counted > 0 {
					l := t.Lines[line]
					x.weight += c.likelihood(x, t.Load, l.Counted, l.Within, l.Inflation)
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

// Knees that [Outcome.Likely] thinks of between the bounds, and of lines that end beyond.
const (
	between = 200
	beyond  = 40
)

// stalls are parts of the misses that are allowed, which [Outcome.Likely] thinks of at every load.
var stalls = []float64{0, 0.2, 0.4, 0.6}

// Likely is the load that the server holds, by what is likely: of each line of the SLO such curves as choose what to try, and of the
// lines the one that ends first, between what certainly holds and what certainly breaks. It is certain of nothing, and compares
// servers nearer than their bounds do. deviation is its standard deviation, as a part of it. 0: nothing is certain on either side.
func (o *Outcome) Likely() (at, deviation float64) {
	if o.Flaw != "" || o.Holds == nil && o.Breaks == nil {
		return 0, 0
	}
	low, high, whole := o.Least, o.Most, o.Of == Concurrency
	if o.Holds != nil {
		low = *o.Holds
	}
	if o.Breaks != nil {
		if high = *o.Breaks; whole {
			high = max(low, high-1)
		}
	}
	part := 0.0
	if whole {
		part = 1 / math.Sqrt(12) // of the step from one load to the next, that nobody sees
	}
	if high <= low {
		return low, part / low
	}
	// The chance of each knee to be that of the line which ends first is by how likely none ends before.
	step := math.Log(high/low) / between
	after := make([]float64, between+1) // that all lines end from there on
	for i := range after {
		after[i] = 1
	}
	for n := range o.Loads[0].Lines {
		line, ok := load.ParseObjective(o.Loads[0].Lines[n].Name)
		if !ok {
			continue
		}
		c := newCurve(1 - line.Percentile/100)
		var all []shape
		best := math.Inf(-1)
		for i := range between + beyond {
			knee, wide := math.Log(low)+step*(float64(i)+0.5), step
			if i >= between {
				wide = math.Log(4) / beyond
				knee = math.Log(high) + wide*(float64(i-between)+0.5)
			}
			for j := range len(steeps) * len(stalls) {
				x := shape{knee: math.Exp(knee), steep: steeps[j/len(stalls)], stalls: c.asked * stalls[j%len(stalls)], weight: math.Log(wide)}
				for _, tried := range o.Loads {
					if l := tried.Lines[n]; l.Counted > 0 {
						x.weight += c.likelihood(x, tried.Load, l.Counted, l.Within, l.Inflation)
					}
				}
				best = max(best, x.weight)
				all = append(all, x)
			}
		}
		sum, from := 0.0, make([]float64, between+1)
		for i := range all {
			all[i].weight = math.Exp(all[i].weight - best)
			sum += all[i].weight
		}
		left := sum
		for i := range from {
			from[i] = left / sum
			for _, x := range all[i*len(steeps)*len(stalls) : (i+1)*len(steeps)*len(stalls)] {
				left -= x.weight
			}
		}
		for i := range after {
			after[i] *= from[i]
		}
	}
	sum, first, second := 0.0, 0.0, 0.0
	for i := range between {
		p, x := max(0, after[i]-after[i+1]), math.Log(low)+step*(float64(i)+0.5)
		sum, first, second = sum+p, first+p*x, second+p*x*x
	}
	if sum == 0 { // all lines end beyond what certainly breaks, which the curves cannot say
		return high, part / high
	}
	first, second = first/sum, second/sum
	at = math.Exp(first)
	return at, math.Hypot(math.Sqrt(max(0, second-first*first)), part/at)
}
