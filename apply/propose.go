package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hclbench/plain"
	"hclbench/plan"
	"hclbench/program"
	"hclbench/results"
	"hclbench/tune"
)

// proposedBytes is the most that is read of what a proposer says.
const proposedBytes = 1 << 20

// ask asks the proposer of a tuning, once, and notes what it has said. Whatever is wrong with that is told, and costs nothing else.
func (r *run) ask(ctx context.Context, t *plan.Tune, search *tune.Tuning) error {
	asked := results.Asked{After: len(t.Ledger.Starts), Stages: search.StagesOver()}
	told := func(format string, args ...any) {
		text := r.keep.secrets.Text(plain.Cut(plain.Line(fmt.Sprintf(format, args...)), 400))
		asked.Told = append(asked.Told, text)
		r.at(t.Hold.Host).say(Warning, "tune %s: the proposer: %s", t.Name, text)
	}
	text := t.Proposer.Lines
	if t.Proposer.Command != nil {
		said, left, err := propose(ctx, r.plan.Dir, t.Proposer.Command, []byte(r.keep.secrets.Text(string(t.Known(search)))), plan.ProposeWithin)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if left {
			told("it left processes behind, which are ended")
		}
		if err != nil {
			told("%v; nothing of what it said is taken", err)
		}
		text = said
	}
	lines, more := t.Proposed(text)
	if more > 0 {
		told("it says %d lines; those after %d are not read", len(lines)+more, len(lines))
	}
	seen, wrong := map[string]bool{}, 0
	for i, line := range lines {
		var key string
		p, err := t.Propose(line)
		switch key = fmt.Sprintf("%q", p.Candidate); {
		case r.keep.secrets.Text(line) != line: // it would be kept as another
			err = errors.New("it has a secret, or what cannot be printed")
		case err == nil && seen[key]:
			err = fmt.Errorf("%s is there already", p.Candidate.Settings())
		}
		if err == nil {
			seen[key] = true
			asked.Lines = append(asked.Lines, line)
		} else if wrong++; wrong <= 5 {
			told("line %d: %v", i+1, err)
		}
	}
	if wrong > 5 {
		told("%s more that cannot be taken", plain.Count(wrong-5, "line"))
	}
	t.Ledger.Asked = append(t.Ledger.Asked, asked)
	return r.keep.ledger(ctx, t)
}

// propose runs a proposer in a folder, and returns what it has said, unless it failed, and whether it has left processes, which are ended.
func propose(ctx context.Context, dir string, command []string, known []byte, within time.Duration) (said string, left bool, err error) {
	ran, err := program.Call{Words: command, Dir: dir, In: known, Within: within, Most: proposedBytes}.Run(ctx)
	if err != nil && ran.Err != "" && !errors.Is(err, program.ErrCutOff) {
		err = fmt.Errorf("%w: %s", err, ran.Err)
	}
	if err != nil {
		return "", ran.Left, err
	}
	return ran.Out, ran.Left, nil
}
