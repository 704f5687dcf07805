package prompts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"hclbench/load"
)

// talk is one conversation: what its user says, turn by turn.
type talk struct {
	system []byte // a JSON string; nil: none
	turns  []turn
	asks   []byte // members of each request
}

// turn is one request of a conversation.
type turn struct {
	says   []byte // a JSON string
	output int
}

// spoken is a conversation as it was recorded.
type spoken struct {
	asking
	system *string
	says   []string
	hears  []string // the answers; the last one may be missing
}

// parseTalk reads a conversation in ShareGPT's form, or a list of OpenAI's messages.
func parseTalk(w load.Workload, raw []byte) (s spoken, err error) {
	var r struct {
		recorded
		asking
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return s, plainError(err)
	}
	s.asking = r.asking
	if err := s.asking.check(w); err != nil {
		return s, err
	}
	if r.Conversations == nil && r.Messages == nil {
		return s, errors.New("neither a list \"messages\" nor a list \"conversations\"")
	}
	for i, m := range r.Messages {
		if err := s.add(m.Role, m.Content); err != nil {
			return s, fmt.Errorf("message %d: %w", i+1, err)
		}
	}
	for i, m := range r.Conversations {
		if err := s.add(m.From, m.Value); err != nil {
			return s, fmt.Errorf("turn %d: %w", i+1, err)
		}
	}
	if len(s.says) == 0 {
		return s, errSkip
	}
	return s, nil
}

func (s *spoken) add(who string, text *string) error {
	switch who {
	case "system", "developer", "user", "human", "assistant", "gpt", "chatgpt", "bing", "bard":
	default:
		return fmt.Errorf("said by %q, which is neither system, user nor assistant", who)
	}
	if text == nil {
		return errors.New("no text")
	}
	switch who {
	case "system", "developer":
		if s.system != nil || len(s.says) > 0 {
			return errors.New("a system message that is not the first")
		}
		s.system = text
	case "user", "human":
		if len(s.says) > len(s.hears) {
			return errors.New("a second question without an answer between")
		}
		s.says = append(s.says, *text)
	default:
		if len(s.says) == 0 {
			return errSkip // ShareGPT has many that begin in the middle
		}
		if len(s.hears) == len(s.says) {
			return errors.New("a second answer to the same question")
		}
		s.hears = append(s.hears, *text)
	}
	return nil
}

// conversations takes conversations in random order, until their turns are
// enough. The warm-up opens conversations of its own.
func conversations(ctx context.Context, job load.Job, total int) (*Set, error) {
	asked := job.Workload.OutputTokens
	counter := func(ctx context.Context, job load.Job) (tokens, error) {
		if asked > 0 {
			return nil, nil
		}
		t, err := needTokens(ctx, job)
		if err != nil {
			err = fmt.Errorf("%w, or say output_tokens in the load", err)
		}
		return t, err
	}
	all, source, err := draw(ctx, job, total, counter, parseTalk, func(t tokens, s spoken) (talk, int, error) {
		one, err := s.talk(ctx, t, asked)
		return one, len(one.turns), err
	})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no conversation is left: %d were without a question, and %d bad%s", source.LeftOut,
			source.Bad, firstOf(source.BadLines))
	}
	source.Prompts = len(all)
	return &Set{talks: all, source: source, form: load.Messages}, nil
}

// talk says how long the answers are to be: as asked, or as recorded.
func (s spoken) talk(ctx context.Context, t tokens, asked int) (talk, error) {
	out := talk{asks: s.members()}
	if s.system != nil {
		out.system = quoted(*s.system)
	}
	for i, says := range s.says {
		output := asked
		if output == 0 {
			if i >= len(s.hears) {
				break // nobody knows how long its answer was
			}
			ids, err := t.encode(ctx, s.hears[i])
			if err != nil {
				return out, err
			}
			output = max(len(ids), 1)
		}
		out.turns = append(out.turns, turn{quoted(says), output})
	}
	return out, nil
}

// talks hands out conversations, in their order and then again. Each may have as many
// turns as it has, as far as the requests go.
type talks struct {
	set   *Set
	use   uint64 // a warm-up begins with those that the measurement comes to last
	total int    // requests; 0: as many as are asked for; [none]

	next atomic.Int64 // request

	mu      sync.Mutex
	begun   int
	granted int // requests, to conversations
}

// at is the n-th conversation of all that are handed out, by whichever client.
func (q *talks) at(n int) *talk {
	i := n % len(q.set.talks)
	if q.use == ForWarmup {
		i = len(q.set.talks) - 1 - i
	}
	return &q.set.talks[i]
}

// share is how many of so many requests are in this client's conversations.
func (q *talks) share(total int) (own int) {
	if q.set.slice.Whole() {
		return total
	}
	for n, left := 0, total; left > 0; n++ {
		turns := min(len(q.at(n).turns), left)
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
	t := q.at(q.set.slice.Nth(q.begun))
	turns := len(t.turns)
	if q.total != 0 {
		turns = min(turns, q.total-q.granted)
	}
	if turns <= 0 {
		return nil, false
	}
	q.begun++
	q.granted += turns
	d := &dialogue{of: q, talk: t, turns: turns, number: q.set.slice.Nth(q.begun - 1)}
	if t.system != nil {
		d.said = appendMessage(nil, "system", t.system)
	}
	return d, true
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

// dialogue is a conversation under way: one request after the other, each with
// all that was said before.
type dialogue struct {
	of     *talks
	talk   *talk
	turns  int    // that it may have
	number int    // of the conversation
	next   int    // turn
	said   []byte // the messages so far, each with a comma behind it
}

func appendMessage(b []byte, role string, text []byte) []byte {
	b = append(append(b, `{"role":"`...), role...)
	b = append(append(b, `","content":`...), text...)
	return append(b, "},"...)
}

func (d *dialogue) Request() Request {
	t := d.talk.turns[d.next]
	says := t.says
	if d.of.set.salt && d.next == 0 {
		says, _ = withSalt(nil, says, d.of.set.seed, d.of.use, d.number)
	}
	d.said = appendMessage(d.said, "user", says)
	messages := make([]byte, 0, len(d.said)+2)
	messages = append(append(messages, '['), d.said[:len(d.said)-1]...)
	messages = append(messages, ']')
	return Request{Seq: int(d.of.next.Add(1)) - 1, Body: d.of.set.template.Fill(messages, t.output, d.talk.asks),
		Output: t.output, Session: d.number + 1, Turn: d.next + 1, Final: d.next+1 == d.turns, After: d.thinks()}
}

// longestThought bounds how much longer than on average a user takes.
const longestThought = 10

// thinks is how long the user takes before the next turn.
func (d *dialogue) thinks() time.Duration {
	mean := time.Duration(d.of.set.think)
	if mean == 0 || d.next == 0 {
		return 0
	}
	r := Random(d.of.set.seed^scramble(d.of.use), forThinking, uint64(d.number)<<32|uint64(d.next))
	return time.Duration(min(r.ExpFloat64(), longestThought) * float64(mean))
}

func (*dialogue) Listens() bool { return true }

// Heard takes the answer, as it stood between the quotes of JSON strings. A conversation
// whose turn failed does not go on.
func (d *dialogue) Heard(ok bool, answer []byte) bool {
	d.next++
	if !ok {
		d.of.giveBack(d.turns - d.next)
		return false
	}
	text := append(append([]byte{'"'}, answer...), '"')
	d.said = appendMessage(d.said, "assistant", text)
	return d.next < d.turns
}
