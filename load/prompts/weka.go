package prompts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"hclbench/load"
)

// A Weka trace, as kv-cache-tester records coding agents and AIPerf replays them, is a JSON object
// of a session. Its requests have lengths and the ids of the blocks of their prompts, and no text.
// Among them stand sub-agents, with requests of their own.
type wekaForm struct {
	BlockSize *int          `json:"block_size"`
	Scope     string        `json:"hash_id_scope"`
	Requests  []wekaRequest `json:"requests"`
}

type wekaRequest struct {
	Type      string        `json:"type"` // "subagent"; else a request
	T         *float64      `json:"t"`    // s; of a sub-agent's requests from the session's beginning, or from its own
	Input     int           `json:"in"`
	Output    int           `json:"out"`
	HashIDs   []int64       `json:"hash_ids"`
	APITime   float64       `json:"api_time"`   // s that the answer took
	ThinkTime *float64      `json:"think_time"` // s between the answer before and the request
	Requests  []wekaRequest `json:"requests"`   // of a sub-agent
}

// The bounds of a trace's numbers.
const (
	wekaBlock     = 64 // tokens of a block where nothing is said
	maxBlock      = 1 << 16
	maxWekaTokens = 1 << 24
	maxWekaTime   = 1e9 // s
	maxDepth      = 16  // of sub-agents of sub-agents
)

// parseWeka reads a session.
func parseWeka(w load.Workload, raw []byte) (p plot, err error) {
	var f wekaForm
	if err := json.Unmarshal(raw, &f); err != nil {
		return p, plainError(err)
	}
	if p.block = wekaBlock; f.BlockSize != nil {
		p.block = *f.BlockSize
	}
	switch {
	case f.Requests == nil:
		return p, errors.New("no list \"requests\"")
	case p.block < 1 || p.block > maxBlock:
		return p, fmt.Errorf("\"block_size\" is %d", p.block)
	case f.Scope != "" && f.Scope != "local":
		return p, fmt.Errorf("\"hash_id_scope\" is %q: only \"local\" is read, where each session has blocks of its own", f.Scope)
	}
	if p.root, err = parseAgent(f.Requests, relative(f.Requests), 0, 0); err != nil {
		return p, err
	}
	p.root.order(math.Inf(-1))
	for _, e := range p.rank() {
		e.output = cmp.Or(w.OutputTokens, e.output)
	}
	if p.requests == 0 {
		return p, errSkip
	}
	return p, nil
}

// relative reports whether the requests of sub-agents count their time from the sub-agent: so read,
// the first of each would be nearer to its beginning, all together. One clock that was wrong does
// not decide.
func relative(list []wekaRequest) bool { return nearer(list) > 0 }

// nearer is how much nearer to the beginning of their sub-agents their first requests are if their
// times are relative, in s.
func nearer(list []wekaRequest) (sum float64) {
	for _, r := range list {
		if len(r.Requests) > 0 && r.T != nil && r.Requests[0].T != nil {
			first := *r.Requests[0].T
			sum += math.Abs(first-*r.T) - math.Abs(first)
		}
		sum += nearer(r.Requests)
	}
	return sum
}

// parseAgent reads the requests of one agent, whose times count from zero.
func parseAgent(list []wekaRequest, relative bool, zero float64, depth int) (*agent, error) {
	a := &agent{}
	if depth > maxDepth {
		return a, fmt.Errorf("sub-agents are nested more than %d deep", maxDepth)
	}
	var before []int64 // blocks of the request before
	waiting := []int{} // sub-agents that nothing has waited for
	for i, r := range list {
		if err := r.check(); err != nil {
			return a, fmt.Errorf("request %d: %w", i+1, err)
		}
		at := zero + *r.T
		if r.Type == "subagent" {
			from := zero
			if relative {
				from = at
			}
			sub, err := parseAgent(r.Requests, relative, from, depth+1)
			if err != nil {
				return a, fmt.Errorf("request %d, sub-agent: %w", i+1, err)
			}
			if a.fork(sub) {
				waiting = append(waiting, len(a.subs)-1)
			}
			continue
		}
		if r.Input == 0 || r.Output == 0 {
			continue // it had failed
		}
		e := errand{at: at, input: r.Input, output: r.Output}
		waiting = slices.DeleteFunc(waiting, func(k int) bool {
			over := a.subs[k].end <= at
			if over {
				e.joins = append(e.joins, k)
			}
			return over
		})
		e.after = a.wait(r, at, e.joins)
		for e.kept < min(len(before), len(r.HashIDs)) && before[e.kept] == r.HashIDs[e.kept] {
			e.kept++
		}
		e.fresh, before = slices.Clone(r.HashIDs[e.kept:]), r.HashIDs
		a.asks = append(a.asks, e)
		a.end = max(a.end, at+r.APITime)
	}
	for _, s := range a.subs {
		a.end = max(a.end, s.end)
	}
	return a, nil
}

