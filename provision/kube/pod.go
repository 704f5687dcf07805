package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"hclbench/plain"
	"hclbench/provision"
)

// Pod is a pod of a run that runs, or ran.
type Pod struct {
	client *Client
	host   *provision.Host
	name   string
	uid    string
	node   string
	ip     string
	image  string
	meta   meta
}

func (c *Client) podOf(p pod, h *provision.Host) *Pod {
	return &Pod{
		client: c, host: h, name: p.Metadata.Name, uid: p.Metadata.UID,
		node: p.Spec.NodeName, ip: p.Status.PodIP, image: digestOf(p.state().ImageID), meta: p.Metadata,
	}
}

// Name is what the pod is called in its namespace.
func (p *Pod) Name() string { return p.name }

// Host is the host that it stands for; of the root's own, the cluster itself.
func (p *Pod) Host() *provision.Host { return p.host }

// Label is what was said of it when it was made, see [PodSpec]; empty: nothing was.
func (p *Pod) Label(name string) string { return p.meta.of(name) }

// Node is where it runs.
func (p *Pod) Node() string { return p.node }

// IP is its address in the cluster's network.
func (p *Pod) IP() string { return p.ip }

// Image is the image that runs, by its digest: "sha256:…"; empty where the node does not say.
func (p *Pod) Image() string { return p.image }

const (
	podGone    = "pod %s is not there any more: somebody deleted it, or its namespace%s"
	podLost    = "pod %s is lost: %s (%s shows it)"
	nodeSilent = "its node %s has not answered since %s"
)

// State is what became of the pod: running, or ended and why. Of one that was evicted, deleted by
// somebody, or whose node is lost, the error is [provision.ErrPodLost] and says so.
func (p *Pod) State(ctx context.Context) (provision.State, error) {
	now, err := p.look(ctx)
	if err != nil {
		return provision.State{}, err
	}
	state, err := p.as(now)
	if err == nil && state.Running {
		if since, silent := p.client.silent(ctx, now); silent {
			err = p.lost(fmt.Sprintf(nodeSilent, now.Spec.NodeName, since.Local().Format(time.TimeOnly)))
		}
	}
	return state, err
}

// as is the state that the cluster tells of the pod.
func (p *Pod) as(now pod) (s provision.State, err error) {
	state := now.state().State
	switch {
	case now.Metadata.DeletionTimestamp != nil:
		return s, p.lost(deleted(now))
	case now.Status.Phase == "Failed" && now.Status.Reason != "":
		return s, p.lost(plain.Line(now.Status.Reason + ": " + now.Status.Message))
	case state.Terminated != nil:
		t := state.Terminated
		s.ExitCode, s.OOMKilled, s.Started, s.Finished = t.ExitCode, t.Reason == "OOMKilled", t.StartedAt, t.FinishedAt
		if t.Message != "" {
			s.Error = plain.Line(t.String())
		}
	case state.Running != nil:
		s.Running, s.Started = true, state.Running.StartedAt
	}
	return s, nil
}

// look reads the pod; one that is gone is an error.
func (p *Pod) look(ctx context.Context) (now pod, err error) {
	err = p.client.do(ctx, request{path: p.client.in("pods/" + p.name)}, &now)
	if notFound(err) || err == nil && p.uid != "" && now.Metadata.UID != p.uid {
		return now, provision.Fail(p.host, provision.ErrPodLost, podGone, p.name, p.last(ctx))
	}
	return now, err
}

// last is what the cluster last said of the pod.
func (p *Pod) last(ctx context.Context) string {
	all := p.client.events(ctx, p.uid)
	if len(all) == 0 {
		return ""
	}
	e := all[len(all)-1]
	return fmt.Sprintf(" (the last of it was %s: %s)", e.Reason, plain.Line(e.Message))
}

func (p *Pod) lost(why string) error {
	return provision.Fail(p.host, provision.ErrPodLost, podLost, p.name, why, p.client.byHand("describe pod %s", p.name))
}

