package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"hclbench/provision"
)

// thing is an object of a run. Its name is known before it is made.
type thing struct {
	kind    string // "job", or "deployments.apps", as kubectl has it
	path    string // in the API
	uid     string // empty: it is not known whether it was made
	version string // only as it was then; empty: however it is by now
	alone   bool   // what it owns stays
}

// create makes an object of a run, whose path is that of its kind. It may be asked again: one that is there by that
// name, with all labels and the owner that this one has, is this one, of which an answer did not arrive.
func (s *server) create(ctx context.Context, at string, query url.Values, body object) (now named, err error) {
	err = s.again(ctx, func() error {
		now = named{}
		err := s.do(ctx, request{method: http.MethodPost, path: at, query: query, body: body}, &now)
		if hasCode(err, http.StatusConflict) {
			meta := body["metadata"].(object)
			var there named
			if s.do(ctx, request{path: at + "/" + fmt.Sprint(meta["name"])}, &there) == nil && there.Metadata.isOf(meta) {
				now, err = there, nil
			}
		}
		return err
	})
	return now, err
}

// isOf reports whether an object that stays was made of this metadata.
func (m meta) isOf(made object) bool {
	labels, _ := made["labels"].(object)
	for name, value := range labels {
		if has, ok := m.Labels[name]; !ok || has != value {
			return false
		}
	}
	owners, _ := made["ownerReferences"].([]any)
	for _, o := range owners {
		if !slices.ContainsFunc(m.OwnerReferences, func(has involved) bool { return has.UID == o.(object)["uid"] }) {
			return false
		}
	}
	return m.DeletionTimestamp == nil
}

// end deletes things of a run, and waits until a look finds nothing; nil: until they are gone. What does not go is
// named, with who holds it. Nothing breaks that off but its own patience.
func (s *server) end(
	ctx context.Context, h *provision.Host, run RunOf, look func(context.Context) ([]left, error), things ...thing,
) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for i := range things {
		if err := s.again(ctx, func() error { return s.delete(ctx, run, &things[i]) }); err != nil {
			errs = append(errs, provision.Wrap(h, "delete "+path.Base(things[i].path), err))
		}
	}
	if look == nil {
		look = func(ctx context.Context) ([]left, error) { return s.still(ctx, things) }
	}
	if len(errs) == 0 {
		errs = append(errs, s.gone(ctx, h, look))
	}
	return errors.Join(errs...)
}

// delete asks for the end of a thing. Of one whose uid is not known it looks whether it is the run's; what has its name
// and is another is somebody else's.
func (s *server) delete(ctx context.Context, run RunOf, t *thing) error {
	if t.uid == "" {
		var now named
		err := s.do(ctx, request{path: t.path}, &now)
		if notFound(err) || err == nil && !now.Metadata.isIn(run) {
			return nil
		}
		if err != nil {
			return err
		}
		t.uid = now.Metadata.UID
	}
	must, how := object{"uid": t.uid}, "Foreground" // it goes after all that it owns
	switch {
	case t.alone:
		how = "Orphan"
	case t.kind == "pod", t.kind == "namespace":
		how = "Background"
	}
	if t.version != "" {
		must["resourceVersion"] = t.version
	}
	err := s.do(ctx, request{method: http.MethodDelete, path: t.path, body: object{
		"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": how, "preconditions": must,
	}}, nil)
	if hasCode(err, http.StatusConflict) {
		t.uid, err = "", nil // another has the name
	}
	if notFound(err) {
		err = nil
	}
	return err
}

// isIn reports whether an object is of a run.
func (m meta) isIn(run RunOf) bool {
	return m.annotation(provision.LabelRun) == run.Run && m.annotation(provision.LabelStore) == run.Store
}

// left is an object that is still there.
type left struct {
	kind string
	meta meta
	node string
}

// still are those of things that are there.
func (s *server) still(ctx context.Context, things []thing) (there []left, err error) {
	for _, t := range things {
		var now pod // of others nothing but their metadata is there
		err := s.do(ctx, request{path: t.path}, &now)
		switch {
		case t.uid == "", notFound(err), err == nil && now.Metadata.UID != t.uid:
		case err != nil:
			return nil, err
		default:
			there = append(there, left{t.kind, now.Metadata, now.Spec.NodeName})
		}
	}
	return there, nil
}

// gone waits until a look finds nothing. What does not go is named, with who holds it.
func (s *server) gone(ctx context.Context, h *provision.Host, look func(context.Context) ([]left, error)) error {
	begin, grace := time.Now(), time.Duration(0)
	for {
		var there []left
		err := s.again(ctx, func() (err error) {
			there, err = look(ctx)
			return err
		})
		took := time.Since(begin)
		if took > s.patience.going {
			grace = max(grace, s.grace(ctx)) // before it is waited for
		}
		switch {
		case err != nil:
			return err
		case len(there) == 0:
			return nil
		case took > s.patience.going+grace || !s.pause(ctx):
			return provision.Fail(h, provision.ErrUnclean, stays, took.Round(time.Second), s.holders(ctx, there))
		}
	}
}

// grace is the longest that a pod of the namespace has which is being deleted: what is waited for may own it.
func (s *server) grace(ctx context.Context) (most time.Duration) {
	pods, _ := items[pod](ctx, s, "pods", "")
	for _, p := range pods {
		most = max(most, time.Duration(p.Metadata.DeletionGrace)*time.Second)
	}
	return most
}

const (
	stays = "not all is gone after %s:%s"
	owned = "it waits until all that it owns is gone: `%[1]s api-resources --verbs=delete --namespaced -o name | " +
		"xargs -n1 %[1]s -n %[2]s get --ignore-not-found -o name -l %[3]s=%[4]s` finds that"
	noNode = "its node %s does not answer; when that is gone for good, %s"
)

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

// silent reports whether the pod's node has stopped to answer, and since when.
func (s *server) silent(ctx context.Context, p pod) (since time.Time, silent bool) {
	var n node
	if p.Spec.NodeName == "" || s.do(ctx, request{path: "/api/v1/nodes/" + p.Spec.NodeName}, &n) != nil {
		return since, false // it may not be read: nothing is known
	}
	ready := n.Status.Conditions.ofType("Ready")
	return ready.LastTransitionTime, ready.Status == "Unknown"
}
