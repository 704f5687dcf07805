package tune

import (
	"math"
	"slices"
	"time"
)

// Fate is what became of a candidate.
type Fate string

// The fates.
const (
	Won       Fate = "won"
	Tied      Fate = "tied"      // in the finals, by less than the floor
	Dominated Fate = "dominated" // surely worse than the best, or it lost a race
	Behind    Fate = "behind"    // it measured lower than those which were kept, though chance may have done it
	Failed    Fate = "failed"    // Outcome and Reason say how: did not start, out of memory, broke answers, failed accuracy, cannot be measured
	Pruned    Fate = "pruned"    // it cannot be started; Why says why
	Duplicate Fate = "duplicate" // it would be served as SameAs is
	NotTried  Fate = "not tried" // the budget was spent
)

// Entry is what is known of a candidate.
type Entry struct {
	Candidate Candidate
	Overrides int
	Stage     string  // that made it; empty: it is the baseline, or was proposed
	Predicted float64 // its score, by whoever proposed it; 0: nobody said

	Fate    Fate
	Why     string  // in words, where it was pruned
	Outcome Outcome // of its last start; empty: none
	Reason  string  // of that outcome
	Starts  int
	Cost    Cost

	search, final []float64 // logarithms of its scores
	error         float64   // the greatest error within a start
	at            string    // the load at which others are raced against it
	same          *Entry    // that is served the same
	proposed      bool      // from outside, and not tried yet
}

// waits reports whether a candidate could be started and has not been.
func (e *Entry) waits() bool { return e.Fate == NotTried && e.Starts == 0 }

// out reports whether a candidate is out of the search for what came of a start.
func (e *Entry) out() bool { return e.Starts > 0 && e.Outcome != Measured }

// SameAs is the candidate that is served the same, where this is a duplicate; nil: it is none.
func (e *Entry) SameAs() *Entry { return e.same }

// Figure is a score with the interval of the question's confidence, over starts.
type Figure struct {
	Value     float64 `json:"value"` // geometric mean
	Low, High float64 // 0 and +Inf where the noise is not known
	Starts    int     `json:"starts"` // 0: there is none
}

// Searched is what a candidate scored in the search. Of one that was kept it is likely too high: it was picked for it.
func (t *Tuning) Searched(e *Entry) Figure { return t.figure(e.search) }

// Finally is what a candidate scored in the finals, by which nothing was picked.
func (t *Tuning) Finally(e *Entry) Figure { return t.figure(e.final) }

func (t *Tuning) figure(values []float64) Figure {
	if len(values) == 0 {
		return Figure{}
	}
	n, m := t.noise(false), mean(values)
	half := student((1+t.Confidence)/2, n.Freedom) * n.Spread / math.Sqrt(float64(len(values)))
	return Figure{Value: math.Exp(m), Low: math.Exp(m - half), High: math.Exp(m + half), Starts: len(values)}
}

// Answer is what is certain.
type Answer struct {
	Winner *Entry   // nil: there is none
	Tied   []*Entry // finalists that may be the best, where there is no winner: fewest overrides first
	Lead   float64  // of the winner over the next finalist, as a part of that one's score; by the finals
	Floor  float64  // the least lead that would have counted, as a part of a score; +Inf: the finals are not over
	Noise  Noise    // between starts, as measured
	Why    string   // why there is no winner
	Tried  int      // candidates that were started
	Of     int      // candidates in all: the product of the stages, and what was proposed

	Starts int
	Spent  Cost
}

