package chart

import (
	"math"
	"slices"
)

// scale maps what was measured to where it is drawn.
type scale struct {
	from, to   float64 // values
	start, end float64 // points
	log        bool
}

func (s scale) at(v float64) float64 {
	from, to := s.from, s.to
	if s.log {
		v, from, to = math.Log(v), math.Log(from), math.Log(to)
	}
	if to == from {
		return (s.start + s.end) / 2
	}
	return s.start + (v-from)/(to-from)*(s.end-s.start)
}

// wide is how many times the smallest value the greatest is where only a
// logarithmic axis shows both.
const wide = 30

// Axis is how one direction of a chart reads.
type Axis struct {
	Title  string
	Unit   string
	Key    string    // by which the page knows what it measures
	Log    bool      // whatever the values are
	Linear bool      // likewise
	Zero   bool      // begins at 0, unless it is logarithmic
	Ticks  []float64 // nil: round numbers
	From   float64   // begins there; 0: where the values say
	To     float64   // ends there; 0: after the greatest value
}

// fit is the scale of an axis for values, and its ticks, at most about n.
func (a Axis) fit(values []float64, start, end float64, n int) (scale, []float64) {
	lowest, highest := slices.Min(values), slices.Max(values)
	s := scale{start: start, end: end, log: a.Log || !a.Linear && lowest > 0 && highest/lowest > wide}
	if a.Ticks != nil {
		s.from, s.to = a.Ticks[0], a.Ticks[len(a.Ticks)-1]
		pad := 0.04 // of the axis on both sides, so that markers stay inside
		if s.log {
			f := math.Pow(s.to/s.from, pad)
			if s.to == s.from {
				f = 2
			}
			s.from, s.to = s.from/f, s.to*f
		} else {
			w := (s.to - s.from) * pad
			s.from, s.to = s.from-w, s.to+w
		}
		return s, spaced(a.Ticks, s, math.Abs(end-start)/float64(max(n, 1)))
	}
	if s.log {
		ticks := logTicks(lowest, highest, n)
		s.from, s.to = min(lowest/1.15, ticks[0]), max(highest*1.15, ticks[len(ticks)-1])
		return s, ticks
	}
	// From 0, where that costs little room, and where a difference is so small that
	// it would look like one.
	if spread := highest - lowest; a.Zero || lowest < spread/2 || spread < 0.1*highest {
		lowest = min(lowest, 0)
	}
	if a.From > 0 {
		lowest = a.From
	}
	if a.To > 0 {
		highest = a.To
	}
	if highest == lowest {
		highest = lowest + 1
	}
	step := round((highest - lowest) / float64(max(n, 1)))
	var ticks []float64
	first := math.Floor(lowest/step+1e-9) * step
	for i := 0; ; i++ {
		v := first + float64(i)*step
		ticks = append(ticks, v)
		if v >= highest-step*1e-9 {
			break
		}
	}
	s.from, s.to = ticks[0], ticks[len(ticks)-1]
	// Half a step of nothing at the top is enough.
	if len(ticks) > 2 && highest < ticks[len(ticks)-2]+step*0.5 && a.To == 0 {
		ticks = ticks[:len(ticks)-1]
		s.to = ticks[len(ticks)-1] + step*0.5
	}
	return s, ticks
}

// round is the next of 1, 2, 2.5, 5, 10, … that is not smaller.
func round(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 2.5, 5} {
		if v <= f*power*(1+1e-9) {
			return f * power
		}
	}
	return 10 * power
}

// logTicks are 1, 2 and 5 of every power of ten between two values, or fewer.
func logTicks(lowest, highest float64, n int) []float64 {
	for _, factors := range [][]float64{{1, 2, 5}, {1, 3}, {1}} {
		var ticks []float64
		for power := math.Floor(math.Log10(lowest)); power <= math.Ceil(math.Log10(highest)); power++ {
			for _, f := range factors {
				if v := f * math.Pow(10, power); v >= lowest/1.2 && v <= highest*1.2 {
					ticks = append(ticks, v)
				}
			}
		}
		if len(ticks) > 0 && (len(ticks) <= n+2 || len(factors) == 1) {
			return ticks
		}
	}
	return []float64{lowest, highest}
}

// spaced are those of the ticks that have room, the last one before the others.
func spaced(ticks []float64, s scale, room float64) []float64 {
	var kept []float64
	for i := len(ticks) - 1; i >= 0; i-- {
		if len(kept) == 0 || math.Abs(s.at(ticks[i])-s.at(kept[len(kept)-1])) >= room {
			kept = append(kept, ticks[i])
		}
	}
	slices.Reverse(kept)
	return kept
}