// fork takes a sub-agent, which begins when the request before it is answered. Without one, or
// without requests of its own, it is none.
func (a *agent) fork(sub *agent) bool {
	n := len(a.asks)
	if n == 0 || len(sub.asks) == 0 {
		return false
	}
	sub.asks[0].after = seconds(sub.asks[0].at - a.end)
	a.asks[n-1].forks = append(a.asks[n-1].forks, len(a.subs))
	a.subs = append(a.subs, sub)
	return true
}

// wait is how long a request was not sent when all that it needs was there.
func (a *agent) wait(r wekaRequest, at float64, joins []int) time.Duration {
	if len(a.asks) == 0 {
		return 0
	}
	if len(joins) == 0 && r.ThinkTime != nil {
		return seconds(*r.ThinkTime)
	}
	end := a.end
	for _, k := range joins {
		end = max(end, a.subs[k].end)
	}
	return seconds(at - end)
}

// seconds is a wait of so many; none is below zero.
func seconds(s float64) time.Duration { return time.Duration(max(s, 0) * float64(time.Second)) }

// check says what is no request.
func (r wekaRequest) check() error {
	const day = 86400
	switch {
	case r.T == nil:
		return errors.New("no number \"t\"")
	case !(math.Abs(*r.T) < maxWekaTime):
		return fmt.Errorf("\"t\" is %v s", *r.T)
	case r.Type == "subagent":
		return nil
	case r.Input < 0 || r.Input > maxWekaTokens:
		return fmt.Errorf("\"in\" is %d", r.Input)
	case r.Output < 0 || r.Output > maxWekaTokens:
		return fmt.Errorf("\"out\" is %d", r.Output)
	case !(r.APITime >= 0 && r.APITime <= day):
		return fmt.Errorf("\"api_time\" is %v s: it lies between 0 and %d", r.APITime, day)
	case r.ThinkTime != nil && !(math.Abs(*r.ThinkTime) <= day):
		return fmt.Errorf("\"think_time\" is %v s: it lies between 0 and %d", *r.ThinkTime, day)
	}
	return nil
}

// order has no request before the one that it follows, whatever the clocks said.
func (a *agent) order(from float64) {
	for i := range a.asks {
		e := &a.asks[i]
		e.at = max(e.at, from)
		from = e.at
		for _, k := range e.forks {
			a.subs[k].order(from)
		}
	}
}

// weka takes sessions in random order, until their requests are enough. When there are no more they
// come again, with blocks of their own.
func weka(ctx context.Context, job load.Job, total int) (*Set, error) {
	none := func(context.Context, load.Job) (tokens, error) { return nil, nil }
	all, source, err := draw(ctx, job, total, none, parseWeka, func(_ tokens, p plot) (plot, int, error) { return p, p.requests, nil })
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no session can be used: %d have no requests, and %d are bad%s", source.LeftOut, source.Bad,
			firstOf(source.BadLines))
	}
	source.Prompts = len(all)
	words := job.Workload.SendsText()
	return &Set{source: source, talk: func(use uint64, n int) (int, func(grant) Session) {
		p := all[again(use, n, len(all))]
		return p.requests, func(g grant) Session {
			return p.begin(g, words)
		}
	}}, nil
}
