package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/sim"
)

// TestNoStream: without a stream there are latencies of whole answers, and none
// that only a stream has.
func TestNoStream(t *testing.T) {
	for _, endpoint := range []string{load.Completions, load.Chat, load.Generate} {
		server, target := engine(t, sim.Config{TTFT: 10 * time.Millisecond, ITL: time.Millisecond})
		w := load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 9}, Requests: 12, Concurrency: 3, OutputTokens: 11, IgnoreEOS: true, Endpoint: endpoint, NoStream: true,
			SLO: []load.Objective{{Metric: "e2el", Max: load.Duration(time.Minute)}}}
		s := run(t, target, w).Summary
		truth := server.Truth()
		if s.Completed != 12 || s.OutputTokens != 132 || s.InputTokens != 108 || s.UsageMissing != 0 || truth.CompletionTokens != 132 {
			t.Errorf("%s: %d completed, %d and %d tokens, %v", endpoint, s.Completed, s.InputTokens, s.OutputTokens, s.ErrorSamples)
		}
		if s.TTFT.Count != 0 || s.TPOT.Count != 0 || s.ITL.Count != 0 || s.E2EL.Count != 12 || s.E2EL.Min < 20 || s.PerToken.Min < 20./11 || *s.Goodput == 0 {
			t.Errorf("%s: TTFT %v, TPOT %v, ITL %v, E2EL %v", endpoint, s.TTFT, s.TPOT, s.ITL, s.E2EL)
		}
		w.SLO = []load.Objective{{Metric: "ttft", Max: 1}}
		if _, err := Run(t.Context(), load.Job{Target: target, Workload: w}, nil); err == nil || !strings.Contains(err.Error(), "without a stream") {
			t.Errorf("an SLO on what is not measured: %v", err)
		}
	}
}

// TestHeaders: headers and secrets are sent with every request, also to the
// tokenizer, and secrets are not marshalled.
func TestHeaders(t *testing.T) {
	engine := sim.New(instant(sim.Config{}))
	var wrong, all atomic.Int64
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all.Add(1)
		if r.Header.Get("Authorization") != "Bearer sk-1" || r.Header.Get("X-Team") != "a b" {
			wrong.Add(1)
		}
		engine.ServeHTTP(w, r)
	})
	plain := httptest.NewServer(handler)
	defer plain.Close()
	j := load.Job{Target: load.Target{BaseURL: plain.URL, Headers: map[string]string{"x-team": "a b"}}, Secrets: map[string]string{"authorization": "Bearer sk-1"},
		Workload: load.Workload{Dataset: load.Dataset{Kind: load.Text, InputTokens: 2, Path: written(t, "a b c")}, Requests: 4, Concurrency: 2, OutputTokens: 2, Endpoint: load.Completions}}
	r, err := Run(t.Context(), j, nil)
	if err != nil || r.Summary.Completed != 4 || wrong.Load() != 0 || all.Load() != 6 {
		t.Errorf("%v: %d of %d requests came without their headers", err, wrong.Load(), all.Load())
	}
	if text, err := json.Marshal(j); err != nil || strings.Contains(string(text), "sk-1") || !strings.Contains(string(text), "a b") {
		t.Errorf("marshalled: %s, %v", text, err)
	}
	for name, value := range map[string]string{"Host": "x", "content-length": "3", "a b": "x", "": "x", "X": "sk-2\r\nY: z"} {
		j.Target.Headers = map[string]string{name: value}
		if _, err := Run(t.Context(), j, nil); err == nil || !strings.Contains(err.Error(), "header") || strings.Contains(err.Error(), "sk-2") {
			t.Errorf("header %q: %v", name, err)
		}
	}
}

// TestTurns: several servers get the same number of requests.
func TestTurns(t *testing.T) {
	a, first := engine(t, instant(sim.Config{}))
	b, second := engine(t, instant(sim.Config{}))
	c, third := engine(t, instant(sim.Config{}))
	first.BaseURLs = []string{second.BaseURL, third.BaseURL}
	s := run(t, first, load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 3}, Requests: 30, Concurrency: 4, OutputTokens: 2, Endpoint: load.Completions}).Summary
	if s.Completed != 30 || a.Truth().Completed != 10 || b.Truth().Completed != 10 || c.Truth().Completed != 10 {
		t.Errorf("%d completed: %d, %d, %d", s.Completed, a.Truth().Completed, b.Truth().Completed, c.Truth().Completed)
	}
	first.BaseURLs = []string{"no url"}
	if _, err := Run(context.Background(), load.Job{Target: first, Workload: load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 3}, Requests: 1, Concurrency: 1, OutputTokens: 2, Endpoint: load.Completions}}, nil); err == nil {
		t.Error("a second server without a URL")
	}
}

// TestSecretsStayOutOfErrors: a server repeats the key that it refuses, whole and
// where its answer is cut off.
func TestSecretsStayOutOfErrors(t *testing.T) {
	const key = "sk-canary-1234567890"
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusUnauthorized)
		auth, team := r.Header.Get("Authorization"), r.Header.Get("X-Team")
		fmt.Fprintf(w, "no: %s, %s; %s", auth, strings.TrimPrefix(auth, "Bearer "), team)
		io.WriteString(w, strings.Repeat(".", 512-10-3*len(key)-len("no: Bearer , ; ")+len(key)-len(team))+key)
	}))
	defer echo.Close()
	job := load.Job{
		Target:   load.Target{BaseURL: echo.URL, Headers: map[string]string{"X-Team": "plain"}},
		Workload: load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 4}, OutputTokens: 4, Requests: 2, Concurrency: 1, Endpoint: load.Completions},
		Secrets:  map[string]string{"Authorization": load.Bearer(key)},
	}
	result, err := Run(t.Context(), job, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(result.Summary.ErrorSamples, result.Records[0].Error, result.Records[1].Error) {
		if strings.Contains(text, "sk-c") || !strings.Contains(text, "no: (sensitive), (sensitive); plain...") {
			t.Errorf("error %q", text)
		}
	}
	if got := hide(job, errors.New("status 401: "+key)).Error(); got != "status 401: (sensitive)" {
		t.Errorf("hide: %q", got)
	}
}
