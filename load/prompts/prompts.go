// Package prompts makes what a load asks: each kind of data set is one entry of a
// table, and says how its prompts, or its conversations, are read or drawn.
package prompts

import (
	"sync/atomic"

	"hclbench/load"
)

// maker makes the prompts of a run, or of its warm-up. Prompt i is the same in
// whatever order they are made, and several goroutines may make them.
type maker interface {
	// append writes prompt i behind b as JSON: a list of token ids, or a string.
	// Input and output are the lengths that this request asks for; input is 0
	// where nobody has counted.
	append(b []byte, i int) (_ []byte, input, output int)
	// size is about how many bytes a prompt takes.
	size() int
}

// rows are prompts that each stand alone.
type rows struct {
	maker
	template load.Template
	total    int // 0: as many as are asked for
	next     atomic.Int64
}

func (q *rows) Next() (Session, bool) {
	i := int(q.next.Add(1)) - 1
	return &row{q, i}, q.total == 0 || i < q.total
}

func (q *rows) Begun() int {
	if n := int(q.next.Load()); q.total == 0 || n < q.total {
		return n
	}
	return q.total
}

// row is a session of one request.
type row struct {
	of *rows
	i  int
}

func (r *row) Request() Request {
	prompt, input, output := r.of.append(make([]byte, 0, r.of.size()+2), r.i)
	return Request{Seq: r.i, Body: r.of.template.Fill(prompt, output), Input: input, Output: output}
}

func (*row) Listens() bool { return false }

func (*row) Heard(bool, []byte) bool { return false }

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

func (l listed) size() int { return l.bytes }

func (l listed) append(b []byte, i int) (_ []byte, input, output int) {
	it := &l.items[(i+l.skip)%len(l.items)]
	if it.text != nil {
		return append(b, it.text...), it.input, it.output
	}
	return appendIDs(b, it.ids), it.input, it.output
}
