package place

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"hclbench/agent"
	"hclbench/provision"
	"hclbench/provision/kube"
)

// A host of a cluster is a pod that is rented for one trial. What the pods of a run have in common is
// its root there, a place of its own: it comes before the first of them and goes after the last.

// lastResort is how long a run may last of which the lab does not say it: its lease ends it before,
// unless nobody in the cluster can see that.
const lastResort = 7 * 24 * time.Hour

// Deadline is when a cluster ends a run, whatever anybody does: of one that may last so long.
func Deadline(most time.Duration) time.Duration { return cmp.Or(most, lastResort) + 5*time.Minute }

// containerOf is a pod as what runs in it is told of.
func containerOf(ctx context.Context, root *kube.Root, pod *kube.Pod) provision.Found {
	f := provision.Found{ID: pod.Name(), Name: pod.Name(), Labels: map[string]string{
		provision.LabelLab: root.Lab, provision.LabelRun: root.Run, provision.LabelEngine: pod.Label(provision.LabelEngine),
	}}
	switch st, err := pod.State(ctx); {
	case err != nil:
		f.State = "lost"
	case st.Running:
		f.State = "running"
	default:
		f.State = "exited"
	}
	return f
}

// leaseOf is who is at work in a cluster, or about to be; nil: nobody is, or the root of the run goes. No agent
// has to tell: it may be on its way, or killed a moment ago.
func leaseOf(ctx context.Context, root *kube.Root, opt Options) (*agent.Lease, error) {
	until, alive := root.Alive(ctx)
	if !alive || root.Store == "" { // somebody has made the objects of a plan
		return nil, nil
	}
	lease := &agent.Lease{Lab: root.Lab, Run: root.Run, Store: root.Store, Holder: root.Holder, Expires: until}
	if !until.IsZero() {
		return lease, nil
	}
	if lease.Expires = time.Now(); root.Self() == nil { // unless its agent says more
		return lease, nil
	}
	c, err := enter(ctx, root.Self().Host(), root.Self(), opt)
	if err != nil {
		return nil, err
	}
	defer c.Conn.Close()
	a, err := agent.Attach(ctx, c.Conn, root.Lab)
	if err != nil || a == nil {
		return lease, err
	}
	defer a.Close()
	if info, err := a.Info(ctx); err != nil || info.Lease != nil {
		return info.Lease, err
	}
	return lease, nil
}

const leftByOther = "%s: run %s of another store (%s) has left something there: `hcl destroy --force` removes it"

// vacant reports who of another store is at work in a root, or has left it. Ours is the store's, and what somebody has
// made of a plan's objects.
func vacant(ctx context.Context, root *kube.Root, h *provision.Host, store string, opt Options) (ours bool, err error) {
	if root.Store == store || root.Store == "" {
		return true, nil
	}
	lease, err := leaseOf(ctx, root, opt)
	if err == nil && lease != nil {
		err = &agent.HeldError{Host: h, Lab: root.Lab, Lease: *lease}
	}
	return false, err
}

// podOfHost is the lab's pod of a host at the moment.
func podOfHost(ctx context.Context, client *kube.Client, lab string, h *provision.Host) (*kube.Pod, error) {
	roots, err := client.Find(ctx, lab)
	if err != nil {
		return nil, err
	}
	for _, root := range roots {
		pods, err := root.Pods(ctx)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(pods, func(p *kube.Pod) bool { return p.Host().Name == h.Name }); i >= 0 {
			return pods[i], nil
		}
	}
	return nil, fmt.Errorf("nothing of lab %s runs on %s", lab, h)
}
