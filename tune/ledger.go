package tune

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Fate is what became of a candidate.
type Fate string

// The fates.
const (
	Won       Fate = "won"
	Tied      Fate = "tied"           // in the finals, by less than the floor
	Dominated Fate = "dominated"      // surely worse than the best, or it lost a race
	Behind    Fate = "behind"         // it measured lower than those which were kept, though chance may have done it
	Missed    Fate = "missed the SLO" // at every load
	Failed    Fate = "failed"         // Outcome and Reason say how: did not start, out of memory, broke answers, failed accuracy, cannot be measured
	Pruned    Fate = "pruned"         // it cannot be started; Why says why
	Duplicate Fate = "duplicate"      // it would be served as SameAs is
	NotTried  Fate = "not tried"      // the budget was spent, as Why says, or it was not likely to be better
)

// Fates are all of them.
func Fates() []Fate {
	return []Fate{Won, Tied, Dominated, Behind, Missed, Failed, Pruned, Duplicate, NotTried}
}

// Entry is what is known of a candidate.
type Entry struct {
	Candidate Candidate
	Overrides int
	Stage     string  // that made it; empty: it is the baseline, or was proposed
	Predicted float64 // its score, by whoever proposed it; 0: nobody said

	Fate    Fate
	Why     string  // in words, where it was pruned, or not tried for want of budget
	Outcome Outcome // of its last start; empty: none
	Reason  string  // of that outcome
	Starts  int
	Cost    Cost

	search, final []float64  // logarithms of its scores
	errors        float64    // sum of the squares of the errors within its starts
	at            string     // the load at which others are raced against it
	same          *Entry     // that is served the same
	made          *Candidate // of options, that is served the same, be it itself; nil: none is known
	proposed      bool       // from outside
}

// waits reports whether a candidate could be started and has not been.
func (e *Entry) waits() bool { return e.Fate == NotTried && e.Starts == 0 }

// out reports whether a candidate is out of the search for what came of a start.
func (e *Entry) out() bool { return e.Starts > 0 && e.Outcome != Measured }

// SameAs is the candidate that is served the same, where this is a duplicate; nil: it is none.
func (e *Entry) SameAs() *Entry { return e.same }

// Figure is a score with the interval of the question's confidence, over starts.
type Figure struct {
	Value     float64 // geometric mean
	Low, High float64 // 0 and +Inf where the noise is not known
	Starts    int     // 0: there is none
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
	half := n.margin((1+t.Confidence)/2, len(values))
	return Figure{Value: math.Exp(m), Low: math.Exp(m - half), High: math.Exp(m + half), Starts: len(values)}
}

// Gain is how many times as much as the baseline a candidate scores: by the finals, as far as they were in them. The baseline's other starts
// are no worse for that, since they were not picked.
func (t *Tuning) Gain(e *Entry) Figure {
	its, base := e.search, t.entries[0].search
	if len(e.final) > 0 {
		its = e.final
	}
	if f := t.entries[0].final; len(f) > 0 {
		base = f
	}
	if len(its) == 0 || len(base) == 0 {
		return Figure{}
	}
	gain, half := mean(its)-mean(base), t.noise(false).margin((1+t.Confidence)/2, len(its), len(base))
	return Figure{Value: math.Exp(gain), Low: math.Exp(gain - half), High: math.Exp(gain + half), Starts: len(its)}
}

// Answer is what is certain.
type Answer struct {
	Winner *Entry   // nil: there is none
	Tied   []*Entry // candidates that may be the best, where there is no winner: fewest overrides first
	Leader *Entry   // who is ahead in the finals, be it by luck; nil: nobody
	Next   *Entry   // the best of the others there, over whom Lead is
	Left   *Entry   // the only one of those tried that is not out; nil: there are several, or none
	Lead   float64  // of the best finalist over the next, as a part of that one's score; by the finals
	Floor  float64  // the least lead that is no noise, as a part of a score; +Inf: the tuning is not over
	Shows  float64  // the least difference that such finals find nine times in ten
	Noise  Noise    // between starts, as measured
	Why    string   // why there is no winner
	Over   bool     // nothing more is to be found out, or to be spent
	Tried  int      // candidates that were started
	Of     int      // candidates in all: the product of the stages, and what was proposed

	Starts int
	Spent  Cost
}

const found = 0.9 // of cases, is what a difference is found in that is said to show

