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
	"strings"
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

	// Worth is a load of the range that is tried first, and the search ends when that surely does not hold: who asks has another server
	// that holds it. 0: there is none.
	Worth float64 `json:",omitempty"`
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
	chance float64  // of an error, that is left to loads which were not tried
	most   int      // loads that may be tried
	least  float64  // requests of which none misses, to pass all lines
	loads  []*Tried // sorted
	last   Try      // the one before; the zero one: there is none
	spent  float64
	// lower is what may still be spent on lowering the upper bound, where a share of the budget lowers it no more; below 0: nothing
	// was set aside for that. lowering says that the last try is for it.
	lower    float64
	lowering bool
	again    int    // how many were tried again
	over     bool   // Next has had nothing more
	before   Try    // the last that was not made to ask whether the server answers at all; the zero one: there is none
	ended    string // why no other load can be tried; empty: they can
}

// Tried is a load that was tried, whatever for and how often.
type Tried struct {
	Load    float64
	Verdict Verdict
	Doubt   string // why what was measured there last is no evidence, and counts for nothing; empty: it is
	Tries   int
	Lines   []Line // one for each of the SLO
	// Again is what came of it when it was tried again at the end of the search, by that alone; empty: it was not tried then.
	Again Verdict

	*series
	alone  *series // what it was sent since another load was tried; nil: it is not judged by that
	cost   float64 // of what counts
	spent  float64 // on it in all
	sent   int     // requests, for that
	doubts int     // tries that were in doubt
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

// Try is a load to try: its requests are told to it, and count when the try is over, if they are evidence.
type Try struct {
	Load  float64
	Most  float64 // that it may cost
	Again bool    // it has its verdict, and is tried again at the end
	Early bool    // it was measured before another that was noted before it: it is not the last, and tells of no drift
	asks  bool    // whether the server answers at all, where it should
	of    *Tried
	*series
}

// Watch is told of requests as they are over, and reports whether the load has its verdict, without noting anything: what
// counts is told when the try is over.
func (t Try) Watch() func(*load.Record) bool {
	s := t.series.clone()
	s.Begin()
	return s.Over
}

// longest is the most time that a search may take.
const longest = 7 * 24 * time.Hour

const (
	first      = 4    // times the least load: what is tried first
	share      = 20   // the part of the budget that a load may cost before others are tried: 1/20
	glances    = 3    // tries that together may cost as much
	mostAgain  = 3    // loads are tried again at the end
	mostDoubts = 3    // tries of a load are in doubt before it stays so
	again      = 3    // times what a load has cost is kept for that
	quickly    = 1000 // requests: a load that broke in fewer is tried again at the end, as it may have met the worse of two states
	tooOften   = 3    // times as often as may be: such a load does not tell of the others
	candidates = 24   // loads between the bounds that are thought of
	worthShare = 0.12 // of how far the bounds are apart: what a try for a share of the budget is to bring them nearer, by what is likely
	worthRest  = 0.02 // and a larger one

	// Of the chance of an error that is left, a load gets this when it is tried for the first time: what is far from the bounds
	// is clear however little it has, and what is tried after it needs the more.
	ofGlance = 1. / 24
	ofChance = 1. / 5
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
	add(room && q.Worth != 0 && (!(q.Worth >= q.Least && q.Worth <= q.Most) || q.Whole && q.Worth != math.Trunc(q.Worth)), "within",
		"a load of %v is none of the range", q.Worth)
	add(!(q.Confidence >= 0.5 && q.Confidence <= 0.9999), "confidence", "a confidence of %v is not between 0.5 and 0.9999", q.Confidence)
	add(!(q.Precision >= 0.001 && q.Precision <= 1), "precision", "a precision of %v is not between 0.001 and 1", q.Precision)
	add(!(q.Budget > 0), "budget", "there is no budget")
	add(q.Timed && q.Budget > longest.Seconds(), "budget", "a budget of %v is more than %v", time.Duration(min(q.Budget, 1e9)*float64(time.Second)), longest)
	add(!q.Timed && (q.Budget > 1e9 || q.Budget > 0 && q.Budget != math.Trunc(q.Budget)), "budget",
		"a budget of %v requests is not a whole number up to a billion", q.Budget)
	if problems != nil {
		return nil, problems
	}
	halvings := math.Ceil(math.Log2(math.Log(first) / math.Log1p(q.Precision)))
	loads := 2 + math.Ceil(math.Log2(q.Most/q.Least)) + 2*max(1, halvings)
	if q.Whole {
		loads = min(loads, q.Most-q.Least+1)
	}
	s = &Search{Question: q, most: int(loads), chance: 1 - q.Confidence, lower: -1}
	for _, o := range q.SLO {
		n := float64(s.needs(o))
		if q.Whole {
			n = max(n, s.rounds(q.Least))
		}
		s.least = max(s.least, n)
		add(2*n*q.perRequest() > q.Budget, "slo."+o.Name(), "%s takes %v requests of which none misses it, and as many again at the end: the "+
			"budget has not so many", o.Name(), n)
	}
	return s, problems
}

// Truth is what a search is to find, where it is known what requests get at any load, and more load is never better: the highest
// load of the range that meets the SLO, and the lowest that does not; 0: there is none. Where loads are no whole numbers
// they are a thousandth apart.
func (q Question) Truth(requests func(at float64) ([]load.Record, error)) (holds, breaks float64, err error) {
	met := func(at float64) (bool, error) {
		records, err := requests(at)
		met := true
		for _, o := range q.SLO {
			counted, within := 0, 0
			for i := range records {
				if v, ok := o.Of(&records[i]); ok {
					counted++
					if v <= time.Duration(o.Max) {
						within++
					}
				}
			}
			met = met && float64(within) >= o.Percentile/100*float64(counted)
		}
		return met, err
	}
	low, high, apart := q.Least, q.Most, 1+1e-3
	for _, end := range []float64{low, high} {
		switch is, err := met(end); {
		case err != nil:
			return 0, 0, err
		case is && end == high:
			return high, 0, nil
		case !is && end == low:
			return 0, low, nil
		}
	}
	for q.Whole && high-low > 1 || !q.Whole && high > low*apart {
		at := math.Sqrt(low * high)
		if q.Whole {
			at = min(max(math.Round(at), low+1), high-1)
		}
		is, err := met(at)
		if err != nil {
			return 0, 0, err
		}
		if is {
			low = at
		} else {
			high = at
		}
	}
	return low, high, nil
}

// First is the load that is tried first.
func (s *Search) First() float64 { return cmp.Or(s.Worth, min(first*s.Least, s.Most)) }

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
		if l.add(0); gain(l.pass) >= -math.Log(s.chance*ofGlance) {
			return n
		}
	}
}

