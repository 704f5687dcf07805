package main

import (
	"context"
	"fmt"
	"time"

	"hclbench/apply"
	"hclbench/plain"
)

// outlet is an audience that may be slow or stand still: it is told beside the run,
// which does not wait for it, nor do the other audiences.
type outlet struct {
	queue    *apply.Queue[any]
	patience time.Duration // how long after an interruption it may take for what it has not heard yet
}

func newOutlet(to audience, patience time.Duration) *outlet {
	hand := func(v any) {
		switch v := v.(type) {
		case begun:
			to.begin(v)
		case apply.Event:
			to.event(v)
		case ended:
			to.end(v)
		}
	}
	spare := func(v any) bool {
		e, ok := v.(apply.Event)
		return ok && e.Spare()
	}
	return &outlet{apply.NewQueue(hand, spare), patience}
}

func (o *outlet) begin(b begun)       { o.queue.Put(b) }
func (o *outlet) event(e apply.Event) { o.queue.Put(e) }
func (o *outlet) end(e ended)         { o.queue.Put(e) }

// close returns when the audience has heard all, and after an interruption in any case
// when its patience is over.
func (o *outlet) close(ctx context.Context) error {
	ctx, cancel := apply.Beyond(ctx, o.patience)
	defer cancel()
	if lost := o.queue.Close(ctx); lost > 0 {
		return fmt.Errorf("not read in time and left out: %s", plain.Count(lost, "event"))
	}
	return nil
}

// outlets are told side by side.
type outlets []*outlet

func (all outlets) begin(b begun) {
	for _, o := range all {
		o.begin(b)
	}
}

func (all outlets) event(e apply.Event) {
	for _, o := range all {
		o.event(e)
	}
}

// end tells of the end, and waits until everybody knows.
func (all outlets) end(ctx context.Context, e ended) (problems []error) {
	for _, o := range all {
		o.end(e)
	}
	for _, o := range all {
		if err := o.close(ctx); err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}
