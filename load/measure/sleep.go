package measure

import (
	"context"
	"time"
)

// sleeper waits for moments.
type sleeper interface {
	// until reports whether a moment came before the context ended.
	until(ctx context.Context, t time.Time) bool
	stop()
}

// timer is one of the Go runtime's, made when it is first needed: of thousands of workers most never wait.
type timer struct{ own *time.Timer }

func (s *timer) stop() {
	if s.own != nil {
		s.own.Stop()
	}
}

func (s *timer) until(ctx context.Context, t time.Time) bool {
	d := time.Until(t)
	switch {
	case d <= 0:
		return ctx.Err() == nil
	case s.own == nil:
		s.own = time.NewTimer(d)
	default:
		s.own.Reset(d)
	}
	select {
	case <-s.own.C:
		return true
	case <-ctx.Done():
		return false
	}
}