// Next is what to try next; false: there is nothing more to find out, or to spend.
func (s *Search) Next() (t Try, ok bool) {
	if s.ended == "" {
		if t, ok = s.ask(); !ok && s.ended == "" {
			t, ok = s.choose()
		}
	}
	s.over = !ok
	return t, ok
}

// ask asks whether the server answers at all, after a try that has ended without an answer: at the highest load that passes, or else at
// the least. false: there is no such try, or nothing left to ask with.
func (s *Search) ask() (Try, bool) {
	if s.last.of == nil || s.last.asks || !s.last.gone() {
		return Try{}, false
	}
	left, at := s.Budget-s.spent, s.Least
	if holds := s.highest(); holds != nil {
		at = holds.Load
	} else if len(s.loads) == s.most {
		at = s.loads[0].Load
	}
	if left <= 0 {
		s.lose("nothing is left of the budget to ask again")
		return Try{}, false
	}
	s.lowering = false
	t := s.try(at, min(left, s.part(at)/glances), ofGlance, false)
	t.asks, t.enough = true, s.rounds(at)
	return t, true
}

// lose ends the search, as the server answers nothing any more.
func (s *Search) lose(then string) {
	since, why := "at", ""
	if s.before.answered > 0 {
		since = "since some moment of"
	}
	if text, _, _ := strings.Cut(s.last.of.Doubt, "\n"); text != "" {
		why = " (" + text + ")"
	}
	s.ended = fmt.Sprintf("every request has failed %s a load of %v, and %s%s: see that the server is up and takes such requests, and search again",
		since, s.before.Load, then, why)
}

