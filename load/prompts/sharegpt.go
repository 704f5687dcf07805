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
func shareGPT(ctx context.Context, job load.Job, total int) (*Material, error) {
	f, found, source, err := entries(job, sound(job.Workload))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := needTokens(ctx, job)
	if err != nil {
		return nil, err
	}
	source.Tokenizer = t.name()
	w, d := job.Workload, job.Workload.Dataset
	asked := max(w.OutputTokens, d.OutputTokens)
	bounds := filterOf(d.Filter)
	var items []item
	for _, k := range Random(Seed(job), forOrder, 0).Perm(len(found)) {
		if len(items) == wanted(total, w) {
			break
		}
		raw, err := found[k].read(f)
		if err != nil {
			return nil, err
		}
		prompt, answer, err := firstTurns(raw)
		if err != nil {
			return nil, fmt.Errorf("read the data set file again: %w", err)
		}
		it := item{output: asked}
		if it.ids, err = t.encode(ctx, prompt); err != nil {
			return nil, err
		}
		if asked == 0 {
			if it.output, err = count(ctx, t, answer); err != nil {
				return nil, err
			}
		}
		if n := d.InputTokens; n > 0 {
			if len(it.ids) < n {
				source.LeftOut++
				continue
			}
			if w.Endpoint == load.Chat && len(it.ids) > n {
				text, ok := t.decode(it.ids[:n])
				if !ok {
					return nil, errors.New("to cut prompts for /v1/chat/completions the data set needs a tokenizer.json: the server's /tokenize does not turn tokens back into text")
				}
				prompt = text
			}
			it.ids = it.ids[:n:n]
		}
		it.input = len(it.ids)
		if !bounds.passes(it.input, it.output, asked > 0) {
			source.LeftOut++
			continue
		}
		if w.Endpoint == load.Chat {
			it.ids, it.text = nil, quoted(prompt)
		}
		items = append(items, it)
	}
	return ready(items, w.Warmup, source)
}

// wanted is how many prompts a run and its warm-up need.
func wanted(total int, w load.Workload) int {
	if total == 0 {
		return enough
	}
	return total + w.Warmup
}
