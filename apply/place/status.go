package place

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/kube"
	"hclbench/provision/rent"
)

// Presence is what of a lab is on one host.
type Presence struct {
	Host       *provision.Host
	Err        error              // why it could not be asked, or not of everything
	Unseen     error              // why containers of an earlier text of the lab cannot be seen; nil: they are
	Lease      *agent.Lease       // nil: nobody is at work
	Reserved   *agent.Lease       // of the machine, for another lab; nil: for none
	Unclean    *agent.Unclean     // what a tear-down has left; nil: nothing
	Changed    []provision.Change // settings that are to be put back
	Containers []provision.Found
	Processes  []provision.Found
	Rental     *rent.Rental      // of a rented host, or of one that the lab has no more: the box that is there; nil: none
	NoAccount  error             // why nobody can give that box back; nil: hcl can
	Others     []provision.Found // that carry the lab's name, and are another login's, store's or host block's
}

// Status looks at every host. Hosts that cannot be asked are in the error; the others are
// in the answer all the same.
func Status(ctx context.Context, scope Scope, opt Options) ([]Presence, error) {
	places := scope.places()
	found, errs := visit(ctx, scope, places, opt.Filled(), scope.status, func(ctx context.Context, _ *provision.Host, c *kube.Client) (Presence, error) {
		return scope.inCluster(ctx, c, opt.Filled())
	})
	for i, h := range places {
		rental, err := opt.rental(scope, h)
		found[i].Rental, errs[i] = rental, errors.Join(errs[i], err)
	}
	open, err := opt.Rent.Open(scope.Owns)
	for _, t := range open {
		if rentedFor(t, places) == nil {
			places, found, errs = append(places, &provision.Host{Name: t.Host}), append(found, Presence{Rental: t}), append(errs, nil)
		}
	}
	for i := range found {
		if t := found[i].Rental; t != nil && Account(t, places) == nil {
			found[i].NoAccount = noAccount(t)
		}
	}
	all, why := presences(places, found, errs)
	return all, errors.Join(err, why)
}

// inCluster is what of the lab there is in a cluster.
func (s Scope) inCluster(ctx context.Context, client *kube.Client, opt Options) (p Presence, err error) {
	roots, err := client.Find(ctx, s.Lab)
	if err != nil {
		return p, err
	}
	var errs []error
	for _, root := range roots {
		pods, err := root.Pods(ctx)
		errs = append(errs, err)
		for _, pod := range pods {
			p.Containers = append(p.Containers, containerOf(ctx, root, pod))
		}
		lease, err := leaseOf(ctx, root, opt)
		errs = append(errs, err)
		if lease != nil {
			p.Lease = lease
		}
	}
	return p, errors.Join(errs...)
}

func presences(hosts []*provision.Host, found []Presence, errs []error) ([]Presence, error) {
	for i, h := range hosts {
		found[i].Host, found[i].Err = h, errs[i]
	}
	return found, errors.Join(errs...)
}

func (s Scope) status(ctx context.Context, c Reached) (p Presence, err error) {
	a, err := agent.Attach(ctx, c.Conn, s.Lab)
	if err != nil {
		return p, err
	}
	if a != nil {
		defer a.Close()
		info, err := a.Info(ctx)
		if err != nil {
			return p, err
		}
		p.Lease = info.Lease
		if p.Processes, err = (agent.Processes{Client: a}).List(ctx, ofLab(s.Lab)); err != nil {
			return p, err
		}
	} else if p.Processes, err = agent.Left(ctx, c.Conn, s.Lab); err != nil {
		return p, err
	}
	if p.Unclean, err = agent.ReadUnclean(ctx, c.Conn); err != nil {
		return p, err
	}
	if p.Changed, err = agent.ReadPrepared(ctx, c.Conn); err != nil {
		return p, err
	}
	if p.Reserved, err = agent.ReadReservation(ctx, c.Conn); err != nil {
		return p, err
	}
	if p.Reserved != nil && p.Reserved.Lab == s.Lab {
		p.Reserved = nil // that is the lease, or was
	}
	var look bool
	if look, p.Unseen = s.looksAtDocker(ctx, c); look {
		p.Containers, p.Others, err = s.containers(ctx, c)
	}
	return p, err
}

// containers are those of a lab's name on a host: of this login and host block, and others.
func (s Scope) containers(ctx context.Context, c Reached) (own, others []provision.Found, err error) {
	all, err := c.Docker.List(ctx, ofLab(s.Lab))
	for _, f := range all {
		if f.Labels[provision.LabelAgent] == agent.Dir(c.Conn, s.Lab) {
			own = append(own, f)
		} else {
			others = append(others, f)
		}
	}
	return own, others, err
}

// Whose says whose a container is that carries the lab's name and is not ours.
func Whose(f provision.Found) string {
	by := f.Labels[provision.LabelAgent]
	if by == "" {
		return "it carries the lab's name, and no claim"
	}
	return fmt.Sprintf("it belongs to run %s of another login, store or host block, whose agent is in %s", f.Labels[provision.LabelRun], by)
}

