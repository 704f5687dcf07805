// Package capacity finds how much load a server holds under an SLO. It is told what came of the requests at one load after
// the other, says which load to try next, and gives an answer that is wrong no more often than was asked for. It refuses
// to know engines, HTTP and clocks, and prints nothing.
//
// Every load is judged by tests that hold whenever they are looked at (Ville's inequality; Howard et al., "Time-uniform,
// nonparametric, nonasymptotic confidence sequences", 2021), so that a load that is clear ends early and one that is not
// stays open. docs/capacity.md tells of them.
package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"hclbench/load"
)

// Question is what is asked.
type Question struct {
	SLO   []load.Objective // each with a percentile
	Least float64          // the range of loads: both ends may be tried, nothing beyond
	Most  float64
	Whole bool // loads are whole numbers, as those in flight are

	Confidence float64 // of the whole answer: 0.95
	Precision  float64 // how near the two bounds come, as a part of the lower: 0.05
	Budget     float64 // what may be spent: requests
	Timed      bool    // or seconds of measuring
}

// Verdict is what is certain of a load.
type Verdict string

// The verdicts.
const (
	Pass       Verdict = "PASS"       // every line of the SLO is met
	Fail       Verdict = "FAIL"       // one is not
	Unresolved Verdict = "UNRESOLVED" // neither is certain: it bounds nothing
)

// Search is the search for an answer to a question. Make one with [New].
type Search struct {
	Question
	chance float64  // of an error at one load
	most   int      // loads that may be tried
	least  float64  // requests of which none misses, to pass all lines
	loads  []*Tried // sorted
	spent  float64
	again  int  // how many were tried again
	over   bool // Next has had nothing more
}

// Tried is a load that was tried, whatever for and how often.
type Tried struct {
	Load    float64
	Verdict Verdict
	Doubt   string // why what was measured there is no evidence; empty: it is
	Tries   int
	Lines   []Line // one for each of the SLO
	// Again is what came of it when it was tried again at the end, by that alone; empty: it was not.
	Again Verdict

	series *series
	cost   float64
}

// Line is how the requests at a load stand to a line of the SLO.
type Line struct {
	Name      string
	Counted   int     // requests that have such a value, and those that failed
	Within    int     // of them, within the bound
	Inflation float64 // how much more the number of those within varies than that of independent requests; at least 1
	Verdict   Verdict
	asked     float64 // of Counted, to be within
}

// Try is a load to try: its requests are told to it.
type Try struct {
	Load  float64
	Most  float64 // that it may cost
	Again bool    // it has passed, and is tried again at the end
	of    *Tried
	*series
}

// Watch is told of requests as they are over, and reports whether the load has its verdict, without noting anything: what
// counts is told when the try is over.
func (t Try) Watch() func(*load.Record) bool {
	s := *t.series
	s.lines = slices.Clone(s.lines)
	for i := range s.lines {
		l := &s.lines[i]
		l.values, l.pass, l.fail = slices.Clone(l.values), slices.Clone(l.pass), slices.Clone(l.fail)
	}
	s.inFlight = slices.Clone(s.inFlight)
	s.Begin()
	return s.Over
}

const (
	first     = 4  // times the least load: what is tried first
	share     = 20 // the part of the budget that a try may cost: 1/20
	glances   = 3  // tries that together may cost as much
	mostAgain = 3  // loads are tried again at the end
)

// Problems are the rules that a question breaks: of its "slo", after a dot the line, of what is "within" its range, and of its
// "confidence", "precision" and "budget".
func (q Question) Problems() []load.FieldError {
	_, problems := begin(q)
	return problems
}

// New is a search for the answer to a question, or what is wrong with it.
func New(q Question) (*Search, error) {
	s, problems := begin(q)
	if problems == nil {
		return s, nil
	}
	var errs []error
	for _, p := range problems {
		errs = append(errs, p)
	}
	return nil, errors.Join(errs...)
}

