package provision

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// ReleaseWait is how long a driver may take to give memory back after the last
// process that used it has ended. It is seconds for 8 GPUs; longer means that
// nobody will.
const ReleaseWait = 45 * time.Second

// releaseSlack is how much more of a GPU's memory may be in use than before:
// drivers keep some for themselves. A leaked CUDA context is about 500 MiB.
const releaseSlack = 256 << 20

// Traces are what engines that were taken down may have left on a host.
type Traces struct {
	Before     GPUUse   `json:"before"`               // as the GPUs were before the first of them came
	Containers []string `json:"containers,omitempty"` // their ids
	Mark       string   `json:"mark,omitempty"`       // how the [ProcessMark] of their processes begins
	Ports      []int    `json:"ports,omitempty"`      // where they listened
}

// ours reports whether a process, with its container and its [ProcessMark], belongs
// to what was taken down.
func (t Traces) ours(container, mark string) bool {
	return container != "" && slices.Contains(t.Containers, container) || t.Mark != "" && strings.HasPrefix(mark, t.Mark)
}

// UncleanError says that something of ours is left on a host although it was
// taken down.
type UncleanError struct {
	Host *Host
	Left []string // what, and what holds it, one sentence each
}

func (e *UncleanError) Error() string {
	return fmt.Sprintf("%s is left unclean:\n  - %s\nNothing more is started there. What nobody gives back takes a reset of the GPUs by their owner (`sudo nvidia-smi --gpu-reset`, `sudo rocm-smi --gpureset -d N`, `sudo amd-smi reset --gpu N --gpureset`) or a reboot; the next apply looks again",
		e.Host, strings.Join(e.Left, "\n  - "))
}

// ProveGone waits, at most for patience, until nothing of what was taken down is
// left: no process of ours uses a GPU, the memory of every GPU is back to what it
// was before, but for what others use meanwhile, and nothing of ours listens on the
// ports. Otherwise it returns an [UncleanError] with what is still there, or why
// that cannot be found out. What others have put on the GPUs meanwhile is
// returned, and no error.
func (c *Conn) ProveGone(ctx context.Context, t Traces, patience time.Duration) (others []GPUProcess, err error) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for every := 50 * time.Millisecond; ; every = min(2*every, 2*time.Second) {
		var left []string
		left, others, err = c.left(ctx, t)
		if err != nil {
			left = []string{"what is left cannot be found out: " + err.Error()}
		}
		if len(left) == 0 {
			return others, nil
		}
		select {
		case <-time.After(every):
		case <-deadline.C:
			return others, &UncleanError{Host: c.host, Left: left}
		case <-ctx.Done():
			return others, &UncleanError{Host: c.host, Left: left}
		}
	}
}

// left says what is there at this moment.
func (c *Conn) left(ctx context.Context, t Traces) (left []string, others []GPUProcess, err error) {
	for _, port := range t.Ports {
		listens, err := c.stillListens(ctx, t, port)
		if err != nil {
			return nil, nil, err
		}
		left = append(left, listens...)
	}
	if len(t.Before.Memory) == 0 {
		return left, nil, nil // no GPUs, or none that a tool tells about
	}
	now, err := c.GPUUse(ctx)
	if err != nil {
		return nil, nil, err
	}
	gpus, others := t.held(now)
	return append(left, gpus...), others, nil
}

// stillListens says what of ours is open on a port, on whatever address of the host.
// What is known to be somebody else's is not in our way any more; what listens where
// engines do, and nobody can tell whose it is, may be ours.
func (c *Conn) stillListens(ctx context.Context, t Traces, port int) (left []string, err error) {
	advice := fmt.Sprintf("see `sudo ss -ltnp 'sport = :%d'` there", port)
	all, err := c.Listeners(ctx, port)
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrUnreachable) { // nobody can look: ask
		conn, err := c.Dial(ctx, "tcp", netip.AddrPortFrom(loopback, uint16(port)).String())
		switch {
		case err == nil:
			conn.Close()
			return []string{fmt.Sprintf("something still listens on port %d: %s", port, advice)}, nil
		case ctx.Err() != nil, errors.Is(err, ErrUnreachable):
			return nil, err
		}
		return nil, nil
	}
	for _, l := range all {
		for _, h := range l.Holders {
			if t.ours(h.Container, h.Mark) {
				left = append(left, fmt.Sprintf("%s still listens on %s", h, l.Address))
			}
		}
	}
	for _, l := range Taking(all, loopback) {
		if len(l.Holders) == 0 {
			left = append(left, fmt.Sprintf("a process of user %s still listens on %s: %s", l.User, l.Address, advice))
		}
	}
	return left, err
}

// held compares the GPUs with what they were.
func (t Traces) held(now GPUUse) (left []string, others []GPUProcess) {
	if now.told() < t.Before.told() {
		return []string{fmt.Sprintf("%d GPUs answered before, now %d: %s", t.Before.told(), now.told(), strings.Join(now.Problems, "; "))}, nil
	}
	var theirs int64
	for _, p := range now.Processes {
		i := slices.IndexFunc(t.Before.Processes, func(q GPUProcess) bool { return q.PID == p.PID && q.Name == p.Name })
		switch {
		case t.ours(p.Container, p.Mark):
			left = append(left, p.String()+" still uses a GPU")
		case i < 0:
			others = append(others, p)
			theirs += p.Memory
		case p.Memory > t.Before.Processes[i].Memory:
			theirs += p.Memory - t.Before.Processes[i].Memory
		}
	}
	for gpu, used := range now.Memory[:min(len(now.Memory), len(t.Before.Memory))] {
		more := used - t.Before.Memory[gpu]
		if t.Before.Memory[gpu] == NotTold || more <= releaseSlack || more <= theirs+releaseSlack {
			continue
		}
		text := fmt.Sprintf("GPU %d has %s more in use than before", gpu, mebibytes(more))
		if len(left)+len(others) == 0 {
			text += ", held by no process"
		}
		left = append(left, text)
	}
	return left, others
}
