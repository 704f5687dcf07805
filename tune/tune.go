// Package tune finds the best settings of an engine in few starts. It is told what came of each start, says which start
// to make next, and what is certain. It refuses to know engines, HTTP and clocks, and prints nothing.
//
// Whoever asks it does, until Next has nothing more:
//
//	start, ok := t.Next()
//	result := … // start it, measure it, end it
//	err := t.Ended(start, result)
//
// The same results in the same order give the same starts, so that a tuning which was interrupted goes on: make a new one
// of the same question, and tell it again what was kept. docs/tune.md tells how it decides and how often it is wrong.
package tune

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Question is what is asked.
type Question struct {
	Stages []Stage
	Keep   int // candidates that a stage leaves, and finalists; at least 1
	Finals int // fresh starts of each finalist; at least 2
	Budget Budget
	// Least is what a start costs at least, as far as that is known: loading, measuring, and what it idles between.
	Least Cost

	Confidence float64 // of what is said of the best: 0.95
	// Floor is the least difference that counts, as a part of a score: 0.05. Below it there is no winner. 0: what the noise
	// between starts leaves.
	Floor float64
	// Known is what is known of the noise before the first start.
	Known Noise

	// Seed is what the seeds of the search are made of, and FinalSeed those of the finals. Each start of the search has another,
	// as each round of the finals has, so that nothing is fitted to one that is to come: whoever proposes candidates is told
	// neither. FinalSeed says nothing until the finals begin, and may be drawn only then.
	Seed, FinalSeed uint64

	// Merge says what a candidate is once its options are put together: an identity, which is the same for two candidates
	// that would be served the same, and why it cannot be started at all, if so: settings that clash, weights that do not
	// fit. It must always say the same of the same candidate. nil: each candidate is another, and all can be started.
	Merge func(Candidate) (identity, cannot string)
}

// Stage is one thing to decide: an engine, a flag, a topology. Each of its options is tried on each candidate that the
// stages before have left. To leave things as they are is always an option, without being named.
type Stage struct {
	Name    string
	Options []Option
}

// Option is one answer to a stage.
type Option struct {
	ID        string // not empty, and of no other option of the stage; what it means is its caller's
	Overrides int    // settings that it changes
}

// Candidate is what may be started. The zero Candidate is where the tuning starts: the baseline.
type Candidate struct {
	// Options are IDs of options by stage; empty where that stage leaves things as they are. Stages at the end may be
	// missing.
	Options []string `json:"options,omitempty"`
	// Proposed is the name of a candidate from outside, which is not made of options. Then Options is empty.
	Proposed string `json:"proposed,omitempty"`
}

// key is the same for the same candidate, and for no other.
func (c Candidate) key() string {
	if c.Proposed != "" {
		return "\xff" + c.Proposed // no text begins so
	}
	return strings.TrimRight(strings.Join(c.Options, "\x00"), "\x00")
}

// IsBaseline reports whether it is where the tuning starts.
func (c Candidate) IsBaseline() bool { return c.key() == "" }

// with is the candidate with another option in a stage.
func (c Candidate) with(stage int, option string) Candidate {
	options := slices.Clone(c.Options)
	for len(options) <= stage {
		options = append(options, "")
	}
	options[stage] = option
	return Candidate{Options: options}
}

// Budget is the most that a tuning may take of each; 0: as much as it needs.
type Budget struct {
	Starts int // 0: half of what each candidate would take that is started as often as a finalist, or what stages and finals take
	Time   time.Duration
	Money  float64 // USD
}

// Cost is what a start costs, all told.
type Cost struct {
	Time  time.Duration `json:"time"`
	Money float64       `json:"money,omitempty"`
}

// Phase is what a start is for.
type Phase string

// The phases.
const (
	AA     Phase = "A/A"    // the baseline, twice: how far two starts of the same lie apart
	Search Phase = "stage"  // of a candidate of a stage, or of one that was proposed: which to keep
	Again  Phase = "second" // after the stages: of what may yet be better than the best
	Final  Phase = "final"  // of the candidates that are left, in turn: only these say who wins, and by how much
)

// Start is a start to make: all loads of its candidate are measured in it.
type Start struct {
	Number    int       `json:"number"` // from 1
	Phase     Phase     `json:"phase"`
	Stage     string    `json:"stage,omitempty"` // that made its candidate; empty: none, as of the baseline and of what was proposed
	Round     int       `json:"round,omitempty"` // of the finals, from 1
	Candidate Candidate `json:"candidate"`
	Seed      uint64    `json:"seed,string"`    // of prompts and of whatever else is drawn
	Race      *Race     `json:"race,omitempty"` // what to measure first; nil: there is nothing to race against
	// Most is what the start may cost; its caller must end it before it costs more. Zero of what has no budget.
	Most Cost `json:"most"`
}

