package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"hclbench/plain"
	"hclbench/provision"
)

// Made are objects that a run has made of manifests, and the pods that operators make of these.
type Made struct {
	root    *Root
	want    []provision.Await
	roles   []provision.PodRole
	objects []madeObject // in the order of making
	since   map[string]time.Time
	pods    []ServingPod
	seen    map[string]bool // pods of the roles since the objects were made, by uid
	known   map[string][]resource
	its     map[string]bool // whether an object of this uid comes of what was made
}

// madeObject is one that is there, or may be.
type madeObject struct {
	provision.Object
	thing
}

// fieldManager is who says what stands in an object.
const fieldManager = "hcl"

// Make makes objects in the cluster, owned by the run's root, one after the other, when the API server
// would take all of them. What is there by such a name is somebody else's and is not touched: objects
// are created and never changed. What was made before a failure is among the result.
func (r *Root) Make(ctx context.Context, objects []provision.Object, want []provision.Await,
	roles []provision.PodRole, labels map[string]string) (*Made, error) {
	m := made(r, roles)
	m.want = want
	if err := m.vacant(ctx); err != nil {
		return m, err
	}
	planned, errs := m.try(ctx, objects, labels)
	for i, o := range objects {
		if errs[i] != nil {
			errs[i] = provision.Wrap(r.client.host, "make "+o.String(), errs[i])
		}
	}
	if err := errors.Join(errs...); err != nil {
		return m, err
	}
	for i, p := range planned {
		m.objects = append(m.objects, p)
		made, err := m.create(ctx, p, labels, false)
		if Refused(err) {
			m.objects = m.objects[:i]
		}
		if err != nil {
			return m, provision.Wrap(r.client.host, "make "+p.String(), err)
		}
		m.objects[i].uid = made.Metadata.UID
	}
	return m, nil
}

func made(r *Root, roles []provision.PodRole) *Made {
	return &Made{root: r, roles: roles, since: map[string]time.Time{}, seen: map[string]bool{},
		known: map[string][]resource{}, its: map[string]bool{}}
}

// try asks the API server what it would say to each of the objects.
func (m *Made) try(
	ctx context.Context, objects []provision.Object, labels map[string]string,
) (planned []madeObject, errs []error) {
	for _, o := range objects {
		p, err := m.root.client.place(ctx, o, m.known)
		if err == nil && !bindsOurs(o, objects) {
			_, err = m.create(ctx, p, labels, true)
		}
		planned, errs = append(planned, p), append(errs, err)
	}
	return planned, errs
}

// Objects is how many there are.
func (m *Made) Objects() int { return len(m.objects) }

// Logs are those of the pods of its roles, see [Client.Logs].
func (m *Made) Logs(ctx context.Context) ([]Log, error) { return m.root.client.Logs(ctx, m.roles) }

const podsThere = "%s are there already, which the selector %q of role %s selects: they are not of this engine, and " +
	"would be counted as its own"

// vacant reports pods of others that would be taken for those of the engine.
func (m *Made) vacant(ctx context.Context) error {
	for _, role := range m.roles {
		pods, err := m.root.client.podsOf(ctx, role)
		if err != nil {
			return err
		}
		if len(pods) > 0 {
			return provision.Fail(m.root.client.host, provision.ErrForbidden, podsThere, names(pods), role.Selector, role.Name)
		}
	}
	return nil
}

func names(pods []pod) string {
	var all []string
	for _, p := range pods {
		all = append(all, p.Metadata.Name)
	}
	return plain.Count(len(pods), "pod") + " (" + plain.Cut(strings.Join(all, ", "), 200) + ")"
}

// resource is how the API has objects of a kind.
type resource struct {
	Name       string // "deployments", or "deployments/status"
	Kind       string
	Namespaced bool
}

