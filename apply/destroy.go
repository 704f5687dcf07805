package apply

import (
	"cmp"
	"context"

	"hclbench/agent"
	"hclbench/plain"
)

// Destroy ends whatever runs of this lab and store have on its hosts, and proves that nothing is left: also of
// what an earlier tear-down could not. It refuses where another store's caller holds the lease, and leaves what carries
// the lab's name and is another login's, store's or host block's, unless force is set, which also forgets what is
// left. With cache it removes what hcl keeps on the hosts as well. It returns what it removed.
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
	tell := teller{about: Event{Host: c.conn.Host().Name}, to: func(e Event) {
		e.Message = plain.Line(e.Message)
		r.to(e)
	}}
	how := agent.Destroying{By: cmp.Or(r.opt.Holder, "hcl destroy"), Store: r.store, Force: r.force, Cache: r.cache}
	seen, unseen := r.scope.looksAtDocker(ctx, c)
	if p.Unseen = unseen; unseen != nil {
		tell.say(Warning, "%v", unseen)
	}
	if seen {
		if _, how.Docker, err = c.docker.Access(ctx); err != nil {
			return p, err
		}
	}
	ended, was, err := agent.Destroy(ctx, c.conn, r.opt.Binaries, r.scope.Lab, how, r.opt.Log)
	p.Lease = was
	for _, f := range ended.Removed {
		tell.say(Step, "removed %s", f.Name)
		p.Containers = append(p.Containers, f)
	}
	if err != nil || !seen {
		return p, err
	}
	if _, p.Others, err = r.scope.containers(ctx, c); err == nil {
		for _, f := range p.Others {
			tell.say(Warning, "%s is left: %s. --force removes it too", f.Name, Whose(f))
		}
	}
	return p, err
}
