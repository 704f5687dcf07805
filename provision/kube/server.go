package kube

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"hclbench/flow"
	"hclbench/provision"
)

// server is the API server of a cluster, as it is asked with somebody's login. Its methods may be called
// from many goroutines.
type server struct {
	host      *provision.Host // the cluster as errors name it
	namespace string
	login     string // which credentials are used, for people
	kubectl   string // how this cluster is asked by hand
	version   string
	config    *rest.Config
	base      *url.URL
	http      *http.Client
	patience  patience
	say       func(string)
	outage    *outage
}

// patience is how long something that may yet become good is waited for.
type patience struct {
	room  time.Duration // a node for a pod: others may be about to leave
	begin time.Duration // the root's pod, on a node
	pull  time.Duration // an image that could not be pulled for a reason that may pass
	away  time.Duration // an API server that is gone
	quiet time.Duration // before it is told that it is gone
	going time.Duration // what is deleted, and does not go, beside the grace of its pods
	poll  time.Duration
}

var usual = patience{
	room: 2 * time.Minute, begin: 3 * time.Minute, pull: 2 * time.Minute, away: 2 * time.Minute, quiet: 5 * time.Second,
	going: 2 * time.Minute, poll: 500 * time.Millisecond,
}

// forCluster is the patience that a cluster's block says.
func (p patience) forCluster(cluster *provision.Cluster) patience {
	p.room = cmp.Or(cluster.WaitForNode, p.room)
	return p
}

// begins is how long the root's pod may take until it runs.
func (p patience) begins() time.Duration { return p.room + p.begin }

// logIn reads the credentials of a cluster.
func (s *server) logIn(cluster *provision.Cluster) error {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = cluster.Kubeconfig
	if rest, ok := strings.CutPrefix(rules.ExplicitPath, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return err
		}
		rules.ExplicitPath = filepath.Join(home, rest)
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: cluster.Context})
	raw, err := loader.RawConfig()
	if err != nil {
		return err
	}
	from := strings.Join(rules.GetLoadingPrecedence(), ", ")
	if err := checkContext(raw, cluster.Context, from); err != nil {
		return err
	}
	if s.config, err = loader.ClientConfig(); err != nil {
		if clientcmd.IsEmptyConfig(err) {
			err = fmt.Errorf("there is none at %s, and hcl does not run in a pod: "+
				"set kubeconfig in the block, or $KUBECONFIG", from)
		}
		return err
	}
	if s.namespace, _, err = loader.Namespace(); err != nil {
		return err
	}
	if cluster.Namespace != "" {
		s.namespace = cluster.Namespace
	}
	s.login, s.kubectl = "the pod's service account", "kubectl"
	if rules.ExplicitPath != "" {
		s.kubectl += " --kubeconfig " + rules.ExplicitPath
	}
	if name := used(raw, cluster.Context); raw.Contexts[name] != nil {
		s.login = fmt.Sprintf("user %q of context %q in %s", raw.Contexts[name].AuthInfo, name, from)
		s.kubectl += " --context " + name
	}
	s.config.UserAgent, s.config.WarningHandler = "hcl", rest.NoWarnings{}
	if s.base, _, err = rest.DefaultServerUrlFor(s.config); err != nil {
		return err
	}
	s.http, err = rest.HTTPClientFor(s.config)
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
func (s *server) Close() error {
	s.http.CloseIdleConnections()
	return nil
}

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
func (s *server) do(ctx context.Context, r request, into any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, fmt.Errorf("nothing came within %s", answerWithin))
	defer cancel()
	answer, err := s.open(ctx, r)
	if err != nil {
		return err
	}
	defer answer.Close()
	const most = 64 << 20
	text, err := io.ReadAll(io.LimitReader(answer, most))
	if err != nil {
		return s.unreached(err)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return provision.Wrap(s.host, "read what its API server says", err)
	}
	return nil
}

// open asks the API server once, and once more where the login is not taken: what gives credentials may make them
// anew when it sees that, and a clock or a token be late by a moment. Its answer is to be closed.
func (s *server) open(ctx context.Context, r request) (answer io.ReadCloser, err error) {
	if answer, err = s.openOnce(ctx, r); hasCode(err, http.StatusUnauthorized) {
		answer, err = s.openOnce(ctx, r)
	}
	return answer, err
}

func (s *server) openOnce(ctx context.Context, r request) (answer io.ReadCloser, err error) {
	var body io.Reader
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	at := *s.base
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
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, s.unreached(cmp.Or(context.Cause(ctx), err))
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		return nil, s.refused(readStatus(resp.StatusCode, text))
	}
	return resp.Body, nil
}

// in is the path of objects of the namespace: "pods", or "pods/NAME".
func (s *server) in(resource string) string {
	group := "/api/v1"
	if strings.HasPrefix(resource, "jobs") {
		group = "/apis/batch/v1"
	}
	return group + "/namespaces/" + s.namespace + "/" + resource
}

// exists reports whether there is an object at a path; what may not be read is there.
func (s *server) exists(ctx context.Context, path string) (bool, error) {
	err := s.do(ctx, request{path: path}, nil)
	if notFound(err) {
		return false, nil
	}
	return true, unknown(err)
}

// may asks whether the login may do something.
func (s *server) may(ctx context.Context, a access) (bool, error) {
	namespace := s.namespace
	if a.everywhere {
		namespace = ""
	}
	var answer struct{ Status struct{ Allowed bool } }
	err := s.do(ctx, request{
		method: http.MethodPost, path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
		body: object{
			"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
			"spec": object{"resourceAttributes": object{
				"namespace": namespace, "verb": a.verb, "group": a.group, "resource": a.resource, "subresource": a.sub,
			}},
		},
	}, &answer)
	return answer.Status.Allowed, err
}

const waits = "its API server %s does not answer: hcl waits up to %s for it"

// again does what may be done twice until the API server answers.
func (s *server) again(ctx context.Context, do func() error) error {
	begin := time.Now()
	for {
		err := do()
		since := time.Since(begin)
		switch {
		case !away(err):
			if s.outage.is(false) {
				s.say("its API server answers again")
			}
			return err
		case ctx.Err() != nil || since > s.patience.away:
			return err
		case since > s.patience.quiet && s.outage.is(true):
			s.say(fmt.Sprintf(waits, s.base.Host, s.patience.away))
		}
		if !s.pause(ctx) {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// outage is a time in which the API server does not answer, of which people are told once.
type outage struct {
	mu   sync.Mutex
	told bool
}

// is notes whether people know of one, and reports whether that is new.
func (o *outage) is(told bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.told
	o.told = told
	return was != told
}

// pause waits until the next look; false when ctx ended.
func (s *server) pause(ctx context.Context) bool {
	return flow.Pause(ctx, s.patience.poll)
}
