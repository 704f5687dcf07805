package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hclbench/provision"
)

// asked is a client of an API server that answers so, and what it was asked.
func asked(t *testing.T, answer http.HandlerFunc) (*Client, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		all = append(all, r.Method+" "+r.URL.Path)
		mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(answers.Close)
	base, err := url.Parse(answers.URL)
	if err != nil {
		t.Fatal(err)
	}
	cluster := &provision.Cluster{Name: "moai"}
	c := &Client{server{
		host: cluster.Host(), namespace: "bench", kubectl: "kubectl", base: base, http: answers.Client(), outage: &outage{},
		say: func(string) {},
	}, cluster}
	return c, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// pods is an API server that has pods, of which it may tell nobody.
type pods struct {
	mu    sync.Mutex
	there map[string]object
	mute  func(method string) bool // it does what it is asked, and does not answer
}

func (p *pods) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.there)
}

func (p *pods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var body object
	_ = json.NewDecoder(r.Body).Decode(&body)
	name := path.Base(r.URL.Path)
	if r.Method == http.MethodPost {
		name = body["metadata"].(object)["name"].(string)
	}
	now, there := p.there[name]
	code := http.StatusOK
	switch {
	case r.Method == http.MethodPost && there:
		code = http.StatusConflict
	case r.Method == http.MethodPost:
		now = body
		now["metadata"].(object)["uid"] = "uid of " + name
		p.there[name] = now
	case !there:
		code = http.StatusNotFound
	case r.Method == http.MethodDelete:
		delete(p.there, name)
	}
	if p.mute(r.Method) {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(now)
}

func speaks(string) bool { return false }

var ofRun = RunOf{Lab: "l", Run: "r1", Store: "s1"}

func (p *pods) make(c *Client, run RunOf) (named, error) {
	body := Manifest(c.cluster, "bench", run, PodSpec{Host: &provision.Host{Name: "h", Cluster: c.cluster}}, 1, "root")
	return c.create(context.Background(), c.in("pods"), nil, body)
}

// TestMadeOnce: an object is asked for until there is an answer, and one that is there already is taken for it when it
// is the same: of this run, of this store, and owned by its root.
func TestMadeOnce(t *testing.T) {
	p := &pods{there: map[string]object{}}
	c, all := asked(t, p.ServeHTTP)
	c.patience.away = time.Minute
	lost := 2
	p.mute = func(method string) bool {
		lost--
		return lost >= 0
	}
	made, err := p.make(c, ofRun)
	if err != nil || made.Metadata.UID != "uid of hcl-r1-h-1" || p.count() != 1 {
		t.Errorf("made = %+v, %v, there are %v; asked %q", made, err, p.there, all())
	}
	p.mute = speaks
	if again, err := p.make(c, ofRun); err != nil || again.Metadata.UID != made.Metadata.UID {
		t.Errorf("asked again: %+v, %v", again, err)
	}
	other := ofRun
	other.Store = "s2"
	if _, err := p.make(c, other); !hasCode(err, http.StatusConflict) {
		t.Errorf("another store's is taken for ours: %v", err)
	}
	p.there["hcl-r1-h-1"]["metadata"].(object)["deletionTimestamp"] = "2026-11-22T15:30:00Z"
	if _, err := p.make(c, ofRun); !hasCode(err, http.StatusConflict) {
		t.Errorf("one that goes is taken for ours: %v", err)
	}
}

// TestNoAnswer: what may have been made although no answer came is deleted when it is the run's, and nothing else.
func TestNoAnswer(t *testing.T) {
	p := &pods{there: map[string]object{}, mute: func(method string) bool { return method == http.MethodPost }}
	c, _ := asked(t, p.ServeHTTP)
	if _, err := p.make(c, ofRun); !away(err) || p.count() != 1 {
		t.Fatalf("the error is %v, there are %v", err, p.there)
	}
	thing := thing{kind: "pod", path: c.in("pods/hcl-r1-h-1")}
	for _, run := range []RunOf{{Lab: "l", Run: "r2", Store: "s1"}, {Lab: "l", Run: "r1", Store: "s2"}} {
		if err := c.end(t.Context(), c.host, run, nil, thing); err != nil || p.count() != 1 {
			t.Errorf("run %+v ends %v, there are %v", run, err, p.there)
		}
	}
	root := &Root{RunOf: ofRun, client: c, uid: "root"}
	p.mu.Lock()
	clear(p.there)
	p.mu.Unlock()
	spec := PodSpec{Host: &provision.Host{Name: "h", Cluster: c.cluster}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // who gives up cleans up all the same
	if _, err := root.Pod(ctx, spec, nil); !errors.Is(err, context.Canceled) || p.count() != 0 {
		t.Errorf("the error is %v, there are %v", err, p.there)
	}
	if _, err := root.Pod(t.Context(), spec, nil); !away(err) || p.count() != 0 {
		t.Errorf("the error is %v, there are %v", err, p.there)
	}
}

// TestLongGrace: what is deleted is waited for as long as pods of the namespace have to stop, and no longer.
func TestLongGrace(t *testing.T) {
	for grace, gone := range map[int]bool{0: false, 3600: true} {
		looks := 0
		c, _ := asked(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/v1/namespaces/bench/pods" {
				fmt.Fprintf(w, `{"items": [{"metadata": {"deletionGracePeriodSeconds": %d}}]}`, grace)
			}
		})
		err := c.gone(t.Context(), c.host, func(context.Context) (there []left, err error) {
			if looks++; looks < 10 {
				there = []left{{kind: "deployment", meta: meta{Name: "decode"}}}
			}
			return there, nil
		})
		if (err == nil) != gone {
			t.Errorf("with a grace of %d s: %v", grace, err)
		}
	}
}

