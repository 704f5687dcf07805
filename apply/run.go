package apply

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"hclbench/agent"
	"hclbench/apply/place"
	"hclbench/engines"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/results"
)

// Options is what carrying out needs besides the plan.
type Options struct {
	place.Options
	Events func(Event)       // called with one after the other; nobody at work waits for it; nil: nobody listens
	Run    results.Run       // ID, Lab, Command and Version are set
	Inputs map[string][]byte // what the run is made from, kept with it; nothing sensitive is in it
	// Figure reads a metric out of what was measured; false: it is not there. Only tunings ask.
	Figure func(metric string, r *results.Row) (float64, bool)
}

// Outcome counts what a run did.
type Outcome struct {
	Planned int // cells that were to be measured
	Valid   int
	Suspect int
	Void    int // attempted without a measurement; Planned minus all is what was not reached
}

// expect is that so many more cells are to be measured, or fewer.
func (r *run) expect(cells int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome.Planned += cells
}

// Error is why a run did not come to its end.
type Error struct {
	Cause error        // of an interruption; nil: it was not interrupted
	Hosts []*HostError // where the work ended early
	Store error        // that something could not be kept
}

func (e *Error) Error() string   { return errors.Join(e.Unwrap()...).Error() }
func (e *Error) Unwrap() []error { return []error{e.Cause, e.AtHosts(), e.Store} }

// AtHosts is what the work on hosts has ended with.
func (e *Error) AtHosts() error {
	all := make([]error, len(e.Hosts))
	for i, h := range e.Hosts {
		all[i] = h
	}
	return errors.Join(all...)
}

// HostError is why the work on a host ended early. An event of type [Failed] has
// told it already.
type HostError struct {
	Host string
	Err  error
	text string // of Err, fit to be told
}

func (e *HostError) Error() string { return e.text }
func (e *HostError) Unwrap() error { return e.Err }

// run is a plan that is being carried out.
type run struct {
	plan  *plan.Plan
	opt   Options
	keep  *keeper
	tell  func(Event)             // the listener, if there is one
	note  func(results.Event)     // the store
	stop  context.CancelCauseFunc // ends the work on all hosts
	sched *scheduler

	mu      sync.Mutex
	outcome Outcome
	begun   int // cells that were begun, for "cell 3 of 12"
}

// tellPatience is how long after an interruption a listener, or the store, may take
// for what they have not heard yet.
const tellPatience = 10 * time.Second

// workAt is what a host is needed for by those that stand in line there. The machine is
// reserved where an engine runs that a neighbour would disturb: not a simulated one.
func (r *run) workAt(h *provision.Host, line []*plan.Deployment) place.Work {
	lab := r.plan.Lab
	w := place.Work{Rehearsal: r.plan.Rehearsal, MaxMoney: lab.MaxMoney, Claim: agent.Lease{
		Lab: lab.Name, Run: r.opt.Run.ID, Store: r.keep.store.ID(), Holder: r.opt.Holder,
		TTL: load.Duration(lab.Lease), MaxDuration: load.Duration(lab.MaxDuration),
	}}
	for _, d := range line {
		w.Shared = w.Shared || len(d.Needs()) > 1
		w.Claim.Reserve = w.Claim.Reserve || engines.Real(d.Engine) && !r.plan.Rehearsal
		for _, m := range d.Members {
			if m.Host == h && !slices.Contains(w.Engines, m.Engine) {
				w.Engines = append(w.Engines, m.Engine)
			}
			w.Docker = w.Docker || m.Host == h && m.Runtime == provision.Docker
		}
	}
	return w
}

// at tells of a host.
func (r *run) at(h *provision.Host) teller { return teller{about: Event{Host: h.Name}, to: r.publish} }

// publish tells the listener of an event, and the store of one that is worth keeping.
func (r *run) publish(e Event) {
	r.keep.clean(&e.Message)
	r.tell(e)
	if level := levels[e.Type]; level != "" {
		r.note(results.Event{Time: e.Time, Level: level, Host: e.Host, Engine: e.Engine, Cell: e.Cell, Message: e.Message})
	}
}

func (r *run) begin() (number, of int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun++
	return r.begun, r.outcome.Planned
}

// count counts what came of a cell. That a candidate of a tuning could not be measured is a result.
func (r *run) count(verdict string, tuned bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if tuned && verdict == load.Void {
		r.outcome.Planned--
		return
	}
	switch verdict {
	case load.Valid:
		r.outcome.Valid++
	case load.Suspect:
		r.outcome.Suspect++
	default:
		r.outcome.Void++
	}
}
