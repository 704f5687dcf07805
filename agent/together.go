package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"hclbench/flow"
	"hclbench/load"
	"hclbench/load/measure"
	"hclbench/provision"
	"hclbench/telemetry"
)

// Sender is one of the clients of a load: the agent of its host, and the load as that host gets it.
type Sender struct {
	*Client
	Load load.Job
}

// SenderError is why a host could not send its share of a load. Without it there is no load to
// measure.
type SenderError struct {
	Host *provision.Host
	Err  error
}

func (e *SenderError) Error() string {
	return fmt.Sprintf("%s sends a part of the load: %v", e.Host, e.Err)
}

// Unwrap implements errors.
func (e *SenderError) Unwrap() error { return e.Err }

const (
	// beginAhead is how long before the moment at which they begin all clients are told of it: they
	// make their connections meanwhile.
	beginAhead = 3 * time.Second
	// trips is how often a clock is asked for: the shortest trip there and back tells most.
	trips = 20
)

// together is a load that several senders carry out.
type together struct {
	id      string
	senders []Sender
	zero    time.Time     // from which the caller counts
	ready   chan struct{} // one of each sender that is ready to begin
	clocks  []load.Clock
	up      []time.Duration // for how long each agent had been there at zero

	mu     sync.Mutex
	states []load.Progress
	piled  chan struct{} // closed by end, when requests pile up and the load ends then
	end    func()
}

// RunTogether has senders carry out one load, each its share of it, which they begin at the same
// moment, as [Client.Run] does of one; a clock that is set meanwhile costs nothing. What they measure
// is put together.
// The first of them reads what is to be read meanwhile. The error of a load of which a share
// is missing is a [SenderError], and then nothing was measured.
func RunTogether(ctx context.Context, id string, senders []Sender, read telemetry.Plan,
	progress func(load.Progress)) (Measured, error) {
	first := senders[0]
	if len(senders) == 1 {
		return first.Run(ctx, id, Job{Load: first.Load, Telemetry: read}, progress)
	}
	n := len(senders)
	t := &together{id: id, senders: senders, zero: time.Now(), ready: make(chan struct{}, n),
		clocks: make([]load.Clock, n), up: make([]time.Duration, n), states: make([]load.Progress, n), piled: make(chan struct{})}
	t.end = sync.OnceFunc(func() { close(t.piled) })
	if err := first.Watch(ctx, id, read); err != nil {
		return Measured{}, &SenderError{first.host, err}
	}
	all, err := t.run(ctx, progress)
	if err != nil {
		first.forget(ctx, watchPath(id))
		return Measured{}, err
	}
	whole := measure.Merge(first.Load, all)
	m := Measured{Summary: &whole.Summary, Records: whole.Records}
	if m.Telemetry, err = first.EndWatch(ctx, id, m.Window()); err != nil { // which costs no request
		m.Telemetry = &telemetry.Record{Interval: telemetry.Interval.Seconds(), Problems: []string{err.Error()}}
	}
	return m, nil
}

// run has all senders do their share. The first failure ends the work of the others.
func (t *together) run(ctx context.Context, progress func(load.Progress)) ([]measure.Shared, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	all := make([]measure.Shared, len(t.senders))
	var working sync.WaitGroup
	for i, s := range t.senders {
		working.Go(func() {
			m, gaps, err := t.share(ctx, i, progress)
			if err != nil {
				end(&SenderError{s.host, err})
				return
			}
			all[i] = measure.Shared{Host: s.host.Name, Result: &load.Result{Summary: *m.Summary, Records: m.Records, Gaps: gaps}}
		})
	}
	for range t.senders {
		select {
		case <-t.ready:
		case <-ctx.Done():
		}
	}
	if ctx.Err() == nil {
		if err := t.begin(ctx); err != nil {
			end(err)
		}
	}
	over := make(chan struct{})
	var ending sync.WaitGroup
	ending.Go(func() { t.endWhenPiled(ctx, over) })
	working.Wait()
	close(over)
	ending.Wait()
	if ctx.Err() == nil {
		gained := make([]time.Duration, len(t.senders))
		if err := t.each(func(i int, s Sender) error {
			after, up, err := s.clock(ctx, t.zero)
			gained[i] = up - t.up[i]
			t.clocks[i].Within = max(t.clocks[i].Within, after.Within)
			return err
		}); err != nil {
			return nil, err
		}
		// What all have gained alike is the caller's loss: its clock stands still while it sleeps.
		alike := slices.Sorted(slices.Values(gained))[(len(gained)-1)/2]
		for i := range gained {
			t.clocks[i].Gained = load.Ms(gained[i] - alike)
		}
	}
	for i := range all {
		all[i].Clock = t.clocks[i]
	}
	return all, context.Cause(ctx)
}

