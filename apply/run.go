// Package apply carries a plan out: connect, check, bring up, wait, measure,
// record, take down. It is the only room that orchestrates.
//
// A [session] is one place at work, a [trial] one deployment that is carried out over
// the sessions of its hosts. The [scheduler] has trials run side by side where they
// share no host, and one after the other where they do, and so do the cells of a
// trial, because two measurements on one machine measure each other. Whatever is
// brought up is taken down on every way out, in reverse order, with a context of its
// own. The room prints nothing: what happens is told to Options.Events.
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
	"hclbench/flow"
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
}

// Outcome counts what a run did.
type Outcome struct {
	Planned int // cells that were to be measured
	Valid   int
	Suspect int
	Void    int // attempted without a measurement; Planned minus all is what was not reached
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

// Run carries the plan out and keeps the results in the store, whose lock the
// caller holds. Cells and deployments that fail are data in the store; the error
// tells of hosts that could not be used, left unclean, or an interruption.
func Run(ctx context.Context, p *plan.Plan, store *results.Store, opt Options) (Outcome, error) {
	opt.Options = opt.Filled()
	opt.Run.Started = time.Now()
	r := &run{plan: p, opt: opt, keep: &keeper{store, opt.Run.ID, secretsOf(p, opt.Hub.Token)}}
	if err := store.BeginRun(ctx, opt.Run); err != nil {
		return r.outcome, err
	}
	if err := store.PutInputs(ctx, opt.Run.ID, opt.Inputs); err != nil {
		return r.outcome, err
	}
	var told, noted func()
	r.tell, told = flow.Listening(ctx, tellPatience, func(_ context.Context, e Event) {
		if opt.Events != nil {
			opt.Events(e)
		}
	}, Event.Spare)
	defer told()
	// An event that cannot be kept must not end a measurement; if the store is broken,
	// keeping a cell will say so.
	r.note, noted = flow.Listening(ctx, tellPatience, func(ctx context.Context, e results.Event) { store.Event(ctx, opt.Run.ID, e) }, nil)
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.stop = stop
	err := &Error{Hosts: r.all(work)}
	noted()

	outcome := "done"
	switch {
	case ctx.Err() != nil:
		outcome, err.Cause = "interrupted", context.Cause(ctx)
	case work.Err() != nil:
		outcome, err.Store = "failed", context.Cause(work)
	case len(err.Hosts) > 0:
		outcome = "failed"
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	err.Store = errors.Join(err.Store, store.FinishRun(finish, opt.Run.ID, outcome, time.Now()))
	if outcome == "done" && err.Store == nil {
		return r.outcome, nil
	}
	return r.outcome, err
}

func (r *run) all(ctx context.Context) []*HostError {
	var todo []*plan.Deployment
	for _, d := range r.plan.Deployments {
		if n := len(d.ToDo()); n > 0 {
			todo = append(todo, d)
			r.outcome.Planned += n
		}
	}
	r.sched = newScheduler(todo)
	openings := r.openings()
	ended := make([]*HostError, len(openings))
	var wg sync.WaitGroup
	for i, o := range openings {
		wg.Go(func() { ended[i] = r.host(ctx, o) })
	}
	for _, d := range todo {
		wg.Go(func() { r.carryOut(ctx, d) })
	}
	wg.Wait()
	return slices.DeleteFunc(ended, func(e *HostError) bool { return e == nil })
}

// opening is a place that has to be opened for some hosts: for itself, or, of a cluster, for all
// that are pods there.
type opening struct {
	at    *provision.Host
	hosts []*provision.Host
	work  place.Work
}

func (r *run) openings() (all []opening) {
	at, together := map[*provision.Cluster]int{}, new(place.Turns)
	for _, h := range r.plan.Hosts {
		p := r.sched.stations[h]
		if p == nil {
			continue
		}
		i, known := at[h.Cluster]
		switch {
		case h.Cluster == nil:
			o := opening{h, []*provision.Host{h}, r.workAt(h, p.line)}
			if o.work.Shared {
				o.work.Turn = together.Next()
			}
			all = append(all, o)
			continue
		case !known:
			i, at[h.Cluster] = len(all), len(all)
			all = append(all, opening{at: h.Cluster.Host(), work: r.workAt(h.Cluster.Host(), p.line)})
			all[i].work.Claim.Reserve = false // nothing is measured in the cluster's own place
		}
		all[i].hosts = append(all[i].hosts, h)
		all[i].work.Pods = append(all[i].work.Pods, podOf(h, p.line[0]))
	}
	return all
}

// host opens a place for the trials that need it, and closes it when none does any more.
func (r *run) host(ctx context.Context, o opening) *HostError {
	tell := r.at(o.at)
	s, err := place.Open(ctx, o.at, o.work, r.opt.Options, tell.hear)
	for _, h := range o.hosts {
		if err != nil {
			r.sched.lose(h, nil)
		} else {
			r.sched.opened(h, s)
		}
	}
	if err == nil {
		var errs []error
		for _, h := range o.hosts {
			errs = append(errs, r.sched.ended(h)...)
		}
		err = errors.Join(errs...)
		if ctx.Err() == nil && s.Held.Err() != nil {
			err = errors.Join(context.Cause(s.Held), err)
		}
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		err = nil // it was broken off, which is no failure of the host
	}
	if err = s.Close(err); err == nil {
		return nil
	}
	if ctx.Err() == nil {
		tell.say(Failed, "%v", err)
	}
	return &HostError{o.at.Name, err, r.keep.secrets.Text(err.Error())}
}

// workAt is what a host is needed for by those that stand in line there. The machine is
// reserved where an engine runs that a neighbour would disturb: not a simulated one.
func (r *run) workAt(h *provision.Host, line []*plan.Deployment) place.Work {
	lab := r.plan.Lab
	w := place.Work{Rehearsal: r.plan.Rehearsal, Claim: agent.Lease{
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

func (r *run) carryOut(ctx context.Context, d *plan.Deployment) {
	at, err := r.sched.take(ctx, d)
	defer r.sched.give(d)
	if at != nil {
		var give func()
		give, err = r.rent(ctx, d, at)
		defer give()
		if err != nil {
			at = nil
		}
	}
	t := newTrial(r, d, at)
	t.settle(ctx, err)
	if at != nil {
		t.carryOut()
	}
}

// at tells of a host.
func (r *run) at(h *provision.Host) teller { return teller{about: Event{Host: h.Name}, to: r.told} }

// told tells the listener of an event, and the store of one that is worth keeping.
func (r *run) told(e Event) {
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

func (r *run) count(verdict string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch verdict {
	case load.Valid:
		r.outcome.Valid++
	case load.Suspect:
		r.outcome.Suspect++
	default:
		r.outcome.Void++
	}
}