func begin(q Question) (s *Search, problems []load.FieldError) {
	add := func(is bool, field, format string, args ...any) {
		if is {
			problems = append(problems, load.FieldError{Field: field, Text: fmt.Sprintf(format, args...)})
		}
	}
	add(len(q.SLO) == 0, "slo", "a capacity is what a server holds under an SLO, and there is none")
	for _, o := range q.SLO {
		add(o.Percentile == 0, "slo."+o.Name(), "%s bounds every request, which no number of them can show: bound a percentile, as "+
			"in %[1]s_p95", o.Metric)
		add(o.Percentile != 0 && o.Metric == "itl", "slo."+o.Name(), "itl with a percentile is of gaps, and a load is judged by "+
			"requests: bound tpot")
	}
	room := q.Least > 0 && q.Most > q.Least && q.Most < math.Inf(1)
	add(!room, "within", "there is no room in the range from %v to %v", q.Least, q.Most)
	add(room && q.Whole && (q.Least != math.Trunc(q.Least) || q.Most != math.Trunc(q.Most)), "within",
		"the range from %v to %v is not of whole numbers", q.Least, q.Most)
	add(!(q.Confidence >= 0.5 && q.Confidence <= 0.9999), "confidence", "a confidence of %v is not between 0.5 and 0.9999", q.Confidence)
	add(!(q.Precision >= 0.001 && q.Precision <= 1), "precision", "a precision of %v is not between 0.001 and 1", q.Precision)
	add(!(q.Budget > 0), "budget", "there is no budget")
	if problems != nil {
		return nil, problems
	}
	halvings := math.Ceil(math.Log2(math.Log(first) / math.Log1p(q.Precision)))
	loads := 2 + math.Ceil(math.Log2(q.Most/q.Least)) + 2*max(1, halvings)
	if q.Whole {
		loads = min(loads, q.Most-q.Least+1)
	}
	s = &Search{Question: q, most: int(loads), chance: (1 - q.Confidence) / loads}
	for _, o := range q.SLO {
		n := float64(s.needs(o))
		s.least = max(s.least, n)
		add(2*n*q.perRequest() > q.Budget, "slo."+o.Name(), "%s takes %v requests of which none misses it, and as many again at the end: the "+
			"budget has not so many", o.Name(), n)
	}
	return s, problems
}

// First is the load that is tried first.
func (s *Search) First() float64 { return min(first*s.Least, s.Most) }

// MostLoads is how many loads are tried at most.
func (s *Search) MostLoads() int { return s.most }

// LeastRequests is how many requests it takes where all is clear: none misses a line at the most of the range, nor when that
// is tried again.
func (s *Search) LeastRequests() int { return 2 * int(s.least) }

// perRequest is what a request costs of the budget at least; 0: that is not known.
func (q Question) perRequest() float64 {
	switch {
	case !q.Timed:
		return 1
	case q.Whole:
		return 0
	}
	return 1 / q.Most
}

// Cost is what so many requests in so long a time cost of the budget.
func (q Question) Cost(requests int, took time.Duration) float64 {
	if q.Timed {
		return took.Seconds()
	}
	return float64(requests)
}

// Workload is a workload at a load, for as long as it may be sent to cost no more than most.
func (q Question) Workload(w load.Workload, at, most float64) load.Workload {
	w.Rate, w.Concurrency = load.Rate(at), 0
	if q.Whole {
		w.Rate, w.Concurrency = 0, int(at)
	}
	w.Requests, w.Duration = max(1, int(most)), 0
	if q.Timed {
		w.Requests, w.Duration = 0, load.Duration(max(time.Second, time.Duration(most*float64(time.Second))))
	}
	return w
}

// needs is how many requests pass a line of the SLO when none misses it.
func (s *Search) needs(o load.Objective) int {
	l := newLine(o)
	for n := 1; ; n++ {
		if l.add(0); gain(l.pass) >= -math.Log(s.chance) {
			return n
		}
	}
}

// Next is what to try next; false: there is nothing more to find out, or to spend.
func (s *Search) Next() (Try, bool) {
	t, ok := s.choose()
	s.over = !ok
	return t, ok
}

