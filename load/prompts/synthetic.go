package prompts

import (
	"context"
	"math/rand/v2"
	"strconv"

	"hclbench/load"
)

// Random token ids are drawn from [minID, maxID). Tokenizers keep their special tokens at either
// end: below some hundred ids (Llama 2, Mistral, Gemma) or above the whole vocabulary (Llama 3,
// Qwen, DeepSeek); and no model in use has fewer than 32,000 entries. So every id of the range is
// an ordinary token of every model, and none of them ends a text.
const (
	minID = 1000
	maxID = 30000
)

// length draws one of a span.
func length(s load.Span, r *rand.Rand) int { return s.Low + r.IntN(s.High-s.Low+1) }

// synthetic writes random tokens as JSON: a list of ids, or a string of words.
type synthetic struct {
	b            []byte
	words        bool
	between, end byte
	n            int // tokens so far
}

func newSynthetic(b []byte, words bool) synthetic {
	if words {
		return synthetic{b: append(b, '"'), words: true, between: ' ', end: '"'}
	}
	return synthetic{b: append(b, '['), between: ',', end: ']'}
}

// add draws n tokens from r.
func (s *synthetic) add(r *rand.Rand, n int) {
	b := s.b
	for range n {
		if s.n > 0 {
			b = append(b, s.between)
		}
		if s.words {
			b = append(b, vocabulary[r.IntN(len(vocabulary))]...)
		} else {
			b = strconv.AppendInt(b, int64(minID+r.IntN(maxID-minID)), 10)
		}
		s.n++
	}
	s.b = b
}

type randomPrompts struct {
	seed, use     uint64
	input, output load.Span
	words         bool
}

// randomTokens are made here, and so nothing is read.
func randomTokens(_ context.Context, job load.Job, _ int) (*Set, error) {
	return &Set{rows: func(use uint64) maker { return newRandomPrompts(job, use) }}, nil
}

func newRandomPrompts(job load.Job, use uint64) randomPrompts {
	w, d := job.Workload, job.Workload.Dataset
	return randomPrompts{
		seed: Seed(job), use: use, words: w.SendsText(),
		input:  load.Lengths(d.InputTokens, d.RangeRatio, d.Convention),
		output: load.Lengths(w.OutputTokens, d.RangeRatio, d.Convention),
	}
}

func (p randomPrompts) append(b []byte, i int) ([]byte, ask) {
	r := Random(p.seed, p.use, uint64(i))
	input, output := length(p.input, r), length(p.output, r)
	s := newSynthetic(b, p.words)
	s.add(r, input)
	return append(s.b, s.end), ask{input: input, output: output}
}

// sharedPrompts are of kind [SharedPrefix]: each of a number of groups has a
// beginning of its own, and so many prompts that go on from there.
type sharedPrompts struct {
	seed, use                uint64
	prefix, question, output load.Span
	each                     int   // prompts of a group
	order                    []int // of the prompts of all groups
	words                    bool
}

func sharedPrefixes(_ context.Context, job load.Job, _ int) (*Set, error) {
	return &Set{rows: func(use uint64) maker { return newSharedPrompts(job, use) }}, nil
}

func newSharedPrompts(job load.Job, use uint64) sharedPrompts {
	w, d := job.Workload, job.Workload.Dataset
	span := func(n int) load.Span { return load.Lengths(n, d.RangeRatio, load.ConventionSGLang) }
	return sharedPrompts{
		seed: Seed(job), use: use, words: w.SendsText(),
		prefix: span(d.PrefixTokens), question: span(d.QuestionTokens), output: span(w.OutputTokens),
		each:  d.PromptsPerGroup,
		order: Random(Seed(job), forOrder, use).Perm(d.Groups * d.PromptsPerGroup),
	}
}

func (p sharedPrompts) append(b []byte, i int) ([]byte, ask) {
	k := p.order[i%len(p.order)]
	group := Random(p.seed^scramble(p.use), forGroup, uint64(k/p.each))
	own := Random(p.seed, p.use, uint64(k))
	prefix, question, output := length(p.prefix, group), length(p.question, own), length(p.output, own)
	s := newSynthetic(b, p.words)
	s.add(group, prefix)
	s.add(own, question)
	return append(s.b, s.end), ask{input: prefix + question, output: output}
}

// randomTalks are conversations whose users say random words: each its own, behind a beginning that all have.
func randomTalks(_ context.Context, job load.Job, _ int) (*Set, error) {
	w, d, seed := job.Workload, job.Workload.Dataset, Seed(job)
	span := func(n int) load.Span { return load.Lengths(n, d.RangeRatio, load.ConventionSGLang) }
	turns, question, output := span(d.Turns), span(d.QuestionTokens), span(w.OutputTokens)
	say := func(b []byte, role string, r *rand.Rand, n int) []byte {
		s := newSynthetic(nil, true)
		s.add(r, n)
		return appendMessage(b, role, append(s.b, s.end))
	}
	return &Set{form: load.Messages, talk: func(use uint64, n int) (int, func(grant) Session) {
		return length(turns, Random(seed, use, uint64(n))), dialogued(func(i int) (t turn) {
			r := Random(seed^scramble(use), forTurn, uint64(n)<<32|uint64(i))
			if i == 0 && d.PrefixTokens > 0 {
				t.says = say(nil, roleSystem, Random(seed^scramble(use), forGroup, 0), d.PrefixTokens)
			}
			t.says, t.output = say(t.says, roleUser, r, length(question, r)), length(output, r)
			return t
		})
	}}, nil
}

// vocabulary is common short English words, each one token in the tokenizers in
// use when a space goes before it. A prompt of n of them is about n tokens long:
// the server's own count is what is reported.
var vocabulary = [64]string{
	"the", "of", "and", "to", "in", "is", "that", "it", "was", "for", "on", "are", "as", "with", "they", "at",
	"be", "this", "from", "have", "or", "by", "one", "had", "not", "but", "what", "all", "were", "when", "we",
	"there", "can", "an", "your", "which", "their", "said", "if", "do", "will", "each", "about", "how", "up",
	"out", "them", "then", "she", "many", "some", "so", "these", "would", "other", "into", "has", "more",
	"her", "two", "like", "him", "see", "time",
}
