package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Source is what a data set that is read from files was made of, for the
// results.
type Source struct {
	Tokenizer string   `json:"tokenizer,omitempty"` // who counted: "tokenizer.json sha256:…", "server" or "none"
	SHA256    string   `json:"sha256,omitempty"`    // of the file that was read
	Prompts   int      `json:"prompts,omitempty"`   // different ones that there were to send; of conversations, how many; 0: not known
	LeftOut   int      `json:"left_out,omitempty"`  // by the filter, or as too short, before there were enough
	Bad       int      `json:"bad,omitempty"`       // entries of the file that could not be used
	BadLines  []string `json:"bad_lines,omitempty"` // the first few of them, and why
	Repeated  int      `json:"repeated,omitempty"`  // requests with a prompt that an earlier one had
	Warmed    int      `json:"warmed,omitempty"`    // different prompts, or conversations, that were measured and that the warm-up had sent before
	Measured  int      `json:"measured,omitempty"`  // of so many; 0 where Warmed is
}

// enough is how many prompts are made ready for a run that only time ends.
const enough = 10_000

// material is a data set made ready for a run.
type material struct {
	prompts func(use uint64) prompts
	asText  bool    // prompts are strings, also where they could be token ids
	rows    []row   // trace: when each request is due
	talks   []talk  // conversation: instead of prompts
	source  *Source // nil: made here
}

// Inputs returns the paths that the data set reads, as they are written: a path
// may be a folder. A job's Files says where each lies on the machine that runs it.
func (d Dataset) Inputs() []string {
	var paths []string
	for _, p := range []string{d.Path, d.Tokenizer} {
		if p != "" {
			paths = append(paths, p)
		}
	}
	return paths
}

// file is where a path of the data set lies on this machine.
func (j Job) file(path string) string { return cmp.Or(j.Files[path], path) }

// newMaterial reads what a job's data set needs. total is how many requests are
// measured; 0: nobody knows beforehand.
func newMaterial(ctx context.Context, job Job, total int) (*material, error) {
	switch d := job.Workload.Dataset; d.Kind {
	case Random:
		return &material{prompts: func(use uint64) prompts { return newRandomPrompts(job, use) }}, nil
	case SharedPrefix:
		return &material{prompts: func(use uint64) prompts { return newSharedPrompts(job, use) }}, nil
	case ShareGPT:
		return shareGPT(ctx, job, total)
	case Text:
		return pieces(ctx, job)
	case JSONL:
		return jsonLines(ctx, job, total)
	case Conversation:
		return conversations(ctx, job, total)
	case Trace:
		return trace(job)
	default:
		return nil, fmt.Errorf("data set kind %q is not known", d.Kind)
	}
}

// Prompts makes the prompts that a job measures, without sending them and without a
// server: each as JSON, a list of token ids or a text, with the number of tokens
// that it asks for. The source is nil where no file was read.
func Prompts(ctx context.Context, job Job, each func(i int, prompt []byte, output int) error) (*Source, error) {
	if err := errors.Join(job.Workload.Dataset.check(), job.Workload.Dataset.WithoutServer()); err != nil {
		return nil, err
	}
	n := job.Workload.Requests
	m, err := newMaterial(ctx, job, n)
	if err != nil {
		return nil, err
	}
	all := m.prompts(forPrompt)
	var b []byte
	for i := range n {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		var output int
		b, _, output = all.append(b[:0], i)
		if err := each(i, b, output); err != nil {
			return nil, err
		}
	}
	return m.drawn(n, 0), nil
}

// maxPrompts bounds the shuffled order of shared-prefix prompts.
const maxPrompts = 10_000_000

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

// ready makes material of the prompts that were read. The warm-up takes the last of
// them, to which the measurement comes last.
func ready(items []item, warmup int, source *Source) (*material, error) {
	if len(items) == 0 {
		return nil, fmt.Errorf("no prompt is left: %d were too short or too long, and %d bad%s", source.LeftOut, source.Bad, firstOf(source.BadLines))
	}
	source.Prompts = len(items)
	return &material{
		asText: items[0].text != nil,
		source: source,
		prompts: func(use uint64) prompts {
			if use == forWarmup {
				return newListed(items, max(0, len(items)-warmup))
			}
			return newListed(items, 0)
		},
	}, nil
}

// drawn is the source of a run that has measured and warmed up with so many
// requests, or has begun so many conversations.
func (m *material) drawn(measured, warmed int) *Source {
	if m.source == nil {
		return nil
	}
	s := *m.source
	if m.talks == nil {
		s.Repeated = max(0, measured-s.Prompts)
	}
	measured, warmed = min(measured, s.Prompts), min(warmed, s.Prompts)
	if again := measured + warmed - s.Prompts; again > 0 {
		s.Measured, s.Warmed = measured, again
	}
	return &s
}

func firstOf(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return " (" + lines[0] + ")"
}

// openFile opens a file of the data set.
func (j Job) openFile(path string) (*os.File, error) {
	f, err := os.Open(j.file(path))
	if err != nil {
		return nil, fmt.Errorf("open data set file %s: %w", filepath.Base(path), errors.Unwrap(err))
	}
	return f, nil
}
