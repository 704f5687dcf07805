package flow

import (
	"context"
	"slices"
	"testing"
	"time"
)

// TestQueue: who stands still delays nobody, loses what can be spared first, and gets
// nothing more once he is given up.
func TestQueue(t *testing.T) {
	var got []int
	goOn := make(chan struct{})
	q := NewQueue(func(v int) { <-goOn; got = append(got, v) }, func(v int) bool { return v%2 == 1 })
	for v := range 3 * queueLong {
		q.Put(v)
	}
	q.mu.Lock()
	kept := len(q.waiting)
	q.mu.Unlock()
	if kept < 3*queueLong/2 {
		t.Errorf("%d of %d values were kept, want all even ones", kept, 3*queueLong)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if lost := q.Close(over); lost < queueLong {
		t.Errorf("%d values are lost, want all that nobody took", lost)
	}
	close(goOn)
	<-q.done
	if len(got) > 1 {
		t.Errorf("%d values came after he was given up", len(got)-1)
	}

	got = nil
	q = NewQueue(func(v int) { got = append(got, v) }, nil)
	for v := range 100 {
		q.Put(v)
	}
	if lost := q.Close(t.Context()); lost != 0 || len(got) != 100 || !slices.IsSorted(got) {
		t.Errorf("%d lost, got %v", lost, got)
	}
}

// TestBeyond: the rest of the work gets its time after an interruption, and no more.
func TestBeyond(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	on, done := Beyond(ctx, time.Millisecond)
	defer done()
	if on.Err() != nil {
		t.Error("it ended before what it outlives")
	}
	interrupt()
	<-on.Done()
	late, stop := Beyond(ctx, time.Hour)
	if late.Err() != nil {
		t.Error("after the interruption there is no time left")
	}
	stop()
	if late.Err() == nil {
		t.Error("it goes on when it is released")
	}
}
