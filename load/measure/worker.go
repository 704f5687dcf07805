package measure

import (
	"cmp"
	"context"
	"runtime"
	"sync"
	"time"

	"hclbench/load"
	"hclbench/load/prompts"
	"hclbench/load/wire"
)

type ticket struct {
	prompts.Request
	session   prompts.Session // that it belongs to
	scheduled time.Duration
}

// take makes the next request of a session ready or, without one, the first of
// another; ok is false when none is left.
func (p *phase) take(s prompts.Session) (t ticket, ok bool) {
	if s == nil {
		if s, ok = p.queue.Next(); !ok {
			return ticket{}, false
		}
	}
	return ticket{Request: s.Request(), session: s}, true
}

// follow sends requests at a pace and waits for the answers.
func (p *phase) follow(ctx context.Context, x pace) {
	if p.total > 0 {
		x.crew = x.crew[:min(len(x.crew), p.total)]
	}
	// The first prompts are made before the clock starts.
	start := make(chan struct{})
	var prepared, workers sync.WaitGroup
	prepared.Add(len(x.crew))
	for _, shifts := range x.crew {
		workers.Go(func() {
			w := &worker{p: p}
			defer w.finish()
			first, taken := ticket{}, false
			if shifts[0].from == 0 {
				first, taken = p.take(nil)
			}
			prepared.Done()
			<-start
			w.closed(ctx, shifts, x.atOnce, first, taken)
		})
	}
	prepared.Wait()
	over := make(chan struct{})
	makers := p.makeAhead(len(x.crew), over)
	p.start(ctx, x.atFirst())
	close(start)
	p.open(ctx, x.due, x.limit)
	workers.Wait()
	close(over)
	makers.Wait()
}

// makeAhead lets the first requests of sessions be made while workers wait for answers, one for each processor: making
// a long prompt takes milliseconds, which would be the engine's time. It goes on until over is closed.
func (p *phase) makeAhead(workers int, over <-chan struct{}) *sync.WaitGroup {
	p.ahead = make(chan ticket)
	var makers sync.WaitGroup
	for range min(workers, runtime.GOMAXPROCS(0)) {
		makers.Go(func() {
			for {
				t, ok := p.take(nil)
				if !ok {
					return
				}
				select {
				case p.ahead <- t:
				case <-over:
					p.unsent.Add(1)
					return
				}
			}
		})
	}
	go func() {
		makers.Wait()
		close(p.ahead)
	}()
	return &makers
}

// next is the next request of a session or, without one, the first of another.
func (p *phase) next(s prompts.Session) (t ticket, ok bool) {
	if s != nil {
		return p.take(s)
	}
	t, ok = <-p.ahead
	return t, ok
}

// Before a common beginning: connections are made, and what is spent counts from then on. Servers
// keep a connection longer that is not used.
const (
	openAhead  = 2 * time.Second
	spendAhead = 5 * time.Millisecond
)

// start opens connections, and the clock: at once, or with the other clients of the load.
func (p *phase) start(ctx context.Context, connections int) {
	if p.g.others.Begin == nil || p.warmup {
		p.g.client.Open(ctx, connections)
		p.before, p.pulse, p.zero = spentNow(), newPulse(), time.Now()
		return
	}
	at, err := p.g.others.Begin(ctx)
	if err != nil { // ctx has ended, and nothing is sent
		at = time.Now()
	}
	sleep := newTimer()
	defer sleep.stop()
	sleep.until(ctx, at.Add(-openAhead))
	p.g.client.Open(ctx, connections)
	sleep.until(ctx, at.Add(-spendAhead))
	p.before, p.pulse, p.zero = spentNow(), newPulse(), at
}

// open begins a session at each moment of at, at most limit of them at a time (0: any
// number). One that the limit holds up goes as soon as another is over.
func (p *phase) open(ctx context.Context, at []time.Duration, limit int) {
	if len(at) == 0 {
		return
	}
	free := make(chan ticket)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer close(free)
	sending, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer stop()
		select {
		case <-p.ended:
		case <-sending.Done():
		}
	}()
	sleep := p.g.newSleeper(sending)
	defer sleep.stop()
	started := 0
	for _, due := range at {
		t, ok := p.take(nil)
		if !ok {
			return
		}
		t.scheduled = due
		if !sleep.until(sending, p.zero.Add(due)) {
			p.unsent.Add(1)
			return
		}
		select {
		case free <- t:
			continue
		default:
		}
		if limit == 0 || started < limit {
			started++
			workers.Go(func() {
				w := &worker{p: p}
				defer w.finish()
				w.serve(ctx, t, free, limit > 0)
			})
			continue
		}
		select {
		case free <- t:
		case <-sending.Done():
			p.unsent.Add(1)
			return
		}
	}
}

type worker struct {
	p       *phase
	records []load.Record
	session prompts.Session // under way, with another request to come
	heard   []byte          // the answer to its last request
	beside  sync.WaitGroup  // branches of the session
}

