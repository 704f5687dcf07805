package flow

import (
	"context"
	"sync"
	"time"
)

// A queue that is long takes nothing more of what can be spared, and one that is full
// takes nothing more at all.
const (
	queueLong = 1_000
	queueFull = 100_000
)

// Queue hands values on, one at a time and in their order, to somebody who may be slow
// or stand still. Nobody who puts one in waits for him.
type Queue[T any] struct {
	to    func(T)
	spare func(T) bool

	mu      sync.Mutex
	more    *sync.Cond // there is something new, or nothing more comes
	waiting []T
	ended   bool
	lost    int
	done    chan struct{} // closed: all is handed on
}

// NewQueue returns a queue to somebody. spare reports of what the last value says more
// than those before: they are left out where the queue is long; nil: of nothing.
// It has to be closed.
func NewQueue[T any](to func(T), spare func(T) bool) *Queue[T] {
	q := &Queue[T]{to: to, spare: spare, done: make(chan struct{})}
	q.more = sync.NewCond(&q.mu)
	go q.hand()
	return q
}

// Put adds a value. It never waits.
func (q *Queue[T]) Put(v T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.waiting)
	if n >= queueFull || n >= queueLong && q.spare != nil && q.spare(v) {
		q.lost++
		return
	}
	q.waiting = append(q.waiting, v)
	q.more.Signal()
}

// hand hands values on until the queue is closed and empty. No lock is held meanwhile.
func (q *Queue[T]) hand() {
	defer close(q.done)
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for len(q.waiting) == 0 {
			if q.ended {
				return
			}
			q.more.Wait()
		}
		v := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		q.to(v)
		q.mu.Lock()
	}
}

// Close returns when all that was put in is handed on, or when ctx ends: whoever stands
// still then gets nothing more, as soon as he goes on. It returns how many values were
// left out. Nothing may be put in any more.
func (q *Queue[T]) Close(ctx context.Context) (lost int) {
	q.mu.Lock()
	q.ended = true
	q.more.Signal()
	q.mu.Unlock()
	select {
	case <-q.done:
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lost += len(q.waiting)
	q.waiting = nil
	return q.lost
}

// Listening returns how to tell somebody who may be slow of values, from anywhere, see [NewQueue]. end returns when all of
// them are handed on; when ctx has ended, patience later at most.
func Listening[T any](ctx context.Context, patience time.Duration, to func(context.Context, T), spare func(T) bool) (tell func(T), end func()) {
	ctx, cancel := Beyond(ctx, patience)
	q := NewQueue(func(v T) { to(ctx, v) }, spare)
	return q.Put, func() {
		defer cancel()
		q.Close(ctx)
	}
}
