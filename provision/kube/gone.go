package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"hclbench/provision"
)

// silent reports whether the pod's node has stopped to answer, and since when.
func (s *server) silent(ctx context.Context, p pod) (since time.Time, silent bool) {
	var n node
	if p.Spec.NodeName == "" || s.do(ctx, request{path: "/api/v1/nodes/" + p.Spec.NodeName}, &n) != nil {
		return since, false // it may not be read: nothing is known
	}
	ready := n.Status.Conditions.of("Ready")
	return ready.LastTransitionTime, ready.Status == "Unknown"
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
func (s *server) gone(ctx context.Context, h *provision.Host, look func(context.Context) ([]left, error)) error {
	begin := time.Now()
	for {
		var there []left
		err := s.again(ctx, func() (err error) {
			there, err = look(ctx)
			return err
		})
		switch {
		case err != nil:
			return err
		case len(there) == 0:
			return nil
		case time.Since(begin) > s.patience.going || !s.pause(ctx):
			took := time.Since(begin).Round(time.Second)
			return provision.Fail(h, provision.ErrUnclean, stays, took, s.holders(context.WithoutCancel(ctx), there))
		}
	}
}

// holders says of each object who holds it, and what shows it.
func (s *server) holders(ctx context.Context, there []left) string {
	var b strings.Builder
	for _, l := range there {
		show := s.byHand("get %s %s -o yaml", l.kind, l.meta.Name)
		_, silent := s.silent(ctx, pod{Spec: podNeeds{NodeName: l.node}})
		why := "it is being deleted"
		switch {
		case silent:
			why = fmt.Sprintf(noNode, l.node, s.byHand("delete %s %s --force", l.kind, l.meta.Name))
		case l.meta.DeletionTimestamp == nil:
			why = "nobody deletes it: the cluster's controller manager may not work"
		case slices.Equal(l.meta.Finalizers, []string{"foregroundDeletion"}):
			why = fmt.Sprintf(owned, s.kubectl, s.namespace, provision.LabelRun, l.meta.Labels[provision.LabelRun])
		case len(l.meta.Finalizers) > 0:
			why = "finalizer " + strings.Join(l.meta.Finalizers, ", ") + " holds it"
		}
		fmt.Fprintf(&b, "\n  - %s %s: %s: %s shows it", l.kind, l.meta.Name, why, show)
	}
	return b.String()
}
