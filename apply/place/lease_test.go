package place

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
)

// TestTurns: machines are taken in the order of their ids, in whichever order they are Reached, and one that is not to be
// had holds nobody up.
func TestTurns(t *testing.T) {
	var of Turns
	machines := []string{"m3", "m1", "gone", "m2"}
	all := make([]*Turn, len(machines))
	for i := range machines {
		all[i] = of.Next()
	}
	var mu sync.Mutex
	var taken []string
	var done sync.WaitGroup
	for i, m := range machines {
		done.Go(func() {
			defer all[i].over()
			if m == "gone" {
				return
			}
			if err := all[i].wait(t.Context(), m); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			taken = append(taken, m)
		})
	}
	done.Wait()
	if want := []string{"m1", "m2", "m3"}; !slices.Equal(taken, want) {
		t.Errorf("taken in the order %v, want %v", taken, want)
	}
	a, b := of.Next(), of.Next()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	cancel(why)
	if err := a.wait(ctx, "m4"); !errors.Is(err, why) {
		t.Errorf("wait = %v, want its end: the other has not come", err)
	}
	b.over()
	if err := a.wait(t.Context(), "m4"); err != nil {
		t.Error(err)
	}
	(*Turn)(nil).over()
}
