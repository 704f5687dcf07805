package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/docker"
	"hclbench/provision/look"
	"hclbench/provision/reach"
)

// Unclean is what a host is left with that could not be cleaned. It is kept on
// the host, so that whoever comes next is told, whatever has become of the caller.
type Unclean struct {
	Time   time.Time        `json:"time"`
	Lab    string           `json:"lab"`
	Run    string           `json:"run"`
	Holder string           `json:"holder"`
	Left   []string         `json:"left"`   // what, and what holds it
	Traces provision.Traces `json:"traces"` // what to look for, to see whether it is gone
}

func uncleanFile(c *reach.Conn) string { return noteOf(c, "unclean") }

// MarkUnclean notes on the host that the tear-down of a run has failed with err.
func MarkUnclean(ctx context.Context, c *reach.Conn, l Lease, traces provision.Traces, err error) error {
	u := Unclean{Time: time.Now(), Lab: l.Lab, Run: l.Run, Holder: l.Holder, Traces: traces, Left: []string{err.Error()}}
	if unclean, ok := errors.AsType[*provision.UncleanError](err); ok {
		u.Left = unclean.Left
	}
	b, err := json.Marshal(u)
	if err != nil {
		return err
	}
	file := uncleanFile(c)
	_, err = c.Run(ctx, fmt.Sprintf("umask 077 && mkdir -p %s && cat >%[2]s.new && mv %[2]s.new %[2]s", plain.Quote(path.Dir(file)), plain.Quote(file)), bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("note that the host is unclean: %w", err)
	}
	return nil
}

// ReadUnclean returns what an earlier run has left on the host, nil for nothing.
func ReadUnclean(ctx context.Context, c *reach.Conn) (*Unclean, error) {
	return readNote[Unclean](ctx, c, uncleanFile(c))
}

// readNote reads what hcl has noted in a file on the host; nil for nothing.
func readNote[T any](ctx context.Context, c *reach.Conn, file string) (*T, error) {
	out, err := c.Run(ctx, fmt.Sprintf("if test -e %[1]s; then cat %[1]s; fi", plain.Quote(file)), nil)
	if err != nil || strings.TrimSpace(out) == "" {
		return nil, err
	}
	note := new(T)
	if err := json.Unmarshal([]byte(out), note); err != nil {
		return nil, fmt.Errorf("%s: read %s there: %w", c.Host(), file, err)
	}
	return note, nil
}

// ForgetUnclean removes the note.
func ForgetUnclean(ctx context.Context, c *reach.Conn) error {
	_, err := c.Run(ctx, "rm -f "+plain.Quote(uncleanFile(c)), nil)
	return err
}

// downWithin bounds how long an agent whose time is over takes for cleaning up, and
// sweepWithin, how much of that for a Docker daemon that does not answer.
const (
	downWithin  = 5 * time.Minute
	sweepWithin = downWithin - time.Minute
)

// sweep removes the lab's containers, in their own graceful way, and proves that the
// host is free again.
func (s *server) sweep(ctx context.Context, l Lease) error {
	traces := l.Traces
	traces.Mark = s.Dir + "/"
	var failed error
	if l.Docker != "" {
		// A daemon that is restarted or upgraded in this moment is waited for: nobody else will come.
		policy := backoff.NewExponentialBackOff()
		policy.InitialInterval, policy.MaxInterval = time.Second, 10*time.Second
		_, failed = backoff.Retry(ctx, func() (struct{}, error) {
			err := s.removeContainers(ctx, l, &traces)
			if err != nil {
				s.Log.Warn("remove the lab's containers", "err", err)
			}
			return struct{}{}, err
		}, backoff.WithBackOff(policy), backoff.WithMaxElapsedTime(sweepWithin))
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), downWithin)
	defer done()
	c, err := s.withDocker(ctx, l)
	if err != nil {
		return errors.Join(failed, err)
	}
	defer c.Close()
	others, unclean := look.ProveGone(ctx, c, traces, cmp.Or(s.Release, provision.ReleaseWait))
	if len(others) > 0 {
		s.Log.Warn("others use the GPUs", "processes", others)
	}
	if err = errors.Join(failed, unclean); err == nil {
		s.Log.Info("the host is free again")
		return nil
	}
	return errors.Join(err, MarkUnclean(ctx, c, l, traces, err))
}

func (s *server) withDocker(ctx context.Context, l Lease) (*reach.Conn, error) {
	return reach.Dial(ctx, &provision.Host{Name: "local", Address: provision.LocalAddress, Docker: l.Docker}, reach.SSH{}, s.Log)
}

// removeContainers stops and removes the lab's containers side by side, and adds them to
// the traces.
func (s *server) removeContainers(ctx context.Context, l Lease, traces *provision.Traces) error {
	c, err := s.withDocker(ctx, l)
	if err != nil {
		return err
	}
	defer c.Close()
	daemon := docker.New(c, nil)
	found, err := daemon.List(ctx, map[string]string{provision.LabelLab: l.Lab})
	errs := make([]error, len(found))
	var wg sync.WaitGroup
	for i, f := range found {
		s.Log.Info("removing", "container", f.Name)
		if !slices.Contains(traces.Containers, f.ID) {
			traces.Containers = append(slices.Clone(traces.Containers), f.ID)
		}
		wg.Go(func() { errs[i] = daemon.Stop(ctx, f.ID, docker.OwnGrace) })
	}
	wg.Wait()
	return errors.Join(err, errors.Join(errs...))
}