// closed sends one request after the other in its shifts, until none is left. first is
// the first of them, where taken says that it has been made.
func (w *worker) closed(ctx context.Context, shifts []shift, atOnce bool, t ticket, taken bool) {
	p := w.p
	sleep := newTimer()
	defer sleep.stop()
	idle := time.Duration(0)
	defer func() {
		if taken && w.session == nil {
			p.unsent.Add(1)
		}
	}()
	for _, s := range shifts {
		if !p.arrive(ctx, sleep, s.from) {
			return
		}
		for ready := max(s.from, idle); ready < s.to && ctx.Err() == nil; ready = idle {
			if !taken {
				if t, taken = p.next(w.session); !taken {
					return
				}
			}
			idle = max(idle, w.join(t))
			if ready = max(ready, idle+t.After); ready >= s.to || ctx.Err() != nil ||
				t.After > 0 && !sleep.until(ctx, p.zero.Add(ready)) {
				break
			}
			t.scheduled = ready
			if atOnce {
				t.scheduled = 0
			}
			w.do(ctx, &t, ready)
			taken = false
			idle = time.Since(p.zero)
		}
	}
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

// serve carries out one session after another, as they come. A capped one has waited for the worker to be
// free; without a cap nothing but the generator can make it late.
func (w *worker) serve(ctx context.Context, t ticket, more <-chan ticket, capped bool) {
	p := w.p
	ready := t.scheduled
	sleep := newTimer()
	defer sleep.stop()
	for {
		w.do(ctx, &t, ready)
		w.goOn(ctx, sleep)
		free, ok := time.Since(p.zero), false
		if t, ok = <-more; !ok || ctx.Err() != nil {
			return
		}
		if ready = t.scheduled; capped {
			ready = max(ready, free)
		}
	}
}

// goOn sends what is left of the session under way, each request after the answer before it. A
// session that would go on after the end of the run is not over before that: what waits for it, or
// for its place, does so until then.
func (w *worker) goOn(ctx context.Context, sleep sleeper) {
	p, end := w.p, cmp.Or(w.p.g.job.Workload.End(), forever)
	if p.warmup {
		end = forever // that is of the measurement
	}
	for idle := time.Since(p.zero); w.session != nil && ctx.Err() == nil && idle < end; idle = time.Since(p.zero) {
		t, _ := p.take(w.session) // of a session there is always the next
		answered := max(idle, w.join(t))
		if most := time.Duration(p.g.job.Workload.Dataset.MaxDelay); most > 0 {
			t.NotBefore = min(t.NotBefore, answered+most)
		}
		t.scheduled = max(answered+t.After, t.NotBefore)
		wait := min(t.scheduled, end)
		if ctx.Err() != nil || wait > idle && !sleep.until(ctx, p.zero.Add(wait)) || t.scheduled >= end {
			break
		}
		w.do(ctx, &t, t.scheduled)
	}
	w.session = nil
	w.beside.Wait()
}

func (w *worker) do(ctx context.Context, t *ticket, ready time.Duration) {
	p := w.p
	w.records = append(w.records, load.Record{
		Seq: t.Seq, Scheduled: t.scheduled, Ready: ready, AskedInput: t.Input, AskedOutput: t.Output, Texts: t.Texts,
		Session: t.Session, Turn: t.Turn, Final: t.Final, ToCall: t.Calls, Adapter: t.Adapter,
	})
	r := &w.records[len(w.records)-1]
	p.sent.Add(1)
	x := wire.Exchange{Record: r, Zero: p.zero, Chunks: &p.chunks, Whole: p.g.whole, Endpoint: p.g.own.Endpoint}
	if w.heard = w.heard[:0]; t.session.Listens() {
		x.Text = &w.heard
	}
	body := t.Body
	t.Body = nil // it is no use any more once it is written, and thousands of workers wait for answers
	p.g.client.Send(ctx, body, x)
	if !r.OK() {
		p.failed.Add(1)
	}
	p.tally.settle(r)
	if w.session = nil; t.session.Heard(r.OK(), w.heard) {
		w.session = t.session
	}
	p.done.Add(1)
	for _, b := range t.session.Forks() {
		w.beside.Go(func() { p.branch(ctx, b) })
	}
	if w.session == nil {
		w.beside.Wait() // it is over with the last of its branches
	}
}

// branch carries out a part of a session that runs beside the rest.
func (p *phase) branch(ctx context.Context, b *prompts.Branch) {
	defer close(b.Over)
	w := &worker{p: p, session: b.Session}
	defer w.finish()
	sleep := newTimer()
	defer sleep.stop()
	w.goOn(ctx, sleep)
}

// join waits for the branches that a request needs, and says when they were over; 0: it needs none.
func (w *worker) join(t ticket) (at time.Duration) {
	for _, b := range t.Joins {
		<-b.Over
		at = time.Since(w.p.zero)
	}
	return at
}

func (w *worker) finish() {
	w.beside.Wait()
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.p.records = append(w.p.records, w.records)
}

type sleeper interface {
	until(ctx context.Context, t time.Time) bool
	stop()
}

// timer is one of the Go runtime's, made when it is first needed: of thousands of workers most never wait.
type timer struct{ own *time.Timer }

func newTimer() *timer { return &timer{} }

func (s *timer) stop() {
	if s.own != nil {
		s.own.Stop()
	}
}

func (s *timer) until(ctx context.Context, t time.Time) bool {
	d := time.Until(t)
	switch {
	case d <= 0:
		return ctx.Err() == nil
	case s.own == nil:
		s.own = time.NewTimer(d)
	default:
		s.own.Reset(d)
	}
	select {
	case <-s.own.C:
		return true
	case <-ctx.Done():
		return false
	}
}
