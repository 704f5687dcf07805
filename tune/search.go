package tune

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

const (
	baselineStarts = 2
	surelyBeaten   = 0.999 // how sure a race must be that a candidate is worse

	// A candidate is started again while it is better than the best by more than so much with a greater probability than this.
	muchBetter = 0.01
	unlikely   = 0.02
)

// choose is whose start comes next, and what for; nil: nobody's.
func (t *Tuning) choose() (*Entry, Phase) {
	if baseline := t.entries[0]; len(baseline.search) < baselineStarts {
		if t.short = t.lacks(t.finalStarts()); t.short != "" || baseline.out() {
			return nil, ""
		}
		return baseline, AA
	}
	for t.ranked == nil {
		stages := 0 // starts that the stages may still take
		for _, s := range t.stageStarts()[t.stage:] {
			stages += s.Most
		}
		if e := first(t.entries, func(e *Entry) bool { return e.proposed }); e != nil && t.lacks(stages+t.finalStarts()) == "" {
			return e, Search
		}
		if t.short = t.lacks(t.finalStarts()); t.short != "" {
			t.cut, t.ranked = t.short, t.rank()
			break
		}
		if t.stage == len(t.Stages) {
			if e := t.again(); e != nil {
				return e, Again
			}
			t.ranked = t.rank()
			break
		}
		if e := first(t.neighbours(t.beam, t.stage), func(*Entry) bool { return true }); e != nil {
			return e, Search
		}
		t.beam = t.rank()
		t.beam = t.beam[:min(t.Keep, len(t.beam))]
		t.stage++
	}
	if e := t.due(); e != nil {
		if t.short = t.lacks(0); t.short == "" {
			return e, Final
		}
	}
	return nil, ""
}

// first is of those that wait to be tried the one of which most is predicted; nil: none waits.
func first(entries []*Entry, wanted func(*Entry) bool) (best *Entry) {
	for _, e := range entries {
		if e.waits() && wanted(e) && (best == nil || e.Predicted > best.Predicted) {
			best = e
		}
	}
	return best
}

// neighbours are candidates with another option of a stage than those.
func (t *Tuning) neighbours(of []*Entry, stage int) (all []*Entry) {
	for _, b := range of {
		if b.made == nil {
			continue // no stage changes what is not made of options
		}
		for _, o := range append([]Option{{}}, t.Stages[stage].Options...) {
			c := b.made.with(stage, o.ID)
			e := t.see(c, t.overrides(c), t.Stages[stage].Name)
			if e.same != nil {
				e = e.same
			}
			all = append(all, e)
		}
	}
	return all
}

// belief is what is thought of the logarithm of a candidate's score, as a normal distribution.
type belief struct {
	of       *Entry
	mean, sd float64
}

// beliefs are of candidates that are not out, best first, fewer overrides where they are equal: what was measured of each, drawn
// to the middle of all by as much as the noise has a part in how far they lie apart. It takes what luck has added from the
// best, and says something of those that were not tried.
func (t *Tuning) beliefs(of []*Entry) (all []belief) {
	noise, n := t.noise(true).Spread, 0.0
	middle, scatter, by := 0.0, 0.0, 0.0
	for _, e := range t.entries {
		if len(e.search) > 0 && !e.out() {
			n, middle, by = n+1, middle+mean(e.search), by+noise*noise/float64(len(e.search))
		}
	}
	middle /= n
	for _, e := range t.entries {
		if len(e.search) > 0 && !e.out() {
			scatter += (mean(e.search) - middle) * (mean(e.search) - middle)
		}
	}
	scatter = max(scatter/max(1, n-1)-by/n, guessedSpread*guessedSpread)
	for _, e := range of {
		if e.out() || e.Fate != NotTried {
			continue
		}
		seen := float64(len(e.search)) / (noise * noise)
		all = append(all, belief{of: e, mean: (middle/scatter + mean(e.search)*seen) / (1/scatter + seen), sd: 1 / math.Sqrt(1/scatter+seen)})
	}
	slices.SortStableFunc(all, func(a, b belief) int {
		return cmp.Or(cmp.Compare(b.mean, a.mean), cmp.Compare(a.of.Overrides, b.of.Overrides))
	})
	return all
}

// exceeds is how likely a candidate is much better than another.
func (b belief) exceeds(other belief) float64 {
	return math.Erfc((other.mean-b.mean+math.Log1p(muchBetter))/math.Hypot(b.sd, other.sd)/math.Sqrt2) / 2
}

// rank are the candidates that were measured, best first.
func (t *Tuning) rank() (all []*Entry) {
	for _, b := range t.beliefs(t.entries) {
		if len(b.of.search) > 0 {
			all = append(all, b.of)
		}
	}
	return all
}

// again is the candidate that is likeliest to be better than the best, of all that were tried or differ from one of the best in one
// option; or the best itself, where less is known of it. nil: none is likely enough.
func (t *Tuning) again() *Entry {
	ranked := t.rank()
	if len(ranked) == 0 {
		return nil
	}
	about := slices.Clone(ranked)
	for stage := range t.Stages {
		about = append(about, t.neighbours(ranked[:min(t.Keep, len(ranked))], stage)...)
	}
	var (
		all    = t.beliefs(about)
		best   = all[slices.IndexFunc(all, func(b belief) bool { return b.of == ranked[0] })]
		chosen *Entry
		most   = unlikely
	)
	for _, b := range all {
		if b.of == best.of || len(b.of.search) >= t.Finals {
			continue
		}
		if p := b.exceeds(best); p > most {
			if most, chosen = p, b.of; b.sd < best.sd {
				chosen = best.of
			}
		}
	}
	return chosen
}