// choose tries a load once more whose last try was in doubt: what disturbed that may be over. Otherwise it doubles the load for as
// long as it leans to the right side. Then the load is tried that brings the bounds nearest to
// each other by what is likely: one that a share of the budget decides, as long as there are such; then, with half of what
// is left, such as may break; and at last, with all of it, one that may hold. What has passed before the last try is tried again.
func (s *Search) choose() (Try, bool) {
	a := s.Answer()
	lost := a.Breaks != nil && a.Breaks.Load <= s.Worth
	if a.Flaw != "" || a.Finished || lost && !a.Breaks.brokeQuickly() {
		return Try{}, false
	}
	left, least := s.Budget-s.spent, s.Budget/share/glances
	free := left // of what the highest that passes takes when it is tried again
	if a.Holds != nil {
		free -= again * a.Holds.cost
	}
	if a.Breaks.brokeQuickly() {
		free -= again * a.Breaks.cost
	}
	t := s.last
	if t.asks && t.of.Doubt == "" { // and was answered
		t = s.before
	}
	if t.of != nil && t.of.Doubt != "" && t.of.doubts < mostDoubts {
		most := min(t.Most, free)
		if t.Again {
			most = left
		}
		if most >= least {
			again := s.try(t.Load, most, 0, t.Again)
			again.Again, again.patient = t.Again, s.last.asks
			return again, true
		}
	}
	if len(s.loads) == 0 {
		return s.try(s.First(), min(left, s.part(s.First())/glances), ofGlance, false), true
	}
	top := s.loads[len(s.loads)-1]
	at := min(2*top.Load, s.Most)
	if glance := s.part(at) / glances; a.Breaks == nil && top.leans() && top.Load < at && free >= glance {
		return s.try(at, glance, ofGlance, false), true
	}
	if free >= least && !lost {
		o := s.outlook(a)
		ofShare := func(x float64) float64 {
			if t := s.known(x); t != nil {
				return min(free, s.part(x)-t.cost)
			}
			return min(free, s.part(x))
		}
		if at, gain := o.best(ofShare, true, true); gain >= worthShare {
			s.lowering = false
			return s.try(at, max(ofShare(at), least), ofChance, false), true
		}
		if s.lower < 0 {
			s.lower = free / 2
		}
		lower := min(s.lower, free)
		if at, gain := o.best(func(float64) float64 { return lower }, false, true); gain >= worthRest && lower >= least {
			s.lowering = true
			return s.try(at, lower, ofChance, false), true
		}
		if at, gain := o.best(func(float64) float64 { return free }, true, false); gain >= worthRest {
			s.lowering = false
			return s.try(at, max(free/2, least), ofChance, true), true
		}
	}
	switch {
	case left < least:
		return Try{}, false
	case !lost && a.Holds != nil && a.Holds.Again == "" && s.again < mostAgain:
		most := left
		if a.Breaks.brokeQuickly() {
			most = max(least, left-again*a.Breaks.cost)
		}
		t := s.try(a.Holds.Load, most, ofChance, true)
		t.Again = true
		return t, true
	case a.Breaks.brokeQuickly():
		a.Breaks.alone = nil // though no other load may have been tried since, by requests that are sent now
		t := s.try(a.Breaks.Load, min(left, max(least, again*a.Breaks.cost)), ofChance, true)
		t.Again = true
		return t, true
	}
	return Try{}, false
}

// brokeQuickly reports whether a load broke the SLO within few requests, and was not tried again since.
func (t *Tried) brokeQuickly() bool {
	return t != nil && t.Again == "" && t.series != nil && len(t.inFlight) < quickly
}

