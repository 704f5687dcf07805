package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"hclbench/provision"
	"hclbench/provision/docker"
	"hclbench/provision/look"
	"hclbench/provision/reach"
)

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

// withDocker is this machine with the daemon that runs a lease's containers.
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
