// Package prompts makes what a load asks: each kind of data set is one entry of a
// table, and says how its prompts, or its conversations, are read or drawn.
package prompts

import (
	"hclbench/load"
)

// body is the body of request i and the lengths that it asks for.
func body(t load.Template, p Prompts, i int) (b []byte, input, output int) {
	prompt, input, output := p.Append(make([]byte, 0, p.Size()+2), i)
	return t.Fill(prompt, output), input, output
}

// item is one prompt that was read: token ids or, without a tokenizer, a string
// as JSON.
type item struct {
	ids           []int32
	text          []byte
	input, output int // input is 0 where nobody has counted
}

// listed are prompts that were read from a file, in their order and, when there
// are not enough, again from the beginning.
type listed struct {
	items []item
	skip  int
	bytes int
}

func newListed(items []item, skip int) listed {
	l := listed{items: items, skip: skip}
	for _, it := range items {
		l.bytes = max(l.bytes, bytesPerToken*len(it.ids)+len(it.text))
	}
	return l
}

func (l listed) Size() int { return l.bytes }

func (l listed) Append(b []byte, i int) (_ []byte, input, output int) {
	it := &l.items[(i+l.skip)%len(l.items)]
	if it.text != nil {
		return append(b, it.text...), it.input, it.output
	}
	return appendIDs(b, it.ids), it.input, it.output
}

// Prompts makes the prompts of a run, or of its warm-up. Prompt i is the same in
// whatever order they are made, and several goroutines may make them.
type Prompts interface {
	// append writes prompt i behind b as JSON: a list of token ids, or a string.
	// Input and output are the lengths that this request asks for; input is 0
	// where nobody has counted.
	Append(b []byte, i int) (_ []byte, input, output int)
	// size is about how many bytes a prompt takes.
	Size() int
}
