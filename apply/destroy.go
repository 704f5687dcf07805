package apply

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"hclbench/agent"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/look"
)

// Destroy removes everything of the lab from its hosts, found by label, whoever
// left it there, ends the lab's agents, and proves that nothing is left: also of
// what an earlier tear-down could not. It refuses where another store's caller
// holds the lease, unless force is set, which also forgets what is left. With
// cache it removes what hcl keeps on the hosts as well. It returns what it removed.
func Destroy(ctx context.Context, scope Scope, storeID string, force, cache bool, opt Options) ([]Presence, error) {
	tell, told := listening(ctx, opt.Events)
	defer told()
	r := remover{scope, storeID, force, cache, opt.filled(), tell}
	places := scope.places()
	found, errs := visit(ctx, places, r.opt, r.remove, r.leaveCluster)
	return presences(places, found, errs)
}

type remover struct {
	scope        Scope
	store        string // whose lease it may end
	force, cache bool
	opt          Options
	to           func(Event)
}

func (r remover) remove(ctx context.Context, c reached) (p Presence, err error) {
	info, err := r.dismiss(ctx, c)
	if err != nil {
		return p, err
	}
	a, err := agent.Start(ctx, c.conn, r.opt.Binaries, agent.Lease{Lab: r.scope.Lab, Store: r.store}, r.opt.Log)
	if err != nil {
		return p, err
	}
	defer a.Close()
	lease := agent.Lease{Lab: r.scope.Lab, Holder: r.opt.Holder}
	if info.Lease != nil {
		lease = *info.Lease
	}
	if p.Unclean, err = agent.ReadUnclean(ctx, c.conn); err != nil {
		return p, err
	}
	traces := lease.Traces
	if p.Unclean != nil && r.force {
		if err := agent.ForgetUnclean(ctx, c.conn); err != nil {
			return p, err
		}
		p.Unclean = nil
	} else if p.Unclean != nil {
		traces = together(p.Unclean.Traces, traces)
	}
	defer func() { err = errors.Join(err, a.Release(ctx)) }()
	if err := r.sweep(ctx, c, a, &p, &traces); err != nil {
		return p, err
	}
	traces.Mark = a.Mark()
	_, err = look.ProveGone(ctx, c.conn, traces, r.opt.Release)
	switch {
	case err != nil && !r.force:
		return p, errors.Join(err, agent.MarkUnclean(ctx, c.conn, lease, traces, err))
	case err == nil && p.Unclean != nil:
		err = agent.ForgetUnclean(ctx, c.conn)
	}
	if r.cache && err == nil {
		err = a.Clear(ctx)
	}
	return p, err
}

func (r remover) sweep(ctx context.Context, c reached, a *agent.Client, p *Presence, traces *provision.Traces) error {
	tell := teller{about: Event{Host: c.conn.Host().Name}, to: func(e Event) {
		e.Message = plain.Line(e.Message)
		r.to(e)
	}}
	gone := func(f provision.Found) {
		traces.Containers = append(traces.Containers, f.ID)
		tell.say(Step, "removing %s", f.Name)
	}
	var err, failed error
	p.Processes, err = sweep(ctx, agent.Processes{Client: a}, r.scope.Lab, gone)
	seen, unseen := r.scope.looksAtDocker(ctx, c)
	if p.Unseen = unseen; unseen != nil {
		tell.say(Warning, "%v", unseen)
	}
	if seen {
		p.Containers, failed = sweep(ctx, c.docker, r.scope.Lab, gone)
	}
	return errors.Join(err, failed)
}

// dismiss looks who has the lab's lease on a host. Where that is another store's caller,
// force ends it, and with it that caller's run.
func (r remover) dismiss(ctx context.Context, c reached) (info agent.Info, err error) {
	a, err := agent.Attach(ctx, c.conn, r.scope.Lab)
	if err != nil || a == nil {
		return info, err
	}
	defer a.Close()
	info, err = a.Info(ctx)
	if err != nil || info.Lease == nil || info.Lease.Store == r.store {
		return info, err
	}
	if !r.force {
		return info, &agent.HeldError{Host: c.conn.Host(), Lab: r.scope.Lab, Lease: *info.Lease}
	}
	return info, agent.End(ctx, c.conn, r.scope.Lab, cmp.Or(r.opt.Holder, "hcl destroy --force"))
}

// together are the traces of two runs; how the GPUs were before is known from the
// older of them.
func together(older, newer provision.Traces) provision.Traces {
	older.Containers = slices.Concat(older.Containers, newer.Containers)
	older.Ports = slices.Concat(older.Ports, newer.Ports)
	older.Mark = cmp.Or(older.Mark, newer.Mark)
	if len(older.Before.Memory) == 0 {
		older.Before = newer.Before
	}
	return older
}
