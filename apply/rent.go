package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/flow"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/kube"
)

// A host of a cluster is a pod that is rented for one trial. What the pods of a run have in common is
// its root there, a place of its own: it comes before the first of them and goes after the last.

// lastResort is how long a run may last of which the lab does not say it: its lease ends it before,
// unless nobody in the cluster can see that.
const lastResort = 7 * 24 * time.Hour

// arrive reaches the place. A pod comes to be before.
func (s *session) arrive(ctx context.Context) (err error) {
	switch {
	case s.host.Cluster == nil:
		s.reached, err = dial(ctx, s.host, s.opt)
		return err
	case s.work.root == nil:
		return s.beginRoot(ctx)
	}
	s.pod, err = s.work.root.Pod(ctx, s.work.pod, func(what string) { s.tell.say(Step, "%s", what) })
	if err != nil {
		return err
	}
	s.leave = s.pod.Delete
	s.reached, err = enter(ctx, s.host, s.pod, s.opt)
	return err
}

// beginRoot makes the root of the run in a cluster, when no other run of the lab is at work there.
func (s *session) beginRoot(ctx context.Context) error {
	client, err := kube.Open(ctx, s.host.Cluster, func(what string) { s.tell.say(Waiting, "%s", what) })
	if err != nil {
		return err
	}
	s.leave = func(context.Context) error { return client.Close() }
	if err := s.takeOver(ctx, client); err != nil {
		return err
	}
	run := kube.RunOf{
		Lab: s.work.claim.Lab, Run: s.work.claim.Run, Holder: s.work.claim.Holder, Store: s.work.claim.Store,
		Lease: time.Duration(s.work.claim.TTL), Deadline: runDeadline(time.Duration(s.work.claim.MaxDuration)),
	}
	if err := client.MakeNamespace(ctx, run); err != nil {
		return err
	}
	s.leave = func(ctx context.Context) error { return errors.Join(client.LeaveNamespace(ctx, run), client.Close()) }
	findings, err := client.Check(ctx, s.work.pods)
	if err = errors.Join(err, s.meets(findings)); err != nil {
		return err
	}
	s.root, err = client.Begin(ctx, run, func(what string) { s.tell.say(Step, "%s", what) })
	if err != nil {
		return err
	}
	s.leave = func(ctx context.Context) error {
		return errors.Join(s.root.End(ctx), client.LeaveNamespace(ctx, run), client.Close())
	}
	s.pod = s.root.Self()
	s.reached, err = enter(ctx, s.host, s.pod, s.opt)
	return err
}

const sameSpace = "another cluster block of this lab makes its pods in the same namespace: give each a namespace of its own"

// takeOver ends what earlier runs of the lab have left in the cluster, when nobody is at work there: it
// waits for that as for a host.
func (s *session) takeOver(ctx context.Context, client *kube.Client) error {
	end := time.Now().Add(s.opt.Wait)
	for told := false; ; told = true {
		err := s.takeOverNow(ctx, client)
		held, is := errors.AsType[*agent.HeldError](err)
		if !is || time.Now().After(end) {
			return err
		}
		if !told {
			s.tell.say(Step, "%s", waitsFor(held.Lease, false))
		}
		if !flow.Pause(ctx, waitPoll) {
			return context.Cause(ctx)
		}
	}
}

func (s *session) takeOverNow(ctx context.Context, client *kube.Client) error {
	left, err := client.Find(ctx, s.work.claim.Lab)
	if err != nil {
		return err
	}
	for _, root := range left {
		if root.Run == s.work.claim.Run {
			return fmt.Errorf("%s: "+sameSpace, s.host)
		}
		ours, err := vacant(ctx, root, s.host, s.work.claim.Store, s.opt)
		if err != nil {
			return err
		}
		if !ours {
			s.tell.say(Warning, leftByOther, s.host, root.Run, root.Holder)
			continue
		}
		s.tell.say(Step, "removing what run %s left there", root.Run)
		if err := root.End(ctx); err != nil {
			return err
		}
	}
	return nil
}

// meets tells what is wrong with a place; what is blocked keeps everything from starting.
func (s *session) meets(findings []provision.Finding) error {
	errs := []error{fmt.Errorf("%s: %w", s.host, ErrContract)}
	for _, f := range findings {
		switch f.Level {
		case provision.Blocked:
			errs = append(errs, errors.New("  - "+sentence(f)))
		case provision.Warning:
			s.tell.say(Warning, "%s", sentence(f))
		}
	}
	if len(errs) == 1 {
		return nil
	}
	return errors.Join(errs...)
}

// watchPod ends the lease of a pod that is lost: nobody else would tell before the lease runs out.
func (s *session) watchPod(ctx context.Context) {
	st, err := s.pod.Went(ctx)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		err = provision.Fail(s.host, provision.ErrPodLost, "its pod has ended: %s", exit(s.host, st))
	}
	s.lease.lose(&podLost{err})
}

// watchPoll is how often a cluster is asked what became of what the run has made there.
const watchPoll = 3 * time.Second

// podLost ends the work in a pod that is no more: there is nothing to be taken down.
type podLost struct{ error }

func (e *podLost) Unwrap() error { return e.error }

