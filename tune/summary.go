package tune

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Settings names a candidate in one line.
func (c Candidate) Settings() string {
	return cmp.Or(c.Proposed, strings.Join(slices.DeleteFunc(slices.Clone(c.Options), func(id string) bool { return id == "" }), ", "), "as it is")
}

// Summary is what came of a tuning, so far or at its end, as it is kept and shown where no lab is. What is called by names of
// the lab, its caller fills in. Figures are in the unit of the objective's.
type Summary struct {
	Tune      string `json:"tune"`
	Objective string `json:"objective"` // the benchmark whose loads are measured
	Figure    string `json:"figure"`    // the metric of which most or least is best
	Start     string `json:"start"`     // the engine that it begins with
	// Text is the winner as a block of a lab; empty: there is none, or it has a secret.
	Text string `json:"text,omitempty"`

	Confidence float64     `json:"confidence"` // of all intervals and of the winner
	Over       bool        `json:"over"`       // nothing more is to be found out, or to be spent
	Winner     *Candidate  `json:"winner"`     // nil: there is none
	Why        string      `json:"why,omitempty"`
	Tied       []Candidate `json:"tied,omitempty"` // see [Answer]
	Leader     *Candidate  `json:"leader"`         // likewise
	Next       *Candidate  `json:"next,omitempty"` // likewise
	// Gain is how many times what the baseline scores the leader does, by its finals. nil: it is the baseline, or there is none.
	Gain       *Estimate  `json:"gain,omitempty"`
	Left       *Candidate `json:"left,omitempty"` // likewise
	Lead       float64    `json:"lead,omitempty"`
	Floor      *float64   `json:"floor"` // nil: not known
	Shows      *float64   `json:"shows"` // likewise
	Noise      float64    `json:"noise"` // standard deviation between starts, as a part of a score
	Tried      int        `json:"tried"`
	Of         int        `json:"of"`
	Starts     int        `json:"starts"`
	Seconds    float64    `json:"seconds"`            // that its hosts were held
	Cost       float64    `json:"cost_usd,omitempty"` // of that
	Candidates []Standing `json:"candidates"`         // in the order in which they became known; the first is the baseline
}

// Standing is how a candidate stands.
type Standing struct {
	Settings  string    `json:"settings"`
	Candidate Candidate `json:"candidate"`
	Stage     string    `json:"stage,omitempty"` // that made it
	Overrides int       `json:"overrides"`
	Predicted float64   `json:"predicted,omitempty"` // by whoever proposed it; 0: nobody said
	Fate      Fate      `json:"fate"`
	Why       string    `json:"why,omitempty"` // as far as there is more to say than its fate
	// Accuracy is what its answers prove beside the baseline's, the worst of all its starts, and Unproved what they do not: both for the caller
	// to fill in. Empty: nobody has asked.
	Accuracy string `json:"accuracy,omitempty"` // a verdict, or [Baseline]
	Unproved string `json:"unproved,omitempty"`
	// Altered is what makes its engine another than its image and its settings are, "setup and build": for the caller to fill in. Empty: nothing.
	Altered string `json:"altered,omitempty"`
	// Holds and Breaks are what each of its starts certainly holds and breaks by, of an objective that searches for a capacity: for the caller
	// to fill in. nil: of one of them that is not certain.
	Holds    *float64  `json:"holds,omitempty"`
	Breaks   *float64  `json:"breaks,omitempty"`
	Starts   int       `json:"starts"`
	Searched *Estimate `json:"searched"` // nil: it was not measured there
	Finals   *Estimate `json:"finals"`
}

// Baseline is the accuracy of who others are held against.
const Baseline = "baseline"

// Estimate is a figure over starts with its interval; equal bounds: the noise is not known.
type Estimate struct {
	Value  float64 `json:"value"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Starts int     `json:"starts"`
}

// Summary is what has come of the tuning. unit turns a score into the unit of the objective.
func (t *Tuning) Summary(unit func(score float64) float64) Summary {
	a := t.Answer()
	known := func(x float64) *float64 {
		if math.IsInf(x, 0) {
			return nil
		}
		return &x
	}
	candidate := func(e *Entry) *Candidate {
		if e == nil {
			return nil
		}
		return &e.Candidate
	}
	s := Summary{Confidence: t.Confidence, Over: a.Over, Winner: candidate(a.Winner), Why: a.Why, Leader: candidate(a.Leader), Next: candidate(a.Next), Left: candidate(a.Left), Lead: a.Lead,
		Floor: known(a.Floor), Shows: known(a.Shows), Noise: a.Noise.Spread, Tried: a.Tried, Of: a.Of, Starts: a.Starts,
		Seconds: a.Spent.Time.Seconds(), Cost: a.Spent.Money, Candidates: []Standing{}}
	for _, e := range a.Tied {
		s.Tied = append(s.Tied, e.Candidate)
	}
	estimate := func(f Figure, unit func(float64) float64) *Estimate {
		if f.Starts == 0 {
			return nil
		}
		if f.Low <= 0 || math.IsInf(f.High, 0) {
			f.Low, f.High = f.Value, f.Value
		}
		low, high := unit(f.Low), unit(f.High)
		return &Estimate{Value: unit(f.Value), Low: min(low, high), High: max(low, high), Starts: f.Starts}
	}
	if a.Leader != nil && !a.Leader.Candidate.IsBaseline() {
		s.Gain = estimate(t.Gain(a.Leader), func(times float64) float64 { return times })
	}
	for _, e := range t.Ledger() {
		x := Standing{Settings: e.Candidate.Settings(), Candidate: e.Candidate, Stage: e.Stage, Overrides: e.Overrides,
			Fate: e.Fate, Why: e.Why, Starts: e.Starts, Searched: estimate(t.Searched(&e), unit), Finals: estimate(t.Finally(&e), unit)}
		if e.Predicted > 0 {
			x.Predicted = unit(e.Predicted)
		}
		switch {
		case e.Fate == Failed:
			x.Why = string(e.Outcome) + ": " + e.Reason
		case e.Fate == Missed:
			x.Why = "at every load: " + e.Reason
		case e.Outcome == Beaten:
			x.Why = "it lost its race: " + e.Reason
		case e.Why == "" && e.same != nil:
			x.Why = "served as: " + e.same.Candidate.Settings()
		}
		s.Candidates = append(s.Candidates, x)
	}
	return s
}

// Place is that of a candidate among those of the summary, from 1; 0: it is not among them.
func (s *Summary) Place(c Candidate) int {
	return 1 + slices.IndexFunc(s.Candidates, func(x Standing) bool { return x.Candidate.key() == c.key() })
}
