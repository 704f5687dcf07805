package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hclbench/load"
	"hclbench/testhost/recording"
)

// named is an event of the Responses API.
func named(kind, members string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"sequence_number\":1,%s}\n\n", kind, kind, members)
}

func said(kind, text string) string {
	return named("response."+kind+".delta", fmt.Sprintf(`"item_id":"i","output_index":0,"content_index":0,"delta":%q`, text))
}

// finished is a recorded answer that has ended at its length, with a message and counts of a test's own.
func finished(t *testing.T) (begun, completed string) {
	t.Helper()
	var first, last struct{ Response map[string]any }
	events := recording.Events(t, "vllm-0.32.0/stream-responses.txt")
	for event, into := range map[string]any{events[0]: &first, events[len(events)-1]: &last} {
		if err := json.Unmarshal([]byte(event), into); err != nil {
			t.Fatal(err)
		}
	}
	usage := last.Response["usage"].(map[string]any)
	usage["input_tokens"], usage["output_tokens"] = 5, 3
	usage["output_tokens_details"].(map[string]any)["reasoning_tokens"] = 1
	last.Response["output"] = json.RawMessage(saidAB)
	text := func(response map[string]any) string {
		b, err := json.Marshal(response)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	return `"response":` + text(first.Response), text(last.Response)
}

const saidAB = `[{"type":"message","content":[{"text":"a b","type":"output_text"}]}]`

// TestResponses is answers of the Responses API, in streams and whole.
func TestResponses(t *testing.T) { bothClients(t, testResponses) }

func testResponses(t *testing.T, with maker) {
	begun, completed := finished(t)
	last := named("response.completed", `"response":`+completed)
	called := strings.Replace(last, saidAB, `[{"type":"function_call","name":"f","arguments":"{}"}]`, 1)
	whole := func(body string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	stream := func(events ...string) string {
		return streamHead + named("response.created", begun) + strings.Join(events, "")
	}
	ok := load.Record{InputTokens: 5, OutputTokens: 3, ReasoningTokens: 1, Finish: "length"}
	mute := func(r load.Record) load.Record {
		r.Mute++
		return r
	}
	kinds := func(reasoning, calls int) load.Record {
		r := ok
		r.Reasoning, r.Calls = reasoning, calls
		return r
	}
	for _, c := range []struct {
		name, answer string
		chunks       int
		text         string
		want         load.Record
	}{
		{"text", stream(said("output_text", "a"), said("output_text", " b"), last), 2, "a b", ok},
		{"an end that says [DONE] too", stream(said("output_text", "a"), last, end), 1, "a", ok},
		{"a refusal", stream(said("refusal", "no"), last), 1, "no", ok},
		{"reasoning", stream(said("reasoning_text", "hm"), said("reasoning_summary_text", "so"), said("output_text", "a"), last), 3, "a", kinds(2, 0)},
		{"a call", stream(named("response.output_item.added", `"item":{"type":"function_call","name":"f","arguments":""}`), said("function_call_arguments", "{}"), called), 1, "", kinds(0, 1)},
		{"empty deltas", stream(said("output_text", ""), said("output_text", "a"), last), 2, "a", mute(ok)},
		{"no deltas, all of it at the end", stream(last), 1, "a b", ok},
		{"events that nobody knows", stream(named("response.output_text.done", `"text":"a b"`), named("response.new", `"delta":{"x":1}`), said("output_text", "a"), last), 1, "a", ok},
		{"whole", whole(completed), 1, "a b", ok},
		{"a whole call without arguments", whole(strings.Replace(completed, saidAB, `[{"arguments":"","name":"f","type":"function_call"}]`, 1)), 1, "", kinds(0, 1)},
		{"whole, with the counts of a chat", whole(`{"status":"completed","output":[{"type":"reasoning","summary":[{"text":"s"}]},{"content":[{"text":"a"}],"type":"message"}],"usage":{"prompt_tokens":5,"completion_tokens":3}}`), 1, "a",
			load.Record{InputTokens: 5, OutputTokens: 3, Finish: "stop", Reasoning: 1}},
		{"no usage", stream(said("output_text", "a"), named("response.completed", `"response":{"status":"completed","output":[]}`)), 1, "a",
			load.Record{InputTokens: 5, OutputTokens: 1, NoUsage: true, Finish: "stop"}},
		{"counts of 0", stream(said("output_text", "a"), said("output_text", "b"), named("response.completed", `"response":{"status":"completed","usage":{"input_tokens":0,"output_tokens":0}}`)), 2, "ab",
			load.Record{InputTokens: 5, OutputTokens: 2, NoUsage: true, Finish: "stop"}},
		{"a prompt of 0", stream(said("output_text", "a"), named("response.completed", `"response":{"status":"completed","usage":{"input_tokens":0,"output_tokens":3}}`)), 2, "a",
			load.Record{InputTokens: 5, OutputTokens: 3, NoUsage: true, Mute: 1, Finish: "stop"}},
		{"several texts", whole(`{"status":"completed","output":[{"type":"message","content":[{"text":"one "},{"text":"two "}]},{"type":"message","content":[{"text":"three"}]}],"usage":{"input_tokens":5,"output_tokens":3}}`), 1, "one two three",
			load.Record{InputTokens: 5, OutputTokens: 3, Finish: "stop"}},
		{"a call without deltas", stream(said("reasoning_text", "hm"), named("response.completed", `"response":{"status":"completed","output":[{"type":"reasoning","content":[{"text":"hm"}]},{"type":"function_call","name":"f","arguments":"{}"}],"usage":{"input_tokens":5,"output_tokens":3}}`)), 2, "",
			load.Record{InputTokens: 5, OutputTokens: 3, Finish: "stop", Reasoning: 1, Calls: 1}},
		{"an end of more than a MiB", stream(said("output_text", "a"), named("response.completed", `"response":{"status":"completed","instructions":"`+strings.Repeat("x", maxLine)+`","usage":{"input_tokens":5,"output_tokens":3}}`)), 2, "a",
			load.Record{InputTokens: 5, OutputTokens: 3, Mute: 1, Finish: "stop"}},
		{"failed", stream(said("output_text", "a"), named("response.failed", `"response":{"status":"failed","error":{"message":"no"}}`)), 0, "", load.Record{Class: load.ClassServer}},
		{"an error", stream(named("error", `"message":"no"`)), 0, "", load.Record{Class: load.ClassServer}},
		{"an error without a name", stream("data: {\"error\":{\"message\":\"no\"}}\n\n"), 0, "", load.Record{Class: load.ClassServer}},
		{"cut off", stream(said("output_text", "a")), 0, "", load.Record{Class: load.ClassTruncated, Error: "the stream ended without response.completed after 1 chunks"}},
		{"nothing", stream(named("response.completed", `"response":{"status":"completed","output":[],"usage":{"input_tokens":5,"output_tokens":3}}`)), 1, "", load.Record{InputTokens: 5, OutputTokens: 3, Mute: 1, Finish: "stop"}},
		{"nothing, and no token", stream(named("response.completed", `"response":{"status":"completed","output":[],"usage":{"input_tokens":5,"output_tokens":0}}`)), 0, "", load.Record{Class: load.ClassEmpty}},
		{"a whole failure", whole(`{"status":"failed","output":[],"error":{"message":"no"}}`), 0, "", load.Record{Class: load.ClassServer}},
		{"not JSON", stream("data: {\"type\"\n\n"), 0, "", load.Record{Class: load.ClassMalformed}},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := raw(t, func(conn net.Conn) { io.WriteString(conn, c.answer) })
			got, says, chunks := load.Record{AskedInput: 5, AskedOutput: 3}, Said{}, new(atomic.Int64)
			with.client(t, target, load.Workload{Endpoint: load.Responses}).Send(t.Context(), net.Buffers{[]byte("{}")}, Exchange{Record: &got,
				Zero: time.Now(), Chunks: chunks, Whole: strings.Contains(c.answer, "application/json"), Said: &says, Endpoint: load.Responses})
			if !got.OK() {
				if got.Class != c.want.Class || !strings.Contains(got.Error, c.want.Error) {
					t.Errorf("class %q (%s), want %q (%s)", got.Class, got.Error, c.want.Class, c.want.Error)
				}
				return
			}
			c.want.AskedInput, c.want.AskedOutput = 5, 3
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(load.Record{}, "Sent", "First", "Last", "End", "Gaps", "Merged", "Answered")); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
			if n := int(chunks.Load()); n != c.chunks || len(got.Gaps) != n-1 || string(says.Text) != c.text || got.End < got.Last {
				t.Errorf("%d chunks, %d gaps, text %q, want %d and %q", n, len(got.Gaps), says.Text, c.chunks, c.text)
			}
		})
	}
}

