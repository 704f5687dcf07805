package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"hclbench/apply/place"
	"hclbench/flow"
	"hclbench/plan"
	"hclbench/provision"
)

// rentTries is how often the pods of a trial are rented. Two runs may each have what the other waits for: then all
// are given back, and one of them comes first the next time.
const rentTries = 3

// rent opens a pod for each host of a trial that is one, in place of the cluster's own session. give gives them back.
func (r *run) rent(ctx context.Context, d *plan.Deployment, at sessions) (give func(), err error) {
	rented, err := r.rentAll(ctx, d, at)
	for try := 1; try < rentTries && errors.Is(err, provision.ErrNoRoom) && rented.anyHeld(); try++ {
		r.giveBack(ctx, rented)
		wait := time.Duration(rand.Int64N(int64(rentWait)))
		teller{to: r.publish}.say(Step, startsAgain, wait.Round(time.Second), err)
		flow.Pause(ctx, wait)
		rented, err = r.rentAll(ctx, d, at)
	}
	maps.Copy(at, rented)
	r.neighbours(d, at)
	return func() { r.giveBack(ctx, rented) }, err
}

// rentWait is the longest until the next try.
const rentWait = time.Minute

const startsAgain = "not all of its pods have room, which others may hold who wait for these: they are given back, and " +
	"rented again after %s: %v"

// rentAll is one try, of all pods side by side.
func (r *run) rentAll(ctx context.Context, d *plan.Deployment, at sessions) (rented sessions, err error) {
	pods := slices.DeleteFunc(slices.Collect(maps.Keys(at)), func(h *provision.Host) bool { return h.Cluster == nil })
	opened := make([]*place.Session, len(pods))
	err = flow.Each(pods, func(i int, h *provision.Host) (err error) {
		w := r.workAt(h, []*plan.Deployment{d})
		w.Root, w.Pod = at[h].Root, podOf(h, d)
		opened[i], err = place.Open(ctx, h, w, r.opt.Options, r.at(h).hear)
		return notRented(h, err)
	})
	rented = sessions{}
	for i, h := range pods {
		rented[h] = opened[i]
	}
	return rented, err
}

const neighbour = "%s is a pod on its node %s too: what one takes of the processors, the other lacks. Say cpu in " +
	"requests and limits of both, or add nodes"

// neighbours warns of clients that have another pod of the deployment beside them.
func (r *run) neighbours(d *plan.Deployment, at sessions) {
	for _, h := range d.Needs() {
		sends := func(c *plan.Cell) bool { return slices.Contains(c.From(), h) }
		beside := func(other *provision.Host) bool {
			a, b := at[h].Pod, at[other].Pod
			return other != h && a != nil && b != nil && h.Cluster.Same(other.Cluster) && a.Node() == b.Node()
		}
		i := slices.IndexFunc(d.Needs(), beside)
		if i >= 0 && slices.ContainsFunc(d.ToDo(), sends) {
			r.at(h).say(Warning, neighbour, d.Needs()[i], at[h].Pod.Node())
		}
	}
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
	flow.Each(slices.Collect(maps.Values(rented)), func(_ int, s *place.Session) error {
		if s.Held != nil && s.Held.Err() != nil && ctx.Err() == nil {
			r.at(s.Host).say(Failed, "%s: %v", measuredLater, context.Cause(s.Held))
		}
		if ctx.Err() != nil {
			s.Forget()
		}
		if err := s.Close(nil); err != nil && ctx.Err() == nil {
			r.at(s.Host).say(Warning, "%v", err)
		}
		return nil
	})
}
