package apply

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/kube"
)

// Log is a log that is wanted, and where it goes.
type Log struct {
	Engine *engines.Engine
	Follow bool
	Tail   int // how many of its last lines; -1: all of it
	Write  func([]byte) error
}

// Logs passes an engine's log, from its containers or processes, on as it comes, without
// its secrets and what is not fit for a terminal; of several members each line behind its
// member's name. It is an error that it breaks off.
func Logs(ctx context.Context, scope Scope, log Log, opt Options) error {
	var hosts []*provision.Host
	members := engines.Members(log.Engine)
	for _, m := range members {
		if !slices.Contains(hosts, m.Engine.Host) {
			hosts = append(hosts, m.Engine.Host)
		}
	}
	secrets := plain.NewSecrets(append(engines.Secrets(log.Engine), opt.Hub.Token)...)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var writing sync.Mutex
	pass := func(rt runtime, f provision.Found) error {
		write := log.Write
		if len(members) > 1 {
			write = behind(f.Labels[plan.LabelMember], func(text []byte) error {
				writing.Lock()
				defer writing.Unlock()
				err := log.Write(text)
				if err != nil {
					stop(err) // nobody reads any of them
				}
				return err
			})
		}
		logs, err := rt.Logs(ctx, f.ID, log.Follow, log.Tail)
		if err != nil {
			return err
		}
		defer logs.Close()
		defer context.AfterFunc(ctx, func() { logs.Close() })()
		return passOn(logs, write, secrets)
	}
	_, errs := visit(ctx, hosts, opt.filled(), func(ctx context.Context, c reached) (none struct{}, err error) {
		return none, eachOf(ctx, c, scope.Lab, log.Engine, pass)
	}, func(ctx context.Context, h *provision.Host, client *kube.Client) (none struct{}, err error) {
		pod, err := podOfHost(ctx, client, scope.Lab, h)
		if err != nil {
			return none, err
		}
		c, err := enter(ctx, h, pod, opt.filled())
		if err != nil {
			return none, err
		}
		defer c.conn.Close()
		return none, eachOf(ctx, c, scope.Lab, log.Engine, pass)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(errs...)
}

// eachOf does something with every container and process of an engine on a host, side by side.
func eachOf(ctx context.Context, c reached, lab string, e *engines.Engine, do func(runtime, provision.Found) error) error {
	byKind := map[provision.Runtime]runtime{}
	for _, m := range engines.Members(e) {
		if m.Engine.Host.Name == c.conn.Host().Name {
			byKind[engines.Runtime(m.Engine)] = c.docker
		}
	}
	if byKind[provision.Process] != nil {
		a, err := agent.Attach(ctx, c.conn, lab)
		if err != nil {
			return err
		}
		if a == nil {
			return fmt.Errorf("nothing of lab %s runs on %s", lab, c.conn.Host())
		}
		defer a.Close()
		byKind[provision.Process] = agent.Processes{Client: a}
	}
	var todo []func() error
	for _, rt := range byKind {
		found, err := rt.List(ctx, map[string]string{plan.LabelLab: lab, plan.LabelEngine: e.Label()})
		if err != nil {
			return err
		}
		for _, f := range found {
			todo = append(todo, func() error { return do(rt, f) })
		}
	}
	if len(todo) == 0 {
		return fmt.Errorf("%s does not run on %s", e, c.conn.Host())
	}
	errs := make([]error, len(todo))
	var all sync.WaitGroup
	for i := range todo {
		all.Go(func() { errs[i] = todo[i]() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// behind puts a name before each line.
func behind(name string, write func([]byte) error) func([]byte) error {
	return func(text []byte) error {
		return write(fmt.Appendf(nil, "%s | %s\n", name, bytes.TrimSuffix(text, []byte("\n"))))
	}
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
