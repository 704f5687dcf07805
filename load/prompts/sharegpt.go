package prompts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"hclbench/load"
)

// What the two filters let through, in tokens, both ends included; 0: no bound.
type filter struct{ minPrompt, minOutput, maxPrompt, maxTotal int }

func (f filter) passes(input, output int, outputGiven bool) bool {
	switch {
	case input < f.minPrompt, output < f.minOutput && !outputGiven:
		return false
	case f.maxPrompt > 0 && input > f.maxPrompt, f.maxTotal > 0 && input+output > f.maxTotal:
		return false
	}
	return true
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

// firstTurns are the first two turns of a conversation, whoever said them.
func firstTurns(raw []byte) (prompt, answer string, err error) {
	var r recorded
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", "", plainError(err)
	}
	if r.Conversations == nil {
		return "", "", errors.New("no list \"conversations\"")
	}
	if len(r.Conversations) < 2 {
		return "", "", errSkip
	}
	if r.Conversations[0].Value == nil || r.Conversations[1].Value == nil {
		return "", "", errors.New("a turn without a text \"value\"")
	}
	return *r.Conversations[0].Value, *r.Conversations[1].Value, nil
}

// shareGPT takes the first question and the length of the first answer of
// conversations in random order, until there are enough.
func shareGPT(ctx context.Context, job load.Job, total int) (*Set, error) {
	f, err := entries(job, sound(job.Workload))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := needTokens(ctx, job)
	if err != nil {
		return nil, err
	}
	f.source.Tokenizer = t.name()
	var items []item
	err = f.shuffled(Seed(job), func(raw []byte) (enough bool, err error) {
		it, ok, err := firstQuestion(ctx, job.Workload, t, raw)
		if err != nil {
			return false, err
		}
		if !ok {
			f.source.LeftOut++
			return false, nil
		}
		items = append(items, it)
		return len(items) == wanted(total, job.Workload), nil
	})
	if err != nil {
		return nil, err
	}
	return ready(items, job.Workload.Warmup, f.source)
}

// firstQuestion is the prompt of one conversation; ok is false when the data set leaves
// it out.
func firstQuestion(ctx context.Context, w load.Workload, t tokens, raw []byte) (it item, ok bool, err error) {
	prompt, answer, err := firstTurns(raw)
	if err != nil {
		return it, false, fmt.Errorf("read the data set file again: %w", err)
	}
	asked := max(w.OutputTokens, w.Dataset.OutputTokens)
	it.output = asked
	if it.ids, err = t.encode(ctx, prompt); err != nil {
		return it, false, err
	}
	if asked == 0 {
		if it.output, err = count(ctx, t, answer); err != nil {
			return it, false, err
		}
	}
	if n := w.Dataset.InputTokens; n > 0 {
		if len(it.ids) < n {
			return it, false, nil
		}
		if w.Endpoint == load.Chat && len(it.ids) > n {
			text, ok := t.decode(it.ids[:n])
			if !ok {
				return it, false, errNoDecoder
			}
			prompt = text
		}
		it.ids = it.ids[:n:n]
	}
	it.input = len(it.ids)
	if w.Endpoint == load.Chat {
		it.ids, it.text = nil, quoted(prompt)
	}
	return it, filterOf(w.Dataset.Filter).passes(it.input, it.output, asked > 0), nil
}

// wanted is how many prompts a run and its warm-up need.
func wanted(total int, w load.Workload) int {
	if total == 0 {
		return enough
	}
	return total + w.Warmup
}