// TestResponseMalformed: the parser takes JSON objects and nothing else, as the other one does.
func TestResponseMalformed(t *testing.T) {
	for _, in := range []string{``, `null`, `[]`, `{`, `{"type"`, `{"type":"a",}`, `{"response":{"usage":{"input_tokens":}}}`, `{"response":[}`, `{"output":[{"content":[{"text":"a}]}]}`, `{"a":1}x`} {
		var c chunk
		if err := c.response([]byte(in)); err == nil {
			t.Errorf("response(%s): no error", in)
		}
	}
	for _, in := range []string{`{"type":1,"delta":null,"response":3,"status":[],"usage":"x","output":{},"error":null}`, " {}\r\n", `{"output":[null,{"content":null,"summary":3},{"content":["a",{"text":null}]}]}`} {
		var c chunk
		if err := c.response([]byte(in)); err != nil || c.content != 0 || c.failed || c.over {
			t.Errorf("response(%s) = %+v, %v", in, c, err)
		}
	}
}

// TestResponsesAllocateNothing: an event of the Responses API costs no memory.
func TestResponsesAllocateNothing(t *testing.T) {
	event := data(strings.TrimPrefix(said("output_text", " the"), "event: response.output_text.delta\n"))
	var c chunk
	if n := testing.AllocsPerRun(100, func() {
		if c.response(event) != nil || c.content != saidText {
			t.Fatal(c)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