// rentTries is how often the pods of a trial are rented. Two runs may each have what the other waits for: then all
// are given back, and one of them comes first the next time.
const rentTries = 3

// rent opens a pod for each host of a trial that is one, in place of the cluster's own session. give gives them back.
func (r *run) rent(ctx context.Context, d *plan.Deployment, at sessions) (give func(), err error) {
	rented, err := r.rentAll(ctx, d, at)
	for try := 1; try < rentTries && errors.Is(err, provision.ErrNoRoom) && rented.some(); try++ {
		r.giveBack(ctx, rented)
		wait := time.Duration(rand.Int64N(int64(rentWait)))
		teller{to: r.told}.say(Step, startsAgain, wait.Round(time.Second), err)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		rented, err = r.rentAll(ctx, d, at)
	}
	maps.Copy(at, rented)
	at.neighbours(d)
	return func() { r.giveBack(ctx, rented) }, err
}

// rentWait is the longest until the next try.
const rentWait = time.Minute

const startsAgain = "not all of its pods have room, which others may hold who wait for these: they are given back, and " +
	"rented again after %s: %v"

// some reports whether one of the places at least could be had.
func (at sessions) some() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(at)), func(s *session) bool { return s.pod != nil })
}

// rentAll is one try, of all pods side by side.
func (r *run) rentAll(ctx context.Context, d *plan.Deployment, at sessions) (rented sessions, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	rented = sessions{}
	var errs []error
	for h, root := range at {
		if h.Cluster == nil {
			continue
		}
		all.Go(func() {
			w := r.workAt(h, []*plan.Deployment{d})
			w.root, w.pod = root.root, podOf(h, d)
			s, err := open(ctx, h, w, r.opt, teller{about: Event{Host: h.Name}, to: r.told})
			mu.Lock()
			defer mu.Unlock()
			rented[h], errs = s, append(errs, notRented(h, err))
		})
	}
	all.Wait()
	return rented, errors.Join(errs...)
}

const neighbour = "%s is a pod on its node %s too: what one takes of the processors, the other lacks. Say cpu in " +
	"requests and limits of both, or add nodes"

// neighbours warns of clients that have another pod of the deployment beside them.
func (at sessions) neighbours(d *plan.Deployment) {
	for _, h := range d.Needs() {
		sends := func(c *plan.Cell) bool { return slices.Contains(c.From(), h) }
		beside := func(other *provision.Host) bool {
			a, b := at[h].pod, at[other].pod
			return other != h && a != nil && b != nil && h.Cluster.Same(other.Cluster) && a.Node() == b.Node()
		}
		i := slices.IndexFunc(d.Needs(), beside)
		if i >= 0 && slices.ContainsFunc(d.ToDo(), sends) {
			at[h].tell.say(Warning, neighbour, d.Needs()[i], at[h].pod.Node())
		}
	}
}

// pods are the fabrics of the hosts that are pods, which have their addresses by now.
func (at sessions) pods() map[*provision.Host]provision.Fabric {
	all := map[*provision.Host]provision.Fabric{}
	for h, s := range at {
		if h.Cluster != nil {
			all[h] = s.conn.Host().Fabric
		}
	}
	return all
}

// notRented is what it costs that a pod could not be had. Other deployments get others.
func notRented(h *provision.Host, err error) error {
	switch {
	case errors.Is(err, provision.ErrImageNotFound), errors.Is(err, provision.ErrNoBegin): // which is the lab's mistake
		return err
	case errors.Is(err, provision.ErrPodLost), errors.Is(err, provision.ErrNoRoom):
		return failed(ofTrial, h, fmt.Errorf("%s: %w", measuredLater, err))
	}
	return failed(ofHost, h, err)
}

const measuredLater = "what it was rented for is measured by the next apply"

// giveBack closes the sessions of pods, each of which is deleted with its own. A pod that was lost costs
// what it was rented for; what does not go is looked for again at the end of the run, with its root.
func (r *run) giveBack(ctx context.Context, rented sessions) {
	var all sync.WaitGroup
	for _, s := range rented {
		all.Go(func() {
			if s.lease != nil && s.lease.held.Err() != nil && ctx.Err() == nil {
				s.tell.say(Failed, "%s: %v", measuredLater, context.Cause(s.lease.held))
			}
			if ctx.Err() != nil || s.lease != nil && s.lease.unreachable() {
				s.leave = nil
			}
			if err := s.close(); err != nil && ctx.Err() == nil {
				s.tell.say(Warning, "%v", err)
			}
		})
	}
	all.Wait()
}

// podOf is the pod that a host is for a deployment: as its first engine of an image wants it.
func podOf(h *provision.Host, d *plan.Deployment) kube.PodSpec {
	spec := kube.PodSpec{Host: h, Image: h.Cluster.Image, Labels: map[string]string{provision.LabelEngine: d.Engine.Label()}}
	i := slices.IndexFunc(d.Members, func(m plan.Member) bool { return m.Host == h && engines.InImage(m.Engine) })
	if i >= 0 {
		ct := d.Members[i].Container
		spec.Image, spec.Shm, spec.Privileged, spec.CapAdd, spec.Mounts = ct.Image, ct.ShmSize, ct.Privileged, ct.CapAdd, ct.Mounts
	}
	return spec
}
