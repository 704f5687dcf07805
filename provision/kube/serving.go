package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hclbench/plain"
	"hclbench/provision"
)

// ServingPod is a pod of a role, as it was when the engine served.
type ServingPod struct {
	Role     string
	Name     string
	Node     string
	IP       string
	GPUs     int // that it asks for, of whatever maker
	uid      string
	restarts int
}

// containers are all of them: those that begin first may go on beside the others.
func (p pod) containers() []containerStatus {
	return slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
}

// over reports whether the pod has ended, or is about to: it serves no more, and others come in its place.
func (p pod) over() bool {
	return p.Metadata.DeletionTimestamp != nil || p.Status.Phase == "Failed" || p.Status.Phase == "Succeeded"
}

func (c *Client) podsOf(ctx context.Context, role provision.PodRole) (pods []pod, err error) {
	err = c.again(ctx, func() (err error) {
		pods, err = items[pod](ctx, &c.server, "pods", role.Selector)
		return err
	})
	return pods, err
}

// Look reports what is not there yet: conditions that do not hold, pods of roles that are not ready, and
// the service of that name.
// One that waiting does not change is a [provision.ErrImageNotFound], [provision.ErrNoRoom] or
// [provision.ErrPodLost].
func (m *Made) Look(ctx context.Context, service string) error {
	var lacks []string
	for _, want := range m.want {
		for _, o := range m.objects {
			if o.Kind != want.Kind || want.Name != "" && want.Name != o.Name {
				continue
			}
			lack, err := m.holds(ctx, o, want.Condition)
			if err != nil {
				return err
			}
			lacks = append(lacks, lack...)
		}
	}
	m.pods = nil
	for _, role := range m.roles {
		lack, err := m.serves(ctx, role)
		if err != nil {
			return err
		}
		lacks = append(lacks, lack...)
	}
	if c := m.root.client; !strings.Contains(service, ".") { // with a dot it is in another namespace
		err := c.again(ctx, func() error { return c.do(ctx, request{path: c.in("services/" + service)}, nil) })
		if notFound(err) {
			lacks = append(lacks, "there is no service "+service)
		}
	}
	if len(lacks) > 0 {
		return errors.New(strings.Join(lacks, "; "))
	}
	return nil
}

const objectGone = "%s is not there any more: somebody deleted it"

// holds says what an object lacks of a condition.
func (m *Made) holds(ctx context.Context, o madeObject, name string) (lack []string, err error) {
	var now struct {
		Metadata struct{ Generation int64 }
		Status   struct {
			ObservedGeneration int64
			Conditions         conditions
		}
	}
	c := m.root.client
	err = c.again(ctx, func() error { return c.do(ctx, request{path: o.path}, &now) })
	what := o.Kind + " " + o.Name
	at := now.Status.Conditions.ofType(name)
	switch {
	case notFound(err):
		return nil, provision.Fail(c.host, provision.ErrPodLost, objectGone, what)
	case err != nil:
		return nil, err
	case at.Type == "":
		return []string{fmt.Sprintf("%s has no condition %s yet", what, name)}, nil
	case at.Status != "True":
		because := strings.TrimPrefix(plain.Line(because{at.Reason, at.Message}.String()), ": ")
		return []string{strings.TrimSuffix(fmt.Sprintf("%s: %s is %s: %s", what, name, at.Status, because), ": ")}, nil
	case now.Status.ObservedGeneration != 0 && now.Status.ObservedGeneration < now.Metadata.Generation:
		return []string{what + ": its operator has not seen it yet"}, nil
	}
	return nil, nil
}

// serves says what a role lacks, and notes its pods.
func (m *Made) serves(ctx context.Context, role provision.PodRole) (lack []string, err error) {
	pods, err := m.root.client.podsOf(ctx, role)
	if err != nil {
		return nil, err
	}
	ready, there, told := 0, 0, ""
	for _, p := range pods {
		m.seen[p.Metadata.UID] = true
		if p.over() {
			continue
		}
		there++
		m.pods = append(m.pods, p.servingPod(role.Name))
		if p.Status.Conditions.ofType("Ready").Status == "True" {
			ready++
			continue
		}
		says, err := m.pending(ctx, p)
		if err != nil {
			return nil, err
		}
		if says != "" {
			told = fmt.Sprintf("pod %s: %s", p.Metadata.Name, says)
		}
	}
	if enough := role.Instances == 0 || there == role.Instances; enough && there > 0 && ready == there {
		return nil, nil
	}
	if there == 0 || there < role.Instances {
		if why := m.trouble(ctx); why != "" {
			told = strings.TrimPrefix(told+"; "+why, "; ")
		}
	}
	of := ""
	if role.Instances > 0 {
		of = fmt.Sprintf(" of %d", role.Instances)
	}
	return []string{strings.TrimSuffix(fmt.Sprintf("role %s: %d%s ready: %s", role.Name, ready, of, told), ": ")}, nil
}

