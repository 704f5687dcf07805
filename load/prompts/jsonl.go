package prompts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"hclbench/load"
)

type line struct {
	Prompt       *string `json:"prompt"`
	OutputTokens *int    `json:"output_tokens"`
}

// parseLine reads a line; the workload's own output length goes before the line's.
func parseLine(w load.Workload, raw []byte) (l line, err error) {
	if err := json.Unmarshal(raw, &l); err != nil {
		return l, plainError(err)
	}
	switch {
	case l.Prompt == nil || *l.Prompt == "":
		return l, errors.New("no text \"prompt\"")
	case w.OutputTokens > 0:
		l.OutputTokens = &w.OutputTokens
	case l.OutputTokens == nil:
		return l, errors.New("no number \"output_tokens\", and the load says none")
	case *l.OutputTokens < 1:
		return l, fmt.Errorf("\"output_tokens\" is %d", *l.OutputTokens)
	}
	return l, nil
}

// jsonLines takes prompts from a file in random order.
func jsonLines(ctx context.Context, job load.Job, total int) (*Set, error) {
	items, source, err := draw(ctx, job, total, newTokens, parseLine, func(t tokens, l line) (it item, n int, err error) {
		it.output = *l.OutputTokens
		if t != nil {
			if it.ids, err = t.encode(ctx, *l.Prompt); err != nil {
				return it, 0, err
			}
			it.input = len(it.ids)
		}
		if t == nil || job.Workload.Endpoint == load.Chat {
			it.ids, it.text = nil, quoted(*l.Prompt)
		}
		return it, 1, nil
	})
	if err != nil {
		return nil, err
	}
	return ready(items, job.Workload.Warmup, source)
}
