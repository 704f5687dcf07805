package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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
	client  *Client
	name    string
	uid     string // of the Job; empty: that is gone
	created time.Time
	self    *Pod
	made    atomic.Int64 // pods, for their names
}

// Begin makes the root of a run, and waits until its pod runs. say is told what it waits for.
// A root that could not be begun is deleted.
func (c *Client) Begin(ctx context.Context, run RunOf, say func(string)) (*Root, error) {
	r := &Root{RunOf: run, client: c, name: run.rootName()}
	var made job
	err := c.create(ctx, "jobs", r.name, RootManifest(c.cluster, c.namespace, run), &made)
	if err != nil {
		return nil, provision.Wrap(c.host, "make the run's root", err)
	}
	r.uid, r.created = made.Metadata.UID, made.Metadata.CreationTimestamp
	name, err := r.firstPod(ctx)
	if err == nil {
		r.self, err = c.await(ctx, name, PodSpec{Host: c.host, Image: c.cluster.Image}, say)
	}
	if err != nil {
		return nil, errors.Join(err, r.End(context.WithoutCancel(ctx)))
	}
	return r, nil
}

const maybeMade = "it may have been made all the same: %s removes it"

// create makes an object. One that was made by an answer which did not arrive is ours; where none
// arrives at all it is deleted.
func (c *Client) create(ctx context.Context, resource, name string, object, into any) error {
	again := false
	err := c.again(ctx, func() error {
		err := c.do(ctx, request{method: http.MethodPost, path: c.in(resource), body: object}, into)
		if again && hasCode(err, http.StatusConflict) {
			return c.do(ctx, request{path: c.in(resource + "/" + name)}, into)
		}
		again = true
		return err
	})
	if err == nil || !away(err) && ctx.Err() == nil {
		return err
	}
	policy := url.Values{"propagationPolicy": {"Background"}}
	remove := request{method: http.MethodDelete, path: c.in(resource + "/" + name), query: policy}
	if left := c.do(context.WithoutCancel(ctx), remove, nil); left != nil && !notFound(left) {
		err = fmt.Errorf("%w; "+maybeMade, err, c.byHand("delete %s %s", strings.TrimSuffix(resource, "s"), name))
	}
	return err
}

const noPod = "the root's pod was not made: %s"

// firstPod waits until the Job's controller has made the root's pod.
func (r *Root) firstPod(ctx context.Context) (name string, err error) {
	until := time.Now().Add(r.client.patience.away)
	for {
		var pods []pod
		err := r.client.again(ctx, func() (err error) {
			pods, err = items[pod](ctx, &r.client.server, "pods", selector(r.Lab, r.Run)+","+labelPart+"="+partRoot)
			return err
		})
		if err != nil {
			return "", err
		}
		if len(pods) > 0 {
			return pods[0].Metadata.Name, nil
		}
		why := r.client.byHand("describe job %s", r.name) + " shows why"
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
		s := look(now, events, spec.Image, c.patience)
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
func (r *Root) Pod(ctx context.Context, spec PodSpec, say func(string)) (*Pod, error) {
	n := int(r.made.Add(1))
	name := r.podName(spec.Host.Name, n)
	var made pod
	object := Manifest(r.client.cluster, r.client.namespace, r.RunOf, spec, n, r.uid)
	err := r.client.create(ctx, "pods", name, object, &made)
	if err != nil {
		return nil, provision.Wrap(spec.Host, "make pod "+name, err)
	}
	p, err := r.client.await(ctx, name, spec, say)
	if err != nil {
		return nil, errors.Join(err, r.client.podOf(made, spec.Host).Delete(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// Self is the root's own pod, in which the caller's agent holds the lease; nil when it is gone.
func (r *Root) Self() *Pod { return r.self }

// Created is when the root was made, by the cluster's clock.
func (r *Root) Created() time.Time { return r.created }

// Find returns the roots of a lab, whoever has made them and whatever is left of them; of all labs
// where it is empty.
func (c *Client) Find(ctx context.Context, lab string) ([]*Root, error) {
	jobs, pods, err := c.all(ctx, lab, "")
	if err != nil {
		return nil, provision.Wrap(c.host, "look for what runs left", err)
	}
	var found []*Root
	root := func(m meta) *Root {
		run := RunOf{Lab: m.of(provision.LabelLab), Run: m.of(provision.LabelRun), Holder: m.of(labelHolder), Store: m.of(labelStore)}
		i := slices.IndexFunc(found, func(r *Root) bool { return r.Lab == run.Lab && r.Run == run.Run })
		if i < 0 {
			i = len(found)
			found = append(found, &Root{RunOf: run, client: c, name: run.rootName(), created: m.CreationTimestamp})
		}
		return found[i]
	}
	for _, j := range jobs {
		if j.Metadata.Labels[labelPart] != partRoot {
			continue // an object of an engine's
		}
		r := root(j.Metadata)
		r.uid, r.Deadline = j.Metadata.UID, time.Duration(j.Spec.ActiveDeadlineSeconds)*time.Second
	}
	for _, p := range pods {
		r := root(p.Metadata)
		if p.Metadata.Labels[labelPart] == partRoot {
			r.self = c.podOf(p, c.host)
		}
	}
	return found, nil
}

// all are the objects of a lab, or of one of its runs.
func (c *Client) all(ctx context.Context, lab, run string) (jobs []job, pods []pod, err error) {
	if jobs, err = items[job](ctx, &c.server, "jobs", selector(lab, run)); err == nil {
		pods, err = items[pod](ctx, &c.server, "pods", selector(lab, run))
	}
	return jobs, pods, err
}

// Pods are the pods of the run that are there, but for the root's own.
func (r *Root) Pods(ctx context.Context) ([]*Pod, error) {
	_, pods, err := r.client.all(ctx, r.Lab, r.Run)
	var all []*Pod
	for _, p := range pods {
		if p.Metadata.Labels[labelPart] == partPod {
			h := &provision.Host{Name: p.Metadata.of(labelHost), Cluster: r.client.cluster, Runtime: provision.Process}
			all = append(all, r.client.podOf(p, h))
		}
	}
	return all, err
}

// End deletes the root and all that it owns, and waits until nothing of the run is left. What does
// not go is named, with who holds it and the command that shows it.
func (r *Root) End(ctx context.Context) error {
	err := r.client.delete(ctx, r.client.in("jobs/"+r.name), "Foreground")
	if err == nil {
		err = r.endPods(ctx)
	}
	if err != nil {
		return provision.Wrap(r.client.host, "delete the root of run "+r.Run, err)
	}
	return r.client.gone(ctx, r.client.host, func(ctx context.Context) (there []left, err error) {
		jobs, pods, err := r.client.all(ctx, r.Lab, r.Run)
		for _, p := range pods {
			there = append(there, left{"pod", p.Metadata, p.Spec.NodeName})
		}
		for _, j := range jobs {
			if len(pods) == 0 { // it waits for them
				there = append(there, left{"job", j.Metadata, ""})
			}
		}
		return there, err
	})
}

// endPods deletes pods of the run that nobody owns, as those that somebody has made of a plan.
func (r *Root) endPods(ctx context.Context) error {
	var pods []pod
	err := r.client.again(ctx, func() (err error) {
		_, pods, err = r.client.all(ctx, r.Lab, r.Run)
		return err
	})
	for _, p := range pods {
		if p.Metadata.DeletionTimestamp == nil && len(p.Metadata.OwnerReferences) == 0 {
			err = errors.Join(err, r.client.delete(ctx, r.client.in("pods/"+p.Metadata.Name), "Background"))
		}
	}
	return err
}
