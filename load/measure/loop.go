package measure

import (
	"context"
	"runtime"
	"sync"
	"time"

	"hclbench/load"
	"hclbench/load/prompts"
	"hclbench/load/wire"
)

// ticket is a request that is made, and when it goes.
type ticket struct {
	prompts.Request
	session   prompts.Session // that it belongs to
	scheduled time.Duration   // by what the load asks
	ready     time.Duration   // or by the cap that held it up, if that let it go later
	capped    bool            // there are as many workers as the cap allows: who takes it may have been waited for
}

// source hands out the tickets that sessions begin with.
type source interface {
	// next waits for one and gives it to a worker that has had nothing to do since a moment; false: there is no more for it.
	next(ctx context.Context, w *worker, free time.Duration) bool
}

// worker sends one request after the other.
type worker struct {
	p       *phase
	hours   hours  // when it sends
	ticket  ticket // that it sends, or has sent. Thousands of workers wait for answers, with as little stack as they can
	records []load.Record
	session prompts.Session // under way, with another request to come
	said    wire.Said       // the answer to its last request
	beside  sync.WaitGroup  // branches of the session
	sleep   timer
}

// work sends its ticket, if it has one, and then what its session asks behind it and what a source hands out.
func (w *worker) work(ctx context.Context, from source, has bool) {
	for ; has && w.sleep.until(ctx, w.p.zero.Add(w.ticket.ready)); has = w.next(ctx, from) {
		w.send(ctx)
	}
	if has && w.session == nil {
		w.p.unsent.Add(1)
	}
	w.beside.Wait()
	w.sleep.stop()
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.p.records = append(w.p.records, w.records)
}

// next takes what there is to send behind an answer: the next request of the session under way, as long after it as that
// says, or else the first of another.
func (w *worker) next(ctx context.Context, from source) bool {
	p, t := w.p, &w.ticket
	free := time.Since(p.zero)
	if w.session != nil && ctx.Err() == nil && free < w.hours.end() {
		*t = ticket{Request: w.session.Request(), session: w.session}
		for _, b := range t.Joins {
			<-b.Over
			free = time.Since(p.zero)
		}
		due := t.NotBefore
		if most := time.Duration(p.g.own.Dataset.MaxDelay); most > 0 {
			due = min(due, free+most)
		}
		if at, ok := w.hours.firstFrom(max(due, free+t.After)); ok {
			t.scheduled, t.ready = at, at
			return true
		}
		// It would go on after the end, and is not over before that: what waits for it, or for its place, does so until then.
		w.sleep.until(ctx, p.zero.Add(w.hours.end()))
	}
	w.session = nil
	w.beside.Wait()
	return from != nil && from.next(ctx, w, time.Since(p.zero))
}

// send carries out one request, and has its session hear the answer.
func (w *worker) send(ctx context.Context) {
	p, t := w.p, &w.ticket
	w.records = append(w.records, load.Record{
		Seq: t.Seq, Scheduled: t.scheduled, Ready: t.ready, AskedInput: t.Input, AskedOutput: t.Output, Texts: t.Texts,
		Session: t.Session, Turn: t.Turn, Final: t.Final, ToCall: t.Calls, Adapter: t.Adapter,
	})
	r := &w.records[len(w.records)-1]
	p.sent.Add(1)
	x := wire.Exchange{Record: r, Zero: p.zero, Chunks: &p.chunks, Whole: p.g.whole || t.Whole, Endpoint: p.g.own.Endpoint}
	w.said.All = p.g.own.Dataset.Questions
	if w.said.Reset(); w.said.All || t.session.Listens() {
		x.Said = &w.said
	}
	body := t.Body
	t.Body = nil // it is no use any more once it is written
	p.g.client.Send(ctx, body, x)
	if !r.OK() {
		p.failed.Add(1)
	}
	if w.said.All && r.OK() {
		r.Said = p.keep(&w.said)
	}
	if !p.g.own.TimesTokens() {
		r.Dropped, r.Gaps = len(r.Gaps), nil // which are between looks, and not between tokens
	}
	p.tally.settle(r)
	if p.g.others.Over != nil && !p.warmup {
		p.g.others.Over(r)
	}
	if w.session = nil; t.session.Heard(r.OK(), w.said.Text) {
		w.session = t.session
	}
	p.done.Add(1)
	for _, b := range t.session.Forks() {
		w.beside.Go(func() {
			defer close(b.Over)
			own := &worker{p: p, hours: w.hours, session: b.Session}
			own.work(ctx, nil, own.next(ctx, nil))
		})
	}
}

// maxKept bounds what is kept of all answers of a run together, in bytes: they go through this machine's memory.
const maxKept = 512 << 20

// keep is an answer as its record has it.
func (p *phase) keep(said *wire.Said) *load.Said {
	text, reasoning, calls := said.Read()
	kept, forced := &load.Said{Cut: said.Cut}, said.Forced()
	size := len(text) + len(reasoning) + len(forced)
	for _, c := range calls {
		size += len(c.Name) + len(c.Arguments)
	}
	if p.kept.Add(int64(size)) > maxKept {
		kept.Cut = true
		return kept
	}
	kept.Text, kept.Reasoning, kept.Forced = text, reasoning, forced
	for _, c := range calls {
		kept.Calls = append(kept.Calls, load.ToolCall{Name: c.Name, Arguments: c.Arguments})
	}
	return kept
}

