package prompts

import (
	"context"
	"encoding/json"
	"errors"

	"hclbench/load"
)

// What is asked of endpoints that generate nothing: prompts to embed, several in a request, and documents to
// order by a query.

// batched makes lists of prompts, one for each request.
type batched struct {
	maker
	size int
}

func (m batched) append(b []byte, i int) ([]byte, ask) {
	all := ask{texts: m.size}
	counted := true
	for k := range m.size {
		var one ask
		b = append(b, "[,"[min(k, 1)])
		b, one = m.maker.append(b, i*m.size+k)
		all.input += one.input
		counted = counted && one.input > 0
	}
	if !counted {
		all.input = 0
	}
	return append(b, ']'), all
}

// rankedPrompts are queries and documents of random words.
type rankedPrompts struct {
	seed, use       uint64
	documents       int
	query, document load.Span
}

func randomRanks(_ context.Context, job load.Job, _ int) (*Set, error) {
	d := job.Workload.Dataset
	span := func(n int) load.Span { return load.Lengths(n, d.RangeRatio, load.ConventionSGLang) }
	return &Set{form: load.Words, rows: func(use uint64) maker {
		return rankedPrompts{Seed(job), use, d.Documents, span(d.QueryTokens), span(d.DocumentTokens)}
	}}, nil
}

func (p rankedPrompts) append(b []byte, i int) ([]byte, ask) {
	r := Random(p.seed, p.use, uint64(i))
	query := newSynthetic(b, true)
	query.add(r, length(p.query, r))
	a := ask{texts: p.documents}
	list := []byte(`"documents":`)
	for k := range p.documents {
		one := newSynthetic(append(list, "[,"[min(k, 1)]), true)
		one.add(r, length(p.document, r))
		list = append(one.b, one.end)
		a.input += query.n + one.n // the server reads the query with each
	}
	a.members = append(list, ']')
	return append(query.b, query.end), a
}

// ranking is a query and the documents that are to be ordered by it.
type ranking struct {
	query     string
	documents []string // nil: it is none
}

// ranked is an entry's ranking, or what is wrong with it.
func (l line) ranked() (r ranking, err error) {
	switch {
	case l.Prompt != nil || l.Messages != nil:
		return r, errors.New("the endpoint \"rerank\" takes a \"query\" and \"documents\", and no prompt")
	case json.Unmarshal(l.Query, &r.query) != nil || r.query == "":
		return r, errors.New("no text \"query\"")
	case json.Unmarshal(l.Documents, &r.documents) != nil || len(r.documents) == 0:
		return r, errors.New("no list \"documents\" of texts")
	}
	return r, nil
}

// item adds the ranking to what is asked; t counts its tokens where it does so here, and not at the server.
func (k ranking) item(ctx context.Context, t tokens, it item) (item, error) {
	it.text, it.texts = quoted(k.query), len(k.documents)
	list := []byte(`"documents":`)
	for i, d := range k.documents {
		list = append(append(list, "[,"[min(i, 1)]), quoted(d)...)
	}
	if list = append(list, ']'); len(it.members) > 0 {
		list = append(append(list, ','), it.members...)
	}
	it.members = list
	if _, here := t.(fileTokens); !here {
		return it, nil
	}
	query, err := t.encode(ctx, k.query)
	for _, d := range k.documents {
		document, bad := t.encode(ctx, d)
		it.input, err = it.input+len(query)+len(document), errors.Join(err, bad)
	}
	return it, err
}