const (
	noVersion = "%s: the cluster knows no apiVersion %s: what defines it is not installed, or in another version: " +
		"%s shows what there is"
	noSuch = "%s: the cluster has no kind %s in %s, only %s"
	wide   = "%s: it belongs to the whole cluster and to no namespace: the run could not own it, and nothing would " +
		"remove it if hcl were killed. Have who runs the cluster make it"
)

// place finds out where objects of a kind are. known remembers what was asked.
func (c *Client) place(ctx context.Context, o provision.Object, known map[string][]resource) (madeObject, error) {
	base := "/apis/" + o.APIVersion
	group, _, grouped := strings.Cut(o.APIVersion, "/")
	if !grouped {
		base, group = "/api/"+o.APIVersion, ""
	}
	all, asked := known[o.APIVersion]
	if !asked {
		var said struct{ Resources []resource }
		err := c.again(ctx, func() error { return c.do(ctx, request{path: base}, &said) })
		switch {
		case notFound(err):
			show := strings.Replace(c.byHand("api-versions"), " -n "+c.namespace, "", 1)
			return madeObject{}, provision.Fail(c.host, provision.ErrForbidden, noVersion, o, o.APIVersion, show)
		case err != nil:
			return madeObject{}, provision.Wrap(c.host, "look for "+o.APIVersion, err)
		}
		all = said.Resources
		known[o.APIVersion] = all
	}
	i := slices.IndexFunc(all, func(r resource) bool { return r.Kind == o.Kind && !strings.Contains(r.Name, "/") })
	switch {
	case i < 0:
		var kinds []string
		for _, r := range all {
			if !strings.Contains(r.Name, "/") {
				kinds = append(kinds, r.Kind)
			}
		}
		there := strings.Join(kinds, ", ")
		return madeObject{}, provision.Fail(c.host, provision.ErrForbidden, noSuch, o, o.Kind, o.APIVersion, there)
	case !all[i].Namespaced:
		return madeObject{}, provision.Fail(c.host, provision.ErrForbidden, wide, o)
	}
	at := base + "/namespaces/" + c.namespace + "/" + all[i].Name + "/" + o.Name
	return madeObject{o, thing{kind: strings.TrimSuffix(all[i].Name+"."+group, "."), path: at}}, nil
}

// create makes an object, or asks what the API server would say to it. Fields that it does not know
// are mistakes.
func (m *Made) create(ctx context.Context, p madeObject, labels map[string]string, dry bool) (made named, err error) {
	var body object
	if err := json.Unmarshal([]byte(p.Text.Reveal()), &body); err != nil {
		return made, err
	}
	m.root.setOwner(body, labels)
	query := url.Values{"fieldManager": {fieldManager}, "fieldValidation": {"Strict"}}
	if dry {
		query.Set("dryRun", "All")
	}
	made, err = m.root.client.create(ctx, path.Dir(p.path), query, body)
	if hasCode(err, http.StatusConflict) {
		err = m.taken(ctx, p, dry, err)
	}
	return made, err
}

// bindsOurs reports whether an object binds a role that is made first: the API server looks for it, also
// when it is only asked.
func bindsOurs(o provision.Object, all []provision.Object) bool {
	var binding struct{ RoleRef struct{ Kind, Name string } }
	if o.Kind != "RoleBinding" || json.Unmarshal([]byte(o.Text.Reveal()), &binding) != nil {
		return false
	}
	return slices.ContainsFunc(all, func(r provision.Object) bool {
		return r.Kind == binding.RoleRef.Kind && r.Name == binding.RoleRef.Name
	})
}

// setOwner lays labels and the owner of a run over an object.
func (r *Root) setOwner(body object, labels map[string]string) {
	meta, _ := body["metadata"].(object)
	ours := r.meta(partObject, r.client.cluster.Name, nil, labels)
	for _, part := range []string{"labels", "annotations"} {
		all, _ := meta[part].(object)
		if all == nil {
			all = object{}
		}
		more, _ := ours[part].(object)
		maps.Copy(all, more)
		meta[part] = all
	}
	meta["namespace"] = r.client.namespace
	meta["ownerReferences"] = []any{object{ // the root is deleted when all that it owns is gone
		"apiVersion": "batch/v1", "kind": "Job", "name": r.rootName(), "uid": r.uid, "blockOwnerDeletion": true,
	}}
}

