package agent

import (
	"context"
	"time"

	"hclbench/load"
	"hclbench/provision/look"
)

// PowerOff has the machine shut itself down some time after its lease is over: it is rented, and costs nothing when it is off. While
// the lease is renewed that time moves on. So the machine does it though its agent was killed, or nobody comes back.
type PowerOff struct {
	After  load.Duration `json:"after"`  // the end of the lease
	Within load.Duration `json:"within"` // from now on, at the latest: its hard end
}

// hardEnd is when the machine has to be off, whatever is renewed.
func (p *PowerOff) hardEnd(now time.Time) (end time.Time) {
	if p != nil {
		end = now.Add(time.Duration(p.Within))
	}
	return end
}

// powerOff is what the machine was told of its own end.
type powerOff struct {
	at  time.Time // zero: nothing
	why string    // it could not be told, the last time; empty: it was
}

// tellWithin is how long a machine may take to hear when it has to shut itself down.
const tellWithin = 10 * time.Second

// tellEvery is how much earlier than it has to a machine may be off: it is not told each time, as that may disturb what is measured.
const tellEvery = 5 * time.Minute

// powerOff tells the machine when to shut itself down, unless what it was told last is still good: not so early that it comes
// while somebody may be at work, and nobody can log in for five minutes before, and not too late.
func (o *lessor) powerOff(ctx context.Context, l life) {
	after := time.Duration(l.lease.PowerOff.After)
	end := l.lease.Expires.Add(after)
	if l.hard.Before(end) {
		end = l.hard
	}
	o.mu.Lock()
	last := o.off.at
	o.mu.Unlock()
	if !last.IsZero() && !last.After(end) && end.Sub(last) <= min(after/2, tellEvery) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	now := powerOff{at: end}
	c, err := o.claim.dialHere(ctx)
	if err == nil {
		err = look.ShutDown(ctx, c, time.Until(end))
		c.Close()
	}
	if err != nil {
		now = powerOff{last, err.Error()}
		o.log.Warn("tell the machine when to shut itself down", "err", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.off = now
}
