package place

import (
	"context"
	"errors"
	"testing"
	"time"

	"hclbench/agent"
	"hclbench/load"
)

// TestHardEndAfterSleep: the work on a box ends at its hard end by the clock on the wall: timers stand still while a laptop is closed.
func TestHardEndAfterSleep(t *testing.T) {
	for _, until := range []time.Duration{-time.Minute, time.Hour} {
		held, lose := context.WithCancelCause(t.Context())
		asked := 0
		s := &Session{
			lease: &lease{claim: agent.Lease{TTL: load.Duration(5 * time.Millisecond)}, held: held, lose: lose}, until: time.Now().Add(until).Round(0),
			lost: func(context.Context) error {
				if asked++; asked == 3 {
					lose(nil)
				}
				return nil
			},
		}
		s.watchBox(held)
		if err := context.Cause(held); errors.Is(err, errHardEnd) != (until < 0) {
			t.Errorf("with a hard end in %s the work ends with %v", until, err)
		}
	}
}
