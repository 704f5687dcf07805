package main

import (
	"strings"
	"testing"

	"hclbench/load"
)

// TestWantsText: a server that refuses token ids is met with what to try instead,
// any other is not.
func TestWantsText(t *testing.T) {
	random := load.Workload{Endpoint: load.Completions, Dataset: load.Dataset{Kind: load.Random}}
	chat, lines := random, random
	chat.Endpoint, lines.Dataset.Kind = load.Chat, load.JSONL
	refused := &load.Summary{Part: load.Part{Figures: load.Figures{Failed: 4, Statuses: map[int]int{400: 4}}}}
	for name, c := range map[string]struct {
		w    load.Workload
		s    *load.Summary
		want bool
	}{
		"refused":       {random, refused, true},
		"unprocessable": {random, &load.Summary{Part: load.Part{Figures: load.Figures{Statuses: map[int]int{422: 1}}}}, true},
		"on chat":       {chat, refused, false},
		"text":          {lines, refused, false},
		"overloaded":    {random, &load.Summary{Part: load.Part{Figures: load.Figures{Statuses: map[int]int{503: 4}}}}, false},
		"some":          {random, &load.Summary{Part: load.Part{Figures: load.Figures{Completed: 1, Statuses: map[int]int{400: 4}}}}, false},
	} {
		if got := strings.Contains(wantsText(c.w, c.s), "--endpoint chat"); got != c.want {
			t.Errorf("%s: told %v, want %v", name, got, c.want)
		}
	}
}
