package telemetry

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Interval is the time between two readings where a plan does not say.
const Interval = time.Second

// Plan says what is to be read. It travels to where that is done.
type Plan struct {
	Interval float64   `json:"interval_s,omitempty"` // 0: [Interval]
	Host     bool      `json:"host,omitempty"`       // processors and memory
	Others   bool      `json:"others,omitempty"`     // with Host: also what others have of the processors; for an engine that is hcl's
	GPUs     *GPUs     `json:"gpus,omitempty"`       // nil: none
	Engines  []Exports `json:"engines,omitempty"`    // of the engine, or of its members on the host
	Network  []string  `json:"network,omitempty"`    // network interfaces and RDMA devices
}

// Spent tells how much processor time the engine and hcl have had on this host, since any moment. It never falls. Not
// known: somebody of them could not be read.
type Spent func(context.Context) (spent time.Duration, known bool)

// Reading is one value that a source gives.
type Reading struct {
	Of, Name, Unit string // as in [Series]
	Value          float64
}

func reading(of, name string, value float64) Reading { return Reading{of, name, units[name], value} }

type giver = func(at time.Time, readings ...Reading)

// Source reads until ctx ends, about once an interval, and gives what it has
// read at which moment. It returns why it cannot go on; it is then begun anew.
type Source func(ctx context.Context, every time.Duration, give giver) error

// polled makes a source of a function that reads once. Readings that take longer than the interval
// overlap, atOnce at most; where that is not enough, those in between are missing.
func polled(atOnce int, read func(ctx context.Context) ([]Reading, error)) Source {
	return func(ctx context.Context, every time.Duration, give giver) error {
		type result struct {
			at       time.Time
			readings []Reading
			err      error
		}
		var underWay sync.WaitGroup
		defer underWay.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		results := make(chan result, atOnce)
		tick := time.NewTicker(every)
		defer tick.Stop()
		due := true
		for free := atOnce; ; {
			if due && free > 0 {
				free--
				due = false
				underWay.Go(func() {
					readings, err := read(ctx)
					results <- result{time.Now(), readings, err}
				})
			}
			select {
			case r := <-results:
				if r.err != nil {
					return r.err
				}
				give(r.at, r.readings...)
				free++
			case <-tick.C:
				due = true
			case <-ctx.Done():
				return nil
			}
		}
	}
}

func (p Plan) sources(ours Spent, engines []*asked) []Source {
	var all []Source
	if p.Host {
		if !p.Others {
			ours = nil
		}
		all = append(all, hostSource(ours))
	}
	if p.GPUs != nil {
		all = append(all, p.GPUs.source())
	}
	for _, e := range engines {
		all = append(all, polled(1, e.read))
	}
	if len(p.Network) > 0 {
		all = append(all, (&network{root: "/", names: p.Network}).source())
	}
	return all
}

// Window is the part of the time that was measured. Series count from Zero and end at To; energy
// and missing readings are those between From and To. Both are zero where nobody knows what part
// it was: series then go on to the last reading, and there is neither energy nor a count.
type Window struct {
	Zero time.Time `json:"zero,omitzero"`
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
}

// Known reports whether it is known what part of the time was measured.
func (w Window) Known() bool { return w.To.After(w.From) }

// By is the same window on a clock that is ahead by so much.
func (w Window) By(ahead time.Duration) Window {
	return Window{w.Zero.Add(ahead), w.From.Add(ahead), w.To.Add(ahead)}
}

// Sampler reads what a plan says, each source on its own, so that one that hangs holds up no other.
type Sampler struct {
	plan    Plan
	engines []*asked
	every   time.Duration
	cancel  context.CancelFunc
	stopped chan struct{} // closed when all sources have returned
	last    sync.Once     // the reading after that

	mu       sync.Mutex
	series   []*track
	problems []string
}

// track is one series as it grows.
type track struct {
	of, name, unit string
	at             []time.Time
	value          []float64
}

