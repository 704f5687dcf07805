package load

import (
	"encoding/json"
	"math"
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

// Lacks is how many values a statistic needs that these are too few for: "p99". It is 0 where they are
// enough, where nobody has counted them, and of what is no percentile beside the median.
func (s Stats) Lacks(statistic string) int {
	if s.Count == 0 || !strings.HasPrefix(statistic, "p") {
		return 0
	}
	p, err := strconv.ParseFloat(statistic[1:], 64)
	if n := Needs(p); err == nil && p != 50 && s.Count < n {
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

// Ranks are the places in n sorted values, from 1, between which a percentile lies, where the
// values tell as much as so many independent ones; ok is false where they do not bound it.
func Ranks(n int, independent, percentile float64) (low, high int, ok bool) {
	m := int(min(float64(n), independent))
	i, j := quantile(m, percentile/100, unsure), quantile(m, percentile/100, 1-unsure)+1
	if i < 1 || j > m {
		return 0, 0, false
	}
	of := func(rank int) float64 { return float64(rank) * float64(n) / float64(m) }
	return int(math.Floor(of(i))), int(math.Ceil(of(j))), true
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