// TestLoginAnew: a login that is not taken is tried once more, since programs get another when they see that.
func TestLoginAnew(t *testing.T) {
	for refused, taken := range map[int]bool{1: true, 2: false} {
		c, all := asked(t, func(w http.ResponseWriter, r *http.Request) {
			if refused--; refused >= 0 {
				w.WriteHeader(http.StatusUnauthorized)
			}
		})
		err := c.do(t.Context(), request{path: "/version"}, nil)
		if errors.Is(err, provision.ErrAuth) == taken || len(all()) != 2 {
			t.Errorf("after %d asked: %v", len(all()), err)
		}
	}
}

// TestWebhook: a webhook that does not answer is not an API server that is away.
func TestWebhook(t *testing.T) {
	const said = `{"kind":"Status","code":500,"reason":"InternalError",` +
		`"message":"Internal error occurred: failed calling webhook \"isvc.moreh.io\": no endpoints available"}`
	c, all := asked(t, func(w http.ResponseWriter, r *http.Request) { http.Error(w, said, http.StatusInternalServerError) })
	_, err := c.create(t.Context(), c.in("pods"), nil, object{})
	if !errors.Is(err, provision.ErrForbidden) || !strings.Contains(err.Error(), "whether what serves it runs") {
		t.Errorf("the error is %v", err)
	}
	if n := len(all()); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}

// TestOutage: that the API server does not answer is told once, when it has lasted, and so is that it does again.
func TestOutage(t *testing.T) {
	left := 3
	c, _ := asked(t, func(w http.ResponseWriter, r *http.Request) {
		if left--; left > 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	var said []string
	c.patience.away = time.Hour
	c.say = func(what string) { said = append(said, what) }
	ask := func() error { return c.do(t.Context(), request{path: "/version"}, nil) }
	if err := c.again(t.Context(), ask); err != nil {
		t.Error(err)
	}
	want := []string{
		"its API server " + c.base.Host + " does not answer: hcl waits up to 1h0m0s for it", "its API server answers again",
	}
	if !slices.Equal(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
	left, said, c.patience.quiet = 3, nil, time.Hour
	if err := c.again(t.Context(), ask); err != nil || said != nil {
		t.Errorf("of a short one it said %q, %v", said, err)
	}
}
