package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"hclbench/plain"
	"hclbench/provision"
)

// Root is a run in a cluster: a Job that owns everything of it, and the Job's pod.
type Root struct {
	RunOf
	client *Client
	uid    string    // of the Job; empty: that is gone, or goes
	ends   time.Time // when the cluster ends it, unless an agent holds it before; zero: one does, or did
	self   *Pod
	made   atomic.Int64 // pods, for their names
}

const late = "it does not run within %s: set wait_for_node of the block where a node or an image takes longer"

// Begin makes the root of a run, and waits until its pod runs. say is told what it waits for. Until [Root.Keep] it
// ends by itself; one that could not be begun is ended.
func (c *Client) Begin(ctx context.Context, run RunOf, say func(string)) (*Root, error) {
	r := &Root{RunOf: run, client: c}
	within := c.patience.begins()
	ctx, done := context.WithTimeoutCause(ctx, within, provision.Fail(c.host, provision.ErrNoRoom, late, within))
	defer done()
	err := r.begin(ctx, say)
	if err != nil {
		return nil, errors.Join(provision.Wrap(c.host, "make the run's root", err), r.End(ctx))
	}
	return r, nil
}

func (r *Root) begin(ctx context.Context, say func(string)) error {
	c := r.client
	fuse, err := c.create(ctx, c.in("jobs"), nil, FuseManifest(c.cluster, c.namespace, r.RunOf))
	if err != nil {
		return err
	}
	root, err := c.create(ctx, c.in("jobs"), nil, RootManifest(c.cluster, c.namespace, r.RunOf, fuse.Metadata.UID))
	if err != nil {
		return err
	}
	r.uid = root.Metadata.UID
	name, err := r.firstPod(ctx)
	if err == nil {
		r.self, err = c.await(ctx, name, PodSpec{Host: c.host, Image: c.cluster.Image}, say)
	}
	return err
}

// Keep takes the fuse away: from now on the run ends with the agent in the root's pod.
func (r *Root) Keep(ctx context.Context) error {
	fuse := thing{kind: "job", path: r.client.in("jobs/" + r.fuseName()), alone: true}
	return r.client.end(ctx, r.client.host, r.RunOf, nil, fuse)
}

const noPod = "the root's pod was not made: %s"

// firstPod waits until the Job's controller has made the root's pod.
func (r *Root) firstPod(ctx context.Context) (name string, err error) {
	until := time.Now().Add(r.client.patience.away)
	for {
		var pods []pod
		err := r.client.again(ctx, func() (err error) {
			pods, err = items[pod](ctx, &r.client.server, "pods", r.selector()+","+labelPart+"="+partRoot)
			return err
		})
		if err != nil {
			return "", err
		}
		if len(pods) > 0 {
			return pods[0].Metadata.Name, nil
		}
		why := r.client.byHand("describe job %s", r.rootName()) + " shows why"
		refused := false
		for _, e := range r.client.events(ctx, r.uid) {
			if e.Reason == "FailedCreate" {
				refused, why = true, plain.Line(e.Message)
			}
		}
		kind := provision.ErrForbidden
		if strings.Contains(why, "exceeded quota") {
			kind = provision.ErrNoRoom
		}
		if refused || time.Now().After(until) {
			return "", provision.Fail(r.client.host, kind, noPod, why)
		}
		if !r.client.pause(ctx) {
			return "", context.Cause(ctx)
		}
	}
}