const (
	othersObject = "it is there already, and not of hcl, which does not touch it. Give yours another name, or delete " +
		"that one: %s"
	labsObject = "it is there already, of run %s of lab %s: `hcl destroy` there removes it"
)

// taken says whose the object is that has the name. When we only ask, one of an earlier run of the lab's is
// in nobody's way: it goes before.
func (m *Made) taken(ctx context.Context, p madeObject, dry bool, err error) error {
	c := m.root.client
	var now named
	if c.do(ctx, request{path: p.path}, &now) != nil {
		return err
	}
	if lab := now.Metadata.annotation(provision.LabelLab); lab != "" && now.Metadata.annotation(labelPart) != "" {
		if dry && lab == m.root.Lab {
			return nil
		}
		return provision.Fail(c.host, provision.ErrNameTaken, labsObject, now.Metadata.annotation(provision.LabelRun), lab)
	}
	return provision.Fail(c.host, provision.ErrNameTaken, othersObject, c.byHand("delete %s %s", p.kind, p.Name))
}

// Delete deletes the objects, the last first, each when the one before is gone with all that it owns,
// and waits until none of the pods of the roles that were seen is left.
func (m *Made) Delete(ctx context.Context) error {
	c := m.root.client
	var errs []error
	for _, o := range slices.Backward(m.objects) {
		errs = append(errs, c.end(ctx, c.host, m.root.RunOf, nil, o.thing))
	}
	return errors.Join(append(errs, c.end(ctx, c.host, m.root.RunOf, func(ctx context.Context) (there []left, err error) {
		for _, role := range m.roles {
			pods, listed := c.podsOf(ctx, role)
			for _, p := range pods {
				if m.seen[p.Metadata.UID] {
					there = append(there, left{"pod", p.Metadata, p.Spec.NodeName})
				}
			}
			err = cmp.Or(err, listed)
		}
		return there, err
	}))...)
}

const (
	notOurs = "nobody has seen whose servers answer: service %s was not made by this engine"
	notSeen = "nobody has seen whose servers answer: what is behind service %s cannot be listed: %v"
	others  = "%s behind service %s is not known to be of this engine: it serves a part of the requests"
)

// Strangers says of the service that requests go to what is not the engine's own, as far as it may be seen:
// a service that is made neither by it nor by what it has made, or what is behind one that is.
func (m *Made) Strangers(ctx context.Context, name string) string {
	c := m.root.client
	var service named
	if strings.Contains(name, ".") || c.do(ctx, request{path: c.in("services/" + name)}, &service) != nil {
		return fmt.Sprintf(notOurs, name)
	}
	comes := func(of involved) bool { return m.comesOf(ctx, of, furthest) }
	if !comes(involved{"v1", "Service", name, service.Metadata.UID}) { // such as a gateway's may
		return fmt.Sprintf(notOurs, name)
	}
	type slice struct {
		Endpoints []struct {
			Addresses []string
			TargetRef involved
		}
	}
	at := "/apis/discovery.k8s.io/v1/namespaces/" + c.namespace + "/endpointslices"
	of := url.Values{"labelSelector": {"kubernetes.io/service-name=" + name}}
	slicesOf, err := listAt[slice](ctx, &c.server, at, of)
	if err != nil {
		return fmt.Sprintf(notSeen, name, err)
	}
	for _, s := range slicesOf {
		for _, e := range s.Endpoints {
			if of := e.TargetRef; of.Kind == "" {
				return fmt.Sprintf(others, strings.Join(e.Addresses, ", "), name)
			} else if of.APIVersion = "v1"; !m.seen[of.UID] && !comes(of) {
				return fmt.Sprintf(others, "pod "+of.Name, name)
			}
		}
	}
	return ""
}
