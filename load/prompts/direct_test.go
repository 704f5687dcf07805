package prompts

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"hclbench/load"
)

// TestTokenizeGoesNowhereElse: what is asked of the server with the load's headers
// is asked of nobody else: no redirect is followed.
func TestTokenizeGoesNowhereElse(t *testing.T) {
	var reached atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/taken", http.StatusTemporaryRedirect))
	defer server.Close()
	job := load.Job{Target: load.Target{BaseURL: server.URL}, Secrets: map[string]string{"X-Api-Key": "canary"}}
	_, err := newTokens(context.Background(), job)
	if reached.Load() > 0 || err == nil || !strings.Contains(err.Error(), "307") || !strings.Contains(err.Error(), "not followed") {
		t.Errorf("%v, %d requests went elsewhere", err, reached.Load())
	}
}