// Answer is what is certain so far: at the end there is a winner, or there are ties.
func (t *Tuning) Answer() Answer {
	a := Answer{Noise: t.noise(false), Floor: math.Inf(1), Shows: math.Inf(1), Of: t.of(), Starts: t.starts, Spent: t.spent}
	for _, e := range t.entries {
		if e.Starts > 0 {
			a.Tried++
		}
	}
	more := t.next != nil
	if !more {
		e, _ := t.choose()
		more = e != nil
	}
	a.Over = !more
	switch b := t.entries[0]; {
	case more:
		a.Why = "the tuning is not over"
		return a
	case b.out() && len(b.search) < baselineStarts:
		a.Why = "of the baseline itself is to be said: " + string(b.Outcome)
		return a
	}
	left := t.compared()
	if len(left) < 2 {
		a.Tied = left
		if ranked := t.rank(); len(ranked) == 1 && t.short == "" {
			a.Left, a.Why = ranked[0], t.whyAlone()
		} else if a.Why = "nothing is left of what was tried"; t.short != "" {
			a.Why = "the budget of " + t.short + " has no room for the finals of two candidates"
		}
		return a
	}
	best, next := left[0], left[1]
	lead := mean(best.final) - mean(next.final)
	least := a.Noise.margin((1+t.Confidence)/2, len(best.final), len(next.final))
	shows := least + a.Noise.margin(found, len(best.final), len(next.final))
	least, shows = max(least, math.Log1p(t.Floor)), max(shows, math.Log1p(t.Floor))
	a.Leader, a.Next, a.Lead, a.Floor, a.Shows = best, next, math.Expm1(lead), math.Expm1(least), math.Expm1(shows)
	if lead > least {
		e := t.challenger(left)
		if e == nil {
			a.Winner = best
			return a
		}
		a.Tied, a.Why = []*Entry{best, e}, "the budget is spent, and a candidate that was in no finals, or not in all, may yet be the best"
	} else {
		a.Why = "the best differ by less than starts of the same do"
		for _, e := range left {
			if mean(best.final)-mean(e.final) <= least {
				a.Tied = append(a.Tied, e)
			}
		}
	}
	slices.SortStableFunc(a.Tied, func(x, y *Entry) int { return cmp.Compare(x.Overrides, y.Overrides) })
	return a
}

// whyAlone is why no two candidates are left to be compared: what became of all but one.
func (t *Tuning) whyAlone() string {
	var parts []string
	for _, o := range Outcomes()[1:] {
		n := 0
		for _, e := range t.entries {
			if e.Starts > 0 && e.Outcome == o {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	if parts == nil {
		return "nothing else can be started"
	}
	return "all others that were tried are out: " + strings.Join(parts, ", ")
}

// Ledger is everything that was tried or would have been next, in the order in which it became known, with its fate so far.
func (t *Tuning) Ledger() []Entry {
	var (
		a     = t.Answer()
		noise = t.noise(false)
		best  = a.Winner
		all   []Entry
	)
	if ranked := t.rank(); best == nil && len(ranked) > 0 {
		best = ranked[0]
	}
	worse := func(mine, its []float64, probability float64) bool {
		return mean(its)-mean(mine) > noise.margin(probability, len(its), len(mine))
	}
	for _, e := range t.entries {
		x := *e
		mine, its := e.search, []float64(nil)
		if best != nil {
			its = best.search
			if len(best.final) > 0 {
				its = best.final
			}
		}
		if len(e.final) > 0 {
			mine = e.final
			if worse(e.final, e.search, surelyFitted) {
				x.Why = "in the finals it is surely worse than it was in the search"
			}
		}
		switch {
		case x.waits() && t.cut != "":
			x.Why = "the budget of " + t.cut + " has no room for it"
		case x.Fate != NotTried || x.Starts == 0:
		case x.Outcome == Beaten:
			x.Fate = Dominated
		case x.Outcome == MissedSLO:
			x.Fate = Missed
		case x.out():
			x.Fate = Failed
		case e == a.Winner:
			x.Fate = Won
		case slices.Contains(a.Tied, e):
			x.Fate = Tied
		case e != best && worse(mine, its, t.Confidence):
			x.Fate = Dominated
		default:
			x.Fate = Behind
		}
		all = append(all, x)
	}
	return all
}

const surelyFitted = 0.99

// Strategy is what a tuning takes, known before its first start.
type Strategy struct {
	AA     int // starts of the baseline
	Stages []StageStarts
	Finals int // starts
	Least  int // starts in all, when all goes well
	Most   int // no tuning of the question makes more; what stages and finals leave of them goes into the second look
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
	s := Strategy{AA: baselineStarts, Stages: t.stageStarts(), Finals: t.finalStarts(), Least: t.least(), Most: t.mostStarts()}
	s.Time = [2]time.Duration{t.Least.times(s.Least).Time, t.Budget.Time}
	s.Money = [2]float64{t.Least.times(s.Least).Money, t.Budget.Money}
	return s
}
