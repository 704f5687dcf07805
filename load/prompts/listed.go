package prompts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hclbench/load"
)

// item is one prompt that was read: token ids or, without a tokenizer, a string as JSON.
type item struct {
	ids  []int32
	text []byte // or a list of messages
	ask
}

// listed are prompts that were read from a file, in their order and, when there
// are not enough, again from the beginning.
type listed struct {
	items []item
	skip  int
}

func (l listed) append(b []byte, i int) ([]byte, ask) {
	it := &l.items[(i+l.skip)%len(l.items)]
	if it.text != nil {
		return append(b, it.text...), it.ask
	}
	return appendIDs(b, it.ids), it.ask
}

// setOf makes material of the prompts that were read. The warm-up takes the last of
// them, to which the measurement comes last.
func setOf(items []item, warmup int, source *load.Source) (*Set, error) {
	if len(items) == 0 {
		return nil, fmt.Errorf("no prompt can be used: %d are too short or too long, and %d are bad%s", source.LeftOut,
			source.Bad, firstOf(source.BadLines))
	}
	source.Prompts = len(items)
	return &Set{
		form:   formOf(items[0].text != nil),
		source: source,
		rows: func(use uint64) maker {
			if use == ForWarmup {
				return listed{items, max(0, len(items)-warmup)}
			}
			return listed{items, 0}
		},
	}, nil
}

// line is one of a [load.JSONL] data set.
type line struct {
	Prompt       *string         `json:"prompt"`
	Messages     json.RawMessage `json:"messages"`    // instead of a prompt
	ImageFiles   []string        `json:"image_files"` // beside a prompt, as in vLLM's custom_mm
	OutputTokens *int            `json:"output_tokens"`
	Query        json.RawMessage `json:"query"` // to the endpoint rerank, instead of a prompt
	Documents    json.RawMessage `json:"documents"`
	ranking
	asking
	pictures []picture // in the holes of Messages
}

// parseLine reads a line; the workload's own output length goes before the line's.
func parseLine(w load.Workload, raw []byte) (l line, err error) {
	if err := json.Unmarshal(raw, &l); err != nil {
		return l, plainError(err)
	}
	if string(l.Messages) == "null" {
		l.Messages = nil
	}
	if err := l.asking.check(w); err != nil {
		return l, err
	}
	switch asked := l.Prompt != nil && *l.Prompt != ""; {
	case l.ImageFiles != nil && (!asked || w.Endpoint != load.Chat):
		return l, fmt.Errorf("\"image_files\" goes with a \"prompt\" to the endpoint %q", load.Chat)
	case w.Endpoint == load.Rerank:
		l.ranking, err = l.ranked()
	case l.Query != nil && !asked && l.Messages == nil:
		return l, fmt.Errorf("a \"query\" needs the endpoint %q", load.Rerank)
	case w.BatchSize > 1 && len(l.given(w)) > 0:
		return l, errors.New("it has more than a prompt, and a request of several prompts (batch_size) has no place for it")
	case asked && l.Messages != nil:
		return l, errors.New("both \"prompt\" and \"messages\"")
	case l.Messages != nil:
		if err = checkMessages(w, l.Messages); err == nil && w.Dataset.Salt {
			_, err = saltable(l.Messages)
		}
	case !asked:
		err = errors.New("neither a text \"prompt\" nor a list \"messages\"")
	}
	switch {
	case err != nil:
		return l, err
	case !w.Generates():
		l.OutputTokens = new(int)
	case w.OutputTokens > 0:
		l.OutputTokens = &w.OutputTokens
	case l.OutputTokens == nil:
		return l, errors.New("no number \"output_tokens\", and none in the load block")
	case *l.OutputTokens < 1:
		return l, fmt.Errorf("\"output_tokens\" is %d: it must be at least 1", *l.OutputTokens)
	}
	return l, nil
}

