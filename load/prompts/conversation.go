package prompts

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"hclbench/load"
)

// talk is one conversation: its requests, turn by turn.
type talk []turn

// turn is one request of a conversation.
type turn struct {
	says    []byte // messages, each with a comma behind it
	history bool   // they are all that goes: none before them
	answer  []byte // in place of the server's, as it was recorded; nil: the server's
	calls   bool   // the recorded answer calls a tool
	asks    []byte // members of the request
	output  int
	// how long it waits for what it says, by the file; nil: as long as a user thinks
	after *time.Duration
	// when it went, by the file's clock; nil: the file does not say, or nobody asks
	at *time.Duration
}

// conversations takes conversations in random order, until their turns are
// enough. The warm-up opens conversations of its own.
func conversations(ctx context.Context, job load.Job, total int) (*Set, error) {
	if job.Workload.Dataset.Timed() {
		total = math.MaxInt32 // the first by their times are known when all are
	}
	all, source, err := draw(ctx, job, total, counter(job.Workload), parseTalk, func(t tokens, s spoken) (talk, int, error) {
		if job.Workload.Dataset.Timed() && s.says[0].at == nil {
			return nil, 0, errors.New("the first request of a session has no number \"timestamp\"")
		}
		one, err := s.talk(ctx, t, job.Workload)
		return one, len(one), err
	})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no conversation can be used: %d have no question, or no length for the answer (set "+
			"output_tokens in the load block), and %d are bad%s", source.LeftOut, source.Bad, firstOf(source.BadLines))
	}
	set := &Set{source: source, form: load.Messages}
	if job.Workload.Dataset.Timed() {
		set.begin(job.Workload, all)
	}
	source.Prompts = len(all)
	set.talk = func(use uint64, n int) (int, func(grant) Session) {
		one := all[again(use, n, len(all))]
		return len(one), dialogued(func(i int) turn { return one[i] })
	}
	return set, nil
}

// again is the place of the n-th conversation among so many, which come in their order and then again.
func again(use uint64, n, of int) int {
	if n %= of; use == ForWarmup {
		return of - 1 - n // it begins with those that the measurement comes to last
	}
	return n
}

// counter finds who counts recorded answers, where somebody has to.
func counter(w load.Workload) func(context.Context, load.Job) (tokens, error) {
	if w.OutputTokens > 0 {
		return func(context.Context, load.Job) (tokens, error) { return nil, nil }
	}
	return newTokens
}

// talk says how long the answers are to be: as asked, as the file says, or as recorded.
func (s spoken) talk(ctx context.Context, t tokens, w load.Workload) (out talk, err error) {
	for _, x := range s.says {
		one := turn{history: x.history, asks: x.members(w), output: cmp.Or(w.OutputTokens, x.output), after: x.delay, at: x.at,
			calls: len(x.answer.ToolCalls) > 0}
		if one.output == 0 {
			if x.answer.Role == "" {
				break // nobody knows how long its answer was
			}
			if t == nil {
				return nil, fmt.Errorf("the lengths of recorded answers have to be counted, and %w: name the model's "+
					"tokenizer.json in the data set, or set output_tokens in the load block", errNoTokenizer)
			}
			ids, err := t.encode(ctx, x.answer.text())
			if err != nil {
				return nil, err
			}
			one.output = max(len(ids), 1)
		}
		if one.says, err = appendMessages(nil, x.messages); err != nil {
			return nil, err
		}
		// What tools have answered belongs to the calls that were recorded.
		if x.answer.Role != "" && (one.calls || w.Dataset.History == load.Recorded) {
			if one.answer, err = appendMessages(nil, []message{x.answer}); err != nil {
				return nil, err
			}
		}
		if one.after == nil && one.at == nil && x.last().Role == roleTool {
			one.after = new(time.Duration) // no user who thinks
		}
		out = append(out, one)
	}
	return out, nil
}

// talks hands out conversations, in their order and then again. Each may have as many
// turns as it has, as far as the requests go.
type talks struct {
	set   *Set
	use   uint64
	total int // requests; 0: as many as are asked for; [none]

	next atomic.Int64 // request

	mu      sync.Mutex
	begun   int
	granted int // requests, to conversations
}

// share is how many of so many requests are in this client's conversations.
func (q *talks) share(total int) (own int) {
	if q.set.slice.Whole() {
		return total
	}
	for n, left := 0, total; left > 0; n++ {
		turns, _ := q.set.talk(q.use, n)
		turns = min(turns, left)
		if turns == 0 {
			break
		}
		if left -= turns; q.set.slice.Owns(n) {
			own += turns
		}
	}
	return own
}