// take makes the first request of another session; ok is false when none is left.
func (p *phase) take(t *ticket) (ok bool) {
	s, ok := p.queue.Next()
	if ok {
		*t = ticket{Request: s.Request(), session: s}
	}
	return ok
}

// follow sends requests at a pace until sending ends, and waits for the answers.
func (p *phase) follow(ctx, sending context.Context, x pace) {
	if p.total > 0 {
		x.crew = x.crew[:min(len(x.crew), p.total)]
	}
	// The first prompts are made before the clock starts.
	start, ahead := make(chan struct{}), make(chan ticket)
	var prepared, workers sync.WaitGroup
	prepared.Add(len(x.crew))
	for _, hours := range x.crew {
		workers.Go(func() {
			w, from := &worker{p: p, hours: hours}, loop{ahead, x.atOnce, sending.Done()}
			has := hours[0].from == 0 && p.take(&w.ticket)
			prepared.Done()
			<-start
			w.work(ctx, from, has || from.next(ctx, w, 0))
		})
	}
	prepared.Wait()
	stop := p.makeAhead(ahead, len(x.crew))
	p.start(ctx, x.atFirst())
	close(start)
	p.arrive(ctx, sending, x)
	workers.Wait()
	stop()
}

// makeAhead lets the first requests of sessions be made while workers wait for answers, one for each processor: making
// a long prompt takes milliseconds, which would be the engine's time. It goes on until it is stopped.
func (p *phase) makeAhead(ahead chan<- ticket, workers int) (stop func()) {
	over, makers := make(chan struct{}), sync.WaitGroup{}
	for range min(workers, runtime.GOMAXPROCS(0)) {
		makers.Go(func() {
			for t := (ticket{}); p.take(&t); {
				select {
				case ahead <- t:
				case <-over:
					p.unsent.Add(1)
					return
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		makers.Wait()
		close(ahead)
		close(ended)
	}()
	return func() {
		close(over)
		<-ended
	}
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
		p.zero = time.Now()
		p.before, p.pulse = spentNow(), newPulse(p.zero)
		return
	}
	at, err := p.g.others.Begin(ctx)
	if err != nil { // ctx has ended, and nothing is sent
		at = time.Now()
	}
	var sleep timer
	defer sleep.stop()
	sleep.until(ctx, at.Add(-openAhead))
	p.g.client.Open(ctx, connections)
	sleep.until(ctx, at.Add(-spendAhead))
	p.before, p.pulse, p.zero = spentNow(), newPulse(at), at
}

// loop is the source of a closed loop: another session begins when one is over.
type loop struct {
	ahead  <-chan ticket
	atOnce bool // all were due at the start, and wait for a worker in our queue
	enough <-chan struct{}
}

func (x loop) next(ctx context.Context, w *worker, free time.Duration) bool {
	select {
	case <-x.enough:
		return false
	default:
	}
	at, ok := w.hours.firstFrom(free)
	if !ok || ctx.Err() != nil || at > free && !w.p.await(ctx, &w.sleep, at) {
		return false
	}
	t := &w.ticket
	if *t, ok = <-x.ahead; !ok {
		ok = w.p.take(t) // what a session that failed has left
	}
	if !x.atOnce {
		t.scheduled = at
	}
	t.ready = at
	return ok
}

// await waits for a moment at which a worker begins to send, and sees to it that there is a connection by then.
func (p *phase) await(ctx context.Context, sleep *timer, at time.Duration) bool {
	if at > connectAhead && time.Since(p.zero) < at-connectAhead {
		if !sleep.until(ctx, p.zero.Add(at-connectAhead)) {
			return false
		}
		defer p.arriving.Add(-1)
		p.g.client.Open(ctx, int(p.arriving.Add(1)))
	}
	return sleep.until(ctx, p.zero.Add(at))
}

// schedule is the source of an open loop: sessions begin when they are due, or as soon as another is over where the cap
// holds them up.
type schedule struct{ due chan ticket }

func (x schedule) next(ctx context.Context, w *worker, free time.Duration) (ok bool) {
	t := &w.ticket
	*t, ok = <-x.due
	if t.ready = t.scheduled; t.capped { // else nothing but the generator has made it late
		t.ready = max(t.ready, free)
	}
	return ok
}

// arrive hands out sessions at the moments of a pace while they may be sent, to workers that it starts as they are
// needed and waits for.
func (p *phase) arrive(ctx, sending context.Context, x pace) {
	if len(x.due) == 0 {
		return
	}
	from, started := schedule{make(chan ticket)}, 0
	var workers sync.WaitGroup
	defer workers.Wait()
	defer close(from.due)
	sleep := p.g.newSleeper(sending)
	defer sleep.stop()
	for _, due := range x.due {
		var t ticket
		if !p.take(&t) {
			return
		}
		t.scheduled = due
		if !sleep.until(sending, p.zero.Add(due)) {
			p.unsent.Add(1)
			return
		}
		t.capped = x.limit > 0 && started == x.limit
		select {
		case from.due <- t:
			continue
		default:
		}
		if !t.capped {
			started++
			workers.Go(func() {
				w := &worker{p: p, hours: x.hours}
				w.work(ctx, from, from.next(ctx, w, 0))
			})
		}
		select {
		case from.due <- t:
		case <-sending.Done():
			p.unsent.Add(1)
			return
		}
	}
}
