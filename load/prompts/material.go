package prompts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"hclbench/load"
)

// enough is how many prompts are made ready for a run that only time ends.
const enough = 10_000

// Material is a data set made ready for a run.
type Material struct {
	Prompts func(use uint64) Prompts
	AsText  bool         // prompts are strings, also where they could be token ids
	Rows    []Row        // trace: when each request is due
	Talks   []talk       // conversation: instead of prompts
	source  *load.Source // nil: made here
}

// file is where a path of the data set lies on this machine.
func fileOf(j load.Job, path string) string { return cmp.Or(j.Files[path], path) }

// newMaterial reads what a job's data set needs. total is how many requests are
// measured; 0: nobody knows beforehand.
func Open(ctx context.Context, job load.Job, total int) (*Material, error) {
	switch d := job.Workload.Dataset; d.Kind {
	case load.Random:
		return &Material{Prompts: func(use uint64) Prompts { return NewRandomPrompts(job, use) }}, nil
	case load.SharedPrefix:
		return &Material{Prompts: func(use uint64) Prompts { return newSharedPrompts(job, use) }}, nil
	case load.ShareGPT:
		return shareGPT(ctx, job, total)
	case load.Text:
		return pieces(ctx, job)
	case load.JSONL:
		return jsonLines(ctx, job, total)
	case load.Conversation:
		return conversations(ctx, job, total)
	case load.Trace:
		return trace(job)
	default:
		return nil, fmt.Errorf("data set kind %q is not known", d.Kind)
	}
}

// Prompts makes the prompts that a job measures, without sending them and without a
// server: each as JSON, a list of token ids or a text, with the number of tokens
// that it asks for. The source is nil where no file was read.
func Make(ctx context.Context, job load.Job, each func(i int, prompt []byte, output int) error) (*load.Source, error) {
	if err := errors.Join(job.Workload.Dataset.Check(), job.Workload.Dataset.WithoutServer()); err != nil {
		return nil, err
	}
	n := job.Workload.Requests
	m, err := Open(ctx, job, n)
	if err != nil {
		return nil, err
	}
	all := m.Prompts(ForPrompt)
	var b []byte
	for i := range n {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		var output int
		b, _, output = all.Append(b[:0], i)
		if err := each(i, b, output); err != nil {
			return nil, err
		}
	}
	return m.Drawn(n, 0), nil
}

// ready makes material of the prompts that were read. The warm-up takes the last of
// them, to which the measurement comes last.
func ready(items []item, warmup int, source *load.Source) (*Material, error) {
	if len(items) == 0 {
		return nil, fmt.Errorf("no prompt is left: %d were too short or too long, and %d bad%s", source.LeftOut, source.Bad, firstOf(source.BadLines))
	}
	source.Prompts = len(items)
	return &Material{
		AsText: items[0].text != nil,
		source: source,
		Prompts: func(use uint64) Prompts {
			if use == ForWarmup {
				return newListed(items, max(0, len(items)-warmup))
			}
			return newListed(items, 0)
		},
	}, nil
}

// Drawn is the source of a run that has measured and warmed up with so many
// requests, or has begun so many conversations.
func (m *Material) Drawn(measured, warmed int) *load.Source {
	if m.source == nil {
		return nil
	}
	s := *m.source
	if m.Talks == nil {
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
func openFile(j load.Job, path string) (*os.File, error) {
	f, err := os.Open(fileOf(j, path))
	if err != nil {
		return nil, fmt.Errorf("open data set file %s: %w", filepath.Base(path), errors.Unwrap(err))
	}
	return f, nil
}
