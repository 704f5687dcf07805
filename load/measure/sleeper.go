package measure

import (
	"context"
	"time"
)

// sleeper waits for one moment after the other.
type sleeper interface {
	// until reports whether t came before ctx ended.
	until(ctx context.Context, t time.Time) bool
	stop()
}

// timer is a sleeper by the runtime's timers.
type timer struct{ *time.Timer }

func newTimer() timer {
	t := time.NewTimer(0)
	t.Stop()
	return timer{t}
}

func (s timer) stop() { s.Stop() }

func (s timer) until(ctx context.Context, t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err() == nil
	}
	s.Reset(d)
	select {
	case <-s.C:
		return true
	case <-ctx.Done():
		return false
	}
}
