package measure

import (
	"time"

	"hclbench/load"
)

// session is what one conversation took.
type session struct {
	first, last   time.Duration // the first request was sent, the last answer was there
	ended         time.Duration // and complete
	requests      int           // that were answered
	turns         int           // requests that it has; 0: the one that says so has no answer
	input, output int
	begun         bool
}

// sessions are the conversations that began, and those that ended, in a span of such a length; nil: there are none. Those that ended have an answer to every request, and are told of wholly, whenever
// they began.
func (e evidence) sessions(d time.Duration, in span) *load.Sessions {
	var out load.Sessions
	all := map[int]session{}
	over := time.Duration(0) // the last answer, at which a window without a cool-down ends
	for i := range e.records {
		r := &e.records[i]
		over = max(over, r.End)
		if r.Session == 0 {
			continue
		}
		s := all[r.Session]
		if r.Turn == 1 {
			s.begun, s.first = true, r.Sent
		}
		if r.OK() {
			s.requests++
			s.input, s.output = s.input+r.InputTokens, s.output+r.OutputTokens
			s.last, s.ended = max(s.last, r.Last), max(s.ended, r.End)
			if r.Final {
				s.turns = r.Turn
			}
		}
		if r.OK() && r.ToCall && in.has(r.Sent) {
			out.ToCall++
			if r.Calls == 0 {
				out.Uncalled++
			}
		}
		all[r.Session] = s
	}
	if len(all) == 0 {
		return nil
	}
	var took []float64
	for _, s := range all {
		if s.begun && in.has(s.first) {
			out.Begun++
		}
		if s.turns > 0 && s.requests == s.turns && (in.has(s.ended) || s.ended == in.to && in.to == over) {
			took = append(took, load.Ms(s.last-s.first))
			out.Requests += float64(s.requests)
			out.InputTokens += float64(s.input)
			out.OutputTokens += float64(s.output)
		}
	}
	if out.Ended = len(took); out.Ended > 0 {
		n := float64(out.Ended)
		out.Requests, out.InputTokens, out.OutputTokens = out.Requests/n, out.InputTokens/n, out.OutputTokens/n
	}
	if d > 0 {
		out.Throughput = float64(out.Ended) / d.Seconds()
	}
	out.Duration = load.Describe(took, e.percentiles)
	return &out
}

// leastPause is more than a generator is late by.
const leastPause = 50 * time.Millisecond

// pauses reports whether conversations wait between their requests, for users who think or for as long as was
// recorded: then fewer requests are in flight than there are conversations. Those of agents wait for their tools,
// and have more in flight where there are sub-agents.
func pauses(w load.Workload, records []load.Record) bool {
	if w.Dataset.ThinkTime > 0 || w.Dataset.Agents() {
		return true
	}
	over := map[int]time.Duration{}
	waited, busy := time.Duration(0), time.Duration(0)
	for i := range records {
		r := &records[i]
		if r.Session == 0 {
			continue
		}
		if before, begun := over[r.Session]; begun && r.Ready-before >= leastPause {
			waited += r.Ready - before
		}
		over[r.Session] = r.End
		busy += r.End - r.Sent
	}
	return waited.Seconds() > load.MaxLittle*busy.Seconds()
}
