package prompts

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// agent is what one agent asks, one request after the other.
type agent struct {
	asks []errand
	subs []*agent
	end  float64 // when the last of its answers was there, and of those that it waited for; s
}

// errand is one request of an agent.
type errand struct {
	rank          int // among all requests of the session, by time
	at            float64
	after         time.Duration // what it waits behind the answer before it, and behind those that it joins
	input, output int
	kept          int     // so many blocks of its prompt are those of the agent's request before
	fresh         []int64 // and these follow
	forks, joins  []int   // sub-agents that begin with its answer, and that it waits for
}

// plot is what a session asks, recorded or made.
type plot struct {
	root     *agent
	block    int   // how long a block is where sizes does not say, in tokens
	sizes    []int // of blocks by their ids, in tokens; nil: all are as long
	prefix   int   // tokens before the blocks, in all prompts of all sessions
	requests int
}

// size is how long a block is, in tokens.
func (p *plot) size(id int64) int {
	if p.sizes == nil {
		return p.block
	}
	return p.sizes[id]
}

// rank counts the requests of a session and puts them in the order of their times.
func (p *plot) rank() []*errand {
	all := p.root.appendErrands(nil)
	slices.SortStableFunc(all, func(a, b *errand) int { return cmp.Compare(a.at, b.at) })
	for i, e := range all {
		e.rank = i
	}
	p.requests = len(all)
	return all
}

// begin begins the session, whose prompts are words or token ids.
func (p plot) begin(g grant, words bool) Session {
	t := &tree{grant: g, plot: p, words: words}
	return t.run(p.root)
}

// appendErrands appends the requests of an agent and its sub-agents.
func (a *agent) appendErrands(list []*errand) []*errand {
	for i := range a.asks {
		list = append(list, &a.asks[i])
	}
	for _, s := range a.subs {
		list = s.appendErrands(list)
	}
	return list
}

// tree is a session under way: an agent, its sub-agents, and theirs.
type tree struct {
	grant
	plot
	words bool

	mu   sync.Mutex
	made int // requests
}

// agents is one agent of a tree at work.
type agents struct {
	*tree
	*agent
	next     int       // request
	blocks   []int64   // of the prompt of the request before
	branches []*Branch // by sub-agent; nil: it has not begun
	forks    []*Branch // of the last answer
}

func (t *tree) run(a *agent) *agents {
	return &agents{tree: t, agent: a, branches: make([]*Branch, len(a.subs))}
}

// may reports whether a request is among those that the session may have: the first by time.
func (t *tree) may(a *agent, next int) bool { return next < len(a.asks) && a.asks[next].rank < t.turns }

func (r *agents) Request() Request {
	e := &r.asks[r.next]
	r.blocks = append(r.blocks[:e.kept:e.kept], e.fresh...)
	r.mu.Lock()
	r.made++
	turn := r.made
	r.mu.Unlock()
	body, adapter := r.fill(r.prompt(e), e.output, nil)
	out := Request{Seq: int(r.of.next.Add(1)) - 1, Body: body, Input: e.input, Output: e.output, Session: r.number + 1,
		Turn: turn, Final: turn == r.has, After: r.of.set.capped(e.after), Adapter: adapter}
	for _, k := range e.joins {
		if b := r.branches[k]; b != nil {
			out.Joins = append(out.Joins, b)
		}
	}
	return out
}

// prompt is as long as that of the request was. A block is the same wherever it comes in the
// session; what no block stands for is like no other prompt.
func (r *agents) prompt(e *errand) []byte {
	seed := r.of.set.seed ^ scramble(r.of.use)
	s := newSynthetic(nil, r.words)
	if r.prefix > 0 {
		s.add(Random(seed, forGroup, 0), r.prefix)
	}
	for _, id := range r.blocks {
		s.add(Random(seed, forBlock, scramble(uint64(r.number))+uint64(id)), min(r.size(id), e.input-s.n))
	}
	s.add(Random(seed, forTurn, uint64(r.number)<<32|uint64(e.rank)), e.input-s.n)
	return append(s.b, s.end)
}

func (*agents) Listens() bool { return false }

// Heard goes on whatever was answered: what the agent says next stands in the plot. An agent whose
// request failed does not go on, nor do those that would have begun then.
func (r *agents) Heard(ok bool, _ []byte) bool {
	e := &r.asks[r.next]
	r.next++
	if r.forks = nil; !ok {
		left := r.rest(r.agent, r.next)
		for _, k := range e.forks {
			left += r.rest(r.subs[k], 0)
		}
		r.of.giveBack(left)
		return false
	}
	for _, k := range e.forks {
		if sub := r.subs[k]; r.may(sub, 0) {
			r.branches[k] = &Branch{r.run(sub), make(chan struct{})}
			r.forks = append(r.forks, r.branches[k])
		}
	}
	return r.may(r.agent, r.next)
}

func (r *agents) Forks() []*Branch { return r.forks }

// rest is how many requests an agent would have sent from one on, with those that begin then.
func (t *tree) rest(a *agent, from int) (n int) {
	for ; t.may(a, from); from++ {
		n++
		for _, k := range a.asks[from].forks {
			n += t.rest(a.subs[k], 0)
		}
	}
	return n
}
