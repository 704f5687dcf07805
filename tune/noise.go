package tune

import "math"

// Noise is how far starts of the same lie apart.
type Noise struct {
	// Spread is the standard deviation of the natural logarithm of a score between starts of one candidate: 0.05 is about
	// 5 % of the score. 0: not known.
	Spread float64 `json:"spread"`
	// Freedom is the degrees of freedom of it: starts that it was seen in, less one for each candidate.
	Freedom int `json:"freedom"`
}

// What is taken for granted before there are starts enough to tell: it orders the search, and never names a winner.
const (
	guessedSpread  = 0.05
	guessedFreedom = 2
)

// noise is what is known now, of all starts of the same in the same phase: no less than the error within a start. While searching, a
// guess is counted as a part of it.
func (t *Tuning) noise(searching bool) Noise {
	squares, freedom := t.Known.Spread*t.Known.Spread*float64(t.Known.Freedom), t.Known.Freedom
	if searching {
		squares, freedom = squares+guessedSpread*guessedSpread*guessedFreedom, freedom+guessedFreedom
	}
	errors, scores := 0.0, 0
	for _, e := range t.entries {
		for _, values := range [][]float64{e.search, e.final} {
			m := mean(values)
			for _, v := range values {
				squares += (v - m) * (v - m)
			}
			freedom += max(0, len(values)-1)
			scores += len(values)
		}
		errors += e.errors
	}
	if freedom == 0 {
		return Noise{}
	}
	return Noise{Spread: math.Sqrt(max(squares/float64(freedom), errors/float64(max(1, scores)))), Freedom: freedom}
}

// margin is how far the mean of so many starts, or the means of two times so many of the same, lie off in one direction at most, with that
// probability, as a logarithm. +Inf where the noise is not known.
func (n Noise) margin(probability float64, starts ...int) float64 {
	if n.Freedom == 0 {
		return math.Inf(1)
	}
	sum := 0.0
	for _, s := range starts {
		sum += 1 / float64(s)
	}
	return student(probability, n.Freedom) * n.Spread * math.Sqrt(sum)
}

// student is what a variable of Student's t with so many degrees of freedom, at least 1, stays below with a probability from 0.5 up: by
// the finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4.
func student(probability float64, freedom int) float64 {
	below := func(t float64) float64 {
		angle := math.Atan(t / math.Sqrt(float64(freedom)))
		cos, sum := math.Cos(angle), 0.0
		term := 1.0
		if freedom%2 == 1 {
			term = cos
		}
		for power := freedom % 2; power <= freedom-2; power += 2 {
			sum += term
			term *= cos * cos * float64(power+1) / float64(power+2)
		}
		if freedom%2 == 0 {
			return 0.5 + math.Sin(angle)*sum/2
		}
		return 0.5 + (angle+math.Sin(angle)*sum)/math.Pi
	}
	low, high := 0.0, 1.0
	for below(high) < probability {
		high *= 2
	}
	for range 60 {
		if mid := (low + high) / 2; below(mid) < probability {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

func mean(values []float64) (m float64) {
	for _, v := range values {
		m += v / float64(len(values))
	}
	return m
}
