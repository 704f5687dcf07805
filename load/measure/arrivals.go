package measure

import (
	"math"
	"math/rand/v2"
	"time"

	"hclbench/load"
	"hclbench/load/prompts"
)

// arrivals is the absolute schedule of n requests: gaps drawn from a gamma
// distribution of the given shape (1: Poisson; +Inf: constant), cumulated, and
// stretched so that the last arrival is exactly when the rates have brought n,
// as vllm bench serve does: the mean rate is the one that was asked for, not a
// draw around it. Shape 0 means 1.
func arrivals(n int, parts []leg, shape load.Rate, seed uint64) []time.Duration {
	at := make([]time.Duration, n)
	if math.IsInf(float64(shape), 1) {
		for i := range at {
			at[i] = when(parts, float64(i+1))
		}
		return at
	}
	if shape == 0 {
		shape = 1
	}
	r := prompts.Random(seed, prompts.ForArrivals, 0)
	sums := make([]float64, n)
	sum := 0.0
	for i := range sums {
		sum += gamma(r, float64(shape))
		sums[i] = sum
	}
	for i := range at {
		at[i] = when(parts, sums[i]/sum*float64(n))
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