// Race is a shortcut: a candidate that is surely worse than the best so far need not be measured in full. Its caller measures
// the load At first. Where the objective is a figure, the candidate is beaten when its figure there is surely (by the error
// within the start) below Least; where it is a capacity, when it surely does not hold a load of Least. Its start ends then,
// and its result is [Beaten].
type Race struct {
	At    string  `json:"at"`    // [Result.At] of the best so far
	Least float64 `json:"least"` // in the unit of scores: worse by more than the noise between starts explains
}

// Score is how good a candidate is in one start, by the objective.
type Score struct {
	Value float64 `json:"value"`           // above 0, and more is better; of a figure that is better when it is less, one over it
	Error float64 `json:"error,omitempty"` // its standard error within the start, as a part of it; 0: not known
}

// Outcome is what came of a start.
type Outcome string

// The outcomes.
const (
	Measured      Outcome = "measured"
	Beaten        Outcome = "lost the race"   // it lost its race; Score is what it reached there, if that is known
	DidNotStart   Outcome = "did not start"   // or ended by itself
	OutOfMemory   Outcome = "out of memory"   //
	Broke         Outcome = "broke answers"   // what it answered is wrong for all to see: empty, cut off, garbage
	FailedCheck   Outcome = "failed accuracy" // it answers worse than it must
	MissedSLO     Outcome = "missed the SLO"  // at every load
	NotMeasurable Outcome = "cannot be measured"
)

// Outcomes are all of them.
func Outcomes() []Outcome {
	return []Outcome{Measured, Beaten, DidNotStart, OutOfMemory, Broke, FailedCheck, MissedSLO, NotMeasurable}
}

// Result is what came of a start. What is no fault of the candidate (a host that is lost, an interruption) is no result: the
// start is made again.
type Result struct {
	Outcome Outcome `json:"outcome"`
	Reason  string  `json:"reason,omitempty"` // where it was not measured
	Score   Score   `json:"score"`            // where it was measured
	// At is the load at which others may be raced against this candidate; empty: one load says nothing of the whole.
	At   string `json:"at,omitempty"`
	Cost Cost   `json:"cost"`
}

// Proposal is a candidate from outside: a file, a predictor, an agent.
type Proposal struct {
	Candidate Candidate
	Overrides int     // settings that it changes; not looked at where Candidate is made of options
	Predicted float64 // its score; 0: nothing is predicted
}

// Tuning is the search for an answer to a question. Make one with [New].
type Tuning struct {
	Question
	entries   []*Entry           // in the order in which they became known; the first is the baseline
	known     map[string]*Entry  // by identity
	seen      map[string]*Entry  // by key
	predicted map[string]float64 // by key
	product   int                // of the stages: candidates that can be started and are not the same
	stage     int                // that is being tried: len(Stages) when all are over
	beam      []*Entry           // what the stages before have left
	ranked    []*Entry           // best first, when the search is over; nil: it is not
	final     bool               // a final has begun
	short     string             // the limit that has ended the search or the finals, in words; empty: none has
	cut       string             // the limit that has ended the search
	starts    int                // that have ended
	lost      int                // of them, that brought no result
	spent     Cost
	dearest   Cost // of a start that was measured
	next      *Start
	whose     *Entry // start next is
}

// New is a tuning, or why the question cannot be answered.
func New(q Question) (*Tuning, error) {
	if q.Merge == nil {
		q.Merge = func(c Candidate) (string, string) { return c.key(), "" }
	}
	t := &Tuning{Question: q, known: map[string]*Entry{}, seen: map[string]*Entry{}, predicted: map[string]float64{}}
	switch {
	case q.Keep < 1:
		return nil, errors.New("a stage must leave at least one candidate")
	case q.Finals < 2:
		return nil, errors.New("a finalist needs at least 2 fresh starts: one says nothing of how far starts lie apart")
	case !(q.Confidence >= 0.5 && q.Confidence <= 0.9999):
		return nil, fmt.Errorf("a confidence of %v is not between 0.5 and 0.9999", q.Confidence)
	case !(q.Floor >= 0 && q.Floor < 1):
		return nil, fmt.Errorf("a floor of %v is not between 0 and 1", q.Floor)
	case q.Budget.Starts < 0 || q.Budget.Time < 0 || !(q.Budget.Money >= 0):
		return nil, errors.New("a budget cannot be below 0")
	}
	for i, s := range q.Stages {
		if len(s.Options) == 0 {
			return nil, fmt.Errorf("stage %q has no options", s.Name)
		}
		for j, o := range s.Options {
			if same := func(other Option) bool { return other.ID == o.ID }; o.ID == "" || slices.IndexFunc(s.Options, same) != j {
				return nil, fmt.Errorf("option %d of stage %q has no name of its own", j+1, q.Stages[i].Name)
			}
		}
	}
	least := t.least()
	if n := q.Budget.Starts; n > 0 && n < least {
		return nil, fmt.Errorf("a budget of %d starts is too small: the baseline twice, another candidate, and %d finalists %d times each take %d",
			n, t.mostFinalists(), q.Finals, least)
	}
	if d := q.Budget.Time; d > 0 && time.Duration(least)*q.Least.Time > d {
		return nil, fmt.Errorf("a budget of %v is too small: the least are %d starts of at least %v", d, least, q.Least.Time)
	}
	if m := q.Budget.Money; m > 0 && float64(least)*q.Least.Money > m {
		return nil, fmt.Errorf("a budget of %v is too small: the least are %d starts that cost at least %v each", m, least, q.Least.Money)
	}
	if baseline := t.see(Candidate{}, 0, ""); baseline.Fate == Pruned {
		return nil, fmt.Errorf("the baseline cannot be started: %s", baseline.Why)
	}
	t.beam, t.product = t.entries[:1:1], t.countProduct()
	return t, nil
}