// await waits until a pod runs. The pod of a failure is left to the caller.
func (c *Client) await(ctx context.Context, name string, spec PodSpec, say func(string)) (*Pod, error) {
	var told, failing string
	var since time.Time
	waiting := &Pod{client: c, host: spec.Host, name: name}
	for {
		var now pod
		var events []event
		err := c.again(ctx, func() (err error) {
			if now, err = waiting.look(ctx); err == nil {
				events = c.events(ctx, now.Metadata.UID)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		waiting.uid = now.Metadata.UID
		s := look(now, now.state(), events, spec.Image, c.patience)
		if s.runs {
			return c.podOf(now, spec.Host), nil
		}
		if s.says != "" && s.says != told && say != nil {
			told = s.says
			say(told)
		}
		if kind := fmt.Sprint(s.kind); kind != failing {
			failing, since = kind, time.Now()
		}
		if s.kind != nil && time.Since(since) >= s.after {
			return nil, provision.Fail(spec.Host, s.kind, "pod %s: %s", name, s.why)
		}
		if !c.pause(ctx) {
			return nil, provision.Wrap(spec.Host, "wait for pod "+name, context.Cause(ctx))
		}
	}
}

// Pod creates a pod and waits until it runs. say is told of each step: where it was scheduled, what
// is pulled. It fails as soon as waiting cannot help, and says what to do. The pod of a failure is
// deleted.
func (r *Root) Pod(ctx context.Context, spec PodSpec, say func(string)) (p *Pod, err error) {
	c, n := r.client, int(r.made.Add(1))
	name := r.podName(spec.Host.Name, n)
	made, err := c.create(ctx, c.in("pods"), nil, Manifest(c.cluster, c.namespace, r.RunOf, spec, n, r.uid))
	if err != nil {
		err = provision.Wrap(spec.Host, "make pod "+name, err)
	} else if p, err = c.await(ctx, name, spec, say); err == nil {
		return p, nil
	}
	return nil, errors.Join(err, c.end(ctx, spec.Host, r.RunOf, nil, thing{kind: "pod", path: c.in("pods/" + name), uid: made.Metadata.UID}))
}

// Self is the root's own pod, in which the caller's agent holds the lease; nil when it is gone.
func (r *Root) Self() *Pod { return r.self }

// Alive reports whether the run may be at work, and until when if no agent takes it: zero where one did. Its root
// neither ends nor has ended.
func (r *Root) Alive(ctx context.Context) (until time.Time, alive bool) {
	if r.uid == "" {
		return until, false
	}
	if r.self != nil {
		if st, err := r.self.State(ctx); errors.Is(err, provision.ErrPodLost) || err == nil && !st.Finished.IsZero() {
			return until, false
		}
	}
	return r.ends, true
}

// Find returns the roots of a lab, whoever has made them and whatever is left of them; of all labs
// where it is empty.
func (c *Client) Find(ctx context.Context, lab string) ([]*Root, error) {
	jobs, pods, err := c.jobsAndPods(ctx, RunOf{Lab: lab})
	if err != nil {
		return nil, provision.Wrap(c.host, "look for what runs left", err)
	}
	var found []*Root
	root := func(m meta) *Root {
		run := RunOf{Lab: m.annotation(provision.LabelLab), Run: m.annotation(provision.LabelRun), Holder: m.annotation(labelHolder), Store: m.annotation(provision.LabelStore)}
		i := slices.IndexFunc(found, func(r *Root) bool { return r.Lab == run.Lab && m.isIn(r.RunOf) })
		if i < 0 {
			i = len(found)
			found = append(found, &Root{RunOf: run, client: c})
		}
		return found[i]
	}
	for _, j := range jobs {
		switch j.Metadata.Labels[labelPart] {
		case partFuse:
			if r := root(j.Metadata); j.Metadata.DeletionTimestamp == nil {
				r.ends = j.Metadata.CreationTimestamp.Add(time.Duration(j.Spec.ActiveDeadlineSeconds) * time.Second)
			}
		case partRoot:
			if r := root(j.Metadata); j.Metadata.DeletionTimestamp == nil {
				r.uid = j.Metadata.UID
			}
		}
	}
	for _, p := range pods {
		r := root(p.Metadata)
		if p.Metadata.Labels[labelPart] == partRoot {
			r.self = c.podOf(p, c.host)
		}
	}
	return found, nil
}

// jobsAndPods are the jobs and pods of a lab, or of one of its runs.
func (c *Client) jobsAndPods(ctx context.Context, run RunOf) (jobs []job, pods []pod, err error) {
	err = c.again(ctx, func() (err error) {
		if jobs, err = items[job](ctx, &c.server, "jobs", run.selector()); err == nil {
			pods, err = items[pod](ctx, &c.server, "pods", run.selector())
		}
		return err
	})
	if run.Run != "" {
		jobs = slices.DeleteFunc(jobs, func(j job) bool { return !j.Metadata.isIn(run) })
		pods = slices.DeleteFunc(pods, func(p pod) bool { return !p.Metadata.isIn(run) })
	}
	return jobs, pods, err
}

// Pods are the pods of the run that are there, but for the root's own.
func (r *Root) Pods(ctx context.Context) ([]*Pod, error) {
	_, pods, err := r.client.jobsAndPods(ctx, r.RunOf)
	var all []*Pod
	for _, p := range pods {
		if p.Metadata.Labels[labelPart] == partPod {
			h := &provision.Host{Name: p.Metadata.annotation(labelHost), Cluster: r.client.cluster, Runtime: provision.Process}
			all = append(all, r.client.podOf(p, h))
		}
	}
	return all, err
}

// End deletes the root and all that it owns, and pods of the run that nobody owns, as those that somebody has made of
// a plan. It waits until nothing of the run is left.
func (r *Root) End(ctx context.Context) error {
	c := r.client
	_, pods, err := c.jobsAndPods(context.WithoutCancel(ctx), r.RunOf)
	if err != nil { // what may have been made nobody keeps: it ends by itself
		return provision.Wrap(c.host, "look what there is of run "+r.Run, err)
	}
	things := []thing{{kind: "job", path: c.in("jobs/" + r.rootName())}, {kind: "job", path: c.in("jobs/" + r.fuseName())}}
	for _, p := range pods {
		if len(p.Metadata.OwnerReferences) == 0 {
			things = append(things, thing{kind: "pod", path: c.in("pods/" + p.Metadata.Name), uid: p.Metadata.UID})
		}
	}
	return c.end(ctx, c.host, r.RunOf, func(ctx context.Context) (there []left, err error) {
		jobs, pods, err := c.jobsAndPods(ctx, r.RunOf)
		for _, p := range pods {
			there = append(there, left{"pod", p.Metadata, p.Spec.NodeName})
		}
		for _, j := range jobs {
			if len(pods) == 0 { // it waits for them
				there = append(there, left{"job", j.Metadata, ""})
			}
		}
		return there, err
	}, things...)
}
