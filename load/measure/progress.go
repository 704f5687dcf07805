package measure

import (
	"context"
	"sync"
	"time"

	"hclbench/load"
)

const progressEvery = 500 * time.Millisecond // how often a run says where it stands

// teller says where a phase stands.
type teller struct {
	p     *phase
	began time.Time
	first time.Time // when the first request was seen to be sent
	heard int64     // what had come when it told last
	quiet time.Time // since when no more has
	crowd *watch    // nil: nobody watches whether requests pile up
}

func newTeller(p *phase) *teller {
	t := &teller{p: p, began: time.Now(), quiet: time.Now()}
	if !p.warmup {
		t.crowd = newWatch(p.g.own, p.g.watched)
	}
	return t
}

// watched does work while progress is told, and others are listened to: of an open loop they, or the progress, may end
// the sending before all is sent.
func (p *phase) watched(ctx context.Context, work func(sending context.Context)) {
	sending, end := context.WithCancel(ctx)
	defer end()
	stop := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		t, tick, enough := newTeller(p), time.NewTicker(progressEvery), p.g.others.Enough
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-enough:
				enough = nil
				end()
				continue
			case <-stop:
				p.g.progress(t.state())
				return
			}
			now := t.state()
			if p.g.progress(now); now.Overloaded && p.g.own.StopWhenOverloaded {
				end()
			}
		}
	})
	work(sending)
	close(stop)
	telling.Wait()
}

func (t *teller) state() load.Progress {
	p, now := t.p, time.Now()
	done, sent, failed, chunks := p.done.Load(), p.sent.Load(), p.failed.Load(), p.chunks.Load()
	if heard := chunks + done - failed; heard > t.heard || sent == done {
		t.heard, t.quiet = heard, now
	}
	over := false
	if t.crowd != nil && sent > 0 {
		if t.first.IsZero() {
			t.first = now
		}
		over = t.crowd.over
		if sent < int64(p.total) { // what is in flight then is over soon
			over = t.crowd.look(now.Sub(t.first), int(sent), int(done), int(failed))
		}
	}
	return load.Progress{
		Elapsed: now.Sub(t.began).Seconds(),
		Sent:    int(sent), Done: int(done), Failed: int(failed), InFlight: int(sent - done),
		OutputTokens: chunks, Total: p.total, Warmup: p.warmup, Silent: now.Sub(t.quiet).Seconds(),
		Overloaded: over,
	}
}
