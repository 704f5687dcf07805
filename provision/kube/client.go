// Package kube rents pods of a Kubernetes cluster. Everything of a run is owned by one Job, its root,
// so that it goes when the root goes, whoever ends that. A pod is reached as hosts are: exec is
// one more [reach.Transport].
package kube

import (
	"cmp"
	"context"

	"hclbench/provision"
)

// Client is a cluster that answers. Its methods may be called from many goroutines.
type Client struct {
	server
	cluster *provision.Cluster
}

// Open reads the credentials of a cluster and asks its version. say is told when the API server goes away
// later, and comes back; nil: nobody is. Its errors are
// [provision.ErrUnreachable] or [provision.ErrAuth], or tell what is wrong with the kubeconfig; they name
// the cluster's block and say what to do.
func Open(ctx context.Context, cluster *provision.Cluster, say func(string)) (*Client, error) {
	c := &Client{server{host: cluster.Host(), patience: usual, outage: &outage{say: say}}, cluster}
	c.patience.room = cmp.Or(cluster.WaitForNode, usual.room)
	if err := c.logIn(cluster); err != nil {
		return nil, provision.Wrap(c.host, "read its kubeconfig", err)
	}
	var version struct{ GitVersion string }
	if err := c.do(ctx, request{path: "/version"}, &version); err != nil {
		c.Close()
		return nil, err
	}
	c.version = version.GitVersion
	return c, nil
}

// Cluster is what was opened.
func (c *Client) Cluster() *provision.Cluster { return c.cluster }

// Namespace is where the client works.
func (c *Client) Namespace() string { return c.namespace }

// Version is the API server's: "v1.34.4".
func (c *Client) Version() string { return c.version }
