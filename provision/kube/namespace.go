package kube

import (
	"context"
	"net/http"
	"slices"
	"time"

	"hclbench/provision"
)

// A namespace that hcl has made is deleted by who uses it last: labels tell it from those of others. Nothing
// owns it, so that of a run whose caller was killed it stays, empty, until destroy or the next apply.

// NamespaceManifest is the namespace that a run makes, where the block says so.
func NamespaceManifest(namespace string, run RunOf) map[string]any {
	meta := run.meta(partNamespace, "", nil)
	meta["name"] = namespace
	return object{"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
}

// HasNamespace reports whether the namespace is there, of which the block says that hcl makes it.
func (c *Client) HasNamespace(ctx context.Context) (bool, error) {
	if !c.cluster.CreateNamespace {
		return true, nil
	}
	return c.there(ctx, c.space())
}

func (c *Client) space() string { return "/api/v1/namespaces/" + c.namespace }

// MakeNamespace makes the namespace where it is not there, and the block says so. It waits until pods can be
// made in it. One that hcl has made is the run's from then on: no other deletes it under it.
func (c *Client) MakeNamespace(ctx context.Context, run RunOf) error {
	if !c.cluster.CreateNamespace {
		return nil
	}
	until := time.Now().Add(c.patience.going)
	for {
		now, err := c.look(ctx)
		switch {
		case notFound(err):
			body := NamespaceManifest(c.namespace, run)
			err = c.do(ctx, request{method: http.MethodPost, path: "/api/v1/namespaces", body: body}, &now)
		case err == nil && now.Labels[labelPart] == partNamespace && now.DeletionTimestamp == nil:
			now, err = c.claim(ctx, labelValue(run.Run))
		}
		account := false
		if err == nil && now.DeletionTimestamp == nil {
			account, err = c.there(ctx, c.in("serviceaccounts/default")) // pods are made under its name
		}
		switch {
		case err != nil && !hasCode(err, http.StatusConflict): // somebody else has just made it
			return provision.Wrap(c.host, "make namespace "+c.namespace, err)
		case account:
			return nil
		case time.Now().After(until):
			return provision.Fail(c.host, provision.ErrUnclean, notNew, c.namespace, c.patience.going, c.kubectl)
		case !c.pause(ctx):
			return context.Cause(ctx)
		}
	}
}

const notNew = "namespace %s cannot be used after %s: `%s get namespace %[1]s -o yaml` shows why"

// look reads what the namespace says of itself.
func (c *Client) look(ctx context.Context) (meta, error) {
	var now struct{ Metadata meta }
	err := c.do(ctx, request{path: c.space()}, &now)
	return now.Metadata, err
}

// claim says whose the namespace is; nil: nobody's.
func (c *Client) claim(ctx context.Context, run any) (meta, error) {
	var now struct{ Metadata meta }
	body := object{"metadata": object{"labels": object{provision.LabelRun: run}}}
	err := c.do(ctx, request{method: http.MethodPatch, path: c.space(), body: body}, &now)
	return now.Metadata, err
}

// LeaveNamespace deletes the namespace when hcl has made it, it is the run's or nobody's, and there is
// nothing in it. Where run is not said it may be any of the lab's.
func (c *Client) LeaveNamespace(ctx context.Context, run RunOf) error {
	if !c.cluster.CreateNamespace {
		return nil
	}
	now, err := c.look(ctx)
	if notFound(err) || err == nil && now.Labels[labelPart] != partNamespace {
		return nil
	}
	by := now.Labels[provision.LabelRun]
	ours := by == "" || by == labelValue(run.Run) || run.Run == "" && now.Labels[provision.LabelLab] == labelValue(run.Lab)
	if err != nil || !ours {
		return err
	}
	used, err := c.used(ctx)
	switch {
	case err != nil:
		return provision.Wrap(c.host, "look what is in namespace "+c.namespace, err)
	case used && by != "":
		_, err = c.claim(ctx, nil) // who leaves last deletes it
		return err
	case used:
		return nil
	}
	err = c.again(ctx, func() error {
		return c.do(ctx, request{method: http.MethodDelete, path: c.space(), body: object{
			"apiVersion": "v1", "kind": "DeleteOptions",
			"preconditions": object{"uid": now.UID, "resourceVersion": now.ResourceVersion},
		}}, nil)
	})
	if hasCode(err, http.StatusConflict) {
		return nil // somebody has just taken it
	}
	if err != nil && !notFound(err) {
		return err
	}
	return c.gone(ctx, c.host, func(ctx context.Context) ([]left, error) {
		now, err := c.look(ctx)
		if notFound(err) {
			return nil, nil
		}
		return []left{{"namespace", now, ""}}, err
	})
}

// ofEvery are what every namespace has.
var ofEvery = []string{
	"configmaps/kube-root-ca.crt", "configmaps/istio-ca-root-cert", "configmaps/openshift-service-ca.crt",
	"serviceaccounts/default",
}

// used reports whether there is anything in the namespace, of whatever kind. What may not be read is
// there.
func (c *Client) used(ctx context.Context) (bool, error) {
	kinds, err := c.kinds(ctx)
	if err != nil {
		return false, err
	}
	for path, name := range kinds {
		all, err := listAt[struct{ Metadata meta }](ctx, &c.server, path, nil)
		if hasCode(err, http.StatusForbidden) {
			return true, nil
		}
		if err != nil && !notFound(err) && !hasCode(err, http.StatusMethodNotAllowed) {
			return false, err
		}
		for _, o := range all {
			if !slices.Contains(ofEvery, name+"/"+o.Metadata.Name) {
				return true, nil
			}
		}
	}
	return false, nil
}

// kinds are what a namespace can have, names by path; events are no things.
func (c *Client) kinds(ctx context.Context) (map[string]string, error) {
	kinds := map[string]string{}
	read := func(at string) error {
		var list struct {
			Resources []struct {
				Name       string
				Namespaced bool
				Verbs      []string
			}
		}
		if err := c.do(ctx, request{path: at}, &list); err != nil {
			return err
		}
		for _, r := range list.Resources {
			thing := r.Namespaced && r.Name != "events" && slices.Contains(r.Verbs, "create")
			if thing && slices.Contains(r.Verbs, "list") {
				kinds[at+"/namespaces/"+c.namespace+"/"+r.Name] = r.Name
			}
		}
		return nil
	}
	var groups struct {
		Groups []struct{ PreferredVersion struct{ GroupVersion string } }
	}
	err := c.do(ctx, request{path: "/apis"}, &groups)
	if err == nil {
		err = read("/api/v1")
	}
	for _, g := range groups.Groups {
		if err == nil {
			err = read("/apis/" + g.PreferredVersion.GroupVersion)
		}
	}
	return kinds, err
}
