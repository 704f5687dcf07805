package apply

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"hclbench/agent"
	"hclbench/load"
	"hclbench/provision"
	"hclbench/results"
)

// The types of events.
const (
	Step     = "step"     // something that a person waits for has begun
	Pull     = "pull"     // an image is on its way; Pull is set
	Download = "download" // a model is on its way; Download is set
	Waiting  = "waiting"  // an engine comes up; Message says how far it is
	Ready    = "ready"    // an engine has proved that it serves
	Begin    = "begin"    // a cell is being measured
	Progress = "progress" // of the cell; Progress is set
	End      = "end"      // a cell is done; Summary is set unless it failed
	Down     = "down"     // an engine is gone for good
	Warning  = "warning"
	Failed   = "failed" // of a deployment or a host
)

// Event is something that happened while a plan was carried out.
type Event struct {
	Time      time.Time               `json:"time"`
	Type      string                  `json:"type"`
	Host      string                  `json:"host,omitempty"`
	Engine    string                  `json:"engine,omitempty"` // "vllm.h200"
	Role      string                  `json:"role,omitempty"`   // of the member, where an engine has several
	Instance  int                     `json:"instance,omitempty"`
	Rank      int                     `json:"rank,omitempty"`
	Benchmark string                  `json:"benchmark,omitempty"`
	Cell      string                  `json:"cell,omitempty"` // its id
	Axes      results.Axes            `json:"axes,omitempty"`
	Number    int                     `json:"number,omitempty"` // of the cell in this run, from 1
	Of        int                     `json:"of,omitempty"`
	Message   string                  `json:"message,omitempty"`
	Pull      *provision.PullProgress `json:"pull,omitempty"`
	Download  *Fetched                `json:"download,omitempty"`
	Progress  *load.Progress          `json:"progress,omitempty"`
	Summary   *load.Summary           `json:"summary,omitempty"`
	Listener  *results.Listener       `json:"listener,omitempty"` // of an engine that is ready
}

// Fetched is how far the download of a model is.
type Fetched struct {
	Repo string `json:"repo"`
	agent.ModelProgress
	Rate float64 `json:"bytes_per_s,omitempty"` // since it began; 0: not known yet
}

// Left is how long it still takes; 0: nobody knows.
func (f Fetched) Left() time.Duration {
	if f.Rate <= 0 {
		return 0
	}
	return time.Duration(float64(f.Total-f.Bytes) / f.Rate * float64(time.Second))
}

var levels = map[string]string{Ready: "info", Down: "info", Warning: "warn", Failed: "error"}

// Spare reports whether the next event of its type says all that this one does.
func (e Event) Spare() bool {
	return slices.Contains([]string{Pull, Download, Waiting, Progress}, e.Type)
}

// teller tells of one thing: a host, an engine on it, a member of that engine or a cell.
// Nobody who tells is kept waiting, and no lock is held meanwhile.
type teller struct {
	about Event // host, engine, role and rank; of a cell its benchmark, id, axes and number
	to    func(Event)
}

func (t teller) tell(e Event) {
	a := t.about
	e.Time, e.Host, e.Engine = time.Now(), a.Host, a.Engine
	e.Role, e.Instance, e.Rank = a.Role, a.Instance, a.Rank
	e.Benchmark, e.Cell, e.Axes, e.Number, e.Of = a.Benchmark, a.Cell, a.Axes, a.Number, a.Of
	t.to(e)
}

// at is of what happens at a host, which may be one of several.
func (t teller) at(h *provision.Host) teller {
	t.about.Host = h.Name
	return t
}

func (t teller) say(kind, format string, args ...any) {
	t.tell(Event{Type: kind, Message: fmt.Sprintf(format, args...)})
}

// tellPatience is how long after an interruption a listener, or the store, may take
// for what they have not heard yet.
const tellPatience = 10 * time.Second

// queued hands events on to somebody who may be slow. end returns when all of them are
// handed on; when ctx has ended, not much later.
func queued[T any](ctx context.Context, to func(context.Context, T), spare func(T) bool) (put func(T), end func()) {
	ctx, cancel := Beyond(ctx, tellPatience)
	q := NewQueue(func(v T) { to(ctx, v) }, spare)
	return q.Put, func() {
		defer cancel()
		q.Close(ctx)
	}
}

// listening returns how to tell a listener, nil for none, of events from anywhere.
func listening(ctx context.Context, listener func(Event)) (tell func(Event), end func()) {
	if listener == nil {
		return func(Event) {}, func() {}
	}
	return queued(ctx, func(_ context.Context, e Event) { listener(e) }, Event.Spare)
}

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

// Beyond returns a context with the values of ctx that ends d after it: for what has to
// be brought to its end, and must not take for ever.
func Beyond(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	on, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return on, func() {
		stop()
		cancel()
	}
}
