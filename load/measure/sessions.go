package measure

import (
	"time"

	"hclbench/load"
)

// session is what one conversation took.
type session struct {
	first, last   time.Duration
	requests      int
	input, output int
	begun, final  bool
}

// sessions are those of records, in a run of so long; nil: there are none.
func sessions(d time.Duration, percentiles []float64, records []load.Record) *load.Sessions {
	var out load.Sessions
	all := map[int]session{}
	for i := range records {
		r := &records[i]
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
			s.final, s.last = r.Final, r.Last
			if r.ToCall {
				out.ToCall++
			}
			if r.ToCall && r.Calls == 0 {
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
		if s.begun {
			out.Begun++
		}
		if s.begun && s.final {
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
	out.Duration = load.Describe(took, percentiles)
	return &out
}
