package prompts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"hclbench/load"
)

// talk is one conversation: what its user says, turn by turn.
type talk struct {
	system []byte // a JSON string; nil: none
	Turns  []turn
}

// turn is one request of a conversation.
type turn struct {
	says   []byte // a JSON string
	output int
}

// spoken is a conversation as it was recorded.
type spoken struct {
	system *string
	says   []string
	hears  []string // the answers; the last one may be missing
}

// parseTalk reads a conversation in ShareGPT's form, or a list of OpenAI's
// messages.
func parseTalk(raw []byte) (spoken, error) {
	var r recorded
	if err := json.Unmarshal(raw, &r); err != nil {
		return spoken{}, plainError(err)
	}
	var s spoken
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
// enough.
func conversations(ctx context.Context, job load.Job, total int) (*Material, error) {
	w := job.Workload
	f, found, source, err := entries(job, sound(w))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var t tokens
	if w.OutputTokens == 0 {
		if t, err = needTokens(ctx, job); err != nil {
			return nil, fmt.Errorf("%w, or say output_tokens in the load", err)
		}
	}
	source.Tokenizer = whoCounts(t)
	var talks []talk
	turns := 0
	// The warm-up opens conversations of its own.
	for _, k := range Random(Seed(job), forOrder, 0).Perm(len(found)) {
		if turns >= wanted(total, w) {
			break
		}
		raw, err := found[k].read(f)
		if err != nil {
			return nil, err
		}
		s, err := parseTalk(raw)
		if err != nil {
			return nil, fmt.Errorf("read the data set file again: %w", err)
		}
		one, err := s.talk(ctx, t, w.OutputTokens)
		if err != nil {
			return nil, err
		}
		if len(one.Turns) == 0 {
			source.LeftOut++
			continue
		}
		turns += len(one.Turns)
		talks = append(talks, one)
	}
	if len(talks) == 0 {
		return nil, fmt.Errorf("no conversation is left: %d were without a question, and %d bad%s", source.LeftOut, source.Bad, firstOf(source.BadLines))
	}
	source.Prompts = len(talks)
	return &Material{Talks: talks, source: source, AsText: true}, nil
}

// talk says how long the answers are to be: as asked, or as recorded.
func (s spoken) talk(ctx context.Context, t tokens, asked int) (talk, error) {
	var out talk
	if s.system != nil {
		out.system = quoted(*s.system)
	}
	for i, says := range s.says {
		output := asked
		if output == 0 {
			if i >= len(s.hears) {
				break // nobody knows how long its answer was
			}
			n, err := count(ctx, t, s.hears[i])
			if err != nil {
				return out, err
			}
			output = max(n, 1)
		}
		out.Turns = append(out.Turns, turn{quoted(says), output})
	}
	return out, nil
}

// Dialogue is a conversation under way: one request after the other, each with
// all that was said before.
type Dialogue struct {
	talk  *talk
	Turns int    // that it may have
	Next  int    // turn
	said  []byte // the messages so far, each with a comma behind it
}

func NewDialogue(t *talk, turns int) *Dialogue {
	d := &Dialogue{talk: t, Turns: turns}
	if t.system != nil {
		d.said = appendMessage(nil, "system", t.system)
	}
	return d
}

func appendMessage(b []byte, role string, text []byte) []byte {
	b = append(append(b, `{"role":"`...), role...)
	b = append(append(b, `","content":`...), text...)
	return append(b, "},"...)
}

// Ask is the next request: the list of messages, and how many tokens are asked for.
func (d *Dialogue) Ask() (messages []byte, output int) {
	t := d.talk.Turns[d.Next]
	d.said = appendMessage(d.said, "user", t.says)
	messages = make([]byte, 0, len(d.said)+2)
	messages = append(append(messages, '['), d.said[:len(d.said)-1]...)
	return append(messages, ']'), t.output
}

// Hear takes the answer, as it stood between the quotes of JSON strings, and
// reports whether there is another turn.
func (d *Dialogue) Hear(answer []byte) bool {
	text := append(append([]byte{'"'}, answer...), '"')
	d.said = appendMessage(d.said, "assistant", text)
	d.Next++
	return d.Next < d.Turns
}
