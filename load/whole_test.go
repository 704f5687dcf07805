package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hclbench/sim"
)

// TestWhole is answers that are not streamed.
func TestWhole(t *testing.T) { bothClients(t, testWhole) }

func testWhole(t *testing.T, with maker) {
	head := func(body string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	answer := func(members string) string {
		return head(`{"object":"text_completion",` + members + `,"usage":{"prompt_tokens":5,"completion_tokens":3}}`)
	}
	ok := Record{InputTokens: 5, OutputTokens: 3, Finish: "length"}
	for _, c := range []struct {
		name, answer string
		want         Record
	}{
		{"completion", answer(`"choices":[{"text":"a b c","finish_reason":"length"}]`), ok},
		{"chat", answer(`"choices":[{"message":{"role":"assistant","content":"a b c"},"finish_reason":"length"}]`), ok},
		{"reasoning", answer(`"choices":[{"message":{"role":"assistant","content":null,"reasoning_content":"a b c"},"finish_reason":"length"}]`), ok},
		{"generate", head(`{"text":"a b c","meta_info":{"prompt_tokens":5,"completion_tokens":3,"finish_reason":{"type":"length"}}}`), ok},
		{"until the end", "HTTP/1.1 200 OK\r\n\r\n" + `{"text":"a b c","meta_info":{"prompt_tokens":5,"completion_tokens":3,"finish_reason":{"type":"length"}}}`, ok},
		{"no usage", head(`{"choices":[{"text":"a b c"}]}`), Record{InputTokens: 5, OutputTokens: 1, NoUsage: true}},
		{"nothing", head(""), Record{Class: ClassEmpty, Error: "the answer has no body"}},
		{"no text", answer(`"choices":[{"text":""}]`), Record{Class: ClassEmpty, Error: "the answer was whole but brought no text; tokens by its usage: 3"}},
		{"error", head(`{"error":{"message":"no"}}`), Record{Class: ClassServer, Error: `{"error":{"message":"no"}}`}},
		{"not JSON", head("{"), Record{Class: ClassMalformed, Error: "not a JSON object: {"}},
		{"a stream", streamHead + text("a") + end, Record{Class: ClassMalformed, Error: `content type "text/event-stream; charset=utf-8" instead of JSON`}},
		{"cut off", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{}", Record{Class: ClassTruncated, Error: "unexpected EOF"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := raw(t, func(conn net.Conn, _ <-chan struct{}) { io.WriteString(conn, c.answer) })
			got := Record{AskedInput: 5, AskedOutput: 3}
			with.client(t, target, Workload{Endpoint: Completions}).send(t.Context(), []byte("{}"), exchange{rec: &got, zero: time.Now(), chunks: new(atomic.Int64), whole: true})
			if got.OK() && (got.First < got.Sent || got.Last != got.First || got.End != got.Last) {
				t.Errorf("times %+v", got)
			}
			if !got.OK() {
				got = Record{Class: got.Class, Error: strings.SplitN(got.Error, ": data:", 2)[0]}
			} else {
				c.want.AskedInput, c.want.AskedOutput = 5, 3
			}
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(Record{}, "Sent", "First", "Last", "End", "Gaps")); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoStream: without a stream there are latencies of whole answers, and none
// that only a stream has.
func TestNoStream(t *testing.T) {
	for _, endpoint := range []string{Completions, Chat, Generate} {
		server, target := engine(t, sim.Config{TTFT: 10 * time.Millisecond, ITL: time.Millisecond})
		w := Workload{Dataset: Dataset{Kind: Random, InputTokens: 9}, Requests: 12, Concurrency: 3, OutputTokens: 11, IgnoreEOS: true, Endpoint: endpoint, NoStream: true,
			SLO: []Objective{{Metric: "e2el", Max: Duration(time.Minute)}}}
		s := run(t, target, w).Summary
		truth := server.Truth()
		if s.Completed != 12 || s.OutputTokens != 132 || s.InputTokens != 108 || s.UsageMissing != 0 || truth.CompletionTokens != 132 {
			t.Errorf("%s: %d completed, %d and %d tokens, %v", endpoint, s.Completed, s.InputTokens, s.OutputTokens, s.ErrorSamples)
		}
		if s.TTFT.Count != 0 || s.TPOT.Count != 0 || s.ITL.Count != 0 || s.E2EL.Count != 12 || s.E2EL.Min < 20 || s.PerToken.Min < 20./11 || *s.Goodput == 0 {
			t.Errorf("%s: TTFT %v, TPOT %v, ITL %v, E2EL %v", endpoint, s.TTFT, s.TPOT, s.ITL, s.E2EL)
		}
		w.SLO = []Objective{{Metric: "ttft", Max: 1}}
		if _, err := Run(t.Context(), Job{Target: target, Workload: w}, nil); err == nil || !strings.Contains(err.Error(), "without a stream") {
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
	plain, secure := httptest.NewServer(handler), httptest.NewServer(handler)
	defer plain.Close()
	defer secure.Close()
	j := Job{Target: Target{BaseURL: plain.URL, Headers: map[string]string{"x-team": "a b"}}, Secrets: map[string]string{"authorization": "Bearer sk-1"},
		Workload: Workload{Dataset: Dataset{Kind: Text, InputTokens: 2, Path: written(t, "f", "a b c")}, Requests: 4, Concurrency: 2, OutputTokens: 2, Endpoint: Completions}}
	r, err := Run(t.Context(), j, nil)
	if err != nil || r.Summary.Completed != 4 || wrong.Load() != 0 || all.Load() != 6 {
		t.Errorf("%v: %d of %d requests came without their headers", err, wrong.Load(), all.Load())
	}
	if text, err := json.Marshal(j); err != nil || strings.Contains(string(text), "sk-1") || !strings.Contains(string(text), "a b") {
		t.Errorf("marshalled: %s, %v", text, err)
	}
	bothClients(t, func(t *testing.T, with maker) {
		wrong.Store(0)
		target := Target{BaseURL: secure.URL, Headers: map[string]string{"x-team": "a b", "Authorization": "Bearer sk-1"}}
		if ask(t.Context(), with.client(t, target, Workload{Endpoint: Completions})); wrong.Load() != 0 {
			t.Error("the headers are not those of the target")
		}
	})
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
	s := run(t, first, Workload{Dataset: Dataset{Kind: Random, InputTokens: 3}, Requests: 30, Concurrency: 4, OutputTokens: 2, Endpoint: Completions}).Summary
	if s.Completed != 30 || a.Truth().Completed != 10 || b.Truth().Completed != 10 || c.Truth().Completed != 10 {
		t.Errorf("%d completed: %d, %d, %d", s.Completed, a.Truth().Completed, b.Truth().Completed, c.Truth().Completed)
	}
	first.BaseURLs = []string{"no url"}
	if _, err := Run(context.Background(), Job{Target: first, Workload: Workload{Dataset: Dataset{Kind: Random, InputTokens: 3}, Requests: 1, Concurrency: 1, OutputTokens: 2, Endpoint: Completions}}, nil); err == nil {
		t.Error("a second server without a URL")
	}
}
