package plan

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hclbench/load"
	"hclbench/plain"
)

// loadWords are as many words in the same order for every load; empty ones say nothing.
func loadWords(w load.Workload) []string {
	some := func(is bool, format string, args ...any) string {
		if !is {
			return ""
		}
		return fmt.Sprintf(format, args...)
	}
	span := func(d load.Duration) string { return time.Duration(d).String() }
	pace := ""
	switch {
	case len(w.Stages) > 0:
		var stages []string
		for _, s := range w.Stages {
			pace := fmt.Sprintf("%v/s", s.Rate)
			if s.Concurrency > 0 {
				pace = fmt.Sprintf("concurrency %d", s.Concurrency)
			}
			stages = append(stages, pace+" for "+span(s.Duration))
		}
		pace = strings.Join(stages, ", then ")
	case w.Rate == load.Inf:
		pace = "all at once"
	case w.Rate > 0:
		pace = fmt.Sprintf("%v requests/s", w.Rate)
	}
	var slo []string
	for _, o := range w.SLO {
		slo = append(slo, fmt.Sprintf("%s ≤ %s", o.Name(), span(o.Max)))
	}
	return []string{
		"", // what task it is, if not a load
		some(w.Requests > 0, "%s", plain.Count(w.Requests, "request")),
		some(w.Duration > 0, "for %s", span(w.Duration)),
		pace,
		some(w.Burstiness != 0 && w.Burstiness != 1, "burstiness %v", w.Burstiness),
		some(w.Concurrency > 0, "concurrency %d", w.Concurrency),
		some(w.Ramp > 0, "ramp %s", span(w.Ramp)),
		prompts(w.Dataset),
		some(w.BatchSize > 1, "%d prompts a request", w.BatchSize),
		some(w.OutputTokens > 0, "%s out", plain.Count(w.OutputTokens, "token")),
		some(w.OutputTokens > 0 && !w.IgnoreEOS, "or fewer"),
		some(w.Endpoint != "", "%s", w.Endpoint),
		some(w.NoStream, "not streamed"),
		some(w.Temperature != 0, "temperature %v", w.Temperature),
		some(w.ExtraBody != "", "extra_body %s", w.ExtraBody),
		some(len(w.Adapters) > 0, "adapters %s", w.Adapting()),
		some(w.Warmup > 0, "%d to warm up", w.Warmup),
		some(w.CutBeginning > 0, "without the first %s", span(w.CutBeginning)),
		some(w.CutEnd > 0, "without the last %s", span(w.CutEnd)),
		some(w.StopWhenOverloaded, "ends when overloaded"),
		strings.Join(slo, ", "),
	}
}

func prompts(d load.Dataset) string {
	words := []string{d.Kind}
	if d.Path != "" {
		words = append(words, filepath.Base(d.Path))
	}
	switch {
	case d.Kind == load.SharedPrefix:
		asks := plain.Count(d.QuestionTokens, "token")
		words = append(words, fmt.Sprintf("%d × %d, %d + %s in", d.Groups, d.PromptsPerGroup, d.PrefixTokens, asks))
	case d.Kind == load.RandomConversation:
		asks := plain.Count(d.QuestionTokens, "token")
		words = append(words, fmt.Sprintf("%s, %d + %s in each", plain.Count(d.Turns, "turn"), d.PrefixTokens, asks))
	case d.Kind == load.RandomAgents:
		words = append(words, agentWords(d))
	case d.Kind == load.RandomRerank:
		words = append(words, fmt.Sprintf("%s of %s, query of %d", plain.Count(d.Documents, "document"),
			plain.Count(d.DocumentTokens, "token"), d.QueryTokens))
	case d.InputTokens > 0:
		words = append(words, plain.Count(d.InputTokens, "token")+" in")
	}
	if d.Images > 0 {
		words = append(words, "+ "+imageWords(d))
	}
	if d.Ranged() {
		words = append(words, fmt.Sprintf("range_ratio %v (%s)", *d.RangeRatio, cmp.Or(d.Convention, load.ConventionSGLang)))
	}
	if d.Slowdown > 0 && d.Slowdown != 1 {
		words = append(words, fmt.Sprintf("times between requests × %v", d.Slowdown))
	}
	if d.ThinkTime > 0 {
		words = append(words, fmt.Sprintf("think time %v", d.ThinkTime))
	}
	if d.ToolDelay > 0 {
		words = append(words, fmt.Sprintf("tool delay %v", d.ToolDelay))
	}
	if d.Arrivals == load.Recorded {
		words = append(words, "at recorded times")
	}
	if d.MaxDelay > 0 {
		words = append(words, fmt.Sprintf("no wait above %v", d.MaxDelay))
	}
	if d.History == load.Recorded {
		words = append(words, "told of recorded answers")
	}
	if d.Salt {
		words = append(words, "salted")
	}
	if d.OfModel != "" {
		words = append(words, "of model "+d.OfModel)
	}
	return strings.Join(words, " ")
}

// agentWords is "4 turns, 200 + 40 tokens in each, 2 sub-agents, 3 tool calls of 30".
func agentWords(d load.Dataset) string {
	words := fmt.Sprintf("%s, %d + %s in each", plain.Count(d.Turns, "turn"), d.PrefixTokens, plain.Count(d.QuestionTokens, "token"))
	if d.SubAgents > 0 {
		words += ", " + plain.Count(d.SubAgents, "sub-agent")
	}
	if d.ToolCalls > 0 {
		words += fmt.Sprintf(", %s of %d", plain.Count(d.ToolCalls, "tool call"), d.ResultTokens)
	}
	return words
}

// imageWords is "2 images (256x256 0.5, 1280x720 0.5)", or "1 to 3 images (…)".
func imageWords(d load.Dataset) string {
	each := d.ImagesEach()
	count := plain.Count(each.High, "image")
	if each.Low < each.High {
		count = fmt.Sprintf("%d to %s", each.Low, count)
	}
	return fmt.Sprintf("%s (%s)", count, d.ImageWords())
}

// common are the words that all these cells share, and in the place of every other an
// empty one.
func common(cells []*Cell) []string {
	all := cells[0].Task.words()
	for _, c := range cells[1:] {
		for i, word := range c.Task.words() {
			if word != all[i] {
				all[i] = ""
			}
		}
	}
	return all
}

// differs is what of a cell's load the others do not share.
func (c *Cell) differs(shared []string) string {
	words := c.Task.words()
	for i, word := range shared {
		if words[i] == word {
			words[i] = ""
		}
	}
	return said(words)
}

func said(words []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" }), ", ")
}
