package apply

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
)

// Log is a log that is wanted, and where it goes.
type Log struct {
	Engine *engines.Engine
	Follow bool
	Tail   int // how many of its last lines; -1: all of it
	Write  func([]byte) error
}

// Logs passes an engine's log, from its container or process, on as it comes, without
// its secrets and what is not fit for a terminal. It is an error that it breaks off.
func Logs(ctx context.Context, scope Scope, log Log, opt Options) error {
	e := log.Engine
	secrets := plain.NewSecrets(append(engines.Secrets(e), opt.Hub.Token)...)
	pass := func(ctx context.Context, c reached) (done bool, err error) {
		rt := runtime(c.docker)
		if engines.Runtime(e) == provision.Process {
			a, err := agent.Attach(ctx, c.conn, scope.Lab)
			if err != nil {
				return false, err
			}
			if a == nil {
				return false, fmt.Errorf("nothing of lab %s runs on %s", scope.Lab, e.Host)
			}
			defer a.Close()
			rt = agent.Processes{Client: a}
		}
		logs, err := log.open(ctx, rt, scope.Lab)
		if err != nil {
			return false, err
		}
		defer logs.Close()
		defer context.AfterFunc(ctx, func() { logs.Close() })()
		err = passOn(logs, log.Write, secrets)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return true, err
	}
	_, errs := visit(ctx, []*provision.Host{e.Host}, opt.filled(), pass)
	return errs[0]
}

func (l Log) open(ctx context.Context, rt runtime, lab string) (io.ReadCloser, error) {
	found, err := rt.List(ctx, map[string]string{plan.LabelLab: lab, plan.LabelEngine: l.Engine.Label()})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s does not run on %s", l.Engine, l.Engine.Host)
	}
	return rt.Logs(ctx, found[0].ID, l.Follow, l.Tail)
}

// longestLine is how much of a log is taken for one line, and longestSecret, how long a
// secret may be in one that is longer; in bytes.
const (
	longestLine   = 256 << 10
	longestSecret = 32 << 10
)

func passOn(log io.Reader, write func([]byte) error, secrets plain.Secrets) error {
	rest := "" // of a line that is longer: the beginning of a secret may be at its end
	for r := bufio.NewReaderSize(log, longestLine); ; {
		line, err := r.ReadSlice('\n')
		text := secrets.Text(rest + string(line))
		rest = ""
		if err == bufio.ErrBufferFull {
			cut := max(0, len(text)-longestSecret)
			text, rest = text[:cut], text[cut:]
		}
		if text != "" {
			if err := write([]byte(text)); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil && err != bufio.ErrBufferFull:
			return fmt.Errorf("the log breaks off: %w", err)
		}
	}
}
