package place

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"hclbench/agent"
	"hclbench/flow"
	"hclbench/load"
	"hclbench/provision"
)

// Turns have the machines that trials of a run need together taken one after the other, in the order of their
// ids. All runs keep that order, so that no two ever hold what the other waits for.
type Turns struct {
	mu      sync.Mutex
	all     []*Turn
	changed chan struct{} // closed and made anew when one has come, or is over
}

// Turn is that of one machine. It has to be over in the end. nil: the machine is needed with no other.
type Turn struct {
	of      *Turns
	number  int
	machine string
	come    bool
	ended   bool
}

// Next is a turn. All are made before the first is waited for.
func (t *Turns) Next() *Turn {
	one := &Turn{of: t, number: len(t.all)}
	t.all = append(t.all, one)
	return one
}

// wait returns when the machine may be taken: every other is known, or is not to be had, and those before it have been
// taken.
func (t *Turn) wait(ctx context.Context, machine string) error {
	if t == nil {
		return nil
	}
	t.set(func() { t.machine, t.come = machine, true })
	for {
		t.of.mu.Lock()
		changed, first := t.of.changed, !slices.ContainsFunc(t.of.all, func(other *Turn) bool {
			return !other.ended && other != t &&
				(!other.come || cmp.Or(cmp.Compare(other.machine, t.machine), cmp.Compare(other.number, t.number)) < 0)
		})
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

// over lets the next take theirs. It may be called again.
func (t *Turn) over() {
	if t != nil {
		t.set(func() { t.ended = true })
	}
}

func (t *Turn) set(change func()) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	change()
	if t.of.changed != nil {
		close(t.of.changed)
	}
	t.of.changed = make(chan struct{})
}

// waitPoll is how often a host that somebody else is at work on is asked again.
const waitPoll = 2 * time.Second

var errOverrun = errors.New("max_duration is over")

// lateRenewal is how long a renewal may take that begins when the lease is over, or
// nearly so: a caller that was suspended has to find out what has become of it.
const lateRenewal = 20 * time.Second

// outOfReach ends the work on a host that was not heard of for as long as its
// lease: it has cleaned itself, and there is nothing to be taken down.
type outOfReach struct {
	host *provision.Host
	last time.Time
	err  error
}

func (e *outOfReach) Error() string {
	return fmt.Sprintf("%s: out of reach since %s, for longer than its lease; it cleans itself, "+
		"and `hcl status` shows it when it is back: %v", e.host, e.last.Local().Format(time.TimeOnly), e.err)
}

func (e *outOfReach) Unwrap() []error { return []error{provision.ErrUnreachable, e.err} }

// placeLost ends the work in a pod, or on a box, that is no more: there is nothing to be taken down.
type placeLost struct{ error }

func (e *placeLost) Unwrap() error { return e.error }

// lease is the claim to a host, renewed until it is given back.
type lease struct {
	host  *provision.Host
	agent *agent.Client
	tell  Tell

	held  context.Context // ends when the claim is lost, or the lab's time is up, and says why
	lose  context.CancelCauseFunc
	stop  func()      // ends the renewing
	claim agent.Lease // what is renewed
	hard  time.Time   // of a box that shuts itself down: by when it has to
}

// asked is the claim as it is asked for now.
func (l *lease) asked() agent.Lease {
	now := l.claim
	if now.PowerOff != nil {
		now.PowerOff = &agent.PowerOff{After: now.PowerOff.After, Within: load.Duration(time.Until(l.hard))}
	}
	return now
}

func (l *lease) keepRenewing(ctx context.Context) {
	var over <-chan time.Time
	if most := time.Duration(l.claim.MaxDuration); most > 0 {
		over = time.After(most)
	}
	ttl := time.Duration(l.claim.TTL)
	tick := time.NewTicker(l.every())
	defer tick.Stop()
	last, warned := time.Now(), false
	for {
		select {
		case <-ctx.Done():
			return
		case <-over: // the agent thinks so too, and must not be started again
			l.lose(errOverrun)
			return
		case <-tick.C:
		}
		began := time.Now()
		within := ttl - began.Sub(last)
		if within < ttl/5 {
			within = lateRenewal
		}
		err := l.renew(ctx, within)
		suspended := time.Since(began) > within+time.Second // during the try, which was no fair one
		switch {
		case errors.As(err, new(*agent.HeldError)), err != nil && ctx.Err() != nil:
			return // the agent has told that it is lost
		case err == nil && warned:
			l.tell.say(l.host, Step, "the lease is renewed again")
			fallthrough
		case err == nil:
			last, warned = time.Now(), false
		case time.Since(last) > ttl && !suspended:
			l.lose(&outOfReach{l.host, last, err})
			return
		case !warned:
			warned = true
			l.tell.say(l.host, Warning, "cannot renew the lease; the host cleans itself %s after the last renewal: %v", ttl, err)
		}
	}
}

// every is how often the lease is renewed.
func (l *lease) every() time.Duration {
	return max(min(time.Duration(l.claim.TTL)/5, 30*time.Second), time.Millisecond)
}

func (l *lease) renew(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return l.agent.Lease(ctx, l.asked())
}

// unreachable reports whether there is nothing to be taken down any more, or nobody who could.
func (l *lease) unreachable() bool {
	cause := context.Cause(l.held)
	return errors.As(cause, new(*outOfReach)) || errors.As(cause, new(*placeLost))
}

// give ends the claim: the agent takes down what is left of it, and proves that it is gone. It does so by itself
// where it cannot be reached, when the lease is over. down are those of which nobody knows that they are.
func (l *lease) give(down []string) error {
	l.stop()
	defer l.lose(nil)
	err := context.Cause(l.held)
	if !l.unreachable() {
		patience := time.Duration(l.claim.TTL) // then it has ended by itself
		if err != nil {
			patience = 0 // who has interrupted is not kept waiting
		}
		err = l.agent.Release(context.WithoutCancel(l.held), patience)
	}
	switch {
	case errors.As(err, new(*agent.HeldError)), errors.As(err, new(*placeLost)): // others have it now, or it is no more
		return nil
	case down != nil && provision.OutOfReach(err):
		return &provision.UncleanError{Host: l.host, Left: down}
	case l.unreachable():
		return nil
	}
	return err
}

// take claims the host, and waits for it when somebody else is at work there: until then,
// or to the end of this very run under the name of another host block. arrive brings the agent up.
// shared: the run needs the host together with others.
func (l *lease) take(ctx context.Context, until time.Time, shared bool, arrive func() error) error {
	for told := false; ; {
		err := arrive()
		if err == nil {
			err = l.agent.Lease(ctx, l.asked())
		}
		held := new(agent.HeldError)
		if !errors.As(err, &held) {
			return err
		}
		own := held.Lease.Run == l.claim.Run
		if own && shared {
			return fmt.Errorf("%s is the same machine as another host of this lab, and both are needed at once: "+
				"give an engine of several members one block of it, and leave out a `from` that names the other", l.host)
		}
		if !own && time.Now().After(until) {
			return err
		}
		if !told {
			told = true
			l.tell.say(l.host, Step, "%s", waitsFor(held.Lease, own))
		}
		if !flow.Pause(ctx, waitPoll) {
			return context.Cause(ctx)
		}
	}
}

// waitsFor says whose end is waited for; own: it is this run's.
func waitsFor(other agent.Lease, own bool) string {
	if own {
		return "waiting: it is the same machine as another host of this lab, which is at work; " +
			"two measurements on one machine measure each other"
	}
	text := "waiting for " + other.Holder
	if other.Lab != "" {
		until := other.Expires.Local().Format(time.TimeOnly)
		text += fmt.Sprintf(", who is at work there for lab %s until %s unless renewed", other.Lab, until)
	}
	return text
}
