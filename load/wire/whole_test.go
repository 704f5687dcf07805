package wire

import (
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

	"hclbench/load"
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
	ok := load.Record{InputTokens: 5, OutputTokens: 3, Finish: "length"}
	for _, c := range []struct {
		name, answer string
		want         load.Record
	}{
		{"completion", answer(`"choices":[{"text":"a b c","finish_reason":"length"}]`), ok},
		{"chat", answer(`"choices":[{"message":{"role":"assistant","content":"a b c"},"finish_reason":"length"}]`), ok},
		{"reasoning", answer(`"choices":[{"message":{"role":"assistant","content":null,"reasoning_content":"a b c"},"finish_reason":"length"}]`),
			load.Record{InputTokens: 5, OutputTokens: 3, Reasoning: 1, Finish: "length"}},
		{"generate", head(`{"text":"a b c","meta_info":{"prompt_tokens":5,"completion_tokens":3,"finish_reason":{"type":"length"}}}`), ok},
		{"until the end", "HTTP/1.1 200 OK\r\n\r\n" + `{"text":"a b c","meta_info":{"prompt_tokens":5,"completion_tokens":3,"finish_reason":{"type":"length"}}}`, ok},
		{"no usage", head(`{"choices":[{"text":"a b c"}]}`), load.Record{InputTokens: 5, OutputTokens: 1, NoUsage: true}},
		{"nothing", head(""), load.Record{Class: load.ClassEmpty, Error: "the answer has no body"}},
		{"no text", answer(`"choices":[{"text":""}]`), load.Record{InputTokens: 5, OutputTokens: 3, Mute: 1}},
		{"error", head(`{"error":{"message":"no"}}`), load.Record{Class: load.ClassServer, Error: `{"error":{"message":"no"}}`}},
		{"not JSON", head("{"), load.Record{Class: load.ClassMalformed, Error: "not a JSON object: {"}},
		{"a stream", streamHead + text("a") + end, load.Record{Class: load.ClassMalformed, Error: `content type "text/event-stream; charset=utf-8" instead of JSON`}},
		{"cut off", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{}", load.Record{Class: load.ClassTruncated, Error: "unexpected EOF"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := raw(t, func(conn net.Conn) { io.WriteString(conn, c.answer) })
			got := load.Record{AskedInput: 5, AskedOutput: 3}
			with.client(t, target, load.Workload{Endpoint: load.Completions}).Send(t.Context(), net.Buffers{[]byte("{}")}, Exchange{Record: &got, Zero: time.Now(), Chunks: new(atomic.Int64), Whole: true})
			if got.OK() && (got.First < got.Sent || got.Last != got.First || got.End != got.Last) {
				t.Errorf("times %+v", got)
			}
			if !got.OK() {
				got = load.Record{Class: got.Class, Error: strings.SplitN(got.Error, ": data:", 2)[0]}
			} else {
				c.want.AskedInput, c.want.AskedOutput = 5, 3
			}
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(load.Record{}, "Sent", "First", "Answered", "Last", "End", "Gaps")); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHeadersOfTarget: both clients send the target's headers.
func TestHeadersOfTarget(t *testing.T) {
	var wrong atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sk-1" || r.Header.Get("X-Team") != "a b" {
			wrong.Add(1)
		}
	}))
	defer server.Close()
	bothClients(t, func(t *testing.T, with maker) {
		target := load.Target{BaseURL: server.URL, Headers: map[string]string{"x-team": "a b", "Authorization": "Bearer sk-1"}}
		if ask(t.Context(), with.client(t, target, load.Workload{Endpoint: load.Completions})); wrong.Load() != 0 {
			t.Error("the headers are not those of the target")
		}
	})
}
