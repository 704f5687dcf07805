package wire

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/testhost/recording"
)

// recordedEvent is the n-th event of a recorded stream as it is sent, below zero one from its end.
func recordedEvent(t testing.TB, name string, n int) string {
	t.Helper()
	events := recording.Events(t, name)
	if n < 0 {
		n += len(events)
	}
	return "data: " + events[n] + "\n\n"
}

// Events as servers send them.
func vllmChunk(t testing.TB) string { return recordedEvent(t, "vllm-0.32.0/stream-completions.txt", 0) }
func vllmUsage(t testing.TB) string {
	return recordedEvent(t, "vllm-0.32.0/stream-completions.txt", -1)
}
func chatRole(t testing.TB) string  { return recordedEvent(t, "vllm-0.32.0/stream-chat.txt", 0) }
func chatChunk(t testing.TB) string { return recordedEvent(t, "vllm-0.32.0/stream-chat.txt", 1) }

// sglangChunk is the last from SGLang's own endpoint: of a prompt of 3 tokens, none of them cached, all 8 that were asked for.
func sglangChunk(t testing.TB) string {
	return anyCached.ReplaceAllString(recordedEvent(t, "sglang-0.5.23/stream-generate.txt", -1), `"cached_tokens":0`)
}

var anyCached = regexp.MustCompile(`"cached_tokens":\d+`)

// trtChunk has the members of TensorRT-LLM's protocol; nothing is recorded of it, as it needs a GPU.
const trtChunk = `data: {"id":"cmpl-1","object":"text_completion","created":1742300000,"model":"m","choices":[{"index":0,"text":" x","token_ids":null,"logprobs":null,"context_logits":null,"finish_reason":null,"stop_reason":null,"disaggregated_params":null}]}` + "\n\n"

func data(event string) []byte {
	return []byte(strings.TrimSuffix(strings.TrimPrefix(event, "data: "), "\n\n"))
}

