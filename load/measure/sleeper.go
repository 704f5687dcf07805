package measure

import (
	"context"
	"time"
)

type sleeper interface {
	until(ctx context.Context, t time.Time) bool
	stop()
}

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
