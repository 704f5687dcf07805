package load

import (
	"fmt"
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
)

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

// prompts makes the prompts of one run.
type prompts struct {
	seed          uint64
	use           uint64
	input, output span
	words         bool // text of words instead of token ids
}

func newPrompts(job Job, use uint64) prompts {
	d := job.Workload.Dataset
	return prompts{
		seed:   job.Seed ^ scramble(d.Seed),
		use:    use,
		input:  lengths(d.InputTokens, d.RangeRatio, d.Convention),
		output: lengths(job.Workload.OutputTokens, d.RangeRatio, d.Convention),
		words:  job.Workload.Endpoint == Chat,
	}
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

// append writes prompt i as JSON behind b: a list of token ids, or a string of
// words. Input and output are the lengths that this request asks for.
func (p prompts) append(b []byte, i int) (_ []byte, input, output int) {
	r := random(p.seed, p.use, uint64(i))
	input, output = p.input.draw(r), p.output.draw(r)
	if p.words {
		return appendWords(b, r, input), input, output
	}
	b = append(b, '[')
	for j := range input {
		if j > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(minID+r.IntN(maxID-minID)), 10)
	}
	return append(b, ']'), input, output
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

func appendWords(b []byte, r *rand.Rand, n int) []byte {
	b = append(b, '"')
	for j := range n {
		if j > 0 {
			b = append(b, ' ')
		}
		b = append(b, vocabulary[r.IntN(len(vocabulary))]...)
	}
	return append(b, '"')
}

// check reports what is wrong with a data set.
func (d Dataset) check() error {
	switch {
	case d.Kind != Random:
		return fmt.Errorf("data set kind %q: this version knows %q", d.Kind, Random)
	case d.InputTokens < 1:
		return fmt.Errorf("input tokens %d: at least 1 is needed", d.InputTokens)
	case d.Convention != "" && d.Convention != ConventionSGLang && d.Convention != ConventionVLLM:
		return fmt.Errorf("convention %q: write %q or %q", d.Convention, ConventionSGLang, ConventionVLLM)
	case d.RangeRatio != nil && !(*d.RangeRatio >= 0 && *d.RangeRatio <= 1):
		return fmt.Errorf("range ratio %v: it lies between 0 and 1", *d.RangeRatio)
	}
	return nil
}