func (s *Search) choose() (Try, bool) {
	if a := s.Answer(); a.Flaw != "" {
		return Try{}, false
	}
	holds, left := s.highest(), s.Budget-s.spent
	if at, glance, ok := s.next(); ok {
		i, known := slices.BinarySearchFunc(s.loads, at, func(t *Tried, at float64) int { return cmp.Compare(t.Load, at) })
		most, end := s.part(at), s.part(at)/2
		if holds != nil {
			end = 3 * holds.cost
		}
		if glance {
			most /= glances
		}
		if most = min(most, left-end); most >= s.Budget/share/glances && (known || len(s.loads) < s.most) {
			if !known {
				s.loads = slices.Insert(s.loads, i, &Tried{Load: at, Verdict: Unresolved, series: s.newSeries(s.chance)})
			}
			return Try{Load: at, Most: most, of: s.loads[i], series: s.loads[i].series}, true
		}
	}
	if holds == nil || holds.Again != "" || s.again == mostAgain || left < s.Budget/share/glances {
		return Try{}, false
	}
	return Try{Load: holds.Load, Most: max(left/2, min(left, s.Budget/share)), Again: true, of: holds, series: s.newSeries((1 - s.Confidence) / mostAgain / 2)}, true
}

// highest is the highest load that passes; nil: none does.
func (s *Search) highest() *Tried {
	for _, t := range slices.Backward(s.loads) {
		if t.Verdict == Pass {
			return t
		}
	}
	return nil
}

// lowest is the lowest load that fails; nil: none does.
func (s *Search) lowest() *Tried {
	if i := slices.IndexFunc(s.loads, func(t *Tried) bool { return t.Verdict == Fail }); i >= 0 {
		return s.loads[i]
	}
	return nil
}

// next is the load that tells most, and whether a glance at it is enough: loads double for as long as they lean to the
// right side; then the lower bound is raised, and then the upper one lowered, by geometric midpoints; what is open then is
// tried further.
func (s *Search) next() (at float64, glance, ok bool) {
	if len(s.loads) == 0 {
		return s.First(), true, true
	}
	holds, breaks, top := s.highest(), s.lowest(), s.loads[len(s.loads)-1]
	if breaks == nil && top.leans() && top.Load < s.Most {
		return min(2*top.Load, s.Most), true, true
	}
	low := 0.0
	if holds != nil {
		low = holds.Load
	}
	var above, begun *Tried // the lowest that stands in the way, and the highest below that does not
	for _, t := range s.loads {
		if above == nil && t.Load > low {
			if t.leans() && !s.stuck(t) {
				begun = t
			} else {
				above = t
			}
		}
	}
	switch {
	case begun != nil:
		return begun.Load, false, true
	case holds == nil && s.loads[0].Load > s.Least:
		return s.Least, false, true
	case holds == nil && (breaks == s.loads[0] || s.loads[0].Doubt != ""):
		return 0, false, false // no load meets the SLO, or can be measured
	}
	if holds != nil && above != nil {
		if at, ok := s.between(low, above.Load); ok {
			return at, false, true
		}
	}
	if breaks == nil && !s.stuck(top) {
		return top.Load, false, true
	}
	if breaks == nil && top.Load < s.Most && top.Doubt == "" {
		return min(2*top.Load, s.Most), false, true
	}
	if i := slices.Index(s.loads, breaks); i > 0 {
		for ; i > 0 && !s.loads[i-1].leans() && !s.stuck(s.loads[i-1]); i-- {
			begun = s.loads[i-1]
		}
		if begun != nil {
			return begun.Load, false, true
		}
		if at, ok := s.between(s.loads[i-1].Load, breaks.Load); ok {
			return at, false, true
		}
	}
	var open []*Tried
	for _, t := range s.loads {
		idle := t.Verdict != Unresolved || t.Doubt != "" || t.Again != "" || breaks != nil && t.Load > breaks.Load
		if !idle && (t.Load > low || !t.leans()) {
			open = append(open, t)
		}
	}
	if len(open) == 0 {
		return 0, false, false
	}
	likelyPass, likelyFail := open[0], open[len(open)-1]
	if breaks != nil && likelyFail.cost < likelyPass.cost {
		return likelyFail.Load, false, true
	}
	return likelyPass.Load, false, true
}

// leans reports whether a load passes, or would by what was seen of it.
func (t *Tried) leans() bool {
	return t.Verdict == Pass || t.Verdict == Unresolved && t.Doubt == "" && !slices.ContainsFunc(t.Lines, func(l Line) bool {
		return float64(l.Within) < l.asked*float64(l.Counted)
	})
}

// stuck reports whether a load has its verdict, or has had its part of the budget without one.
func (s *Search) stuck(t *Tried) bool {
	return t.Verdict != Unresolved || t.Doubt != "" || t.Again != "" || t.cost >= 0.9*s.part(t.Load)
}

