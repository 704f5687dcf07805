package sim

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Loop is a load as its engine sees it.
type Loop struct {
	InFlight int                                // requests that are kept in flight; 0: they come one Gap after the other
	Gap      func(rng *rand.Rand) time.Duration // of an open loop
	Tokens   int                                // that each asks for
}

// Reply is what a request gets.
type Reply struct {
	First, Last time.Duration // since it came, the first chunk with tokens and the last
	Tokens      int
	Failed      bool
}

// Play is what so many requests get by the engine's schedule alone. None is sent: what this machine and the network add is not in
// it. Those of a closed loop are all that is likely, evenly; those of an open one are drawn, once the queue is as it stays.
// The error is what keeps their times from being known.
func (c Config) Play(l Loop, requests int) ([]Reply, error) {
	c = c.withDefaults()
	switch {
	case c.Routes != nil || c.Place.spans() || c.LoseKV > 0:
		return nil, errors.New("it is of several members")
	case c.Embeds:
		return nil, errors.New("it generates no tokens")
	case c.HangAfter > 0 || c.DieAfter > 0:
		return nil, errors.New("it hangs or dies on the way")
	case l.Tokens < 1:
		return nil, errors.New("its answers have no set length")
	}
	tokens := l.Tokens
	if c.StopAfter > 0 {
		tokens = min(tokens, c.StopAfter)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var all []Reply
	var now time.Duration
	var ends []time.Duration // of those in flight, sorted
	before := 0              // of an open loop, until the queue is as it stays
	if l.InFlight == 0 {
		before = requests / 4
	}
	for i := range before + requests {
		n, normal := l.InFlight, 0.0
		if n > 0 {
			normal = math.Sqrt2 * math.Erfinv(2*(float64(i)+0.5)/float64(requests)-1)
		} else {
			now += l.Gap(rng)
			over, _ := slices.BinarySearch(ends, now+1)
			ends = ends[over:]
			n, normal = len(ends)+1, rng.NormFloat64()
		}
		r := Reply{Tokens: tokens, Failed: c.FailEvery > 0 && (i+1)%c.FailEvery == 0}
		if !r.Failed {
			p := c.speedAt(n, normal)
			r.First, r.Last = p.due(min(c.TokensPerChunk, tokens)), p.due(tokens)
			if l.InFlight == 0 {
				at, _ := slices.BinarySearch(ends, now+r.Last)
				ends = slices.Insert(ends, at, now+r.Last)
			}
		}
		if i >= before {
			all = append(all, r)
		}
	}
	return all, nil
}

// speedAt is the speed of a request that finds n in flight, itself among them, where normal is drawn from a standard normal distribution.
func (c *Config) speedAt(n int, normal float64) Point {
	p := c.Table.At(n)
	if c.Spread > 0 {
		p.TTFT = time.Duration(float64(p.TTFT) * math.Exp(c.Spread*normal))
	}
	return p
}

// due is when so many tokens are due.
func (p Point) due(tokens int) time.Duration { return p.TTFT + time.Duration(tokens-1)*p.ITL }
