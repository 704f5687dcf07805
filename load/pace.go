package load

import (
	"context"
	"sync"
	"time"
)

// pace sends a workload's requests at its pace and waits for the answers.
func (p *phase) pace(ctx context.Context) {
	w := p.g.job.Workload
	switch {
	case w.Rate == 0:
		p.closed(ctx, w.Concurrency, time.Duration(w.Duration), false)
	case w.Rate == Inf:
		n := w.Concurrency
		if n == 0 {
			n = w.Requests
		}
		p.closed(ctx, n, time.Duration(w.Duration), true)
	default:
		p.open(ctx, arrivals(p.total, w.Rate, w.Burstiness, p.prompts.seed), w.Concurrency)
	}
}

// ticket is one request to be sent.
type ticket struct {
	seq       int
	scheduled time.Duration
	body      []byte
	input     int
	output    int
}

func (p *phase) ticket(seq int) ticket {
	body, input, output := p.g.template.body(p.prompts, seq)
	return ticket{seq: seq, body: body, input: input, output: output}
}

// closed keeps n requests in flight, one worker each, until the total has been
// sent or, with a limit, until that much time has passed. atOnce: all are due at
// the start, and those that wait for a worker wait in our queue.
func (p *phase) closed(ctx context.Context, n int, limit time.Duration, atOnce bool) {
	if p.total > 0 {
		n = min(n, p.total)
	}
	// The first prompts are made before the clock starts.
	start := make(chan struct{})
	var prepared, workers sync.WaitGroup
	prepared.Add(n)
	for range n {
		workers.Go(func() {
			w := p.newWorker()
			defer w.finish()
			t := p.ticket(int(p.next.Add(1)) - 1)
			prepared.Done()
			<-start
			ready := time.Duration(0)
			for ctx.Err() == nil {
				t.scheduled = ready
				if atOnce {
					t.scheduled = 0
				}
				w.do(ctx, t, ready)
				ready = time.Since(p.zero)
				if limit > 0 && ready >= limit {
					return
				}
				seq := int(p.next.Add(1)) - 1
				if p.total > 0 && seq >= p.total {
					return
				}
				t = p.ticket(seq)
			}
		})
	}
	prepared.Wait()
	p.g.client.open(ctx, n)
	p.zero = time.Now()
	close(start)
	workers.Wait()
}

// open sends request i at at[i], at most limit of them at a time (0: any
// number). A request that the limit holds up goes as soon as another is over.
func (p *phase) open(ctx context.Context, at []time.Duration, limit int) {
	free := make(chan ticket)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer close(free)
	sleep := newSleeper()
	defer sleep.stop()
	started := 0
	p.zero = time.Now()
	for i, due := range at {
		t := p.ticket(i)
		t.scheduled = due
		if !sleep.until(ctx, p.zero.Add(due)) {
			return
		}
		select {
		case free <- t:
			continue
		default:
		}
		if limit == 0 || started < limit {
			started++
			workers.Go(func() { p.serve(ctx, t, free) })
			continue
		}
		select {
		case free <- t:
		case <-ctx.Done():
			return
		}
	}
}

// serve is a worker of an open loop: one request after another, as they come.
func (p *phase) serve(ctx context.Context, t ticket, more <-chan ticket) {
	w := p.newWorker()
	defer w.finish()
	ready := t.scheduled
	for {
		w.do(ctx, t, ready)
		idle := time.Since(p.zero)
		var ok bool
		if t, ok = <-more; !ok || ctx.Err() != nil {
			return
		}
		ready = max(t.scheduled, idle)
	}
}

// sleeper waits for moments without making a timer for each.
type sleeper struct{ timer *time.Timer }

func newSleeper() sleeper {
	t := time.NewTimer(0)
	t.Stop()
	return sleeper{t}
}

func (s sleeper) stop() { s.timer.Stop() }

// until reports whether t came before ctx ended.
func (s sleeper) until(ctx context.Context, t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err() == nil
	}
	s.timer.Reset(d)
	select {
	case <-s.timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
