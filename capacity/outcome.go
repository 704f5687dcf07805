package capacity

import (
	"slices"
	"time"

	"hclbench/load"
)

// What a load is a number of.
const (
	Concurrency = "concurrency" // requests in flight, in a closed loop
	Rate        = "rate"        // requests a second, in an open loop
)

// Outcome is what came of a search, so far or at its end, as it is kept and shown.
type Outcome struct {
	Of         string   `json:"of"`                 // Concurrency or Rate
	Holds      *float64 `json:"holds"`              // the highest load that is certain to meet the SLO; nil: none is, or there is no answer
	AtLeast    bool     `json:"at_least,omitempty"` // Holds is the most of the range
	Breaks     *float64 `json:"breaks"`             // the lowest that is certain not to; nil: likewise
	BoundBy    string   `json:"bound_by,omitempty"` // the line of the SLO that Breaks does not meet
	Flaw       string   `json:"flaw,omitempty"`     // why there is no answer; empty: there is one
	Ended      string   `json:"ended,omitempty"`    // why no other load can be tried, so that the bounds stay as they are; empty: they can
	Finished   bool     `json:"finished"`           // see [Answer]
	Over       bool     `json:"over"`               // there is nothing more to find out, or to spend; false: it goes on, or was interrupted
	Confidence float64  `json:"confidence"`         // of both bounds together: 0.95
	Precision  float64  `json:"precision"`          // how near the bounds were to come, as a part of the lower
	Least      float64  `json:"least"`              // of the range
	Most       float64  `json:"most"`
	Took       float64  `json:"took_s"`   // of all tries together
	Requests   int      `json:"requests"` // likewise
	Loads      []Load   `json:"loads"`    // that were tried, sorted
}

// Load is what came of the tries of one load.
type Load struct {
	Load    float64       `json:"load"`
	Verdict Verdict       `json:"verdict"`
	Again   Verdict       `json:"again,omitempty"` // by the try at the end alone; empty: it was not tried again
	Doubt   string        `json:"doubt,omitempty"` // why it is no evidence; empty: it is
	Tries   int           `json:"tries"`
	Lines   []LineOutcome `json:"lines"`
}

// LineOutcome is how the requests at a load stand to a line of the SLO.
type LineOutcome struct {
	Name      string        `json:"name"` // "ttft_p95"
	Max       load.Duration `json:"max"`  // its bound
	Counted   int           `json:"counted"`
	Within    int           `json:"within"`
	Inflation float64       `json:"variance_inflation"`
	Verdict   Verdict       `json:"verdict"`
}

// Of is what the loads are a number of.
func (q Question) Of() string {
	if q.Whole {
		return Concurrency
	}
	return Rate
}

// Outcome is what is known so far, of so many requests that took so long.
func (s *Search) Outcome(took time.Duration, requests int) Outcome {
	a := s.Answer()
	o := Outcome{Of: s.Of(), BoundBy: a.BoundBy, Flaw: a.Flaw, Ended: a.Ended, Finished: a.Finished, Over: s.over, Confidence: s.Confidence,
		Precision: s.Precision, Least: s.Least, Most: s.Most, Took: took.Seconds(), Requests: requests}
	if a.Holds != nil && a.Flaw == "" {
		o.Holds, o.AtLeast = &a.Holds.Load, a.Holds.Load == s.Most
	}
	switch {
	case s.over && a.Breaks.brokeQuickly(): // and there was no room to try it again
		o.BoundBy = ""
	case a.Breaks != nil && a.Flaw == "":
		o.Breaks = &a.Breaks.Load
	}
	for _, t := range s.Loads() {
		l := Load{Load: t.Load, Verdict: t.Verdict, Again: t.Again, Doubt: t.Doubt, Tries: t.Tries}
		for i, x := range t.Lines {
			l.Lines = append(l.Lines, LineOutcome{x.Name, s.SLO[i].Max, x.Counted, x.Within, x.Inflation, x.Verdict})
		}
		o.Loads = append(o.Loads, l)
	}
	return o
}

// At is what came of a load; nil: it was not tried.
func (o *Outcome) At(at *float64) *Load {
	for i := range o.Loads {
		if at != nil && o.Loads[i].Load == *at {
			return &o.Loads[i]
		}
	}
	return nil
}

// Stuck is the lowest load in doubt between the bounds, or beyond the one that there is: none at it or above it was tried any more. nil: there
// is none.
func (o *Outcome) Stuck() *Load {
	low := o.Least
	if o.Holds != nil {
		low = *o.Holds
	}
	i := slices.IndexFunc(o.Loads, func(l Load) bool {
		return l.Doubt != "" && l.Verdict == Unresolved && l.Load >= low && (o.Breaks == nil || l.Load < *o.Breaks)
	})
	if i < 0 {
		return nil
	}
	return &o.Loads[i]
}

// Agrees reports whether what is certain fits a truth that is known: a load that meets the SLO, and one that does not; 0: none
// of the range does.
func (o *Outcome) Agrees(holds, breaks float64) bool {
	return (o.Holds == nil || breaks == 0 || *o.Holds < breaks) && (o.Breaks == nil || *o.Breaks > holds)
}
