package prompts

import (
	"context"
	"encoding/json"
	"errors"

	"hclbench/load"
)

// What the two filters let through, in tokens, both ends included; 0: no bound.
type filter struct{ minPrompt, minOutput, maxPrompt, maxTotal int }

func (f filter) passes(input, output int, outputGiven bool) bool {
	return input >= f.minPrompt && (output >= f.minOutput || outputGiven) &&
		(f.maxPrompt == 0 || input <= f.maxPrompt) && (f.maxTotal == 0 || input+output <= f.maxTotal)
}

func filterOf(name string) filter {
	if name == load.ConventionVLLM {
		return filter{minPrompt: 4, minOutput: 4, maxPrompt: 1024, maxTotal: 2048}
	}
	return filter{minPrompt: 2, minOutput: 2}
}

// recorded is a conversation as ShareGPT or OpenAI writes it.
type recorded struct {
	Conversations []struct {
		From  string  `json:"from"`
		Value *string `json:"value"`
	} `json:"conversations"`
	Messages []struct {
		Role    string  `json:"role"`
		Content *string `json:"content"`
	} `json:"messages"`
}

type opening struct{ prompt, answer string } // the first two turns of a conversation, whoever said them

func firstTurns(_ load.Workload, raw []byte) (o opening, err error) {
	var r recorded
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
	return ready(items, job.Workload.Warmup, source)
}

// firstQuestion is the prompt of one conversation; n is 0 when the data set leaves it out.
func firstQuestion(ctx context.Context, w load.Workload, t tokens, o opening) (it item, n int, err error) {
	asked := max(w.OutputTokens, w.Dataset.OutputTokens)
	it.output = asked
	if it.ids, err = t.encode(ctx, o.prompt); err != nil {
		return it, 0, err
	}
	if asked == 0 {
		if it.output, err = count(ctx, t, o.answer); err != nil {
			return it, 0, err
		}
	}
	if most := w.Dataset.InputTokens; most > 0 {
		if len(it.ids) < most {
			return it, 0, nil
		}
		if w.Endpoint == load.Chat && len(it.ids) > most {
			text, ok := t.decode(it.ids[:most])
			if !ok {
				return it, 0, errNoDecoder
			}
			o.prompt = text
		}
		it.ids = it.ids[:most:most]
	}
	it.input = len(it.ids)
	if w.Endpoint == load.Chat {
		it.ids, it.text = nil, quoted(o.prompt)
	}
	if !filterOf(w.Dataset.Filter).passes(it.input, it.output, asked > 0) {
		return it, 0, nil
	}
	return it, 1, nil
}
