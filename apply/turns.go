package apply

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// turns have the machines that trials of a run need together taken one after the other, in the order of their
// ids. All runs keep that order, so that no two ever hold what the other waits for.
type turns struct {
	mu      sync.Mutex
	all     []*turn
	changed chan struct{} // closed and made anew when one has come, or is over
}

// turn is that of one machine. It has to be over in the end. nil: the machine is needed with no other.
type turn struct {
	of      *turns
	number  int
	machine string
	come    bool
	ended   bool
}

// next is a turn. All are made before the first is waited for.
func (t *turns) next() *turn {
	one := &turn{of: t, number: len(t.all)}
	t.all = append(t.all, one)
	return one
}

// wait returns when the machine may be taken: every other is known, or is not to be had, and those before it have been
// taken.
func (t *turn) wait(ctx context.Context, machine string) error {
	if t == nil {
		return nil
	}
	t.set(func() { t.machine, t.come = machine, true })
	for {
		t.of.mu.Lock()
		changed, first := t.of.changed, !slices.ContainsFunc(t.of.all, t.waitsFor)
		t.of.mu.Unlock()
		if first {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (t *turn) waitsFor(other *turn) bool {
	return !other.ended && other != t &&
		(!other.come || cmp.Or(cmp.Compare(other.machine, t.machine), cmp.Compare(other.number, t.number)) < 0)
}

// over lets the next take theirs. It may be called again.
func (t *turn) over() {
	if t != nil {
		t.set(func() { t.ended = true })
	}
}

func (t *turn) set(change func()) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	change()
	if t.of.changed != nil {
		close(t.of.changed)
	}
	t.of.changed = make(chan struct{})
}