// try is a try of a load, which gets that part of the chance of an error if it is a new one. last says that it may be the last
// try of all, so that the load is to pass by it alone too.
func (s *Search) try(at, most, part float64, last bool) Try {
	t := s.known(at)
	if t == nil {
		t = &Tried{Load: at, Verdict: Unresolved, series: s.newSeries(s.chance * part)}
		t.alone = t.series
		s.chance -= t.chance
		i, _ := slices.BinarySearchFunc(s.loads, at, (*Tried).to)
		s.loads = slices.Insert(s.loads, i, t)
	} else if s.last.of != t {
		t.alone = nil
	}
	if t.alone == nil && last {
		t.alone = s.newSeries(math.Ldexp(1-s.Confidence, -1-s.again))
	}
	if t.also = nil; t.alone != t.series {
		t.also = t.alone
	}
	t.failed = t.verdict == Fail
	for i := range s.SLO {
		t.lines[i].elsewhere = s.inflationNear(at, i)
		if t.also != nil {
			t.also.lines[i].elsewhere = t.lines[i].elsewhere
		}
	}
	next := Try{Load: at, Most: most, of: t, series: t.series.clone()}
	next.Begin()
	if next.enough, next.patient, next.atOnce = 0, false, 0; s.Whole {
		next.atOnce = at
	}
	return next
}

// inflationNear is the inflation of a line at the load nearest to another that misses it often, and not by far too often; 0: there
// is none.
func (s *Search) inflationNear(at float64, line int) (inflation float64) {
	nearest := math.Inf(1)
	for _, t := range s.loads {
		if t.Load == at || t.Tries == 0 {
			continue
		}
		l := t.Lines[line]
		missed := float64(l.Counted - l.Within)
		if d := math.Abs(math.Log(t.Load / at)); missed >= fewMisses && missed <= tooOften*(1-l.asked)*float64(l.Counted) && d < nearest {
			nearest, inflation = d, l.Inflation
		}
	}
	return inflation
}

// to compares a load with another.
func (t *Tried) to(at float64) int { return cmp.Compare(t.Load, at) }

// known is a load that was tried; nil: it was not.
func (s *Search) known(at float64) *Tried {
	if i, ok := slices.BinarySearchFunc(s.loads, at, (*Tried).to); ok {
		return s.loads[i]
	}
	return nil
}

// outlook is what may come of the loads between the bounds.
type outlook struct {
	*Search
	low, high    float64
	from, to     float64 // between them, and not at them, are the loads to try
	rises, falls float64 // what the first bound of each side is worth: as much as a doubling
	apart        float64
	loads        []float64
	curves       []*curve
}

func (s *Search) outlook(a Answer) outlook {
	o := outlook{Search: s, low: s.Least, high: s.Most, from: math.Nextafter(s.Least, 0), to: math.Inf(1)}
	if a.Holds != nil {
		o.low, o.from = a.Holds.Load, a.Holds.Load
	} else {
		o.rises = math.Ln2
	}
	if a.Breaks == nil {
		o.falls = math.Ln2
	}
	for _, t := range slices.Backward(s.loads) {
		if t.Load >= o.low && (t.Doubt != "" || t == a.Breaks) {
			o.high, o.to = t.Load, t.Load
		}
	}
	if s.near(a) {
		return o
	}
	o.apart = o.rises + math.Log(o.high/o.low) + o.falls
	for i := range candidates + 1 {
		o.loads = append(o.loads, s.round(o.low*math.Pow(o.high/o.low, float64(i)/candidates)))
	}
	for _, t := range s.loads {
		o.loads = append(o.loads, t.Load)
	}
	for i := range s.SLO {
		o.curves = append(o.curves, s.curve(i, o.low/2, 2*o.high))
	}
	return o
}

