package place

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/flow"
	"hclbench/plain"
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
	var hosts []*provision.Host // none of an engine that others run
	members := engines.Members(log.Engine)
	if log.Engine.Manifests != nil || members != nil {
		hosts = log.Engine.Placement.Hosts()
	}
	secrets := plain.NewSecrets(append(engines.Secrets(log.Engine), opt.Hub.Token)...)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var writing sync.Mutex
	pass := func(name string, logs io.ReadCloser, err error) error {
		if err != nil {
			return err
		}
		defer logs.Close()
		defer context.AfterFunc(ctx, func() { logs.Close() })()
		write := log.Write
		if len(members) != 1 {
			write = func(text []byte) error {
				writing.Lock()
				defer writing.Unlock()
				err := log.Write(fmt.Appendf(nil, "%s | %s\n", name, bytes.TrimSuffix(text, []byte("\n"))))
				if err != nil {
					stop(err) // nobody reads any of them
				}
				return err
			}
		}
		return passOn(logs, write, secrets)
	}
	passFound := func(rt looking, f provision.Found) error {
		logs, err := rt.Logs(ctx, f.ID, log.Follow, log.Tail)
		return pass(f.Labels[provision.LabelMember], logs, err)
	}
	_, errs := visit(ctx, scope, hosts, opt.Filled(), func(ctx context.Context, c Reached) (none struct{}, err error) {
		return none, eachOf(ctx, c, scope.Lab, log.Engine, passFound)
	}, func(ctx context.Context, h *provision.Host, client *kube.Client) (none struct{}, err error) {
		if log.Engine.Manifests != nil {
			return none, eachOfRoles(ctx, client, log, pass)
		}
		pod, err := podOfHost(ctx, client, scope.Lab, h)
		if err != nil {
			return none, err
		}
		c, err := enter(ctx, h, pod, opt.Filled())
		if err != nil {
			return none, err
		}
		defer c.Conn.Close()
		return none, eachOf(ctx, c, scope.Lab, log.Engine, passFound)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(errs...)
}

// eachOf does something with every container and process of an engine on a host, side by side.
func eachOf(ctx context.Context, c Reached, lab string, e *engines.Engine, do func(looking, provision.Found) error) error {
	byKind := map[provision.Runtime]looking{}
	for _, m := range engines.Members(e) {
		if m.Engine.Host().Name == c.Conn.Host().Name {
			byKind[engines.Runtime(m.Engine)] = c.Docker
		}
	}
	if byKind[provision.Process] != nil {
		a, err := agent.Attach(ctx, c.Conn, lab)
		if err != nil {
			return err
		}
		if a == nil {
			return fmt.Errorf("nothing of lab %s runs on %s", lab, c.Conn.Host())
		}
		defer a.Close()
		byKind[provision.Process] = agent.Processes{Client: a}
	}
	var todo []func() error
	for _, rt := range byKind {
		found, err := rt.List(ctx, map[string]string{provision.LabelAgent: agent.Dir(c.Conn, lab), provision.LabelEngine: e.Label()})
		if err != nil {
			return err
		}
		for _, f := range found {
			todo = append(todo, func() error { return do(rt, f) })
		}
	}
	if len(todo) == 0 {
		return fmt.Errorf("%s does not run on %s", e, c.Conn.Host())
	}
	return flow.Each(todo, func(_ int, follow func() error) error { return follow() })
}

const noRolePods = "%s: no pod in namespace %s that the selectors of its roles select has begun"

// eachOfRoles passes on what the pods of an engine of manifests write, side by side.
func eachOfRoles(
	ctx context.Context, client *kube.Client, log Log, pass func(string, io.ReadCloser, error) error,
) error {
	logs, err := client.Logs(ctx, log.Engine.Manifests.Roles)
	if err != nil {
		return err
	}
	var todo []func() error
	for _, l := range logs {
		todo = append(todo, func() error {
			text, err := l.Open(ctx, log.Follow, log.Tail)
			return pass(l.String(), text, err)
		})
	}
	if len(todo) == 0 {
		return fmt.Errorf(noRolePods, log.Engine, client.Namespace())
	}
	return flow.Each(todo, func(_ int, follow func() error) error { return follow() })
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
