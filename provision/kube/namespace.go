package kube

import (
	"context"
	"fmt"
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
// made in it.
func (c *Client) MakeNamespace(ctx context.Context, run RunOf) error {
	if !c.cluster.CreateNamespace {
		return nil
	}
	until := time.Now().Add(c.patience.going)
	for {
		var now struct{ Metadata meta }
		err := c.do(ctx, request{path: c.space()}, &now)
		if notFound(err) {
			body := NamespaceManifest(c.namespace, run)
			err = c.do(ctx, request{method: http.MethodPost, path: "/api/v1/namespaces", body: body}, nil)
		}
		account := false
		if err == nil && now.Metadata.DeletionTimestamp == nil {
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

// LeaveNamespace deletes the namespace when hcl has made it, and nobody has anything in it.
func (c *Client) LeaveNamespace(ctx context.Context) error {
	if !c.cluster.CreateNamespace {
		return nil
	}
	var now struct{ Metadata meta }
	err := c.do(ctx, request{path: c.space()}, &now)
	if notFound(err) || err == nil && now.Metadata.Labels[labelPart] != partNamespace {
		return nil
	}
	var used bool
	if err == nil {
		used, err = c.used(ctx)
	}
	switch {
	case err != nil:
		return provision.Wrap(c.host, "look what is in namespace "+c.namespace, err)
	case used:
		return nil
	}
	if err := c.delete(ctx, c.space(), "Background"); err != nil {
		return err
	}
	return c.gone(ctx, c.host, func(ctx context.Context) ([]left, error) {
		err := c.do(ctx, request{path: c.space()}, &now)
		if notFound(err) {
			return nil, nil
		}
		return []left{{"namespace", now.Metadata, ""}}, err
	})
}

// ofEvery are what every namespace has.
var ofEvery = []string{
	"configmaps/kube-root-ca.crt", "configmaps/istio-ca-root-cert", "configmaps/openshift-service-ca.crt",
}

// wanted are kinds of what people put into a namespace, besides pods and jobs.
var wanted = []string{"services", "configmaps", "secrets", "persistentvolumeclaims"}

// used reports whether there is anything in the namespace that somebody may want.
func (c *Client) used(ctx context.Context) (bool, error) {
	for _, kind := range append([]string{"pods", "jobs"}, wanted...) {
		all, err := listAt[struct{ Metadata meta }](ctx, c, c.in(kind), nil)
		if err != nil {
			return false, err
		}
		for _, o := range all {
			if !slices.Contains(ofEvery, fmt.Sprintf("%s/%s", kind, o.Metadata.Name)) {
				return true, nil
			}
		}
	}
	return false, nil
}
