package load

import "math"

// What answers of one load may be apart in length and in how they end.
const (
	maxShorter = 0.1  // of the mean number of tokens: MLPerf's band
	maxEnded   = 0.05 // of the answers
)

// Shorter is by what part the answers of a run are shorter on average than those of another under the same load. It is 0 where that
// is no more than MLPerf allows, a tenth, or than chance explains: three standard errors, if lengths spread as much as they are
// long. It says nothing where either server has not counted.
func (f *Figures) Shorter(other *Figures) float64 {
	if f.Completed == 0 || other.Completed == 0 || f.UsageMissing > 0 || other.UsageMissing > 0 {
		return 0
	}
	n, m := float64(f.Completed), float64(other.Completed)
	long := float64(other.OutputTokens) / m
	if long == 0 {
		return 0
	}
	if by := 1 - float64(f.OutputTokens)/n/long; by > max(maxShorter, 3*math.Sqrt(1/n+1/m)) {
		return by
	}
	return 0
}

// EndsOtherwise reports whether answers of two runs under the same load end in other ways: of one more of them than of the other
// are ended by the model, by more than a twentieth and more than three standard errors.
func (f *Figures) EndsOtherwise(other *Figures) bool {
	if f.Completed == 0 || other.Completed == 0 {
		return false
	}
	n, m := float64(f.Completed), float64(other.Completed)
	both := float64(f.EndedEarly+other.EndedEarly) / (n + m)
	apart := math.Abs(float64(f.EndedEarly)/n - float64(other.EndedEarly)/m)
	return apart > max(maxEnded, 3*math.Sqrt(both*(1-both)*(1/n+1/m)))
}
