package prompts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"hclbench/load"
)

// line is one line of a [JSONL] data set.
type line struct {
	Prompt       *string `json:"prompt"`
	OutputTokens *int    `json:"output_tokens"`
}

// parseLine reads a line; the workload's own output length goes before the line's.
func parseLine(raw []byte, asked int) (prompt string, output int, err error) {
	var l line
	if err := json.Unmarshal(raw, &l); err != nil {
		return "", 0, plainError(err)
	}
	switch {
	case l.Prompt == nil || *l.Prompt == "":
		return "", 0, errors.New("no text \"prompt\"")
	case asked > 0:
		return *l.Prompt, asked, nil
	case l.OutputTokens == nil:
		return "", 0, errors.New("no number \"output_tokens\", and the load says none")
	case *l.OutputTokens < 1:
		return "", 0, fmt.Errorf("\"output_tokens\" is %d", *l.OutputTokens)
	}
	return *l.Prompt, *l.OutputTokens, nil
}

// jsonLines takes prompts from a file in random order.
func jsonLines(ctx context.Context, job load.Job, total int) (*Set, error) {
	w := job.Workload
	f, err := entries(job, sound(w))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := newTokens(ctx, job)
	if err != nil {
		return nil, err
	}
	f.source.Tokenizer = whoCounts(t)
	var items []item
	err = f.shuffled(Seed(job), func(raw []byte) (enough bool, err error) {
		prompt, output, err := parseLine(raw, w.OutputTokens)
		if err != nil {
			return false, fmt.Errorf("read the data set file again: %w", err)
		}
		it := item{output: output}
		if t != nil {
			if it.ids, err = t.encode(ctx, prompt); err != nil {
				return false, err
			}
			it.input = len(it.ids)
		}
		if t == nil || w.Endpoint == load.Chat {
			it.ids, it.text = nil, quoted(prompt)
		}
		items = append(items, it)
		return len(items) == wanted(total, w), nil
	})
	if err != nil {
		return nil, err
	}
	return ready(items, w.Warmup, f.source)
}