// race is what a candidate is raced against: the best so far; nil: that cannot be.
func (t *Tuning) race() *Race {
	ranked := t.rank()
	if len(ranked) == 0 || ranked[0].at == "" {
		return nil
	}
	best := ranked[0]
	return &Race{At: best.at, Least: math.Exp(mean(best.search) - t.noise(true).margin(surelyBeaten, len(best.search), 1))}
}

// finalists are the best that are not out, and who came in later: where one is out in the finals, the next comes in. There are two
// at least, since nobody wins alone.
func (t *Tuning) finalists() (all []*Entry) {
	for _, e := range t.ranked {
		if !e.out() && (len(all) < t.mostFinalists() || len(e.final) > 0) {
			all = append(all, e)
		}
	}
	return all
}

func (q *Question) mostFinalists() int { return max(2, q.Keep) }

// finalStarts is how many starts the finals take.
func (q *Question) finalStarts() int { return q.mostFinalists() * q.Finals }

// due is the finalist whose turn it is; nil: nobody's.
func (t *Tuning) due() *Entry {
	finalists := t.finalists()
	if len(finalists) < 2 {
		return nil
	}
	next := finalists[0]
	for _, e := range finalists {
		if len(e.final) < len(next.final) {
			next = e
		}
	}
	if len(next.final) < t.Finals {
		return next
	}
	if e := t.challenger(t.compared()); e != nil && t.lacks(t.Finals-1) == "" {
		return e
	}
	return nil
}

// compared are the finalists of which the finals tell something, best first.
func (t *Tuning) compared() (all []*Entry) {
	for _, e := range t.finalists() {
		if len(e.final) >= 2 {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b *Entry) int { return cmp.Compare(mean(b.final), mean(a.final)) })
	return all
}

// challenger is the candidate beside those that is likeliest to be better than the best of them has turned out to be; nil: none is
// likely enough.
func (t *Tuning) challenger(compared []*Entry) *Entry {
	best := compared[0].final
	known := belief{mean: mean(best), sd: t.noise(true).Spread / math.Sqrt(float64(len(best)))}
	for _, b := range t.beliefs(t.ranked) {
		if !slices.Contains(compared, b.of) && b.exceeds(known) > unlikely {
			return b.of
		}
	}
	return nil
}

// least is how many starts a tuning takes at least: one candidate is tried beside the baseline.
func (q *Question) least() int { return baselineStarts + 1 + q.finalStarts() }

// mostStarts is the budget in starts. Where none is given it is half of what the full product would take, if each candidate were
// started as often as a finalist, or what the stages and the finals take, if that is more.
func (t *Tuning) mostStarts() int {
	if t.Budget.Starts > 0 {
		return t.Budget.Starts
	}
	most := baselineStarts + t.finalStarts()
	for _, s := range t.stageStarts() {
		most += s.Most
	}
	return max(most, min(t.of()*t.Finals/2, manyStarts))
}

// stageStarts is how many candidates each stage starts at most.
func (t *Tuning) stageStarts() (all []StageStarts) {
	beam := 1
	for _, s := range t.Stages {
		all = append(all, StageStarts{s.Name, beam * len(s.Options)})
		beam = min(t.Keep, beam*(1+len(s.Options)))
	}
	return all
}

const manyStarts = 10_000 // of a tuning that has no budget of starts

// each is what a start may be expected to cost: as much as the dearest so far.
func (t *Tuning) each() Cost {
	return Cost{Time: max(t.Least.Time, t.dearest.Time), Money: max(t.Least.Money, t.dearest.Money)}
}

// lacks is the limit that has no room for one more start beside so many others, in words; empty: each has.
func (t *Tuning) lacks(others int) string {
	all := t.spent.plus(t.each().times(1 + others))
	starts := t.starts
	if t.Budget.Starts == 0 {
		starts -= t.lost // nobody has asked to save starts: what they took is time and money
	}
	switch {
	case starts+1+others > t.mostStarts():
		return fmt.Sprintf("%d starts", t.mostStarts())
	case t.Budget.Time > 0 && all.Time > t.Budget.Time:
		return t.Budget.Time.String()
	case t.Budget.Money > 0 && all.Money > t.Budget.Money:
		return fmt.Sprintf("$%.2f", t.Budget.Money)
	}
	return ""
}

// most is what a start of a phase may cost: what the budget has left but for the finals after it; zero of what has no budget.
func (t *Tuning) most(phase Phase) (most Cost) {
	after := 0
	if phase != Final {
		after = t.finalStarts()
	}
	reserved := t.spent.plus(t.each().times(after))
	if t.Budget.Time > 0 {
		most.Time = max(1, t.Budget.Time-reserved.Time)
	}
	if t.Budget.Money > 0 {
		most.Money = max(math.SmallestNonzeroFloat64, t.Budget.Money-reserved.Money)
	}
	return most
}
