package apply

import (
	"context"
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

// tellPatience is how long after an interruption a listener, or the store, may take
// for what they have not heard yet.
const tellPatience = 10 * time.Second

// tellEach returns how to tell a listener, nil for none, of events from anywhere. end
// returns when all of them are told; when ctx has ended, not much later.
func tellEach(ctx context.Context, listener func(Event)) (tell func(Event), end func()) {
	if listener == nil {
		return func(Event) {}, func() {}
	}
	q := NewQueue(listener, Event.Spare)
	return q.Put, func() {
		ctx, cancel := Beyond(ctx, tellPatience)
		defer cancel()
		q.Close(ctx)
	}
}

// keepEvents has the store keep events beside the run. One that cannot be kept must
// not end a measurement; if the store is broken, keeping a cell will say so.
func (r *run) keepEvents(ctx context.Context) (end func()) {
	ctx, cancel := Beyond(ctx, tellPatience)
	q := NewQueue(func(e results.Event) { r.store.Event(ctx, r.opt.Run.ID, e) }, nil)
	r.note = q.Put
	return func() {
		defer cancel()
		q.Close(ctx)
	}
}

// event tells the caller, and keeps what is worth keeping.
func (r *run) event(e Event) {
	e.Time = time.Now()
	r.clean(&e.Message)
	e.Listener = r.cleanListener(e.Listener)
	r.tell(e)
	if level := levels[e.Type]; level != "" {
		r.note(results.Event{Time: e.Time, Level: level, Host: e.Host, Engine: e.Engine, Cell: e.Cell, Message: e.Message})
	}
}