// Start begins to read. It has to be stopped. ours tells what is not others'; nil: that is not known.
func Start(ctx context.Context, p Plan, ours Spent) *Sampler {
	ctx, cancel := context.WithCancel(ctx)
	s := &Sampler{plan: p, every: Interval, cancel: cancel, stopped: make(chan struct{})}
	if p.Interval > 0 {
		s.every = time.Duration(p.Interval * float64(time.Second))
	}
	for _, e := range p.Engines {
		s.engines = append(s.engines, newAsked(e))
	}
	var work sync.WaitGroup
	for _, source := range p.sources(ours, s.engines) {
		work.Go(func() { s.keepReading(ctx, source) })
	}
	go func() {
		work.Wait()
		close(s.stopped)
	}()
	return s
}

// longestPause is how long a source that gives nothing is left alone at most.
const longestPause = 30 * time.Second

// keepReading begins a source anew when it fails: more and more seldom as long as it gives nothing.
func (s *Sampler) keepReading(ctx context.Context, source Source) {
	for pause := s.every; ctx.Err() == nil; pause = min(2*pause, max(longestPause, s.every)) {
		err := source(ctx, s.every, func(at time.Time, readings ...Reading) {
			pause = s.every
			s.add(at, readings...)
		})
		if err != nil && ctx.Err() == nil {
			s.problem(err.Error())
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

func (s *Sampler) problem(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.problems, what) {
		s.problems = append(s.problems, what)
	}
}

func (s *Sampler) add(at time.Time, readings ...Reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range readings {
		t := s.track(r.Of, r.Name)
		if t == nil {
			t = &track{of: r.Of, name: r.Name, unit: r.Unit}
			s.series = append(s.series, t)
			// Routers and SGLang show a counter first when it has counted: where it was not there it stood at zero.
			if reads := s.track(r.Of, everRead); isCounter(r.Of) && reads != nil {
				for _, read := range reads.at {
					if read.Before(at) {
						t.at, t.value = append(t.at, read), append(t.value, 0)
					}
				}
			}
		}
		if n := len(t.at); n > 0 && !at.After(t.at[n-1]) {
			continue // the clock was set back
		}
		t.at, t.value = append(t.at, at), append(t.value, r.Value)
	}
}

// track is a series as far as it was read; nil: nothing of it was.
func (s *Sampler) track(of, name string) *track {
	i := slices.IndexFunc(s.series, func(t *track) bool { return t.of == of && t.name == name })
	if i < 0 {
		return nil
	}
	return s.series[i]
}

// stopWithin bounds how long a source may take to end. A process that hangs in a
// driver cannot be killed.
const stopWithin = 5 * time.Second

// Stop ends the reading and returns what was read; nil when the plan asks for nothing.
func (s *Sampler) Stop(w Window) *Record {
	s.cancel()
	select {
	case <-s.stopped:
		if w.Known() { // who asks twice gets the same
			s.last.Do(func() { s.readLast(w) })
		}
	case <-time.After(stopWithin):
		s.problem(fmt.Sprintf("a tool did not end within %s: a driver may hang", stopWithin))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.plan.sources(nil, s.engines)) == 0 {
		return nil
	}
	r := &Record{Interval: s.every.Seconds(), Problems: s.problems}
	for _, t := range s.series {
		if series := t.within(w); len(series.At) > 0 && !isCounter(t.of) {
			r.Series = append(r.Series, series)
		}
	}
	if s.plan.GPUs != nil && w.Known() {
		s.gpus(r, w)
	}
	for _, e := range s.engines {
		s.shares(r, &e.Exports, w)
		s.counts(r, &e.Exports, w)
	}
	return r
}

// lastWithin bounds how long engines may take to tell what they have counted in the end.
const lastWithin = 2 * time.Second

// readLast reads the counters of engines once more where no reading came after the window: what has ended since the
// last one belongs to it.
func (s *Sampler) readLast(w Window) {
	ctx, done := context.WithTimeout(context.Background(), lastWithin)
	defer done()
	var reading sync.WaitGroup
	for _, e := range s.engines {
		reading.Go(func() {
			readings, err := e.read(ctx)
			if err != nil {
				s.problem(err.Error())
			}
			s.add(w.To, slices.DeleteFunc(readings, func(r Reading) bool { return !isCounter(r.Of) })...)
		})
	}
	reading.Wait()
}

// within is the series from the window's zero to its end.
func (t *track) within(w Window) Series {
	out := Series{Of: t.of, Name: t.name, Unit: t.unit}
	for i, at := range t.at {
		if !at.Before(w.Zero) && (!at.After(w.To) || !w.Known() && !w.Zero.IsZero()) {
			out.At, out.Value = append(out.At, at.Sub(w.Zero).Seconds()), append(out.Value, t.value[i])
		}
	}
	return out
}

func (s *Sampler) gpus(r *Record, w Window) {
	due := max(1, int(w.To.Sub(w.From)/s.every))
	told := 0 // of how many GPUs the power is
	var energy float64
	for _, t := range s.series {
		switch t.name {
		case otherDie:
			told++
		case Power:
			came, missing := t.countReadings(w, s.every)
			told++
			r.Expected, r.Missing = r.Expected+came+missing, r.Missing+missing
			energy += t.integral(w.From, w.To)
		}
	}
	if lacking := s.plan.GPUs.Count - told; lacking > 0 {
		r.Expected, r.Missing = r.Expected+due*lacking, r.Missing+due*lacking
		if len(s.problems) == 0 {
			r.Problems = append(r.Problems, fmt.Sprintf("the power of %d of %d GPUs was told together with that of others, or never",
				lacking, told+lacking))
		}
	}
	if r.Missing*10 <= r.Expected {
		r.Energy = energy
	}
}

// countReadings is how many readings came in a window, and how many are missing: those for which there was time in a gap. A tool
// that is a little slower than it was asked to be leaves none out.
func (t *track) countReadings(w Window, every time.Duration) (came, missing int) {
	most := max(1, int(w.To.Sub(w.From)/every))
	intervals := func(d time.Duration) int { return int((d + every/2 - 1) / every) }
	last := w.From
	for _, at := range t.at { // one that is due at an edge may come beside it
		if !at.After(w.From.Add(-every/2)) || !at.Before(w.To.Add(every/2)) {
			continue
		}
		gap := intervals(at.Sub(last))
		if came > 0 {
			gap--
		}
		came, missing, last = came+1, missing+max(0, gap), at
	}
	missing += max(0, intervals(w.To.Sub(last))-1)
	if came == 0 {
		missing = most
	}
	came = max(0, min(came, most-missing))
	return came, missing
}

// integral is the area under the values by trapezoids. Values between readings lie on the line
// between them; before the first and after the last they are as these.
func (t *track) integral(from, to time.Time) float64 {
	if len(t.at) == 0 || !to.After(from) {
		return 0
	}
	sum := 0.0
	at, value := from, t.valueAt(from)
	for i, next := range t.at {
		if next.After(from) && next.Before(to) {
			sum += (value + t.value[i]) / 2 * next.Sub(at).Seconds()
			at, value = next, t.value[i]
		}
	}
	return sum + (value+t.valueAt(to))/2*to.Sub(at).Seconds()
}

func (t *track) valueAt(when time.Time) float64 {
	i, exact := slices.BinarySearchFunc(t.at, when, time.Time.Compare)
	switch {
	case exact || i == 0:
		return t.value[i]
	case i == len(t.at):
		return t.value[i-1]
	}
	share := when.Sub(t.at[i-1]).Seconds() / t.at[i].Sub(t.at[i-1]).Seconds()
	return t.value[i-1] + share*(t.value[i]-t.value[i-1])
}