// countProduct is how many candidates the stages make that can be started and are not the same. Of very many, it is how many they make.
func (t *Tuning) countProduct() int {
	all := []Candidate{{}}
	for i, s := range t.Stages {
		if n := len(all) * (1 + len(s.Options)); n > manyCandidates {
			for _, rest := range t.Stages[i+1:] {
				n = min(n*(1+len(rest.Options)), mostCandidates)
			}
			return min(n, mostCandidates)
		}
		for _, c := range all[:len(all):len(all)] {
			for _, o := range s.Options {
				all = append(all, c.with(i, o.ID))
			}
		}
	}
	distinct := map[string]bool{}
	for _, c := range all {
		if identity, cannot := t.Merge(c); cannot == "" {
			distinct[identity] = true
		}
	}
	return len(distinct)
}

const (
	manyCandidates = 2_000 // more are not put together only to count them
	mostCandidates = 1_000_000_000
)

// of is how many candidates there are in all.
func (t *Tuning) of() int {
	n := t.product
	for _, e := range t.entries {
		if e.Fate == NotTried && e.made == nil {
			n++
		}
	}
	return n
}

// see is what is known of a candidate, which becomes known by that.
func (t *Tuning) see(c Candidate, overrides int, stage string) *Entry {
	if e := t.seen[c.key()]; e != nil {
		return e
	}
	identity, cannot := t.Merge(c)
	e := &Entry{Candidate: c, Overrides: overrides, Stage: stage, Predicted: t.predicted[c.key()], Fate: NotTried}
	t.entries, t.seen[c.key()] = append(t.entries, e), e
	if c.Proposed == "" {
		e.made = &e.Candidate
	}
	switch same := t.known[identity]; {
	case cannot != "":
		e.Fate, e.Why = Pruned, cannot
	case same != nil:
		e.Fate, e.same, same.made = Duplicate, same, cmp.Or(same.made, e.made)
	default:
		t.known[identity] = e
	}
	return e
}

// overrides is how many settings a candidate of options changes.
func (t *Tuning) overrides(c Candidate) (n int) {
	for i, id := range c.Options {
		if j := slices.IndexFunc(t.Stages[i].Options, func(o Option) bool { return o.ID == id }); j >= 0 {
			n += t.Stages[i].Options[j].Overrides
		}
	}
	return n
}

// Propose takes candidates from outside. One with a name is tried: those of which most is predicted first, and before the stages as
// far as the budget has starts for these too. Of one that is made of options only the prediction is taken, which orders it in its
// stage. What was tried is not tried again. It is an error where a candidate is neither a name nor made of options of
// the stages, and once the finals have begun; nothing is taken then.
func (t *Tuning) Propose(proposals []Proposal) error {
	if t.final {
		return errors.New("the finals have begun: nothing more can be proposed")
	}
	t.ranked = nil
	for i, p := range proposals {
		c, named := p.Candidate, p.Candidate.Proposed != ""
		if named == (len(c.Options) > 0) || !named && c.key() == "" || len(c.Options) > len(t.Stages) {
			return fmt.Errorf("proposal %d is neither a name nor options of stages", i+1)
		}
		for s, id := range c.Options {
			if id != "" && !slices.ContainsFunc(t.Stages[s].Options, func(o Option) bool { return o.ID == id }) {
				return fmt.Errorf("proposal %d: stage %q has no option %q", i+1, t.Stages[s].Name, id)
			}
		}
		if !(p.Predicted >= 0) || math.IsInf(p.Predicted, 1) || p.Overrides < 0 {
			return fmt.Errorf("proposal %d predicts %v with %d overrides", i+1, p.Predicted, p.Overrides)
		}
	}
	for _, p := range proposals {
		key := p.Candidate.key()
		if t.predicted[key] == 0 {
			t.predicted[key] = p.Predicted
		}
		e := t.seen[key]
		if p.Candidate.Proposed != "" {
			e = t.see(p.Candidate, p.Overrides, "")
		}
		if e != nil && e.same != nil {
			e = e.same
		}
		if e != nil {
			e.proposed = e.proposed || p.Candidate.Proposed != ""
			if e.Predicted == 0 {
				e.Predicted = p.Predicted
			}
		}
	}
	return nil
}

