package kube

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
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
	}, cluster}
	return c, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// TestNoAnswer: what may have been made by a question without an answer is deleted.
func TestNoAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	c, all := asked(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			cancel() // the caller gives up
			<-gone
		}
	})
	err := c.create(ctx, "jobs", "hcl-r1", object{}, nil)
	close(gone)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	want := []string{"POST /apis/batch/v1/namespaces/bench/jobs", "DELETE /apis/batch/v1/namespaces/bench/jobs/hcl-r1"}
	if got := all(); !slices.Equal(got, want) {
		t.Errorf("the API server was asked %q, want %q", got, want)
	}
}

// TestNoAnswerAndGone: what cannot be deleted then is named, with the command.
func TestNoAnswerAndGone(t *testing.T) {
	c, _ := asked(t, func(w http.ResponseWriter, r *http.Request) { http.Error(w, "out of order", http.StatusBadGateway) })
	err := c.create(t.Context(), "pods", "hcl-r1-h-1", object{}, nil)
	for _, part := range []string{"out of order", "it may have been made", "`kubectl -n bench delete pod hcl-r1-h-1`"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}

// TestWebhook: a webhook that does not answer is not an API server that is away.
func TestWebhook(t *testing.T) {
	const said = `{"kind":"Status","code":500,"reason":"InternalError",` +
		`"message":"Internal error occurred: failed calling webhook \"isvc.moreh.io\": no endpoints available"}`
	c, all := asked(t, func(w http.ResponseWriter, r *http.Request) { http.Error(w, said, http.StatusInternalServerError) })
	err := c.create(t.Context(), "pods", "hcl-r1-h-1", object{}, nil)
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
	c.outage.say = func(what string) { said = append(said, what) }
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
