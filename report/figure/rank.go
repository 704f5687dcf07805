package figure

import (
	"math"
	"slices"
)

// RankTest is the two-sided p-value of the Mann–Whitney U test (Wilcoxon's rank sum): how likely
// two samples of the same distribution differ in rank at least as much as these do. It is exact for
// up to exactRanks values in all, ties included, by counting every way to share the ranks out;
// above, it is the normal approximation with the corrections for ties and continuity. 1 when a
// sample is empty.
func RankTest(a, b []float64) float64 {
	n, m := len(a), len(b)
	if n == 0 || m == 0 {
		return 1
	}
	all := slices.Concat(a, b)
	slices.Sort(all)
	// Ranks count double, so that the mean rank of ties is whole.
	rank := map[float64]int{}
	ties := 0.0
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j] == all[i] {
			j++
		}
		rank[all[i]] = i + 1 + j
		t := float64(j - i)
		ties += t*t*t - t
		i = j
	}
	sum := 0
	for _, v := range a {
		sum += rank[v]
	}
	mean := float64(n * (n + m + 1)) // of the doubled sum
	if n+m > exactRanks {
		N := float64(n + m)
		variance := float64(n*m) / 12 * (N + 1 - ties/(N*(N-1)))
		if variance == 0 {
			return 1
		}
		z := max(0, math.Abs(float64(sum)-mean)/2-0.5) / math.Sqrt(variance)
		return math.Erfc(z / math.Sqrt2)
	}
	return rankExact(all, rank, n, math.Abs(float64(sum)-mean))
}

// rankExact is how many of all ways to choose n of the values have a doubled rank sum at least so
// far from its mean, as a share.
func rankExact(all []float64, rank map[float64]int, n int, far float64) float64 {
	mean := float64(n * (len(all) + 1))
	// ways[k][s] is how many choices of k values have the doubled rank sum s.
	most := 0
	for _, v := range all {
		most += rank[v]
	}
	ways := make([][]float64, n+1)
	for k := range ways {
		ways[k] = make([]float64, most+1)
	}
	ways[0][0] = 1
	for i, v := range all {
		r := rank[v]
		for k := min(i+1, n); k >= 1; k-- {
			for s := most; s >= r; s-- {
				ways[k][s] += ways[k-1][s-r]
			}
		}
	}
	total, extreme := 0.0, 0.0
	for s, w := range ways[n] {
		total += w
		if math.Abs(float64(s)-mean) >= far-1e-9 {
			extreme += w
		}
	}
	return extreme / total
}

// FalseAlarms is how often the test finds two samples of these sizes to differ that do not.
func FalseAlarms(n, m int) (share float64) {
	if n+m > exactRanks {
		return Significance
	}
	all, rank := make([]float64, n+m), map[float64]int{}
	for i := range all {
		all[i], rank[float64(i)] = float64(i), 2*(i+1)
	}
	for far := n * m; far >= 0; far -= 2 { // of doubled sums from their mean
		if p := rankExact(all, rank, n, float64(far)); p < Significance {
			share = p
		}
	}
	return share
}

const exactRanks = 40

// Significance is the p-value below which a difference counts.
const Significance = 0.05

// Fewest is how many repetitions of each side rankTest needs to find any
// difference significant: with three and three the least p-value is 0.1.
const Fewest = 4

// Needed estimates how many repetitions of each side would tell a difference of this size with a
// probability of 80 %, from the spread that was seen: the sample size of a t-test, enlarged by the
// efficiency of the rank test (3/π). 0: it cannot be estimated.
func Needed(a, b []float64) int {
	if len(a) < 2 || len(b) < 2 {
		return 0
	}
	difference := math.Abs(Mean(a) - Mean(b))
	spread := (variance(a) + variance(b)) / 2
	if difference == 0 || spread == 0 {
		return 0
	}
	const quantiles = 1.96 + 0.84
	n := math.Ceil(2 * quantiles * quantiles * spread / (difference * difference) * math.Pi / 3)
	return int(min(max(n, Fewest), 1e6))
}

// Mean of values; of none it is no number.
func Mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// variance of a sample, with n-1.
func variance(values []float64) float64 {
	m, sum := Mean(values), 0.0
	for _, v := range values {
		sum += (v - m) * (v - m)
	}
	return sum / float64(len(values)-1)
}