const ends = "its container %s has ended with code %d (%s) and was started again %d times: %s shows why"

// pending is why a pod is not ready. The error says that waiting does not change it.
func (m *Made) pending(ctx context.Context, p pod) (says string, err error) {
	c := m.root.client
	var waits containerStatus
	for _, s := range p.containers() {
		switch last := cmp.Or(s.State.Terminated, s.LastState.Terminated); {
		case s.State.Running == nil && last != nil && (last.ExitCode != 0 || s.State.Waiting != nil): // it begins again
			show := c.byHand("logs %s -c %s", p.Metadata.Name, s.Name)
			return fmt.Sprintf(ends, s.Name, last.ExitCode, last.Reason, s.RestartCount, show), nil
		case s.State.Waiting != nil && s.State.Waiting.Reason != "PodInitializing" && waits.Image == "":
			waits = s
		}
	}
	if waits.Image == "" && p.Status.Conditions.ofType("PodScheduled").Status != "False" {
		return "", nil // it runs, and does not answer yet
	}
	s := look(p, waits, c.events(ctx, p.Metadata.UID), waits.Image, c.patience)
	if !errors.Is(s.kind, provision.ErrImageNotFound) && !errors.Is(s.kind, provision.ErrNoRoom) {
		return s.says, nil
	}
	key := p.Metadata.UID + s.kind.Error()
	if m.since[key].IsZero() {
		m.since[key] = time.Now()
	}
	if time.Since(m.since[key]) < s.after {
		return s.why, nil
	}
	return "", provision.Fail(c.host, s.kind, "pod %s: %s", p.Metadata.Name, s.why)
}

func (p pod) servingPod(role string) ServingPod {
	s := ServingPod{Role: role, Name: p.Metadata.Name, Node: p.Spec.NodeName, IP: p.Status.PodIP, uid: p.Metadata.UID}
	for _, c := range p.containers() {
		s.restarts += c.RestartCount
	}
	for _, c := range p.Spec.Containers {
		for name, n := range c.Resources.Limits {
			_, device, _ := strings.Cut(name, "/")
			if strings.Contains(device, "gpu") || strings.HasPrefix(device, "mig-") {
				s.GPUs += int(n)
			}
		}
	}
	return s
}

// Pods are those of all roles when the engine served, by role and name.
func (m *Made) Pods() []ServingPod { return slices.Clone(m.pods) }

const (
	podAway    = "pod %s of role %s is not there any more"
	podMore    = "pod %s came to role %s while it was measured"
	podAgain   = "a container of pod %s of role %s has ended and was started again%s"
	podExpires = "pod %s of role %s goes: %s"
)

// Changed reports what became of the pods of the roles since the engine served; nil: they are the same.
func (m *Made) Changed(ctx context.Context) error {
	for _, role := range m.roles {
		now, err := m.root.client.podsOf(ctx, role)
		if err != nil {
			return err
		}
		at := func(uid string) int {
			return slices.IndexFunc(now, func(p pod) bool { return p.Metadata.UID == uid })
		}
		for _, was := range m.pods {
			i := at(was.uid)
			switch {
			case was.Role != role.Name:
			case i < 0:
				return m.lost(podAway, was.Name, role.Name)
			case now[i].Status.Phase == "Failed":
				return m.lost(podExpires, was.Name, role.Name, plain.Line(now[i].Status.Reason+": "+now[i].Status.Message))
			case now[i].Metadata.DeletionTimestamp != nil:
				return m.lost(podExpires, was.Name, role.Name, deleted(now[i]))
			case now[i].servingPod("").restarts > was.restarts:
				return m.lost(podAgain, was.Name, role.Name, now[i].lastEnd())
			}
		}
		for _, p := range now {
			if !p.over() && !slices.ContainsFunc(m.pods, func(was ServingPod) bool { return was.uid == p.Metadata.UID }) {
				return m.lost(podMore, p.Metadata.Name, role.Name)
			}
		}
	}
	return nil
}

func (m *Made) lost(format string, args ...any) error {
	return provision.Fail(m.root.client.host, provision.ErrPodLost, format, args...)
}

// lastEnd is how a container of the pod has ended last.
func (p pod) lastEnd() string {
	for _, c := range p.containers() {
		if last := c.LastState.Terminated; last != nil {
			return fmt.Sprintf(": %s exited with code %d (%s)", c.Name, last.ExitCode, last.Reason)
		}
	}
	return ""
}
