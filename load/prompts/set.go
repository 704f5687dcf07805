package prompts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"hclbench/load"
)

const enough = 10_000 // how many prompts, or conversations, are made ready for a run that only time ends

// Set is a data set made ready for a run.
type Set struct {
	Due   []time.Duration // of recorded times: when each session begins; nil: the load says
	Total int             // where Due says: how many requests the sessions have

	rows   func(use uint64) maker
	form   load.Form
	salt   bool
	seed   uint64
	think  load.Duration
	silent bool // its requests generate nothing
	// the n-th conversation of all, by whichever client: how many turns it has, and what begins it; nil: prompts
	// stand alone
	talk   func(use uint64, n int) (turns int, begin func(grant) Session)
	source *load.Source // nil: made here
	// of the bodies of requests, by the adapter that they go to; empty: the model itself
	templates map[string]load.Template
	workload  load.Workload
	slice     load.Slice // that is sent from here
}

// kind is how data sets of one kind are made ready.
type kind struct {
	// open reads what is needed; total is how many requests are measured, 0: nobody
	// knows beforehand.
	open func(ctx context.Context, job load.Job, total int) (*Set, error)
	// check says what makes its files no use. Nil: it has none.
	check func(job load.Job) error
}

// kinds are all of them, by their names.
func kinds() map[string]kind {
	return map[string]kind{
		load.Random:       {open: randomTokens},
		load.SharedPrefix: {open: sharedPrefixes},
		load.ShareGPT:     {shareGPT, checkEntries(firstTurns)},
		load.Text:         {pieces, checkCorpus},
		load.JSONL:        {jsonLines, checkLines},
		load.Conversation: {conversations, checkEntries(parseTalk)},
		load.Trace:        {trace, checkTrace},

		load.RandomRerank:       {open: randomRanks},
		load.RandomConversation: {open: randomTalks},
		load.RandomImages:       {open: randomImages},
		load.RandomAgents:       {open: randomAgents},
		load.Weka:               {weka, checkEntries(parseWeka)},
	}
}

// soundFor says what is wrong with an entry as its parser does.
func soundFor[T any](parse func(load.Workload, []byte) (T, error)) func(load.Workload, []byte) error {
	return func(w load.Workload, raw []byte) error {
		_, err := parse(w, raw)
		return err
	}
}

// Open reads what a job's data set needs, which has been checked. total is how many requests are measured; 0:
// nobody knows beforehand.
func Open(ctx context.Context, job load.Job, total int) (*Set, error) {
	read := job
	if each := job.Workload.BatchSize; each > 1 {
		total *= each
		read.Workload.Warmup *= each
	}
	set, err := kinds()[job.Workload.Dataset.Kind].open(ctx, read, total)
	if err != nil {
		return nil, err
	}
	d := job.Workload.Dataset
	set.salt, set.seed, set.think = d.Salt, Seed(job), d.ThinkTime
	set.slice = job.Slice()
	set.silent = !job.Workload.Generates()
	set.workload, set.templates = job.Workload, map[string]load.Template{}
	for _, a := range append(slices.Clone(job.Workload.Adapters), load.Adapter{}) { // and the model itself
		if set.templates[a.Name], err = load.NewTemplate(job.Target, job.Workload, set.form, a.Name); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// adapted is the adapter that the n-th prompt, or conversation, goes to: the same whoever sends it.
func (s *Set) adapted(use uint64, n int) string {
	if len(s.workload.Adapters) == 0 {
		return ""
	}
	return s.workload.Adapted(Random(s.seed^scramble(use), forAdapter, uint64(n)).Float64())
}

// Queue are the job's sessions of a warm-up or a measurement of so many requests in all; 0: until
// time is up.
func (s *Set) Queue(use uint64, total int) Queue {
	if s.talk != nil {
		return &talks{set: s, use: use, total: s.queued(use, total)}
	}
	return &rows{maker: s.maker(use), set: s, use: use, total: s.queued(use, total)}
}

// Share is how many of so many requests are this client's.
func (s *Set) Share(use uint64, total int) int {
	if s.talk != nil {
		return (&talks{set: s, use: use}).share(total)
	}
	return s.slice.Count(total)
}

// queued is the total of a queue, of which 0 is no limit.
func (s *Set) queued(use uint64, total int) int {
	if total == 0 {
		return 0
	}
	return cmp.Or(s.Share(use, total), none)
}

const none = -1 // of a total: another client sends all of it

// fileOf is where a path of the data set lies on this machine.
func fileOf(j load.Job, path string) string { return cmp.Or(j.Files[path], path) }

// Make makes the prompts that a job measures, without sending them and without a
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
	all := m.maker(ForPrompt)
	var b []byte
	for i := range n {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		var a ask
		b, a = all.append(b[:0], i)
		if len(a.members) > 0 {
			return nil, fmt.Errorf("an entry asks for %s, which no engine's own benchmark takes: measure it with a load", a.members)
		}
		if err := each(i, b, a.output); err != nil {
			return nil, err
		}
	}
	return m.Drawn(n, 0), nil
}

// Drawn is the source of a run that has measured and warmed up with so many sessions. That of a
// share only counts them: what was sent twice, all clients tell together.
func (m *Set) Drawn(measured, warmed int) *load.Source {
	if m.source == nil {
		return nil
	}
	each := max(1, m.workload.BatchSize)
	measured, warmed = measured*each, warmed*each
	if m.workload.Dataset.Fresh() {
		return new(*m.source) // each is like no other
	}
	if !m.slice.Whole() {
		s := *m.source
		s.Sessions, s.WarmupSessions = measured, warmed
		return &s
	}
	return new(m.source.Drawn(measured, warmed))
}

func firstOf(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return " (" + lines[0] + ")"
}
