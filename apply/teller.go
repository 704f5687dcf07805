package apply

import (
	"context"
	"fmt"
	"time"

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

// levels are those events that are kept with the run.
var levels = map[string]string{Ready: "info", Down: "info", Warning: "warn", Failed: "error"}

// Spare reports whether the next event of its type says all that this one does.
func (e Event) Spare() bool {
	switch e.Type {
	case Pull, Download, Waiting, Progress:
		return true
	}
	return false
}

// teller tells of one thing: a host, an engine on it, a member of that engine or a cell.
// Nobody who tells is kept waiting, and no lock is held meanwhile.
type teller struct {
	about Event // host, engine, role and rank; of a cell its benchmark, id, axes and number
	to    func(Event)
}

// tell tells an event of the thing.
func (t teller) tell(e Event) {
	a := t.about
	e.Time, e.Host, e.Engine, e.Role, e.Rank = time.Now(), a.Host, a.Engine, a.Role, a.Rank
	e.Benchmark, e.Cell, e.Axes, e.Number, e.Of = a.Benchmark, a.Cell, a.Axes, a.Number, a.Of
	t.to(e)
}

// say tells a message.
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
