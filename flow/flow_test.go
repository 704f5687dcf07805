package flow

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestEach(t *testing.T) {
	all := make(chan int)
	err := Each([]string{"a", "b"}, func(i int, x string) error {
		select { // each waits for the other
		case all <- i:
		case <-all:
		}
		return errors.New(x)
	})
	if err == nil || err.Error() != "a\nb" {
		t.Errorf("Each = %v", err)
	}
	if err := Each(nil, func(int, string) error { return nil }); err != nil {
		t.Errorf("of nothing: %v", err)
	}
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if !Pause(ctx, time.Second) || Pause(ctx, time.Hour) {
			t.Error("Pause does not tell who ended it")
		}
	})
}

// TestAgain: what ends trying again, and what is told of it.
func TestAgain(t *testing.T) {
	away, refused := errors.New("away"), errors.New("refused")
	for name, c := range map[string]struct {
		says   []error // the last for good
		within time.Duration
		want   []error
		text   string
	}{
		"at once":            {[]error{nil}, time.Hour, nil, ""},
		"in the end":         {[]error{away, away, nil}, time.Hour, nil, ""},
		"refused":            {[]error{away, refused}, time.Hour, []error{refused}, "refused"},
		"patience is over":   {[]error{away}, time.Hour, []error{away}, "away"},
		"nobody waits":       {[]error{away}, 2 * time.Second, []error{away, context.DeadlineExceeded}, "away (context deadline exceeded)"},
		"nobody waited":      {[]error{away}, 0, []error{context.DeadlineExceeded}, ""},
		"it was interrupted": {[]error{context.Canceled}, time.Hour, []error{context.Canceled}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.within)
				defer cancel()
				tries := 0
				err := Patience{100 * time.Millisecond, time.Second, time.Minute}.Again(ctx, func() error {
					tries++
					return c.says[min(tries, len(c.says))-1]
				}, func(err error) bool { return errors.Is(err, refused) })
				if (err == nil) != (c.want == nil) || slices.ContainsFunc(c.want, func(e error) bool { return !errors.Is(err, e) }) ||
					err != nil && !strings.Contains(err.Error(), c.text) {
					t.Errorf("Again = %v after %d", err, tries)
				}
			})
		})
	}
}
