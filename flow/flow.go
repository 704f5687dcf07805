// Package flow is how things are done side by side, again, and after a while.
package flow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Each does the same with all of a list at once. Its error joins theirs, in the order of the list.
func Each[T any](list []T, do func(i int, x T) error) error {
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, x := range list {
		all.Go(func() { errs[i] = do(i, x) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Map asks the same of all of a list at once, and returns the answers in the order of the list.
func Map[T, R any](list []T, ask func(T) R) []R {
	answers := make([]R, len(list))
	Each(list, func(i int, x T) error {
		answers[i] = ask(x)
		return nil
	})
	return answers
}

// Beside does something beside what comes next. What it returns ends its context, and waits for it.
func Beside(ctx context.Context, do func(context.Context)) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	var doing sync.WaitGroup
	doing.Go(func() { do(ctx) })
	return func() {
		stop()
		doing.Wait()
	}
}

// Beyond returns a context with the values of ctx that ends d after it: for what has to
// be brought to its end, and must not take for ever.
func Beyond(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	on, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return on, func() {
		stop()
		cancel()
	}
}

// Pause waits, and reports whether ctx has not ended meanwhile.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// Patience is how long something is tried again: after about First, then after twice as long each time, but no longer than
// Most, and in all for about Total.
type Patience struct{ First, Most, Total time.Duration }

// Again does something until it succeeds, its error is final, patience is over or ctx ends. Where ctx ends, the error has
// its cause, and what was in the way before.
func (p Patience) Again(ctx context.Context, do func() error, final func(error) bool) error {
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval, policy.MaxInterval, policy.Multiplier = p.First, p.Most, 2
	var last error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := do()
		switch {
		case err != nil && final(err):
			return struct{}{}, backoff.Permanent(err)
		case err != nil && ctx.Err() == nil:
			last = err
		}
		return struct{}{}, err
	}, backoff.WithBackOff(policy), backoff.WithMaxElapsedTime(p.Total))
	if err != nil && ctx.Err() != nil && last != nil && !errors.Is(err, last) {
		err = fmt.Errorf("%w (%w)", last, err)
	}
	return err
}

// Never is for what no error ends.
func Never(error) bool { return false }
