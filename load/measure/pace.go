package measure

import (
	"context"
	"sync"
	"time"

	"hclbench/load"
	"hclbench/load/prompts"
)

// body is the body of request i and the lengths that it asks for.
func body(t load.Template, p prompts.Prompts, i int) (b []byte, input, output int) {
	prompt, input, output := p.Append(make([]byte, 0, p.Size()+2), i)
	return t.Fill(prompt, output), input, output
}

// dialsBeforehand bounds how many connections are made before a rate begins.
const dialsBeforehand = 1024

// pace sends a workload's requests at its pace and waits for the answers.
func (p *phase) pace(ctx context.Context) {
	w, m := p.g.job.Workload, p.g.material
	limit := time.Duration(w.Duration)
	switch {
	case m.Rows != nil:
		p.start()
		p.open(ctx, due(m.Rows), w.Concurrency)
	case len(w.Stages) > 0:
		at := arrivals(fit(legs(w), w.End()), legs(w), w.Burstiness, prompts.Seed(p.g.job))
		p.closed(ctx, stagedCrew(w), false, func() { p.open(ctx, at, w.Concurrency) })
	case w.Rate == 0:
		p.closed(ctx, crew(w.Concurrency, time.Duration(w.Ramp), limit), false, nil)
	case w.Rate == load.Inf:
		n := w.Concurrency
		if n == 0 {
			n = w.Requests
		}
		p.closed(ctx, crew(n, time.Duration(w.Ramp), limit), true, nil)
	default:
		at := arrivals(arriving(w), legs(w), w.Burstiness, prompts.Seed(p.g.job))
		p.g.client.Open(ctx, min(len(at), firstSockets(w)))
		p.start()
		p.open(ctx, at, w.Concurrency)
	}
}

// firstSockets is how many connections are made before a rate begins: those for
// the requests of its first tenth of a second.
func firstSockets(w load.Workload) int {
	n := int(min(w.Rate/10, dialsBeforehand))
	if w.Concurrency > 0 {
		n = min(n, w.Concurrency)
	}
	return max(n, 1)
}

// arriving is how many requests, or conversations, a rate brings.
func arriving(w load.Workload) int {
	if w.Duration == 0 {
		return w.Requests
	}
	n := max(1, fit(legs(w), time.Duration(w.Duration)))
	if w.Requests > 0 {
		return min(w.Requests, n)
	}
	return n
}

func due(rows []prompts.Row) []time.Duration {
	at := make([]time.Duration, len(rows))
	for i, r := range rows {
		at[i] = r.At
	}
	return at
}

// ticket is one request to be sent.
type ticket struct {
	seq       int
	scheduled time.Duration
	body      []byte
	input     int
	output    int
	talk      *prompts.Dialogue // the conversation that it belongs to; nil: none
}

// take makes the next request ready; ok is false when all have been taken. In a
// data set of conversations it is the next turn of one under way or, without
// one, the first of another.
func (p *phase) take(talk *prompts.Dialogue) (t ticket, ok bool) {
	if p.g.material.Talks == nil {
		seq := int(p.next.Add(1)) - 1
		if p.total > 0 && seq >= p.total {
			return ticket{}, false
		}
		body, input, output := body(p.g.template, p.prompts, seq)
		return ticket{seq: seq, body: body, input: input, output: output}, true
	}
	if talk == nil {
		talk = p.begin()
	}
	if talk == nil {
		return ticket{}, false
	}
	messages, output := talk.Ask()
	return ticket{seq: int(p.next.Add(1)) - 1, body: p.g.template.Fill(messages, output), output: output, talk: talk}, true
}

// begin begins the next conversation. It may have as many turns as it has, as
// far as the requests go; nil: none are left.
func (p *phase) begin() *prompts.Dialogue {
	talks := p.g.material.Talks
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.begun % len(talks)
	if p.warmup {
		i = len(talks) - 1 - i // those that the measurement comes to last
	}
	turns := len(talks[i].Turns)
	if p.total > 0 {
		turns = min(turns, p.total-p.granted)
	}
	if turns == 0 {
		return nil
	}
	p.begun++
	p.granted += turns
	return prompts.NewDialogue(&talks[i], turns)
}

// heard takes the answer to a conversation's turn and returns the conversation
// if it goes on. One whose turn failed does not: its requests are for others.
func (p *phase) heard(d *prompts.Dialogue, ok bool, answer []byte) *prompts.Dialogue {
	switch {
	case d == nil:
	case !ok:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.granted -= d.Turns - d.Next - 1
	case d.Hear(answer):
		return d
	}
	return nil
}

