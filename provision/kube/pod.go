package kube

import (
	"context"
	"fmt"
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
func (p *Pod) Label(name string) string { return p.meta.annotation(name) }

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
	state, err := p.stateFrom(now)
	if err == nil && state.Running {
		if since, silent := p.client.silent(ctx, now); silent {
			err = p.lost(fmt.Sprintf(nodeSilent, now.Spec.NodeName, since.Local().Format(time.TimeOnly)))
		}
	}
	return state, err
}

// stateFrom is the state that the cluster tells of the pod.
func (p *Pod) stateFrom(now pod) (s provision.State, err error) {
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

// Delete deletes the pod and waits until it is gone.
func (p *Pod) Delete(ctx context.Context) error {
	return p.client.end(ctx, p.host, RunOf{}, nil, thing{kind: "pod", path: p.client.in("pods/" + p.name), uid: p.uid})
}
