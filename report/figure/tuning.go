package figure

import (
	"slices"

	"hclbench/results"
	"hclbench/tune"
)

// Tuning is what a tuning has tried, and what came of it.
type Tuning struct {
	*results.Ledger        // which has a summary
	Of              Metric // its objective's figure
}

// NewTuning is that of a ledger with a summary.
func NewTuning(l *results.Ledger) *Tuning {
	of, ok := Named(l.Summary.Figure)
	if !ok { // of a later hcl
		of.Title, of.Name = l.Summary.Figure, l.Summary.Figure
	}
	return &Tuning{l, of}
}

// Tunings are those with cells among rows. What is stale is of another question.
func Tunings(rows []results.Row, all []results.Ledger) (found []*Tuning) {
	for i := range all {
		if all[i].Summary == nil {
			continue
		}
		t := NewTuning(&all[i])
		if slices.ContainsFunc(rows, func(r results.Row) bool { return !r.Stale && t.Made(&r) }) {
			found = append(found, t)
		}
	}
	return found
}

// Made reports whether a row is a cell of one of its starts.
func (t *Tuning) Made(r *results.Row) bool {
	return slices.ContainsFunc(t.Starts, func(s results.Tried) bool { return s.At(r) >= 0 })
}

// Measured is what a start has measured in the unit of the figure, at the best of its loads or where it lost its race.
func (t *Tuning) Measured(s results.Tried) (float64, bool) {
	if s.Result == nil || s.Result.Score.Value <= 0 {
		return 0, false
	}
	if v := s.Result.Score.Value; t.Of.Better >= 0 {
		return v, true
	}
	return 1 / s.Result.Score.Value, true
}

// Beaten is the figure from which on a candidate of the finals is surely worse than their best; 0: nobody knows.
func (t *Tuning) Beaten() float64 {
	s := t.Summary
	if s.Floor == nil || s.Leader == nil || s.Place(*s.Leader) == 0 {
		return 0
	}
	best := s.Candidates[s.Place(*s.Leader)-1].Finals
	switch {
	case best == nil:
		return 0
	case t.Of.Better < 0:
		return best.Value * (1 + *s.Floor)
	}
	return best.Value / (1 + *s.Floor)
}

// Came is what came of a start, in a word or two.
func Came(s results.Tried) tune.Outcome {
	if s.Result == nil {
		return "broken off"
	}
	return s.Result.Outcome
}