// closed keeps as many requests in flight as there are workers, each in its
// shifts, until the total has been sent. atOnce: all are due at the start, and
// those that wait for a worker wait in our queue. beside, if not nil, is called when
// the clock starts, on this goroutine.
func (p *phase) closed(ctx context.Context, crew [][]shift, atOnce bool, beside func()) {
	if p.total > 0 {
		crew = crew[:min(len(crew), p.total)]
	}
	// The first prompts are made before the clock starts.
	start := make(chan struct{})
	var prepared, workers sync.WaitGroup
	prepared.Add(len(crew))
	for _, shifts := range crew {
		workers.Go(func() {
			w := p.newWorker()
			defer w.finish()
			var t ticket
			taken := shifts[0].from == 0
			if taken {
				t, taken = p.take(nil)
			}
			prepared.Done()
			<-start
			sleep := newTimer()
			defer sleep.stop()
			idle := time.Duration(0)
			for _, s := range shifts {
				if !p.arrive(ctx, sleep, s.from) {
					return
				}
				for ready := max(s.from, idle); ready < s.to && ctx.Err() == nil; ready = idle {
					if !taken {
						if t, taken = p.take(w.talk); !taken {
							return
						}
					}
					t.scheduled = ready
					if atOnce {
						t.scheduled = 0
					}
					w.do(ctx, t, ready)
					taken = false
					idle = time.Since(p.zero)
				}
			}
		})
	}
	prepared.Wait()
	p.g.client.Open(ctx, atFirst(crew))
	p.start()
	close(start)
	if beside != nil {
		beside()
	}
	workers.Wait()
}

// connectAhead is how long before its first request a worker that begins later has a
// connection made: shorter than servers keep one that is not used.
const connectAhead = 500 * time.Millisecond

// atFirst is how many of a crew need a connection when the clock starts.
func atFirst(crew [][]shift) (n int) {
	for _, shifts := range crew {
		if shifts[0].from <= connectAhead {
			n++
		}
	}
	return n
}

// arrive waits for the beginning of a worker's shift, and sees to it that there is a
// connection by then.
func (p *phase) arrive(ctx context.Context, sleep sleeper, from time.Duration) bool {
	if from > connectAhead && time.Since(p.zero) < from-connectAhead {
		if !sleep.until(ctx, p.zero.Add(from-connectAhead)) {
			return false
		}
		defer p.arriving.Add(-1)
		p.g.client.Open(ctx, int(p.arriving.Add(1)))
	}
	return sleep.until(ctx, p.zero.Add(from))
}

// open sends a request, or begins a conversation, at each moment of at, at most
// limit of them at a time (0: any number). One that the limit holds up goes as
// soon as another is over.
func (p *phase) open(ctx context.Context, at []time.Duration, limit int) {
	free := make(chan ticket)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer close(free)
	sleep := p.g.newSleeper(ctx)
	defer sleep.stop()
	started := 0
	for _, due := range at {
		t, ok := p.take(nil)
		if !ok {
			return
		}
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
	ready, end := t.scheduled, p.g.job.Workload.End()
	for {
		w.do(ctx, t, ready)
		idle := time.Since(p.zero)
		ok := true
		for w.talk != nil && ctx.Err() == nil && (end == 0 || idle < end) {
			if t, ok = p.take(w.talk); !ok {
				return
			}
			t.scheduled = idle
			w.do(ctx, t, idle)
			idle = time.Since(p.zero)
		}
		w.talk = nil
		if t, ok = <-more; !ok || ctx.Err() != nil {
			return
		}
		ready = max(t.scheduled, idle)
	}
}

// sleeper waits for one moment after the other.
type sleeper interface {
	// until reports whether t came before ctx ended.
	until(ctx context.Context, t time.Time) bool
	stop()
}

// timer is a sleeper by the runtime's timers.
type timer struct{ *time.Timer }

func newTimer() timer {
	t := time.NewTimer(0)
	t.Stop()
	return timer{t}
}

func (s timer) stop() { s.Stop() }

func (s timer) until(ctx context.Context, t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err() == nil
	}
	s.Reset(d)
	select {
	case <-s.C:
		return true
	case <-ctx.Done():
		return false
	}
}
