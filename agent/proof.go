package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"hclbench/flow"
	"hclbench/provision"
	"hclbench/provision/look"
	"hclbench/provision/reach"
)

// prove waits until nothing of what is down is left: nothing listens where it did, and, where nothing is up beside it,
// the GPUs are as they were.
func (c *claim) prove(ctx context.Context) (others []provision.GPUProcess, err error) {
	c.mu.Lock()
	t, alone := c.note.Down, len(c.note.Members) == 0
	c.mu.Unlock()
	t.Marks = []string{c.dir + "/"}
	if !alone {
		t.Before = provision.GPUUse{}
	}
	conn, err := c.dialHere(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if others, err = look.ProveGone(ctx, conn, t, c.release); err != nil {
		return others, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note.Down.Ports = without(c.note.Down.Ports, t.Ports)
	if alone {
		c.note.Down.Containers = without(c.note.Down.Containers, t.Containers)
	}
	c.keep()
	return others, nil
}

func without[T comparable](all, these []T) []T {
	return slices.DeleteFunc(slices.Clone(all), func(x T) bool { return slices.Contains(these, x) })
}

// baseline notes what the GPUs are in use for, for the proof at the end. swept: engines have just ended there, and
// their driver may give memory back yet.
func (c *claim) baseline(ctx context.Context, conn *reach.Conn, swept bool) (use provision.GPUUse, err error) {
	if use, err = look.GPUUse(ctx, conn); err != nil {
		return use, err
	}
	for end := time.Now().Add(c.release); swept && time.Now().Before(end); {
		if !flow.Pause(ctx, time.Second) {
			return use, context.Cause(ctx)
		}
		now, err := look.GPUUse(ctx, conn)
		if err != nil {
			return use, err
		}
		swept, use = falls(use, now), now
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note.Down.Before = use
	return use, c.save()
}

// falls reports whether less of any GPU's memory is in use than before.
func falls(before, now provision.GPUUse) bool {
	for gpu, used := range now.Memory[:min(len(now.Memory), len(before.Memory))] {
		if used < before.Memory[gpu] {
			return true
		}
	}
	return false
}

// traces are what to look for where something is left.
func (c *claim) traces() provision.Traces {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.note.Down
	for _, m := range c.note.Members {
		t = bothTraces(t, m.traces())
	}
	t.Marks = []string{c.dir + "/"}
	return t
}

// uncleanOf is what is left, of what taking down has failed with; nil: nothing.
func uncleanOf(errs ...error) error {
	var left []string
	for _, err := range errs {
		for _, what := range leftOf(err) {
			if !slices.Contains(left, what) { // two that wait for one port say the same
				left = append(left, what)
			}
		}
	}
	if left == nil {
		return nil
	}
	return &provision.UncleanError{Host: &provision.Host{Name: "local"}, Left: left}
}

// leftOf is what an error says to be left; nil: nothing.
func leftOf(err error) []string {
	if unclean, ok := errors.AsType[*provision.UncleanError](err); ok {
		return unclean.Left
	}
	if err != nil {
		return []string{strings.TrimSpace(err.Error())}
	}
	return nil
}
