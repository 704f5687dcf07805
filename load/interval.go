package load

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Interval is where the truth behind a figure lies: of 100 such intervals, 95 hold it.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// AtMost is, of a percentile, what the truth does not exceed with 99 % confidence
	// if requests are independent: MLPerf's early-stopping estimate. 0: there are too
	// few requests for it.
	AtMost float64 `json:"at_most,omitempty"`
}

// Bound notes the interval of a figure by its name in JSON.
func (f *Figures) Bound(name string, x Interval) {
	if f.Intervals == nil {
		f.Intervals = map[string]Interval{}
	}
	f.Intervals[name] = x
}

// Unbounded is why figures have no interval.
type Unbounded struct {
	Why     string   `json:"why"`
	Figures []string `json:"figures,omitempty"` // as intervals name them; nil: all
}

// Unbound notes why a figure has no interval, or, without its name, why none has.
func (f *Figures) Unbound(name, why string) {
	i := slices.IndexFunc(f.Unbounded, func(u Unbounded) bool { return u.Why == why })
	if i < 0 {
		i, f.Unbounded = len(f.Unbounded), append(f.Unbounded, Unbounded{Why: why})
	}
	if name != "" {
		f.Unbounded[i].Figures = append(f.Unbounded[i].Figures, name)
	}
}

// forget takes away what is known of how sure a figure is; what others have of the same is left.
func (f *Figures) forget(name string) {
	f.Intervals = maps.Clone(f.Intervals)
	delete(f.Intervals, name)
	var left []Unbounded
	for _, u := range f.Unbounded {
		all := u.Figures == nil
		u.Figures = slices.DeleteFunc(slices.Clone(u.Figures), func(figure string) bool { return figure == name })
		if all || len(u.Figures) > 0 {
			left = append(left, u)
		}
	}
	f.Unbounded = left
}

// Statistic names a percentile as intervals do: "median", "p99".
func Statistic(percentile float64) string {
	if percentile == 50 {
		return "median"
	}
	return "p" + percentileKey(percentile)
}

// unsure is the probability that the truth lies below an interval, and that it lies above.
const unsure = 0.025

// Needs is how many independent values carry a percentile between 0 and 100: with fewer,
// not even the least and the greatest of them bound it on both sides with 95 % confidence.
func Needs(percentile float64) int {
	p := max(percentile, 100-percentile) / 100
	if p >= 1 {
		return 1 // the least and the greatest are what they are
	}
	return int(math.Ceil(math.Log(unsure) / math.Log(p)))
}

// Lacks is how many independent values a statistic needs that these are too few for: "p99". It is 0
// where they are enough, where nobody has counted them, and of what is no percentile beside the median.
func (s Stats) Lacks(statistic string) int {
	if s.Count == 0 || !strings.HasPrefix(statistic, "p") {
		return 0
	}
	p, err := strconv.ParseFloat(statistic[1:], 64)
	tell := s.Count
	if n, ok := s.Independent[statistic[1:]]; ok {
		tell = min(tell, n)
	}
	if n := Needs(p); err == nil && p != 50 && tell < n {
		return n
	}
	return 0
}

// MarshalJSON adds of each percentile that so few values do not carry how many it needs.
func (s Stats) MarshalJSON() ([]byte, error) {
	type bare Stats
	x := struct {
		bare
		Needs map[string]int `json:"needs,omitempty"`
	}{bare: bare(s)}
	for p := range s.Percentiles {
		if n := s.Lacks("p" + p); n > 0 {
			if x.Needs == nil {
				x.Needs = map[string]int{}
			}
			x.Needs[p] = n
		}
	}
	return json.Marshal(x)
}

// Ranks are the places in n sorted values, from 1 and between two of them too, between which a
// percentile lies, where the values tell as much as so many independent ones; ok is false where
// they do not bound it.
func Ranks(n int, independent, percentile float64) (low, high float64, ok bool) {
	m, p := independent, percentile/100
	if n < 2 || math.Pow(max(p, 1-p), min(m, float64(n))) > unsure {
		return 0, 0, false
	}
	of := func(rank float64) float64 { return 1 + (rank-1)*float64(n-1)/(m-1) }
	return of(rank(m, p, 1-unsure)), of(rank(m, p, unsure)), true
}

// At is the value at a place, from 1, in sorted ones: between two in proportion.
func At(sorted []float64, place float64) float64 {
	return between(len(sorted), 100*(place-1)/float64(len(sorted)-1), func(i int) float64 { return sorted[i] })
}

// rank is the place in m sorted values, from 1 and between two of them too, below which the p-th
// part of all lies with that probability.
func rank(m, p, probability float64) float64 {
	low, high := 1.0, m
	for range 60 {
		k := (low + high) / 2
		if beta(p, k, m+1-k) > probability {
			low = k
		} else {
			high = k
		}
	}
	return low
}

// beta is the regularized incomplete beta function of p (Lentz's continued fraction).
func beta(x, a, b float64) float64 {
	if x > (a+1)/(a+b+2) {
		return 1 - beta(1-x, b, a)
	}
	gamma := func(x float64) float64 { v, _ := math.Lgamma(x); return v }
	front := math.Exp(gamma(a+b)-gamma(a)-gamma(b)+a*math.Log(x)+b*math.Log1p(-x)) / a
	f, c, d := 1.0, 1.0, 0.0
	for i := range 400 {
		m := float64(i / 2)
		var t float64
		switch {
		case i == 0:
			t = 1
		case i%2 == 0:
			t = m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		default:
			t = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		}
		d = 1 / (1 + t*d)
		c = 1 + t/c
		f *= c * d
		if math.Abs(1-c*d) < 1e-12 {
			break
		}
	}
	return front * (f - 1)
}

// EarlyStopping is the place in n sorted values, from 1, of what MLPerf calls the estimate of a
// percentile: the truth is below it with 99 % confidence. 0: n is too few.
func EarlyStopping(n int, percentile float64) int {
	above := quantile(n, 1-percentile/100, 0.01) - 1
	if above < 0 {
		return 0
	}
	return n - above
}

// quantile is the least k for which at most k of n happen with that probability, where each
// happens with p.
func quantile(n int, p, probability float64) int {
	mean, reach := float64(n)*p, 8*math.Sqrt(float64(n)*p*(1-p))+2
	k := max(0, int(mean-reach))
	for sum := 0.0; k < n; k++ {
		if sum += once(k, n, p); sum >= probability {
			break
		}
	}
	return k
}

// once is the probability that k of n happen, where each happens with p.
func once(k, n int, p float64) float64 {
	gamma := func(x int) float64 { v, _ := math.Lgamma(float64(x + 1)); return v }
	return math.Exp(gamma(n) - gamma(k) - gamma(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}