// StagesOver is how many stages are over.
func (t *Tuning) StagesOver() int { return t.stage }

// Next is the start to make; false: there is nothing more to find out, or to spend. It says the same until [Tuning.Ended]
// is told what came of it.
func (t *Tuning) Next() (Start, bool) {
	if t.next != nil {
		return *t.next, true
	}
	e, phase := t.choose()
	if e == nil {
		return Start{}, false
	}
	s := &Start{Number: t.starts - t.lost + 1, Phase: phase, Stage: e.Stage, Candidate: e.Candidate, Most: t.most(phase)}
	switch phase {
	case Final:
		t.final = true
		s.Round = len(e.final) + 1
		s.Seed = seedOf(t.FinalSeed, s.Round) // the candidates of a round answer the same
	default:
		s.Seed = seedOf(t.Seed, s.Number)
	}
	if phase == Search {
		s.Race = t.race()
	}
	t.next, t.whose = s, e
	return *s, true
}

// seedOf is the nth of the seeds that are made of one (SplitMix64).
func seedOf(of uint64, n int) uint64 {
	x := of + uint64(n)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// ErrNotNext is why nothing is noted of a start: by what is known another one comes next, or none.
var ErrNotNext = errors.New("it is not the one that comes next")

// Ended notes what came of the start that Next has named last. To tell of another one is [ErrNotNext], which is how a tuning that
// goes on finds that its question is not what it was; a result without sense is an error, too. Nothing is noted then.
func (t *Tuning) Ended(s Start, r Result) error {
	switch {
	case t.next == nil || s.Number != t.next.Number || s.Phase != t.next.Phase || s.Candidate.key() != t.next.Candidate.key() || s.Seed != t.next.Seed:
		return fmt.Errorf("start %d: %w", s.Number, ErrNotNext)
	case !slices.Contains(Outcomes(), r.Outcome):
		return fmt.Errorf("start %d has an outcome that is none: %q", s.Number, r.Outcome)
	case r.Cost.Time < 0 || !(r.Cost.Money >= 0) || math.IsInf(r.Cost.Money, 0):
		return fmt.Errorf("start %d cost less than nothing, or no one knows what", s.Number)
	case r.Outcome == Measured && !(r.Score.Value > 0 && r.Score.Value < math.Inf(1) && r.Score.Error >= 0 && r.Score.Error < math.Inf(1)):
		return fmt.Errorf("start %d has a score of %v ± %v: it must be above 0", s.Number, r.Score.Value, r.Score.Error)
	case r.Outcome == Beaten && s.Race == nil:
		return fmt.Errorf("start %d was in no race", s.Number)
	}
	e := t.whose
	t.next, t.whose = nil, nil
	t.starts++
	e.Starts++
	t.spent, e.Cost = t.spent.plus(r.Cost), e.Cost.plus(r.Cost)
	if r.Outcome != Measured {
		e.Outcome, e.Reason = r.Outcome, r.Reason
		return nil
	}
	t.dearest = Cost{Time: max(t.dearest.Time, r.Cost.Time), Money: max(t.dearest.Money, r.Cost.Money)}
	e.Outcome = Measured
	e.errors += r.Score.Error * r.Score.Error
	if s.Phase == Final {
		e.final = append(e.final, math.Log(r.Score.Value))
	} else {
		e.search = append(e.search, math.Log(r.Score.Value))
		e.at = r.At
	}
	return nil
}

// Lost notes that the start that Next has named last brought no result, through no fault of its candidate, and what it cost.
// It is made again, as far as the budget has room. It counts among its starts only where these were given.
func (t *Tuning) Lost(c Cost) {
	t.next, t.whose = nil, nil
	t.starts++
	t.lost++
	t.spent = t.spent.plus(c)
}

func (c Cost) plus(other Cost) Cost { return Cost{c.Time + other.Time, c.Money + other.Money} }

func (c Cost) times(n int) Cost { return Cost{time.Duration(n) * c.Time, float64(n) * c.Money} }
