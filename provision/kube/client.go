// Package kube rents pods of a Kubernetes cluster. Everything of a run is owned by one Job, its root,
// so that it goes when the root goes, whoever ends that. A pod is reached as hosts are: exec is
// one more [reach.Transport].
package kube

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"hclbench/provision"
)

// Client is a cluster that answers. Its methods may be called from many goroutines.
type Client struct {
	cluster   *provision.Cluster
	host      *provision.Host // the cluster as errors name it
	namespace string
	login     string // which credentials are used, for people
	kubectl   string // how this cluster is asked by hand
	version   string
	config    *rest.Config
	base      *url.URL
	http      *http.Client
	patience  patience
}

// patience is how long something that may yet become good is waited for.
type patience struct {
	room  time.Duration // a node for a pod: others may be about to leave
	pull  time.Duration // an image that could not be pulled for a reason that may pass
	away  time.Duration // an API server that is gone
	going time.Duration // what is deleted, and does not go
	poll  time.Duration
}

var usual = patience{
	room: 2 * time.Minute, pull: 2 * time.Minute, away: 2 * time.Minute, going: 2 * time.Minute,
	poll: 500 * time.Millisecond,
}

// Open reads the credentials of a cluster and asks its version. Its errors are
// [provision.ErrUnreachable] or [provision.ErrAuth], or tell what is wrong with the kubeconfig; they name
// the cluster's block and say what to do.
func Open(ctx context.Context, cluster *provision.Cluster) (*Client, error) {
	c := &Client{cluster: cluster, host: cluster.Host(), patience: usual}
	c.patience.room = cmp.Or(cluster.WaitForNode, usual.room)
	if err := c.configure(); err != nil {
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

func (c *Client) configure() error {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.cluster.Kubeconfig
	if rest, ok := strings.CutPrefix(rules.ExplicitPath, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return err
		}
		rules.ExplicitPath = filepath.Join(home, rest)
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: c.cluster.Context})
	raw, err := loader.RawConfig()
	if err != nil {
		return err
	}
	from := strings.Join(rules.GetLoadingPrecedence(), ", ")
	if err := checkContext(raw, c.cluster.Context, from); err != nil {
		return err
	}
	if c.config, err = loader.ClientConfig(); err != nil {
		if clientcmd.IsEmptyConfig(err) {
			err = fmt.Errorf("there is none at %s, and hcl does not run in a pod: "+
				"set kubeconfig in the block, or $KUBECONFIG", from)
		}
		return err
	}
	if c.namespace, _, err = loader.Namespace(); err != nil {
		return err
	}
	if c.cluster.Namespace != "" {
		c.namespace = c.cluster.Namespace
	}
	c.login, c.kubectl = "the pod's service account", "kubectl"
	if rules.ExplicitPath != "" {
		c.kubectl += " --kubeconfig " + rules.ExplicitPath
	}
	if name := used(raw, c.cluster.Context); raw.Contexts[name] != nil {
		c.login = fmt.Sprintf("user %q of context %q in %s", raw.Contexts[name].AuthInfo, name, from)
		c.kubectl += " --context " + name
	}
	c.config.UserAgent, c.config.WarningHandler = "hcl", rest.NoWarnings{}
	if c.base, _, err = rest.DefaultServerUrlFor(c.config); err != nil {
		return err
	}
	c.http, err = rest.HTTPClientFor(c.config)
	return err
}

// used is the context that is used.
func used(raw api.Config, asked string) string {
	if asked == "" {
		return raw.CurrentContext
	}
	return asked
}

func checkContext(raw api.Config, asked, from string) error {
	name := used(raw, asked)
	if name == "" || raw.Contexts[name] != nil {
		return nil
	}
	there := strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", ")
	if there == "" {
		there = "none"
	}
	return fmt.Errorf("there is no context %q in %s: it has %s", name, from, there)
}

// Close ends the connections that are not in use.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Cluster is what was opened.
func (c *Client) Cluster() *provision.Cluster { return c.cluster }

// Namespace is where the client works.
func (c *Client) Namespace() string { return c.namespace }

// Version is the API server's: "v1.34.4".
func (c *Client) Version() string { return c.version }

// object is what the API takes and gives, as JSON has it.
type object = map[string]any

type request struct {
	method string // empty: GET
	path   string
	query  url.Values
	body   any
}

// answerWithin bounds one question to the API server.
const answerWithin = 30 * time.Second

// do asks the API server once and reads the answer into into, which may be nil.
func (c *Client) do(ctx context.Context, r request, into any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, fmt.Errorf("nothing came within %s", answerWithin))
	defer cancel()
	answer, err := c.open(ctx, r)
	if err != nil {
		return err
	}
	defer answer.Close()
	const most = 64 << 20
	text, err := io.ReadAll(io.LimitReader(answer, most))
	if err != nil {
		return c.unreached(err)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return provision.Wrap(c.host, "read what its API server says", err)
	}
	return nil
}

// open asks the API server once. Its answer is to be closed.
func (c *Client) open(ctx context.Context, r request) (answer io.ReadCloser, err error) {
	var body io.Reader
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	at := *c.base
	at.Path, at.RawQuery = strings.TrimSuffix(at.Path, "/")+r.path, r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, at.String(), body) // which takes no method for GET
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreached(cmp.Or(context.Cause(ctx), err))
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		return nil, c.refused(readStatus(resp.StatusCode, text))
	}
	return resp.Body, nil
}

// in is the path of objects of the namespace: "pods", or "pods/NAME".
func (c *Client) in(resource string) string {
	group := "/api/v1"
	if strings.HasPrefix(resource, "jobs") {
		group = "/apis/batch/v1"
	}
	return group + "/namespaces/" + c.namespace + "/" + resource
}
