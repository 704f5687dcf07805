package load

import (
	"math"
	"slices"
)

// How values that follow each other are judged: docs/method.md gives the reasons.
const (
	Batches  = 20  // that a run is cut into
	Waves    = 8   // of them, the longest, that tell how much a sum varies
	MaxDrift = 0.1 // that a figure may change over a run, of what it is in the middle
	surely   = 2.8 // times as high as chance makes the longest wave of values on average
)

// LongRun is the variance of the sum of values that follow each other, by their waves from one of so many half
// periods to another: what lasts for longer than a value is in the longest waves as it is in the sum.
func LongRun(values []float64, from, to int) (v float64) {
	for j := from; j <= to; j++ {
		wave := 0.0
		for i, x := range values {
			wave += x * math.Cos(math.Pi*float64(j)*(float64(i)+0.5)/float64(len(values)))
		}
		v += 2 * wave * wave / float64(to-from+1)
	}
	return v
}

// Trend is where values, which follow each other, begin and end by the line of Theil and Sen; ok is true where
// they rise or fall far enough to matter, and by more than chance explains: their longest wave, of half a period,
// is held against what chance makes of it.
func Trend(values []float64) (from, to float64, ok bool) {
	n := len(values)
	if n < Batches/2 {
		return 0, 0, false
	}
	slopes := make([]float64, 0, n*n/2)
	for i, a := range values {
		for j := i + 1; j < n; j++ {
			slopes = append(slopes, (values[j]-a)/float64(j-i))
		}
	}
	slices.Sort(slopes)
	slope := Percentile(slopes, 50)
	rest := make([]float64, n)
	for i, v := range values {
		rest[i] = v - slope*float64(i)
	}
	slices.Sort(rest)
	from = Percentile(rest, 50)
	to = from + slope*float64(n-1)
	least := slices.Min(values) // what grows fast begins above its line
	from, to = max(from, least), max(to, least)
	return from, to, LongRun(values, 1, 1) > surely*surely*chance(values) && math.Abs(to-from) > MaxDrift*(from+to)/2
}

// chance is the mean square of the longest wave of values that go nowhere, as their shorter waves tell it: the mean of
// what processes would have that are like what was before to some degree, more or less, and have some noise of their own
// beside, each weighted by how likely it makes those waves (Whittle's likelihood).
func chance(values []float64) float64 {
	n := len(values)
	var squares []float64 // of the waves, from the second on
	for j := 2; j < n; j++ {
		squares = append(squares, LongRun(values, j, j))
	}
	if slices.Max(squares) == 0 {
		return 0
	}
	var likely, longest []float64
	for _, like := range []float64{0, 0.3, 0.6, 0.9} { // neighbours, of as many values as there are batches
		for _, noise := range []float64{0, 1, 4} { // times as much
			if like == 0 && noise > 0 {
				continue
			}
			alike := math.Pow(like, Batches/float64(n))
			spectrum := func(j int) float64 {
				return noise + (1-alike*alike)/(1+alike*alike-2*alike*math.Cos(math.Pi*float64(j)/float64(n)))
			}
			level, logs := 0.0, 0.0
			for i, square := range squares {
				level += square / spectrum(i+2) / float64(len(squares))
				logs += math.Log(spectrum(i + 2))
			}
			likely = append(likely, -(float64(len(squares))*math.Log(level)+logs)/2)
			longest = append(longest, level*spectrum(1))
		}
	}
	sum, weights, most := 0.0, 0.0, slices.Max(likely)
	for i := range likely {
		weight := math.Exp(likely[i] - most)
		sum, weights = sum+weight*longest[i], weights+weight
	}
	return sum / weights
}