// share has a sender do its part.
func (t *together) share(ctx context.Context, i int, progress func(load.Progress)) (Measured, *load.Histogram, error) {
	job := t.senders[i].Load
	job.Share = load.Share{Client: i, Clients: len(t.senders)}
	var once sync.Once
	m, last, err := t.senders[i].carryOut(ctx, t.id, Job{Load: job}, func(e Event) {
		if e.Ready {
			once.Do(func() { t.ready <- struct{}{} })
		}
		if e.Progress != nil {
			t.reportProgress(i, *e.Progress, progress)
		}
	})
	t.mu.Lock()
	t.states[i].InFlight = 0 // whatever it told last
	t.mu.Unlock()
	return m, last.Gaps, err
}

// reportProgress says where all of them stand, as one of them has gone on: one word after the other.
func (t *together) reportProgress(i int, now load.Progress, progress func(load.Progress)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.states[i] = now
	var all load.Progress
	for _, p := range t.states {
		// Who waits for no answer cannot say that the engine is silent, or that it is not.
		if p.InFlight > 0 && (all.InFlight == 0 || p.Silent < all.Silent) {
			all.Silent = p.Silent
		}
		all.Elapsed = max(all.Elapsed, p.Elapsed)
		all.Sent, all.Done, all.Failed = all.Sent+p.Sent, all.Done+p.Done, all.Failed+p.Failed
		all.InFlight, all.OutputTokens = all.InFlight+p.InFlight, all.OutputTokens+p.OutputTokens
		all.Total, all.Warmup = all.Total+p.Total, all.Warmup || p.Warmup
		all.Overloaded = all.Overloaded || p.Overloaded
	}
	if all.Overloaded && t.senders[i].Load.Workload.StopWhenOverloaded {
		t.end()
	}
	progress(all)
}

// endWhenPiled has no sender send more once one of them has seen that requests pile up: an engine
// is overloaded by all of them. One that has its answers already hears nothing new.
func (t *together) endWhenPiled(ctx context.Context, over <-chan struct{}) {
	select {
	case <-t.piled:
	case <-over:
		return
	}
	t.each(func(_ int, s Sender) error { // whom it does not reach ends by itself
		return s.insist(ctx, func() error { return s.call(ctx, "POST", jobPath(t.id)+"/enough", nil, nil) })
	})
}

// each asks all senders at once, and returns the first failure.
func (t *together) each(ask func(i int, s Sender) error) error {
	err := flow.Each(t.senders, func(i int, s Sender) error {
		if err := ask(i, s); err != nil {
			return &SenderError{s.host, err}
		}
		return nil
	})
	if first := new(SenderError); errors.As(err, &first) {
		return first
	}
	return nil
}

// begin looks at all clocks, and tells all senders when to begin.
func (t *together) begin(ctx context.Context) error {
	if err := t.each(func(i int, s Sender) (err error) {
		t.clocks[i], t.up[i], err = s.clock(ctx, t.zero)
		return err
	}); err != nil {
		return err
	}
	at := time.Since(t.zero) + beginAhead
	return t.each(func(i int, s Sender) error {
		err := s.insist(ctx, func() error { return s.call(ctx, "POST", jobPath(t.id)+"/begin", t.up[i]+at, nil) })
		if unknown(err) {
			return ErrJobLost
		}
		return err
	})
}

// clock compares the host's clocks with the caller's: that of its wall, and the one that nobody sets.
// up is for how long the agent had been there at zero.
func (s Sender) clock(ctx context.Context, zero time.Time) (best load.Clock, up time.Duration, err error) {
	for n := range trips {
		err := s.insist(ctx, func() error {
			asked := time.Now()
			in, err := s.Info(ctx)
			took := time.Since(asked)
			if within := load.Ms(took) / 2; err == nil && (n == 0 || within < best.Within) {
				between := asked.Add(took / 2)
				best = load.Clock{Ahead: load.Ms(in.Now.Sub(between.Round(0))), Within: within}
				up = in.Up - between.Sub(zero)
			}
			return err
		})
		if err != nil {
			return best, up, err
		}
	}
	return best, up, nil
}

// enough tells a job to send no more; it may be told again.
func (js *jobs) enough(_ http.ResponseWriter, r *http.Request) error {
	j, err := js.find(r)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.ending {
		j.ending = true
		close(j.enough)
	}
	return nil
}

// begin tells a job that waits for the other clients of its load for how long the agent has been
// there when all of them begin. A job that was told before does not listen.
func (js *jobs) begin(_ http.ResponseWriter, r *http.Request) error {
	j, err := js.find(r)
	if err != nil {
		return err
	}
	var up time.Duration
	if err := read(r, &up); err != nil {
		return err
	}
	select {
	case j.begins <- js.since.Add(up):
	default:
	}
	return nil
}

// wait says that the job is ready, and waits to be told when it begins.
func (j *job) wait(ctx context.Context) (time.Time, error) {
	j.add(Event{Ready: true})
	select {
	case at := <-j.begins:
		return at, nil
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
}
