package look

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"hclbench/provision"
	"hclbench/provision/reach"
)

// ProveGone waits, at most for patience, until nothing of what was taken down is left: no process
// of ours uses a GPU, the memory of every GPU is back, but for what others use meanwhile, and
// nothing of ours listens on the ports. Otherwise it returns an [provision.UncleanError] with what
// is there, or why that cannot be found out. What others have put on the GPUs is returned, and no
// error.
func ProveGone(
	ctx context.Context, c *reach.Conn, t provision.Traces, patience time.Duration,
) (others []provision.GPUProcess, err error) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for every := 50 * time.Millisecond; ; every = min(2*every, 2*time.Second) {
		var left []string
		left, others, err = stillThere(ctx, c, t)
		if err != nil {
			left = []string{"what is left cannot be found out: " + err.Error()}
		}
		if len(left) == 0 {
			return others, nil
		}
		select {
		case <-time.After(every):
		case <-deadline.C:
			return others, &provision.UncleanError{Host: c.Host(), Left: left}
		case <-ctx.Done():
			return others, &provision.UncleanError{Host: c.Host(), Left: left}
		}
	}
}

func stillThere(
	ctx context.Context, c *reach.Conn, t provision.Traces,
) (left []string, others []provision.GPUProcess, err error) {
	for _, port := range t.Ports {
		listens, err := stillListens(ctx, c, t, port)
		if err != nil {
			return nil, nil, err
		}
		left = append(left, listens...)
	}
	if len(t.Before.Memory) == 0 {
		return left, nil, nil // no GPUs, or none that a tool tells about
	}
	now, err := GPUUse(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	gpus, others := t.Held(now)
	return append(left, gpus...), others, nil
}

// stillListens says what of ours is open on a port, on whatever address. What is known to be
// somebody else's is not in our way; what listens where engines do and is nobody's may be ours.
func stillListens(ctx context.Context, c *reach.Conn, t provision.Traces, port int) (left []string, err error) {
	advice := fmt.Sprintf("see `sudo ss -ltnp 'sport = :%d'` there", port)
	all, err := c.Listeners(ctx, port)
	if err != nil && ctx.Err() == nil && !errors.Is(err, provision.ErrUnreachable) { // nobody can look: ask
		conn, err := c.Dial(ctx, "tcp", netip.AddrPortFrom(reach.Loopback, uint16(port)).String())
		switch {
		case err == nil:
			conn.Close()
			return []string{fmt.Sprintf("something still listens on port %d: %s", port, advice)}, nil
		case ctx.Err() != nil, errors.Is(err, provision.ErrUnreachable):
			return nil, err
		}
		return nil, nil
	}
	for _, l := range all {
		for _, h := range l.Holders {
			if t.Ours(h.Container, h.Mark) {
				left = append(left, fmt.Sprintf("%s still listens on %s", h, l.Address))
			}
		}
	}
	for _, l := range provision.Taking(all, reach.Loopback) {
		if len(l.Holders) == 0 {
			left = append(left, fmt.Sprintf("a process of user %s still listens on %s: %s", l.User, l.Address, advice))
		}
	}
	return left, err
}