// best is the load that brings the bounds nearest to each other, by passing or by failing, and how much nearer, as a part of how
// far they are apart, on average over what is likely. Each may cost no more than most says.
func (o *outlook) best(most func(at float64) float64, pass, fail bool) (at, brings float64) {
	for _, x := range o.loads {
		t := o.known(x)
		if x <= o.from || x >= o.to || t == nil && len(o.Search.loads) == o.Search.most ||
			t != nil && (t.Verdict != Unresolved || t.Doubt != "" || t.Again != "") || most(x) < o.Budget/share/glances {
			continue
		}
		near, requests, had := o.nearest(x), 2*o.least, 0 // where no request was over so far, nobody knows what one costs
		if near != nil {
			requests = most(x) / max(o.perRequest(), near.spent/float64(near.sent))
		}
		if t != nil {
			had = len(t.inFlight)
		}
		passes, holds := 1.0, 1.0
		for i, c := range o.curves {
			inflation := 1.
			if near != nil {
				inflation = near.Lines[i].Inflation
			}
			toPass := spread - math.Log(o.chance*ofChance)
			toFail := toPass + math.Log(float64(len(o.curves)))
			if t != nil {
				inflation = max(inflation, math.Sqrt(inflation*t.lines[i].elsewhere))
				toPass = -math.Log(t.chance) - gain(t.lines[i].pass)/inflation
				toFail = -math.Log(t.chance/float64(len(o.curves))) - gain(t.lines[i].fail)/inflation
			}
			p, f := c.chances(x, requests/inflation, max(0, toPass), max(0, toFail))
			passes, holds = passes*p, holds*(1-f)
		}
		if float64(had)+requests < o.rounds(x) {
			passes = 0
		}
		if float64(had)+requests < leastToFail {
			holds = 1
		}
		rises, falls := o.rises+math.Log(x/o.low), o.falls+math.Log(o.high/x)
		if x == o.Most {
			rises += o.falls // there is nothing above to break
		}
		if x == o.Least {
			falls += o.rises
		}
		if g := passes * rises / o.apart; pass && g > brings {
			at, brings = x, g
		}
		if g := (1 - holds) * falls / o.apart; fail && g > brings {
			at, brings = x, g
		}
	}
	return at, brings
}

// nearest is the load nearest to another of which requests have counted or cost; nil: there is none.
func (s *Search) nearest(x float64) (near *Tried) {
	for _, t := range s.loads {
		if t.sent > 0 && (near == nil || math.Abs(math.Log(t.Load/x)) < math.Abs(math.Log(near.Load/x))) {
			near = t
		}
	}
	return near
}

