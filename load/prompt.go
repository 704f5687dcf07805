package load

import (
	"math"
	"math/rand/v2"
	"strconv"
)

// Random token ids are drawn from [minID, maxID). Tokenizers keep their special
// tokens at either end: below some hundred ids (Llama 2, Mistral, Gemma) or
// above the whole vocabulary (Llama 3, Qwen, DeepSeek); and no model in use has
// fewer than 32,000 entries. So every id of the range is an ordinary token of
// every model, and none of them ends a text.
const (
	minID = 1000
	maxID = 30000
)

// What a random stream is for. Streams of different use never meet, so that a
// change in one (a longer prompt) leaves the others as they were.
const (
	forPrompt uint64 = iota + 1
	forWarmup
	forArrivals
	forGroup
	forBlock
	forOrder
)

// seed is that of a job's data set.
func (j Job) seed() uint64 { return j.Seed ^ scramble(j.Workload.Dataset.Seed) }

// random is the stream of request index, the same in whatever order requests
// are made.
func random(seed, use, index uint64) *rand.Rand {
	return rand.New(rand.NewPCG(scramble(seed^scramble(use)), scramble(index+seed)))
}

// scramble is the finaliser of SplitMix64: neighbouring seeds become unrelated.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// prompts makes the prompts of a run, or of its warm-up. Prompt i is the same in
// whatever order they are made, and several goroutines may make them.
type prompts interface {
	// append writes prompt i behind b as JSON: a list of token ids, or a string.
	// Input and output are the lengths that this request asks for; input is 0
	// where nobody has counted.
	append(b []byte, i int) (_ []byte, input, output int)
	// size is about how many bytes a prompt takes.
	size() int
}

// span is a range of lengths, both ends included.
type span struct{ low, high int }

// lengths is what a length and a range ratio mean in a convention. No length is
// below 1.
func lengths(n int, ratio *float64, convention string) span {
	if ratio == nil {
		return span{n, n}
	}
	l, r := float64(n), *ratio
	if convention == ConventionVLLM {
		return span{max(1, int(math.Floor(l*(1-r)))), max(1, int(math.Ceil(l*(1+r))))}
	}
	return span{max(1, int(l*r)), n}
}

func (s span) draw(r *rand.Rand) int { return s.low + r.IntN(s.high-s.low+1) }

// synthetic writes random tokens as JSON: a list of ids, or a string of words.
type synthetic struct {
	b     []byte
	words bool
	n     int // tokens so far
}

func newSynthetic(b []byte, words bool) synthetic {
	if words {
		return synthetic{b: append(b, '"'), words: true}
	}
	return synthetic{b: append(b, '[')}
}

// add draws n tokens from r.
func (s *synthetic) add(r *rand.Rand, n int) {
	b := s.b
	for range n {
		switch {
		case s.words && s.n > 0:
			b = append(b, ' ')
		case s.n > 0:
			b = append(b, ',')
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

func (s *synthetic) end() []byte {
	if s.words {
		return append(s.b, '"')
	}
	return append(s.b, ']')
}

// bytesPerToken is what a token id with its comma takes, as does a common word.
const bytesPerToken = 6

// randomPrompts are of kind [Random].
type randomPrompts struct {
	seed, use     uint64
	input, output span
	words         bool
}

func newRandomPrompts(job Job, use uint64) randomPrompts {
	w, d := job.Workload, job.Workload.Dataset
	return randomPrompts{
		seed: job.seed(), use: use, words: w.Endpoint == Chat,
		input:  lengths(d.InputTokens, d.RangeRatio, d.Convention),
		output: lengths(w.OutputTokens, d.RangeRatio, d.Convention),
	}
}

func (p randomPrompts) size() int { return bytesPerToken * p.input.high }

func (p randomPrompts) append(b []byte, i int) (_ []byte, input, output int) {
	r := random(p.seed, p.use, uint64(i))
	input, output = p.input.draw(r), p.output.draw(r)
	s := newSynthetic(b, p.words)
	s.add(r, input)
	return s.end(), input, output
}

// sharedPrompts are of kind [SharedPrefix]: each of a number of groups has a
// beginning of its own, and so many prompts that go on from there.
type sharedPrompts struct {
	seed, use                uint64
	prefix, question, output span
	each                     int   // prompts of a group
	order                    []int // of the prompts of all groups
	words                    bool
}

func newSharedPrompts(job Job, use uint64) sharedPrompts {
	w, d := job.Workload, job.Workload.Dataset
	span := func(n int) span { return lengths(n, d.RangeRatio, ConventionSGLang) }
	return sharedPrompts{
		seed: job.seed(), use: use, words: w.Endpoint == Chat,
		prefix: span(d.PrefixTokens), question: span(d.QuestionTokens), output: span(w.OutputTokens),
		each:  d.PromptsPerGroup,
		order: random(job.seed(), forOrder, use).Perm(d.Groups * d.PromptsPerGroup),
	}
}

func (p sharedPrompts) size() int { return bytesPerToken * (p.prefix.high + p.question.high) }

func (p sharedPrompts) append(b []byte, i int) (_ []byte, input, output int) {
	k := p.order[i%len(p.order)]
	group := random(p.seed^scramble(p.use), forGroup, uint64(k/p.each))
	own := random(p.seed, p.use, uint64(k))
	prefix, question, output := p.prefix.draw(group), p.question.draw(own), p.output.draw(own)
	s := newSynthetic(b, p.words)
	s.add(group, prefix)
	s.add(own, question)
	return s.end(), prefix + question, output
}

// vocabulary is common short English words, each one token in the tokenizers in
// use when a space goes before it. A prompt of n of them is about n tokens long:
// the server's own count is what is reported.
var vocabulary = [64]string{
	"the", "of", "and", "to", "in", "is", "that", "it", "was", "for", "on", "are", "as", "with", "they", "at",
	"be", "this", "from", "have", "or", "by", "one", "had", "not", "but", "what", "all", "were", "when", "we", "there",
	"can", "an", "your", "which", "their", "said", "if", "do", "will", "each", "about", "how", "up", "out", "them", "then",
	"she", "many", "some", "so", "these", "would", "other", "into", "has", "more", "her", "two", "like", "him", "see", "time",
}
