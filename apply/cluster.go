package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hclbench/agent"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/docker"
	"hclbench/provision/kube"
	"hclbench/provision/reach"
)

// places are the machines of the scope, and in place of hosts that are pods their clusters, each once.
func (s Scope) places() (all []*provision.Host) {
	seen := map[*provision.Cluster]bool{nil: false}
	for _, h := range s.Hosts {
		switch {
		case h.Cluster == nil:
			all = append(all, h)
		case !seen[h.Cluster]:
			seen[h.Cluster] = true
			all = append(all, h.Cluster.Host())
		}
	}
	return all
}

// enter is a connection into a pod that runs, as a host.
func enter(ctx context.Context, h *provision.Host, pod *kube.Pod, opt Options) (reached, error) {
	at := *h
	if at.Fabric.Address == "" {
		at.Fabric.Address = pod.IP() // others find it there
	}
	c, err := reach.Through(ctx, &at, pod.Transport(), opt.Log)
	if err != nil {
		return reached{}, err
	}
	return reached{c, docker.New(c, opt.Images)}, nil
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
			p.Containers = append(p.Containers, found(ctx, root, pod))
		}
		lease, err := leaseOf(ctx, root, opt)
		errs = append(errs, err)
		if lease != nil {
			p.Lease = lease
		}
	}
	return p, errors.Join(errs...)
}

func found(ctx context.Context, root *kube.Root, pod *kube.Pod) provision.Found {
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
	defer c.conn.Close()
	a, err := agent.Attach(ctx, c.conn, root.Lab)
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

// leaveCluster ends what of the lab there is in a cluster, and proves that nothing is left.
func (r remover) leaveCluster(ctx context.Context, _ *provision.Host, client *kube.Client) (p Presence, err error) {
	roots, err := client.Find(ctx, r.scope.Lab)
	if err != nil {
		return p, err
	}
	var errs []error
	for _, root := range roots {
		if !r.force {
			ours, err := vacant(ctx, root, client.Cluster().Host(), r.store, r.opt)
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
			p.Containers = append(p.Containers, found(ctx, root, pod))
		}
		r.to(Event{Time: time.Now(), Type: Step, Host: client.Cluster().Name, Message: "removing run " + root.Run})
		errs = append(errs, root.End(ctx))
	}
	if errors.Join(errs...) == nil {
		of := kube.RunOf{Lab: r.scope.Lab, Store: r.store}
		if r.force {
			of.Store = ""
		}
		errs = append(errs, client.LeaveNamespace(ctx, of))
	}
	return p, errors.Join(errs...)
}

// contractOf holds a cluster against its block, and what is asked of it when a lab is applied.
func (s Scope) contractOf(ctx context.Context, _ *provision.Host, client *kube.Client) ([]provision.Finding, error) {
	var pods []kube.PodSpec
	for _, h := range s.Hosts {
		if h.Cluster == client.Cluster() {
			spec := kube.PodSpec{Host: h, Image: h.Cluster.Image}
			if on := s.on(h); len(on) > 0 && on[0].Image != "" {
				spec.Image = on[0].Image
			}
			pods = append(pods, spec)
		}
	}
	findings, err := client.Check(ctx, pods)
	if err != nil {
		return findings, err
	}
	if there, err := client.HasNamespace(ctx); !there || err != nil {
		return findings, err
	}
	tried, err := s.tryManifests(ctx, client)
	return append(findings, tried...), err
}

// tryManifests asks a cluster what it would say to the objects of engines of manifests.
func (s Scope) tryManifests(ctx context.Context, client *kube.Client) (findings []provision.Finding, err error) {
	for _, e := range s.Engines {
		if e.Manifests == nil || e.Host().Cluster != client.Cluster() {
			continue
		}
		taken := len(e.Manifests.Objects)
		for i, err := range client.TryObjects(ctx, kube.RunOf{Lab: s.Lab, Run: "check"}, e.Manifests.Objects) {
			if errors.Is(err, provision.ErrUnreachable) {
				return findings, err
			}
			if err != nil {
				taken--
				why := strings.TrimPrefix(err.Error(), client.Cluster().String()+": ")
				findings = append(findings, provision.Finding{
					Check: e.Label(), Level: provision.Blocked, Have: e.Manifests.Objects[i].String() + " is refused: " + why,
					Advice: "see the object's file, and what the cluster has installed",
				})
			}
		}
		if taken > 0 {
			have := plain.Count(taken, "object") + " would be taken"
			findings = append(findings, provision.Finding{Check: e.Label(), Level: provision.OK, Have: have})
		}
	}
	return findings, nil
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
