package kube

import (
	"context"
	"fmt"
	"net/http"
	"path"
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
	return c.exists(ctx, c.space())
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
			now, err = c.claim(ctx, labelValue(run.Run), labelValue(run.Store))
		}
		account := false
		if err == nil && now.DeletionTimestamp == nil {
			account, err = c.exists(ctx, c.in("serviceaccounts/default")) // pods are made under its name
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
func (c *Client) claim(ctx context.Context, run, store any) (meta, error) {
	var now struct{ Metadata meta }
	body := object{"metadata": object{"labels": object{provision.LabelRun: run, provision.LabelStore: store}}}
	err := c.do(ctx, request{method: http.MethodPatch, path: c.space(), body: body}, &now)
	return now.Metadata, err
}

// LeaveNamespace deletes the namespace when hcl has made it, it is the run's or nobody's, and there is
// nothing in it. Where run is not said it may be any of the lab's, of the store where one is said.
func (c *Client) LeaveNamespace(ctx context.Context, run RunOf) error {
	if !c.cluster.CreateNamespace {
		return nil
	}
	now, err := c.look(ctx)
	if notFound(err) || err == nil && now.Labels[labelPart] != partNamespace {
		return nil
	}
	by := now.Labels[provision.LabelRun]
	ofLab := now.annotation(provision.LabelLab) == run.Lab && (run.Store == "" || now.Labels[provision.LabelStore] == labelValue(run.Store))
	ours := by == "" || by == labelValue(run.Run) || run.Run == "" && ofLab
	if err != nil || !ours {
		return err
	}
	if used := c.used(ctx); used && by != "" {
		_, err = c.claim(ctx, nil, nil) // who leaves last deletes it
		return err
	} else if used {
		return nil
	}
	return c.end(ctx, c.host, run, nil, thing{kind: "namespace", path: c.space(), uid: now.UID, version: now.ResourceVersion})
}

// ofEvery are what every namespace has.
var ofEvery = []string{
	"configmaps/kube-root-ca.crt", "configmaps/istio-ca-root-cert", "configmaps/openshift-service-ca.crt",
	"serviceaccounts/default",
}

// used reports whether there is anything in the namespace, of whatever kind. What cannot be listed is there.
func (c *Client) used(ctx context.Context) bool {
	kinds, err := c.kinds(ctx)
	for at, name := range kinds {
		if err != nil {
			break
		}
		var all []named
		if all, err = listAt[named](ctx, &c.server, at, nil); notFound(err) || hasCode(err, http.StatusMethodNotAllowed) {
			err = nil
		}
		for _, o := range all {
			if !slices.Contains(ofEvery, name+"/"+o.Metadata.Name) {
				return true
			}
		}
	}
	if err != nil && unknown(err) != nil {
		c.say(fmt.Sprintf(notListed, c.namespace, err))
	}
	return err != nil
}

const notListed = "namespace %s stays, since nobody can say what is in it: %v"

// kinds are what a namespace can have, in all versions, names by path; events are no things.
func (c *Client) kinds(ctx context.Context) (map[string]string, error) {
	kinds := map[string]string{}
	var groups struct {
		Groups []struct {
			Versions []struct{ GroupVersion string }
		}
	}
	if err := c.do(ctx, request{path: "/apis"}, &groups); err != nil {
		return nil, err
	}
	paths := []string{"/api/v1"}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			paths = append(paths, "/apis/"+v.GroupVersion)
		}
	}
	for _, at := range paths {
		var list struct {
			Resources []struct {
				Name       string
				Namespaced bool
				Verbs      []string
			}
		}
		if err := c.do(ctx, request{path: at}, &list); err != nil {
			return kinds, fmt.Errorf("ask for the kinds of %s: %w", path.Base(path.Dir(at))+"/"+path.Base(at), err)
		}
		for _, r := range list.Resources {
			thing := r.Namespaced && r.Name != "events" && slices.Contains(r.Verbs, "create")
			if thing && slices.Contains(r.Verbs, "list") {
				kinds[at+"/namespaces/"+c.namespace+"/"+r.Name] = r.Name
			}
		}
	}
	return kinds, nil
}