func ofLab(lab string) map[string]string { return map[string]string{provision.LabelLab: lab} }

// looksAtDocker reports whether containers of the lab are looked for on the host. unseen
// says why they cannot be although there is a Docker, of which the lab of today has no
// need; a host whose block says that engines run as processes is not doubted.
func (s Scope) looksAtDocker(ctx context.Context, c Reached) (look bool, unseen error) {
	h := c.Conn.Host()
	inDocker := func(e *engines.Engine) bool { return engines.Runtime(e) == provision.Docker }
	if slices.ContainsFunc(s.on(h), inDocker) {
		return true, nil
	}
	_, err := c.Docker.Version(ctx)
	if errors.Is(err, provision.ErrDockerAway) && h.Runtime != provision.Process {
		unseen = fmt.Errorf("containers of the lab, if there are any, cannot be seen: %w", err)
	}
	return err == nil, unseen
}

// Destroy ends whatever runs of this lab and store have on its hosts, and proves that nothing is left: also of
// what an earlier tear-down could not. It refuses where another store's caller holds the lease, and leaves what carries
// the lab's name and is another login's, store's or host block's, unless how says force, which also forgets what is
// left. With cache it removes what hcl keeps on the hosts as well. It returns what it removed.
func Destroy(ctx context.Context, scope Scope, how agent.Destroying, opt Options, tell Tell) ([]Presence, error) {
	tell, told := listening(ctx, tell)
	defer told()
	how.By = cmp.Or(opt.Holder, "hcl destroy")
	r := remover{scope, how, opt.Filled(), func(e Event) {
		e.Message = plain.Line(e.Message)
		tell(e)
	}}
	places := scope.places()
	machines := slices.DeleteFunc(slices.Clone(places), func(h *provision.Host) bool { return h.Rent != nil })
	found, errs := visit(ctx, scope, machines, r.opt, r.remove, r.leaveCluster)
	all, err := presences(machines, found, errs)
	open, why := r.opt.Rent.Open(scope.Owns)
	return all, errors.Join(err, why, GiveBack(ctx, open, places, r.opt, r.tell)) // which ends all that runs there
}

type remover struct {
	scope Scope
	how   agent.Destroying
	opt   Options
	tell  Tell
}

func (r remover) remove(ctx context.Context, c Reached) (p Presence, err error) {
	how, h := r.how, c.Conn.Host()
	seen, unseen := r.scope.looksAtDocker(ctx, c)
	if p.Unseen = unseen; unseen != nil {
		r.tell.say(h, Warning, "%v", unseen)
	}
	if seen {
		if _, how.Docker, err = c.Docker.Access(ctx); err != nil {
			return p, err
		}
	}
	ended, was, err := agent.Destroy(ctx, c.Conn, r.opt.Binaries, r.scope.Lab, how, r.opt.Log)
	p.Lease = was
	for _, f := range ended.Removed {
		r.tell.say(h, Step, "removed %s", f.Name)
		p.Containers = append(p.Containers, f)
	}
	for _, text := range ended.Warnings() {
		r.tell.say(h, Warning, "%s", text)
	}
	if err != nil || !seen {
		return p, err
	}
	if _, p.Others, err = r.scope.containers(ctx, c); err == nil {
		for _, f := range p.Others {
			r.tell.say(h, Warning, "%s is left: %s. --force removes it too", f.Name, Whose(f))
		}
	}
	return p, err
}

// leaveCluster ends what of the lab there is in a cluster, and proves that nothing is left.
func (r remover) leaveCluster(ctx context.Context, _ *provision.Host, client *kube.Client) (p Presence, err error) {
	roots, err := client.Find(ctx, r.scope.Lab)
	if err != nil {
		return p, err
	}
	var errs []error
	for _, root := range roots {
		if !r.how.Force {
			ours, err := vacant(ctx, root, client.Cluster().Host(), r.how.Store, r.opt)
			if err == nil && !ours {
				err = fmt.Errorf(leftByOther, client.Cluster(), root.Run, root.Holder)
			}
			if err != nil {
				errs = append(errs, err)
				continue
			}
		}
		pods, _ := root.Pods(ctx) // for people: what is deleted is told by its root
		for _, pod := range pods {
			p.Containers = append(p.Containers, containerOf(ctx, root, pod))
		}
		r.tell(Event{Type: Step, Host: client.Cluster().Name, Message: "removing run " + root.Run})
		errs = append(errs, root.End(ctx))
	}
	if errors.Join(errs...) == nil {
		of := kube.RunOf{Lab: r.scope.Lab, Store: r.how.Store}
		if r.how.Force {
			of.Store = ""
		}
		errs = append(errs, client.LeaveNamespace(ctx, of))
	}
	return p, errors.Join(errs...)
}
