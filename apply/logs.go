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

// Logs passes an engine's log, from its container or process, on as it comes, without
// its secrets and what is not fit for a terminal. It is an error that it breaks off.
func Logs(ctx context.Context, scope Scope, e *engines.Engine, follow bool, tail int, opt Options, write func([]byte) error) error {
	secrets := plain.NewSecrets(append(engines.Secrets(e), opt.Hub.Token)...)
	_, errs := visit(ctx, []*provision.Host{e.Host}, opt.filled(), func(ctx context.Context, c reached) (done bool, err error) {
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
		logs, err := logOf(ctx, rt, scope.Lab, e, follow, tail)
		if err != nil {
			return false, err
		}
		defer logs.Close()
		defer context.AfterFunc(ctx, func() { logs.Close() })()
		err = passOn(logs, write, secrets)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return true, err
	})
	return errs[0]
}

// logOf opens the log of a lab's engine.
func logOf(ctx context.Context, rt runtime, lab string, e *engines.Engine, follow bool, tail int) (io.ReadCloser, error) {
	found, err := rt.List(ctx, map[string]string{plan.LabelLab: lab, plan.LabelEngine: e.Label()})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s does not run on %s", e, e.Host)
	}
	return rt.Logs(ctx, found[0].ID, follow, tail)
}

// longestLine is how much of a log is taken for one line, and longestSecret, how long a
// secret may be in one that is longer; in bytes.
const (
	longestLine   = 256 << 10
	longestSecret = 32 << 10
)

// passOn writes a log to its end, line by line.
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
