// Package kube rents pods of a Kubernetes cluster. Everything of a run is owned by one Job, its root,
// so that it goes when the root goes, whoever ends that. A pod is reached as hosts are: exec is
// one more [reach.Transport].
package kube

import (
	"context"
	"crypto/sha256"
	"fmt"

	"k8s.io/client-go/rest"

	"hclbench/provision"
)

// Client is a cluster that answers. Its methods may be called from many goroutines.
type Client struct {
	server
	cluster *provision.Cluster
}

// Open reads the credentials of a cluster and asks its version. say is told when the API server goes away
// later, and comes back, and of what is not looked at; nil: nobody is. Its errors are
// [provision.ErrUnreachable] or [provision.ErrAuth], or tell what is wrong with the kubeconfig; they name
// the cluster's block and say what to do.
func Open(ctx context.Context, cluster *provision.Cluster, say func(string)) (*Client, error) {
	if say == nil {
		say = func(string) {}
	}
	c := &Client{server{host: cluster.Host(), patience: usual.forCluster(cluster), say: say, outage: &outage{}}, cluster}
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

// Identity is which cluster it is, as far as the credentials tell without asking it: the API server's
// address, and a checksum of the authority that vouches for it, since the one is often 127.0.0.1.
func Identity(cluster *provision.Cluster) (string, error) {
	s := server{host: cluster.Host()}
	if err := s.logIn(cluster); err != nil {
		return "", provision.Wrap(s.host, "read its kubeconfig", err)
	}
	defer s.Close()
	if err := rest.LoadTLSFiles(s.config); err != nil {
		return "", provision.Wrap(s.host, "read its kubeconfig", err)
	}
	is := s.base.String()
	if len(s.config.CAData) > 0 {
		is += fmt.Sprintf(" %.6x", sha256.Sum256(s.config.CAData))
	}
	return is, nil
}

// Cluster is what was opened.
func (c *Client) Cluster() *provision.Cluster { return c.cluster }

// Namespace is where the client works.
func (c *Client) Namespace() string { return c.namespace }

// Version is the API server's: "v1.34.4".
func (c *Client) Version() string { return c.version }