func TestChunk(t *testing.T) {
	type want struct {
		Content       bool
		Finish        string
		Usage         bool
		Prompt, Count int
		Whole, Failed bool
	}
	for _, c := range []struct {
		name, in string
		want     want
	}{
		{"vllm", string(data(vllmChunk(t))), want{Content: true}},
		{"usage", string(data(vllmUsage(t))), want{Usage: true, Prompt: 16, Count: 8}},
		{"role", string(data(chatRole(t))), want{}},
		{"chat", string(data(chatChunk(t))), want{Content: true}},
		{"sglang", string(data(sglangChunk(t))), want{Content: true, Finish: "length", Usage: true, Prompt: 3, Count: 8, Whole: true}},
		{"trtllm", string(data(trtChunk)), want{Content: true}},
		{"another order", `{"usage":{"completion_tokens":3,"prompt_tokens":4},"choices":[{"finish_reason":"stop","text":"","index":0}],"id":1}`,
			want{Finish: "stop", Usage: true, Prompt: 4, Count: 3}},
		{"reasoning", `{"choices":[{"delta":{"content":null,"reasoning_content":"hm"}}]}`, want{Content: true}},
		{"reasoning by its newer name", `{"choices":[{"delta":{"reasoning":"hm"}}]}`, want{Content: true}},
		{"null delta", `{"choices":[{"delta":null,"finish_reason":"length"}]}`, want{Finish: "length"}},
		{"null choices", `{"choices":null}`, want{}},
		{"escapes", `{"choices":[{"te\u0078t":"\\\""}],"x\"y":"}"}`, want{Content: true}},
		{"space", " {\n\t\"choices\" : [ { \"text\" : \"a\" } ] }\r\n ", want{Content: true}},
		{"text elsewhere", `{"choices":[{"logprobs":{"text":"a","content":["b"]},"text":""}],"delta":{"content":"c"}}`, want{}},
		{"the names of both APIs, one of them 0", `{"choices":[],"usage":{"prompt_tokens":13,"completion_tokens":8,"input_tokens":0,"output_tokens":0}}`, want{Usage: true, Prompt: 13, Count: 8}},
		{"counts that are none", `{"usage":{"completion_tokens":-1,"prompt_tokens":1.5}}`, want{}},
		{"half a usage", `{"usage":{"completion_tokens":5}}`, want{Count: 5}},
		{"error object", `{"error":{"message":"no","code":400}}`, want{Failed: true}},
		{"older error", `{"object":"error","message":"no"}`, want{Failed: true}},
		{"no error", `{"error":null,"object":"text_completion"}`, want{}},
		{"errors that say nothing", `{"error":"","choices":[{"text":"a"}]}`, want{Content: true}},
		{"false is no error", `{"error":false}`, want{}},
		{"0 is no error", `{"error":0}`, want{}},
		{"an error in words", `{"error":"out of memory"}`, want{Failed: true}},
		{"an error that is true", `{"error":true}`, want{Failed: true}},
		{"sglang gives up", `{"text":"","meta_info":{"finish_reason":{"type":"abort","message":"no"},"prompt_tokens":1,"completion_tokens":0}}`,
			want{Finish: "abort", Usage: true, Prompt: 1, Whole: true, Failed: true}},
		{"vllm gives up", `{"choices":[{"text":"","finish_reason":"abort"}]}`, want{Finish: "abort", Failed: true}},
		{"a tool's name", `{"choices":[{"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"weather","arguments":""}}]}}]}`, want{Content: true}},
		{"its arguments", `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a"}}]}}]}`, want{Content: true}},
		{"a tool call of nothing", `{"choices":[{"delta":{"content":"","tool_calls":[{"index":0,"function":{"name":"","arguments":null}}]}}]}`, want{}},
		{"no tool calls", `{"choices":[{"delta":{"tool_calls":[]}}]}`, want{}},
		{"tool calls that are none", `{"choices":[{"delta":{"tool_calls":null,"function_call":null}}]}`, want{}},
		{"an older call", `{"choices":[{"delta":{"function_call":{"name":"weather"}}}]}`, want{Content: true}},
		{"a call in a whole answer", `{"choices":[{"message":{"content":null,"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`,
			want{Content: true, Finish: "tool_calls"}},
		{"invalid UTF-8", "{\"choices\":[{\"text\":\"\xff\xfe\"}]}", want{Content: true}},
	} {
		var got chunk
		if err := got.parse([]byte(c.in)); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, want{got.content != 0, string(got.finish), got.usage, got.prompt, got.completed, got.whole, got.failed}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestKinds: what a chunk's content is, and what its usage says of reasoning.
func TestKinds(t *testing.T) {
	for in, want := range map[string]chunk{
		`{"choices":[{"text":"a"}]}`:                                                   {content: saidText},
		`{"text":"a"}`:                                                                 {content: saidText},
		`{"choices":[{"delta":{"content":"a"}}]}`:                                      {content: saidText},
		`{"choices":[{"delta":{"content":"","reasoning":"a"}}]}`:                       {content: saidReasoning},
		`{"choices":[{"delta":{"content":"a","reasoning_content":"b"}}]}`:              {content: saidText | saidReasoning},
		`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"a"}}]}}]}`:      {content: saidCall},
		`{"choices":[{"delta":{"function_call":{"name":"a"}}}]}`:                       {content: saidCall},
		`{"usage":{"reasoning_tokens":3}}`:                                             {reasoned: 3},
		`{"usage":{"completion_tokens_details":{"x":{},"reasoning_tokens":3}}}`:        {reasoned: 3},
		`{"usage":{"reasoning_tokens":null,"completion_tokens_details":null}}`:         {},
		`{"usage":{"completion_tokens_details":{"reasoning_tokens":-1},"x":{"a":[]}}}`: {},
	} {
		var got chunk
		if err := got.parse([]byte(in)); err != nil || got.content != want.content || got.reasoned != want.reasoned {
			t.Errorf("parse(%s) = kinds %b and %d tokens of reasoning, %v; want %b and %d", in, got.content, got.reasoned, err, want.content, want.reasoned)
		}
	}
}

func TestChunkMalformed(t *testing.T) {
	for _, in := range []string{
		``, ` `, `null`, `[]`, `"a"`, `7`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{"a" 1}`, `{a:1}`, `{"a":1}x`, `{"a":1}{}`,
		`{"choices":[{"text":"a" "finish_reason":null}]}`, `{"choices":[{]}`, `{"choices":[{"text":"a}]}`, `{"a":tru}`, `{"a":nul`, `{"a":[1,]}`,
		`{"a":"\`, `{"usage":{"completion_tokens":}}`, `<html>`, strings.Repeat(`{"a":`, 1000), `{"a":` + strings.Repeat(`[`, 1000),
	} {
		var c chunk
		if err := c.parse([]byte(in)); err == nil {
			t.Errorf("parse(%.60s): no error", in)
		}
	}
}

// compareChunk holds a chunk against encoding/json: every JSON object that is not nested too deeply
// is read, and of those in which no name comes twice the content is the same.
func compareChunk(t *testing.T, in []byte) {
	t.Helper()
	var c chunk
	err := c.parse(in)
	if !json.Valid(in) || bytes.Count(in, []byte("{"))+bytes.Count(in, []byte("[")) > maxDepth {
		return
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(in, &object) != nil || object == nil {
		if err == nil {
			t.Errorf("parse(%s): no error for what is no object", in)
		}
		return
	}
	if err != nil {
		t.Errorf("parse(%s) = %v, and it is JSON", in, err)
		return
	}
	if strings.Count(string(in), `"text"`) > 1 || strings.Count(string(in), `"delta"`) > 0 || strings.Contains(string(in), `\`) {
		return
	}
	var choices []map[string]json.RawMessage
	var top, text string
	json.Unmarshal(object["text"], &top) // what is no string is empty
	if json.Unmarshal(object["choices"], &choices) == nil && strings.Count(string(in), `"choices"`) == 1 && len(choices) == 1 {
		json.Unmarshal(choices[0]["text"], &text)
		if want := top != "" || text != ""; want != (c.content != 0) {
			t.Errorf("parse(%s): content %v, want %v", in, c.content != 0, want)
		}
	}
}

// BenchmarkStream is the cost of one event: framing, parsing and stamping.
func BenchmarkStream(b *testing.B) {
	for name, event := range map[string]string{"vllm": vllmChunk(b), "chat": chatChunk(b), "sglang": sglangChunk(b)} {
		b.Run(name, func(b *testing.B) {
			const n = 1000
			text := strings.Repeat(event, n)
			zero := time.Now()
			r := load.Record{AskedOutput: n}
			count := new(atomic.Int64)
			var s Stream
			b.ReportAllocs()
			for b.Loop() {
				s.Reset(Exchange{Record: &r, Chunks: count})
				for i, rest := 0, []byte(text); len(rest) > 0; i++ {
					size := min(len(rest), 4<<10)
					if _, err := s.Feed(rest[:size], time.Since(zero), i); err != nil {
						b.Fatal(err)
					}
					rest = rest[size:]
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/event")
		})
	}
}

// TestStreamAllocatesNothing: an event costs no memory.
func TestStreamAllocatesNothing(t *testing.T) {
	text := []byte(strings.Repeat(vllmChunk(t), 100))
	r := load.Record{AskedOutput: 100}
	count := new(atomic.Int64)
	var s Stream
	if n := testing.AllocsPerRun(10, func() {
		s.Reset(Exchange{Record: &r, Chunks: count})
		for i, rest := 0, text; len(rest) > 0; i++ {
			size := min(len(rest), 301) // events over two reads too
			if _, err := s.Feed(rest[:size], 0, i); err != nil {
				t.Fatal(err)
			}
			rest = rest[size:]
		}
		if len(r.Gaps) != 99 {
			t.Fatalf("%d gaps", len(r.Gaps))
		}
	}); n > 1 { // the gaps
		t.Errorf("100 events made %v allocations, want one for all gaps", n)
	}
}
