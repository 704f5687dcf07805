package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"hclbench/plain"
	"hclbench/plan"
	"hclbench/results"
	"hclbench/tune"
)

// The most that is read of what a proposer says, and of why it has failed.
const (
	proposedBytes = 1 << 20
	complaint     = 4 << 10
)

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

// propose runs a proposer in a folder, and returns what it has said, unless it failed, and whether it has left processes, which are
// ended. It gets no variables but those that say where things are: others may be secrets.
func propose(ctx context.Context, dir string, command []string, known []byte, within time.Duration) (said string, left bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("it has not ended within %s", within))
	defer cancel()
	stop, done := context.WithCancelCause(ctx)
	defer done(nil)
	cmd := exec.CommandContext(stop, command[0], command[1:]...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(known)
	for _, name := range []string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	out := &bounded{most: proposedBytes, full: func() { done(fmt.Errorf("it says more than %d bytes", proposedBytes)) }}
	words := &bounded{most: complaint}
	cmd.Stdout, cmd.Stderr = out, words
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	err = cmd.Run()
	if cmd.Process != nil {
		left = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) == nil
	}
	switch {
	case stop.Err() != nil:
		return "", false, context.Cause(stop)
	case errors.Is(err, exec.ErrWaitDelay): // who holds its output is ended
		left, err = true, nil
	case err != nil && words.text.Len() > 0:
		return "", left, fmt.Errorf("%w: %s", err, strings.TrimSpace(words.text.String()))
	case err != nil:
		return "", left, err
	}
	return out.text.String(), left, nil
}

// bounded keeps the first of what is written to it.
type bounded struct {
	text bytes.Buffer
	most int
	full func() // called when there is more; nil: nobody wants to know
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.most-b.text.Len())
	b.text.Write(p[:n])
	if n < len(p) && b.full != nil {
		b.full()
	}
	return len(p), nil
}