// Answer is what is certain so far: at the end there is a winner, or there are ties.
func (t *Tuning) Answer() Answer {
	a := Answer{Noise: t.noise(false), Floor: math.Inf(1), Of: t.product(), Starts: t.starts, Spent: t.spent}
	for _, e := range t.entries {
		if e.Starts > 0 {
			a.Tried++
		}
	}
	if b := t.entries[0]; b.out() {
		a.Why = "the baseline: " + string(b.Outcome)
		return a
	}
	var left []*Entry
	over := t.finals != nil
	for _, e := range t.finals {
		if !e.out() {
			left = append(left, e)
			over = over && len(e.final) >= 2
		}
	}
	switch {
	case !over:
		a.Why = "the finals are not over"
		return a
	case len(left) < 2:
		a.Tied, a.Why = left, "there is nothing to compare with"
		return a
	}
	slices.SortStableFunc(left, func(x, y *Entry) int { return compare(mean(y.final), mean(x.final)) })
	best, next := left[0], left[1]
	pairs := float64(len(t.finals) * (len(t.finals) - 1) / 2)
	apart := max(a.Noise.margin(1-(1-t.Confidence)/2/pairs, len(best.final), len(next.final)), math.Log1p(t.Floor))
	a.Floor = math.Expm1(apart)
	if lead := mean(best.final) - mean(next.final); lead > apart {
		a.Winner, a.Lead = best, math.Expm1(lead)
		return a
	}
	for _, e := range left {
		if mean(best.final)-mean(e.final) <= apart {
			a.Tied = append(a.Tied, e)
		}
	}
	slices.SortStableFunc(a.Tied, func(x, y *Entry) int { return x.Overrides - y.Overrides })
	a.Why = "the best differ by less than the noise between starts can show"
	return a
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// product is how many candidates there are in all.
func (t *Tuning) product() int {
	n := 1
	for i, s := range t.Stages {
		distinct := map[string]bool{}
		for _, o := range append([]Option{{}}, s.Options...) {
			if identity, cannot := t.Merge(Candidate{}.with(i, o.ID)); cannot == "" {
				distinct[identity] = true
			}
		}
		n *= max(1, len(distinct))
	}
	for _, e := range t.entries {
		if e.Candidate.Proposed != "" && e.Fate != Duplicate && e.Fate != Pruned {
			n++
		}
	}
	return n
}

// Ledger is everything that was tried or could have been, in the order in which it became known, with its fate so far.
func (t *Tuning) Ledger() []Entry {
	a := t.Answer()
	noise := t.noise(true)
	all := make([]Entry, len(t.entries))
	var best *Entry
	if b := t.best(); len(b) > 0 {
		best = b[0]
	}
	if a.Winner != nil {
		best = a.Winner
	}
	for i, e := range t.entries {
		x := *e
		switch {
		case x.Fate != NotTried || x.Starts == 0:
		case x.Outcome == Beaten:
			x.Fate = Dominated
		case x.out():
			x.Fate = Failed
		case e == a.Winner:
			x.Fate = Won
		case slices.Contains(a.Tied, e):
			x.Fate = Tied
		default:
			x.Fate = Behind
			mine, its := x.search, best.search
			if len(x.final) > 0 && len(best.final) > 0 {
				mine, its = x.final, best.final
			}
			if e != best && mean(its)-mean(mine) > noise.margin(t.Confidence, len(its), len(mine)) {
				x.Fate = Dominated
			}
		}
		all[i] = x
	}
	return all
}

// Strategy is what a tuning takes, known before its first start.
type Strategy struct {
	AA     int // starts of the baseline
	Stages []StageStarts
	Finals int // starts, at most
	Least  int // starts in all, when all goes well
	Most   int // no tuning of the question makes more
	Time   [2]time.Duration
	Money  [2]float64
}

// StageStarts is how many candidates a stage starts at most.
type StageStarts struct {
	Name string
	Most int
}

// Strategy is what the tuning takes at least and at most: what is proposed to it is not counted, and may take what the budget
// leaves. Time and money between the least start and the budget; 0 where there is none.
func (t *Tuning) Strategy() Strategy {
	s := Strategy{AA: baselineStarts, Finals: max(2, t.Keep) * t.Finals, Least: t.least()}
	s.Most = s.AA + s.Finals
	beam := 1
	for _, x := range t.Stages {
		n := beam * len(x.Options)
		s.Stages = append(s.Stages, StageStarts{x.Name, n})
		s.Most += n
		beam = min(t.Keep, beam+n)
	}
	if t.Budget.Starts > 0 {
		s.Most = min(s.Most, t.Budget.Starts)
	}
	s.Time = [2]time.Duration{time.Duration(s.Least) * t.Least.Time, t.Budget.Time}
	s.Money = [2]float64{float64(s.Least) * t.Least.Money, t.Budget.Money}
	return s
}