func (q *talks) Next() (Session, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	number := q.set.slice.Nth(q.begun)
	has, begin := q.set.talk(q.use, number)
	turns := has
	if q.total != 0 {
		turns = min(has, q.total-q.granted)
	}
	if turns <= 0 {
		return nil, false
	}
	q.begun++
	q.granted += turns
	return begin(grant{of: q, number: number, has: has, turns: turns}), true
}

func (q *talks) Begun() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.begun
}

func (q *talks) giveBack(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.granted -= n
}

// grant is what a conversation may ask.
type grant struct {
	of     *talks
	number int // of the conversation
	has    int // turns
	turns  int // that it may have
}

// fill makes the body of a request of the conversation, and says to whom it goes.
func (g grant) fill(prompt []byte, output int, members []byte) (body net.Buffers, adapter string) {
	adapter = g.of.set.adapted(g.of.use, g.number)
	return net.Buffers{g.of.set.templates[adapter].Fill(prompt, output, members)}, adapter
}

// dialogue is a conversation under way: one request after the other, each with
// all that was said before.
type dialogue struct {
	grant
	turn  func(i int) turn
	next  int    // turn
	asked turn   // that was asked last
	said  []byte // the messages so far, each with a comma behind it
}

// dialogued begins dialogues of these turns.
func dialogued(turn func(i int) turn) func(grant) Session {
	return func(g grant) Session { return &dialogue{grant: g, turn: turn} }
}

func appendMessage(b []byte, role string, text []byte) []byte {
	b = append(append(b, `{"role":"`...), role...)
	b = append(append(b, `","content":`...), text...)
	return append(b, "},"...)
}

// appendMessages appends messages, each with a comma behind it.
func appendMessages(b []byte, messages []message) ([]byte, error) {
	for _, m := range messages {
		text, err := json.Marshal(m)
		if err != nil {
			return nil, fmt.Errorf("write a message: %w", err)
		}
		b = append(append(b, text...), ',')
	}
	return b, nil
}

func (d *dialogue) Request() Request {
	t := d.turn(d.next)
	d.asked = t
	says := t.says
	if d.of.set.salt && bytes.Contains(says, []byte(saltHole)) {
		says, _ = withSalt(nil, says, d.of.set.seed, d.of.use, d.number)
	}
	if t.history {
		d.said = d.said[:0]
	}
	d.said = append(d.said, says...)
	messages := make([]byte, 0, len(d.said)+2)
	messages = append(append(messages, '['), d.said[:len(d.said)-1]...)
	messages = append(messages, ']')
	body, adapter := d.fill(messages, t.output, t.asks)
	return Request{Seq: int(d.of.next.Add(1)) - 1, Body: body, Output: t.output, Session: d.number + 1, Turn: d.next + 1,
		Final: d.next+1 == d.has, After: d.of.set.capped(d.thinks()), NotBefore: d.recorded(), Calls: t.calls, Adapter: adapter}
}

// longestThought bounds how much longer than on average a user, or a tool, takes.
const longestThought = 10

// thinks is how long the next turn waits: for its user, or for a tool.
func (d *dialogue) thinks() time.Duration {
	switch {
	case d.next == 0:
		return 0
	case d.asked.after != nil:
		return *d.asked.after
	case d.of.set.think == 0 || d.asked.at != nil: // it goes when it went, or at once
		return 0
	}
	return pause(Random(d.of.set.seed^scramble(d.of.use), forThinking, uint64(d.number)<<32|uint64(d.next)), d.of.set.think)
}

// pause draws how long somebody, or something, takes: from an exponential distribution with this mean.
func pause(r *rand.Rand, mean load.Duration) time.Duration {
	return time.Duration(min(r.ExpFloat64(), longestThought) * float64(mean))
}

// capped is a wait that is no longer than the data set lets one be.
func (s *Set) capped(wait time.Duration) time.Duration {
	if most := time.Duration(s.workload.Dataset.MaxDelay); most > 0 {
		return min(wait, most)
	}
	return wait
}

func (*dialogue) Listens() bool { return true }

func (*dialogue) Forks() []*Branch { return nil }

// Heard takes the answer, as it stood between the quotes of JSON strings. A conversation
// whose turn failed does not go on.
func (d *dialogue) Heard(ok bool, answer []byte) bool {
	d.next++
	if !ok {
		d.of.giveBack(d.turns - d.next)
		return false
	}
	if recorded := d.asked.answer; recorded != nil {
		d.said = append(d.said, recorded...)
		return d.next < d.turns
	}
	text := append(append([]byte{'"'}, answer...), '"')
	d.said = appendMessage(d.said, "assistant", text)
	return d.next < d.turns
}