// part is what a load may cost before others are tried.
func (s *Search) part(at float64) float64 {
	most := max(s.Budget/share, 1.5*s.least*s.perRequest())
	if s.Whole {
		most = max(most, 1.5*roundsToPass*at*s.perRequest())
	}
	return most
}

// between is the geometric midpoint of two loads; false where they are as near as was asked.
func (s *Search) between(low, high float64) (at float64, ok bool) {
	if high <= low*(1+s.Precision) {
		return 0, false
	}
	at = math.Sqrt(low * high)
	digits := math.Pow(10, 2-math.Floor(math.Log10(at))) // three that count
	if s.Whole {
		digits = 1
	}
	if near := math.Round(at*digits) / digits; s.Whole || low < near && near < high {
		at = near
	}
	return at, low < at && at < high
}

// Tried notes that a try is over, what it cost, and why it is no evidence, if so. Doubts of whether the load drifts, which
// a failure stands up to, are told apart.
func (s *Search) Tried(t Try, cost float64, doubt string, drifts bool) {
	s.spent += cost
	x := t.of
	x.Tries++
	verdict := t.verdict
	if doubt != "" && !(drifts && verdict == Fail) {
		x.Doubt, verdict = doubt, Unresolved
	}
	if !t.Again {
		x.cost += cost
		x.Verdict, x.Lines = verdict, t.figures()
		return
	}
	s.again++
	if x.Again = verdict; verdict == Unresolved {
		x.Verdict = Unresolved // one load, one verdict: a lower one may pass twice
	}
	for i, l := range t.figures() {
		x.Lines[i].Counted += l.Counted
		x.Lines[i].Within += l.Within
	}
}

// Loads are those that were tried, sorted.
func (s *Search) Loads() []*Tried {
	return slices.DeleteFunc(slices.Clone(s.loads), func(t *Tried) bool { return t.Tries == 0 })
}

// Answer is what is certain, now or at the end.
type Answer struct {
	Holds    *Tried // the highest load that passes; nil: none
	Breaks   *Tried // the lowest that fails; nil: none
	BoundBy  string // the line of the SLO that binds
	Flaw     string // why there is no answer; empty: there is one
	Finished bool   // the bounds are as near as was asked, or at the ends of the range; Holds has passed again
}

// Answer is what is certain so far.
func (s *Search) Answer() Answer {
	a := Answer{Holds: s.highest(), Breaks: s.lowest()}
	switch {
	case a.Holds != nil && a.Holds.Again == Fail:
		a.Flaw = fmt.Sprintf("drifting: a load of %v has passed, and failed when it was tried again at the end", a.Holds.Load)
	case a.Holds != nil && a.Breaks != nil && a.Breaks.Load < a.Holds.Load:
		a.Flaw = fmt.Sprintf("not monotone: a load of %v passes and one of %v fails", a.Holds.Load, a.Breaks.Load)
	}
	low := s.Most
	if a.Holds != nil {
		low = a.Holds.Load
	}
	high := s.Most
	if a.Breaks != nil {
		high = a.Breaks.Load
	}
	_, room := s.between(low, high)
	a.Finished = a.Flaw == "" && (a.Holds == nil && high == s.Least || a.Holds != nil && a.Holds.Again == Pass && !room)
	if a.Breaks != nil {
		if i := slices.IndexFunc(a.Breaks.Lines, func(l Line) bool { return l.Verdict == Fail }); i >= 0 {
			a.BoundBy = a.Breaks.Lines[i].Name
		}
	}
	return a
}

// series are the requests at one load, in the order sent.
type series struct {
	lines    []line
	inFlight []float64 // as each was sent
	closed   bool
	chance   float64
	verdict  Verdict
	look     int // how many there are when they are judged again

	// Of requests as they are over, in any order: those that are told of before others that were sent earlier wait.
	waiting map[int]load.Record
	next    int
	begun   time.Duration // when the first was over; those sent before have begun together, and do not count
	ends    []time.Duration
	objects []load.Objective
}

func (s *Search) newSeries(chance float64) *series {
	x := &series{closed: s.Whole, chance: chance, verdict: Unresolved, objects: s.SLO}
	for _, o := range s.SLO {
		x.lines = append(x.lines, newLine(o))
	}
	return x
}