// silent reports whether the pod's node has stopped to answer, and since when.
func (c *Client) silent(ctx context.Context, p pod) (since time.Time, silent bool) {
	var n node
	if p.Spec.NodeName == "" || c.do(ctx, request{path: "/api/v1/nodes/" + p.Spec.NodeName}, &n) != nil {
		return since, false // it may not be read: nothing is known
	}
	ready := n.Status.Conditions.of("Ready")
	return ready.LastTransitionTime, ready.Status == "Unknown"
}

// Delete deletes the pod and waits until it is gone.
func (p *Pod) Delete(ctx context.Context) error {
	err := p.client.delete(ctx, p.client.in("pods/"+p.name), "Background")
	if err != nil {
		return err
	}
	return p.client.gone(ctx, p.host, func(ctx context.Context) ([]left, error) {
		now, err := p.look(ctx)
		if errors.Is(err, provision.ErrPodLost) {
			return nil, nil
		}
		return []left{{"pod", now.Metadata, now.Spec.NodeName}}, err
	})
}

// delete deletes the object at a path; one that is not there is deleted. A server that is away for a while is
// asked again.
func (c *Client) delete(ctx context.Context, path, policy string) error {
	err := c.again(ctx, func() error {
		return c.do(ctx, request{
			method: http.MethodDelete, path: path,
			body: map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy},
		}, nil)
	})
	if notFound(err) {
		return nil
	}
	return err
}

// again does what may be done twice until the API server answers.
func (c *Client) again(ctx context.Context, do func() error) error {
	until := time.Now().Add(c.patience.away)
	for {
		err := do()
		if !away(err) || ctx.Err() != nil || time.Now().After(until) {
			return err
		}
		if !c.pause(ctx) {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// pause waits until the next look; false when ctx ended.
func (c *Client) pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(c.patience.poll):
		return true
	}
}

// left is an object that is still there.
type left struct {
	kind string
	meta meta
	node string
}

const (
	stays = "not all is gone after %s:%s"
	owned = "it waits until all that it owns is gone: `%[1]s api-resources --verbs=delete --namespaced -o name | " +
		"xargs -n1 %[1]s -n %[2]s get --ignore-not-found -o name -l %[3]s=%[4]s` finds that"
	noNode = "its node %s does not answer; when that is gone for good, %s"
)

// gone waits until a look finds nothing. What does not go is named, with who holds it.
func (c *Client) gone(ctx context.Context, h *provision.Host, look func(context.Context) ([]left, error)) error {
	begin := time.Now()
	for {
		var there []left
		err := c.again(ctx, func() (err error) {
			there, err = look(ctx)
			return err
		})
		switch {
		case err != nil:
			return err
		case len(there) == 0:
			return nil
		case time.Since(begin) > c.patience.going || !c.pause(ctx):
			took := time.Since(begin).Round(time.Second)
			return provision.Fail(h, provision.ErrUnclean, stays, took, c.holders(context.WithoutCancel(ctx), there))
		}
	}
}

// holders says of each object who holds it, and what shows it.
func (c *Client) holders(ctx context.Context, there []left) string {
	var b strings.Builder
	for _, l := range there {
		show := c.byHand("get %s %s -o yaml", l.kind, l.meta.Name)
		_, silent := c.silent(ctx, pod{Spec: podNeeds{NodeName: l.node}})
		why := "it is being deleted"
		switch {
		case silent:
			why = fmt.Sprintf(noNode, l.node, c.byHand("delete %s %s --force", l.kind, l.meta.Name))
		case l.meta.DeletionTimestamp == nil:
			why = "nobody deletes it: the cluster's controller manager may not work"
		case slices.Equal(l.meta.Finalizers, []string{"foregroundDeletion"}):
			why = fmt.Sprintf(owned, c.kubectl, c.namespace, provision.LabelRun, l.meta.Labels[provision.LabelRun])
		case len(l.meta.Finalizers) > 0:
			why = "finalizer " + strings.Join(l.meta.Finalizers, ", ") + " holds it"
		}
		fmt.Fprintf(&b, "\n  - %s %s: %s: %s shows it", l.kind, l.meta.Name, why, show)
	}
	return b.String()
}
