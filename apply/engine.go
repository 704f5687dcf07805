package apply

import (
	"context"
	"maps"
	"time"

	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
)

// engine is a deployment's engine on its hosts: what of it is up, and how it is asked.
type engine struct {
	d       *plan.Deployment
	at      map[*provision.Host]*session // of all hosts that the deployment needs
	tell    teller
	secrets plain.Secrets
	members []*member // that are up, in order of starting; none: somebody else runs the engine
}

// home is the session of the host where the engine serves, or where the load runs when
// somebody else runs it.
func (e *engine) home() *session { return e.at[e.d.Host()] }

// held returns a context that ends when the lease of one of the engine's hosts does.
// That of a sender ends only what it sends.
func (e *engine) held() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(e.home().lease.held)
	var stops []func() bool
	for _, h := range servingOn(e.d) {
		held := e.at[h].lease.held
		stops = append(stops, context.AfterFunc(held, func() { cancel(context.Cause(held)) }))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// launch starts a member.
func (e *engine) launch(ctx context.Context, in plan.Member) (*member, error) {
	s := e.at[in.Host]
	in.Container.Labels = maps.Clone(in.Container.Labels)
	in.Container.Labels[plan.LabelRun] = s.work.claim.Run
	m := &member{Member: in, at: s, rt: s.runtime(in.Runtime), tell: e.tell}
	m.tell.about.Host = in.Host.Name
	if len(e.d.Members) > 1 {
		m.tell.about.Role, m.tell.about.Rank = in.Role, in.Rank
	}
	var err error
	m.id, err = m.rt.Start(ctx, in.Container)
	m.started = time.Now()
	return m, err
}

// tail returns the last log lines of the member that has ended, or of the one that serves.
func (e *engine) tail(ctx context.Context) []string {
	for _, m := range e.members {
		if m.alive(ctx) != nil {
			return m.tail(ctx)
		}
	}
	if front := e.front(); front != nil {
		return front.tail(ctx)
	}
	return nil
}

// front is the member that serves, the plan's first. nil: somebody else runs the engine.
func (e *engine) front() *member {
	if len(e.members) == 0 {
		return nil
	}
	return e.members[0]
}

// debug tells, to whoever debugs, what could not be found out of the engine.
func (e *engine) debug(what string, err error) {
	e.home().opt.Log.Debug(what, "engine", e.d.Engine.Label(), "err", e.secrets.Text(err.Error()))
}
