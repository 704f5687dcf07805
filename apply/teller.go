package apply

import (
	"fmt"
	"slices"
	"time"

	"hclbench/accuracy"
	"hclbench/agent"
	"hclbench/apply/place"
	"hclbench/capacity"
	"hclbench/load"
	"hclbench/provision"
	"hclbench/results"
)

// The types of events.
const (
	Step     = place.Step
	Pull     = place.Pull
	Download = "download" // a model is on its way; Download is set
	Waiting  = place.Waiting
	Ready    = "ready"    // an engine has proved that it serves
	Begin    = "begin"    // a cell is being measured
	Try      = "try"      // a load of a search is being sent
	Tried    = "tried"    // it is over; Summary is set unless it failed, and Capacity
	Progress = "progress" // of the cell, or the try; Progress is set
	End      = "end"      // a cell is done; Summary is set unless it failed, or Capacity of a search
	Down     = place.Down
	Warning  = place.Warning
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
	Try       int                     `json:"try,omitempty"` // which try of its load, from 1; 0: it is not of a search's try
	Message   string                  `json:"message,omitempty"`
	Pull      *provision.PullProgress `json:"pull,omitempty"`
	Download  *Fetched                `json:"download,omitempty"`
	Progress  *load.Progress          `json:"progress,omitempty"`
	Summary   *load.Summary           `json:"summary,omitempty"`
	Score     *accuracy.Score         `json:"score,omitempty"`    // of the answers to questions
	Capacity  *capacity.Outcome       `json:"capacity,omitempty"` // what a search has found, so far or at its end
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
	e.Try = a.Try
	t.to(e)
}

// hear passes on what happens at a place.
func (t teller) hear(e place.Event) { t.tell(Event{Type: e.Type, Message: e.Message, Pull: e.Pull}) }

// at is of what happens at a host, which may be one of several.
func (t teller) at(h *provision.Host) teller {
	t.about.Host = h.Name
	return t
}

func (t teller) say(kind, format string, args ...any) {
	t.tell(Event{Type: kind, Message: fmt.Sprintf(format, args...)})
}