// jsonLines takes prompts from a file in random order.
func jsonLines(ctx context.Context, job load.Job, total int) (*Set, error) {
	if job.Workload.Dataset.Questions {
		return questions(job)
	}
	if err := sameImages(job); err != nil {
		return nil, err
	}
	talks, look, album := false, newAlbum(job, false), newAlbum(job, true)
	use := func(t tokens, l line) (it item, n int, err error) {
		it.output, it.members = *l.OutputTokens, l.members(job.Workload)
		if l.documents != nil {
			it, err = l.ranking.item(ctx, t, it)
			return it, 1, err
		}
		if err := album.illustrate(&l); err != nil {
			return it, 0, err
		}
		it.images = l.pictures
		if l.Messages != nil {
			talks, it.text = true, l.Messages
			if job.Workload.Dataset.Salt {
				it.text, err = saltable(l.Messages)
			}
			return it, 1, err
		}
		if t != nil {
			if it.ids, err = t.encode(ctx, *l.Prompt); err != nil {
				return it, 0, err
			}
			it.input = len(it.ids)
		}
		if t == nil || job.Workload.SendsText() {
			it.ids, it.text = nil, quoted(*l.Prompt)
		}
		return it, 1, nil
	}
	items, source, err := draw(ctx, job, total, newTokens, look.line, use)
	if err != nil {
		return nil, err
	}
	set, err := setOf(items, job.Workload.Warmup, source)
	if err != nil || !talks {
		return set, err
	}
	set.form = load.Messages
	for i, it := range items {
		if it.text[0] == '"' {
			if job.Workload.Dataset.Salt {
				it.text = append([]byte{'"'}, append([]byte(saltHole), it.text[1:]...)...)
			}
			message := appendMessage([]byte{'['}, "user", it.text)
			message[len(message)-1] = ']' // in place of the comma
			items[i].text = message
		}
	}
	return set, nil
}

// passes says what the two filters let through, by tokens.
func passes(filter string, input, output int, outputGiven bool) bool {
	if filter == load.ConventionVLLM {
		return input >= 4 && input <= 1024 && (output >= 4 || outputGiven) && input+output <= 2048
	}
	return input >= 2 && (output >= 2 || outputGiven)
}

// opening is the first two turns of a conversation, whoever said them.
type opening struct{ prompt, answer string }

func firstTurns(_ load.Workload, raw []byte) (o opening, err error) {
	var r struct { // as ShareGPT writes it
		Conversations []struct {
			From  string  `json:"from"`
			Value *string `json:"value"`
		} `json:"conversations"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return o, plainError(err)
	}
	turns := r.Conversations
	switch {
	case turns == nil:
		return o, errors.New("no list \"conversations\"")
	case len(turns) < 2:
		return o, errSkip
	case turns[0].Value == nil || turns[1].Value == nil:
		return o, errors.New("a turn without a text \"value\"")
	}
	return opening{*turns[0].Value, *turns[1].Value}, nil
}

// shareGPT takes the first question and the length of the first answer of
// conversations in random order, until there are enough.
func shareGPT(ctx context.Context, job load.Job, total int) (*Set, error) {
	items, source, err := draw(ctx, job, total, needTokens, firstTurns, func(t tokens, o opening) (item, int, error) {
		return firstQuestion(ctx, job.Workload, t, o)
	})
	if err != nil {
		return nil, err
	}
	return setOf(items, job.Workload.Warmup, source)
}

// firstQuestion is the prompt of one conversation; n is 0 when the data set leaves it out.
func firstQuestion(ctx context.Context, w load.Workload, t tokens, o opening) (it item, n int, err error) {
	asked := max(w.OutputTokens, w.Dataset.OutputTokens)
	it.output = asked
	if it.ids, err = t.encode(ctx, o.prompt); err != nil {
		return it, 0, err
	}
	if asked == 0 {
		ids, err := t.encode(ctx, o.answer)
		if err != nil {
			return it, 0, err
		}
		it.output = len(ids)
	}
	if most := w.Dataset.InputTokens; most > 0 {
		if len(it.ids) < most {
			return it, 0, nil
		}
		if w.SendsText() && len(it.ids) > most {
			text, ok := t.decode(it.ids[:most])
			if !ok {
				return it, 0, errNoDecoder
			}
			o.prompt = text
		}
		it.ids = it.ids[:most:most]
	}
	it.input = len(it.ids)
	if w.SendsText() {
		it.ids, it.text = nil, quoted(o.prompt)
	}
	if !passes(w.Dataset.Filter, it.input, it.output, asked > 0) {
		return it, 0, nil
	}
	return it, 1, nil
}
