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
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"hclbench/apply/place"
	"hclbench/flow"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/results"
)

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
	err := &Error{Hosts: r.runHosts(work)}
	err.Store = r.keep.stays(ctx, opt.Rent)
	noted()

	outcome := "done"
	switch {
	case ctx.Err() != nil:
		outcome, err.Cause = "interrupted", context.Cause(ctx)
	case work.Err() != nil:
		outcome, err.Store = "failed", errors.Join(err.Store, context.Cause(work))
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

func (r *run) runHosts(ctx context.Context) []*HostError {
	var todo []*plan.Deployment
	for _, d := range r.plan.Deployments {
		if n := len(d.ToDo()); n > 0 {
			todo = append(todo, d)
			r.outcome.Planned += n
		}
	}
	line := slices.Clone(todo)
	var tunes []*plan.Tune
	for _, t := range r.plan.Tunes {
		if t.ToDo() {
			tunes, line = append(tunes, t), append(line, t.Hold)
		}
	}
	r.sched = newScheduler(line)
	openings := r.openings()
	ended := make([]*HostError, len(openings))
	var wg sync.WaitGroup
	for i, o := range openings {
		wg.Go(func() { ended[i] = r.host(ctx, o) })
	}
	for _, d := range todo {
		wg.Go(func() { r.carryOut(ctx, d, func() error { return nil }) })
	}
	for _, t := range tunes {
		wg.Go(func() { r.tune(ctx, t) })
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
	if o.at.Rent != nil { // for those who look while it goes on, or when it was killed
		if wrong := r.keep.stays(ctx, r.opt.Rent); wrong != nil {
			r.stop(wrong)
		}
	}
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

// carryOut carries a deployment out when its hosts are free, and returns what ended it before its end; begin is called when it
// has them, and may refuse.
func (r *run) carryOut(ctx context.Context, d *plan.Deployment, begin func() error) *failure {
	at, err := r.sched.take(ctx, d)
	defer r.sched.give(d)
	if at != nil {
		if err = begin(); err == nil {
			var give func()
			give, err = r.rent(ctx, d, at)
			defer give()
		}
		if err != nil {
			at = nil
		}
	}
	t := newTrial(r, d, at)
	t.settle(ctx, err)
	if at != nil {
		t.carryOut()
	}
	return t.fate
}

// carryOut measures the deployment's cells, and starts the engine as often as it is lost, of a tuning once:
// each start deals with a cell, so that it ends.
func (t *trial) carryOut() {
	ctx, done := t.held()
	defer done()
	if !t.d.Until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, t.d.Until, errBudget)
		defer cancel()
	}
	t.settle(ctx, t.prepare(ctx))
	for len(t.left) > 0 {
		t.settle(ctx, t.attempt(ctx))
		if t.d.Tuned {
			t.left = nil
		}
	}
}

// settle decides what failures cost, each by its scope.
func (t *trial) settle(ctx context.Context, err error) {
	for _, f := range failures(err, ofDeployment) {
		left := t.left
		f.came = t.came
		if (f.scope >= ofHost || f.scope > ofCell && ctx.Err() == nil) && (t.fate == nil || f.scope > t.fate.scope) {
			t.fate = f
		}
		if f.scope >= ofDeployment {
			t.left = nil
		}
		switch {
		case f.scope == ofRun:
			t.tell.say(Failed, "%v", f)
			t.run.stop(f)
		case f.scope == ofHost:
			t.run.sched.lose(f.host, f.err)
		case ctx.Err() != nil: // it was broken off, which is no failure
		case f.scope == ofStart:
			t.tell.say(Warning, "the engine is lost: %v", f)
		case f.scope == ofDeployment:
			why := fmt.Errorf("%s: %w", t.d.Engine, f)
			t.tell.say(Failed, "%v", why)
			t.settle(ctx, t.giveUp(ctx, left, why))
		case f.scope == ofTrial:
			t.tell.say(Failed, "%s: %v", t.d.Engine, f)
		}
	}
	if ctx.Err() != nil {
		t.left = nil
	}
}

// renew asks for all leases anew before the engine is blamed: it has not failed if it was taken down because the leases ran out, while this
// machine slept, or with a box that was taken away. Whoever knows says so, which ends ctx.
func (t *trial) renew(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	flow.Each(slices.Collect(maps.Values(t.at)), func(_ int, s *place.Session) error {
		s.Renew(ctx)
		return nil
	})
	for h, s := range t.at {
		if s.Held.Err() != nil && slices.Contains(t.d.Hosts, h) {
			<-ctx.Done() // see [engine.held]
		}
	}
}

func (t *trial) giveUp(ctx context.Context, cells []*plan.Cell, why error) error {
	if err := t.keepRow(ctx); err != nil {
		return err
	}
	what, _, _ := strings.Cut(why.Error(), "\n")
	for _, c := range cells {
		x := c.Cells()[0]
		if l := t.looking; l != nil && l.cell == c {
			x = l.next()
		}
		if x.Status == plan.Done { // of a search that goes on later
			t.run.count(load.Void, t.d.Tuned)
			continue
		}
		m := t.measurement(x)
		m.out.Finished, m.out.Error = m.out.Started, why.Error()
		if err := t.keep(ctx, m, what); err != nil {
			return err
		}
	}
	return nil
}

// attempt measures the next cell by the engine's own tool, or starts the engine for all others.
func (t *trial) attempt(ctx context.Context) (err error) {
	if err := t.readyAgain(ctx); err != nil {
		return err
	}
	t.row.Phases, t.row.Served, t.row.Stopped = slices.Clone(t.built), nil, time.Time{}
	next, err := t.next(ctx)
	switch {
	case next == nil:
		return err
	case next.Batch() != nil:
		return t.cell(ctx, next, (*measurement).batch)
	}
	defer func() { err = errors.Join(err, t.stop(ctx)) }()
	if err := t.start(ctx); err != nil {
		return err
	}
	for next != nil {
		if err := t.cell(ctx, next, (*measurement).load); err != nil || ctx.Err() != nil {
			return err
		}
		if next, err = t.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// readyAgain sees to it that each place is as it was made ready, before anything is measured.
func (t *trial) readyAgain(ctx context.Context) error {
	for _, h := range t.d.Needs() {
		switch err := t.at[h].ReadyAgain(ctx); {
		case err != nil && ctx.Err() != nil: // another host is lost, or the run is broken off
			return context.Cause(ctx)
		case err != nil:
			return t.blame(t.at[h], err)
		}
	}
	t.row.Facts = t.home().FactsText()
	for i, m := range t.parts {
		t.rows[i].Facts = t.at[m.Host].FactsText()
	}
	return nil
}

// cell measures the next cell, or try of a search, and keeps what came of it. It returns what costs more than that.
func (t *trial) cell(ctx context.Context, c *plan.Cell, how func(*measurement, context.Context) error) error {
	m := t.measurement(c)
	if m.of = t.looking; m.of != nil {
		m.tell.about.Number, m.tell.about.Of, m.tell.about.Try = m.of.tell.about.Number, m.of.tell.about.Of, c.Repetition
		m.tell.tell(Event{Type: Try})
	} else {
		m.tell.about.Number, m.tell.about.Of = t.begin()
		m.tell.tell(Event{Type: Begin})
	}
	var more []error
	err := how(m, ctx)
	if err != nil {
		t.renew(ctx)
	}
	for _, f := range failures(err, ofCell) {
		switch f.scope {
		case ofStart:
			tail := t.tail(ctx)
			m.void(withTail("the engine was lost in mid-cell: "+f.Error()+t.lostBy(tail), tail))
			more = append(more, f)
		case ofCell:
			m.void(f.Error())
		default:
			more = append(more, f)
		}
	}
	for _, h := range t.d.Needs() {
		if t.at[h].Anew() { // what it was measured with was no longer set
			why := fmt.Sprintf("%s has cleaned itself, or was restarted, in mid-cell", h)
			if m.out.Summary != nil {
				m.void(why)
			}
			more = append(more, failed(ofStart, nil, errors.New(why)))
		}
	}
	if m.out.Summary == nil && m.out.Error == "" || ctx.Err() != nil && m.out.Summary == nil {
		return errors.Join(more...) // interrupted: not a measurement, and not a failure
	}
	if m.of == nil {
		t.left = t.left[1:]
	}
	if m.out.Finished.IsZero() {
		m.out.Finished = time.Now()
	}
	return errors.Join(append(more, t.keep(ctx, m, m.out.Error))...)
}