// rounds is how many requests a load takes to pass, whatever comes of them.
func (s *Search) rounds(at float64) float64 {
	if s.Whole {
		return roundsToPass * at
	}
	if near := s.nearest(at); near != nil {
		return roundsOpen * mean(near.inFlight)
	}
	return 0
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

// leans reports whether a load passes, or would by what was seen of it.
func (t *Tried) leans() bool {
	return t.Verdict == Pass || t.Verdict == Unresolved && t.Doubt == "" && !slices.ContainsFunc(t.Lines, func(l Line) bool {
		return float64(l.Within) < l.asked*float64(l.Counted)
	})
}

// part is what a load may cost before others are tried.
func (s *Search) part(at float64) float64 {
	return max(s.Budget/share, 1.5*max(s.least, s.rounds(at), leastToFail)*s.perRequest())
}

// round is a load as it can be sent and read: a whole number, or three digits that count.
func (s *Search) round(at float64) float64 {
	digits := 1.0
	if !s.Whole {
		digits = math.Pow(10, 2-math.Floor(math.Log10(at)))
	}
	return min(s.Most, max(s.Least, math.Round(at*digits)/digits))
}

// Tried notes that a try is over, what it cost, and why it is no evidence, if so: then the load is as it was before. Doubts of
// whether the load drifts, which a failure stands up to, are told apart. A load at which the server has answered nothing to the end has not
// failed until it does so again, and the server has answered another in between.
func (s *Search) Tried(t Try, cost float64, doubt string, drifts bool) {
	x := t.of
	s.spent += cost
	if s.lowering {
		s.lower -= cost
	}
	broke := t.Again && x.Verdict == Fail
	if last := s.last.of; last != nil && last != x && last.Again == Pass && !broke {
		last.Again = "" // it was not the last
	}
	s.last = t
	x.Tries++
	x.spent += cost
	x.sent += len(t.inFlight) - len(x.inFlight)
	t.end()
	found := t.verdict
	if t.Again && found == Pass && t.also != nil {
		found = t.also.verdict // what it has passed by before is no matter
	}
	fails := t.verdict == Fail && drifts
	if t.gone() && found != Pass {
		fails = found == Fail && !t.asks && s.before.of == x && s.before.gone()
		doubt = cmp.Or(doubt, "its last requests all failed")
	}
	if x.Doubt = doubt; doubt == "" || fails {
		if x.Doubt, x.cost = "", x.cost+cost; x.alone == x.series {
			x.alone = t.series
		} else {
			x.alone = t.also
		}
		x.series = t.series
	} else {
		x.doubts++
	}
	x.Verdict, x.Lines = x.verdict, x.figures()
	switch {
	case t.Again && (x.Doubt == "" || x.doubts == mostDoubts):
		if x.Again = x.alone.verdict; x.Doubt != "" {
			x.Again = Unresolved
		}
		if !broke {
			s.again++
		}
		if x.Again == Unresolved {
			x.Verdict = Unresolved // one load, one verdict: another may have its own twice
		}
	case t.Early:
		x.alone = nil
	case x.Verdict == Pass && x.Doubt == "" && x.alone != nil && x.alone.verdict == Pass:
		x.Again = Pass
	}
	switch {
	case !t.asks:
		s.before = t
	case !t.gone():
	case x == s.before.of:
		s.lose("when that was tried again")
	default:
		s.lose(fmt.Sprintf("at one of %v then", x.Load))
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
	Ended    string // why no other load can be tried, so that the bounds stay as they are; empty: they can
	Finished bool   // the bounds are as near as was asked, or at the ends of the range; Holds has passed again
}

// near reports whether the bounds are as near to each other as was asked. An end of the range is as good as a bound beyond it, once it
// has its verdict.
func (s *Search) near(a Answer) bool {
	switch {
	case a.Holds == nil:
		return a.Breaks != nil && a.Breaks.Load == s.Least
	case a.Breaks == nil:
		return a.Holds.Load == s.Most
	}
	return a.Breaks.Load <= a.Holds.Load*(1+s.Precision) || s.Whole && a.Breaks.Load == a.Holds.Load+1
}

// Answer is what is certain so far.
func (s *Search) Answer() Answer {
	a := Answer{Holds: s.highest(), Breaks: s.lowest(), Ended: s.ended}
	switch {
	case a.Holds != nil && a.Holds.Again == Fail:
		a.Flaw = fmt.Sprintf("drifting: a load of %v has passed, and failed when it was tried again at the end", a.Holds.Load)
	case a.Breaks != nil && a.Breaks.Again == Pass:
		a.Flaw = fmt.Sprintf("drifting, or of two states: a load of %v has failed, and passed when it was tried again at the end", a.Breaks.Load)
	case a.Holds != nil && a.Breaks != nil && a.Breaks.Load < a.Holds.Load:
		a.Flaw = fmt.Sprintf("not monotone: a load of %v passes and one of %v fails", a.Holds.Load, a.Breaks.Load)
	}
	a.Finished = a.Flaw == "" && a.Ended == "" && !a.Breaks.brokeQuickly() && (a.Holds == nil || a.Holds.Again == Pass) && s.near(a)
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
	look     int     // how many there are when they are judged again
	also     *series // of those requests that were sent since another load was tried; nil: it is not asked
	failed   bool    // before it was sent once more

	// Of requests as they are over, in any order: those that are told of before others that were sent earlier wait.
	waiting map[int]load.Record
	next    int
	begun   time.Duration // when the first was over; those sent before have begun together, and do not count
	ends    []time.Duration
	objects []load.Objective
	enough  float64 // requests of a try before which it is not over
	patient bool    // it is not over when the server falls silent: that it answers is known
	presence
}

// clone is a series that goes on from there, and leaves this one as it is.
func (s *series) clone() *series {
	if s == nil {
		return nil
	}
	c := *s
	c.lines, c.inFlight, c.also = slices.Clone(s.lines), slices.Clone(s.inFlight), s.also.clone()
	for i := range c.lines {
		l := &c.lines[i]
		l.values, l.pass, l.fail = slices.Clone(l.values), slices.Clone(l.pass), slices.Clone(l.fail)
	}
	return &c
}

func (s *Search) newSeries(chance float64) *series {
	x := &series{closed: s.Whole, chance: chance, verdict: Unresolved, objects: s.SLO}
	for _, o := range s.SLO {
		x.lines = append(x.lines, newLine(o))
	}
	return x
}
