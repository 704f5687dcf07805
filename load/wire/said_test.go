package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/testhost/recording"
)

// says is what an answer says that comes in such pieces: of a stream its events, of one that is whole all of it.
func says(t *testing.T, endpoint string, whole bool, answer ...string) *Said {
	t.Helper()
	said := &Said{All: true}
	var s Stream
	s.Reset(Exchange{Record: &load.Record{AskedOutput: 1000}, Chunks: new(atomic.Int64), Whole: whole, Said: said, Endpoint: endpoint})
	for i, part := range answer {
		if !whole {
			part = "data: " + part + "\n\n"
		}
		if _, err := s.Feed([]byte(part), 1, i); err != nil {
			t.Fatalf("%v: %.200s", err, part)
		}
	}
	if whole {
		if err := s.end(); err != nil {
			t.Fatalf("%v: %.200s", err, answer)
		}
	}
	return said
}

// TestSaid: an answer is put together from its pieces, in whatever way a server cuts it.
func TestSaid(t *testing.T) {
	type want struct {
		Text, Reasoning string
		Calls           []Call
	}
	calls := func(pieces string) string { return `{"choices":[{"index":0,"delta":{"tool_calls":[` + pieces + `]}}]}` }
	piece := func(at int, members string) string { return fmt.Sprintf(`{"index":%d,%s}`, at, members) }
	named := func(id, name, arguments string) string {
		return fmt.Sprintf(`"id":%q,"type":"function","function":{"name":%q,"arguments":%q}`, id, name, arguments)
	}
	more := func(arguments string) string { return fmt.Sprintf(`"function":{"arguments":%q}`, arguments) }
	event := func(kind, members string) string { return fmt.Sprintf(`{"type":"response.%s",%s}`, kind, members) }
	for _, c := range []struct {
		name, endpoint string
		whole          bool
		answer         []string
		want           want
	}{
		{name: "text behind reasoning, with what JSON escapes", answer: []string{`{"choices":[{"delta":{"role":"assistant","content":""}}]}`,
			`{"choices":[{"delta":{"reasoning_content":"\"h"}}]}`, `{"choices":[{"delta":{"reasoning":"m\u00e9"}}]}`, `{"choices":[{"delta":{"content":"a\n"}}]}`, `{"choices":[{"delta":{"content":"\ud83d\ude00"}}]}`},
			want: want{"a\n😀", "\"hmé", nil}},
		{name: "two calls, their pieces mixed", answer: []string{calls(piece(0, named("c0", "f", "")) + "," + piece(1, named("c1", "g", `{"b`))), calls(piece(1, more(`":2`))), calls(piece(0, more(`{"a":1}`))), calls(piece(1, more(`}`)))},
			want: want{"", "", []Call{{"c0", "f", `{"a":1}`}, {"c1", "g", `{"b":2}`}}}},
		{name: "the second before the first", answer: []string{calls(piece(1, named("c1", "g", "{}"))), calls(piece(0, named("c0", "f", "{}")))},
			want: want{"", "", []Call{{"c0", "f", "{}"}, {"c1", "g", "{}"}}}},
		{name: "the name and the id with every piece", answer: []string{calls(piece(0, named("c0", "f", `{"a`))), calls(piece(0, named("c0", "f", `":1}`)))},
			want: want{"", "", []Call{{"c0", "f", `{"a":1}`}}}},
		{name: "null for what is not new", answer: []string{calls(piece(0, `"id":"c0","function":{"name":"f","arguments":null}`)), calls(piece(0, `"id":null,"function":{"name":null,"arguments":"{}"}`))},
			want: want{"", "", []Call{{"c0", "f", "{}"}}}},
		{name: "no id at all", answer: []string{calls(piece(0, `"function":{"name":"f","arguments":"{}"}`))}, want: want{"", "", []Call{{"", "f", "{}"}}}},
		{name: "an id first", answer: []string{calls(piece(0, `"id":"c0"`)), calls(piece(0, `"function":{"name":"f"}`))}, want: want{"", "", []Call{{"c0", "f", ""}}}},
		{name: "no index", answer: []string{calls(`{` + named("c0", "f", "{") + `}`), calls(`{"index":null,` + more("}") + `}`), calls(`{"index":-1,` + more(" ") + `}`)},
			want: want{"", "", []Call{{"c0", "f", "{} "}}}},
		{name: "two calls of one index", answer: []string{calls(piece(0, named("c0", "f", `{"a":1}`))), calls(piece(0, named("c1", "g", `{"b":2}`)))},
			want: want{"", "", []Call{{"c0", "g", `{"a":1}{"b":2}`}}}},
		{name: "arguments that are no JSON", answer: []string{calls(piece(0, named("c0", "f", `{"a`)))}, want: want{"", "", []Call{{"c0", "f", `{"a`}}}},
		{name: "the older call", answer: []string{`{"choices":[{"delta":{"function_call":{"name":"f","arguments":"{"}}}]}`, `{"choices":[{"delta":{"function_call":{"arguments":"}"},"tool_calls":null}}]}`},
			want: want{"", "", []Call{{"", "f", "{}"}}}},
		{name: "whole", whole: true, answer: []string{`{"choices":[{"message":{"role":"assistant","content":"a","reasoning_content":"hm","function_call":null,"tool_calls":[{`,
			`"id":"c0","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"index":0,` + named("c1", "g", "{}") + `}]},"finish_reason":"tool_calls"}]}`},
			want: want{"a", "hm", []Call{{"c0", "f", `{"a":1}`}, {"c1", "g", "{}"}}}},
		{name: "all of the text with every event", answer: []string{`{"text":"a","meta_info":{"prompt_tokens":1,"completion_tokens":1}}`, `{"text":"a b","meta_info":{"prompt_tokens":1,"completion_tokens":2}}`}, want: want{"a b", "", nil}},
		{name: "the Responses API, whose last event has all", endpoint: load.Responses, answer: []string{event("output_item.added", `"item":{"type":"function_call","name":"f","arguments":""}`),
			event("reasoning_text.delta", `"delta":"hm"`), event("function_call_arguments.delta", `"delta":"{}"`), event("output_text.delta", `"delta":"a"`),
			event("completed", `"response":{"status":"completed","output":[{"type":"reasoning","content":[{"text":"hm"}]},{"type":"function_call","call_id":"c0","name":"f","arguments":"{}"},`+
				`{"type":"message","content":[{"text":"a"}]},{"type":"function_call","call_id":"c1","name":"g","arguments":"{}"}]}`)},
			want: want{"a", "hm", []Call{{"c0", "f", "{}"}, {"c1", "g", "{}"}}}},
	} {
		said := says(t, c.endpoint, c.whole, c.answer...)
		var got want
		got.Text, got.Reasoning, got.Calls = said.Read()
		if diff := cmp.Diff(c.want, got); diff != "" || said.Cut {
			t.Errorf("%s: cut %v (-want +got):\n%s", c.name, said.Cut, diff)
		}
	}
}

// TestSaidTextAlone: who wants the text gets nothing else.
func TestSaidTextAlone(t *testing.T) {
	s := Said{}
	s.hear(&chunk{text: []byte("a"), reasoning: []byte("b"), calls: []pieces{{name: []byte("f")}}})
	if text, reasoning, calls := s.Read(); text != "a" || reasoning != "" || calls != nil {
		t.Errorf("%q, %q, %v", text, reasoning, calls)
	}
}

// TestSaidIsBounded: an answer that does not end is kept as far as there is room, and says so; the next one has all of it again.
func TestSaidIsBounded(t *testing.T) {
	s := &Said{All: true}
	long := bytes.Repeat([]byte("x"), 1<<20)
	for range 9 {
		s.hear(&chunk{text: long, reasoning: long, calls: []pieces{{arguments: long}}})
	}
	if text, reasoning, calls := s.Read(); !s.Cut || len(text)+len(reasoning)+len(calls[0].Arguments) > maxSaid {
		t.Errorf("%d, %d, %d bytes, cut %v", len(text), len(reasoning), len(calls[0].Arguments), s.Cut)
	}
	s.Reset()
	for i := range 2 * maxCalls {
		s.hear(&chunk{calls: []pieces{{index: i, name: []byte("f")}}})
	}
	if _, _, calls := s.Read(); !s.Cut || len(calls) != maxCalls {
		t.Errorf("%d calls, cut %v", len(calls), s.Cut)
	}
	s.Reset()
	s.hear(&chunk{text: []byte("a"), calls: []pieces{{name: []byte("f")}}})
	if text, reasoning, calls := s.Read(); s.Cut || text != "a" || reasoning != "" || len(calls) != 1 {
		t.Errorf("%q, %q, %v, cut %v", text, reasoning, calls, s.Cut)
	}
}

// TestSaidByRealEngines: the calls that real engines have sent have a name, an id and arguments, in streams as in whole answers.
func TestSaidByRealEngines(t *testing.T) {
	for name, want := range map[string][]Call{
		"by-hand/vllm-0.32.0/stream-chat-two-calls.txt":  {{"", "ill", `{"is":true}`}, {"", "well", `{"is":true}`}},
		"by-hand/vllm-0.32.0/whole-chat-two-calls.txt":   {{"", "ill", `{"is":true}`}, {"", "well", `{"is":true}`}},
		"by-hand/sglang-0.5.23/stream-chat-call-cut.txt": {{"", "well", `{}`}},
		"by-hand/sglang-0.5.23/whole-chat-call.txt":      {{"", "well", `{"is":false}`}},
	} {
		whole, events := strings.Contains(name, "whole"), recording.Events(t, name)
		if whole {
			_, _, body := recording.Answer(t, name)
			events = []string{body}
		}
		text, _, calls := says(t, load.Chat, whole, events...).Read()
		for i := range calls {
			if calls[i].ID == "" {
				t.Errorf("%s: call %d has no id", name, i+1)
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, []byte(calls[i].Arguments)); err != nil {
				t.Errorf("%s: %v: %q", name, err, calls[i].Arguments)
			}
			calls[i].ID, calls[i].Arguments = "", compact.String()
		}
		if diff := cmp.Diff(want, calls); diff != "" || strings.TrimSpace(text) != "" {
			t.Errorf("%s: text %q (-want +got):\n%s", name, text, diff)
		}
	}
	for _, name := range recording.Names(t, "*/stream-chat-tool*.txt") {
		_, _, calls := says(t, load.Chat, false, recording.Events(t, name)...).Read()
		if len(calls) == 0 {
			t.Errorf("%s: it has no calls", name)
		}
		for _, c := range calls {
			if c.Name != "well" || c.ID == "" || strings.TrimSpace(c.Arguments) == "" {
				t.Errorf("%s: %q", name, c)
			}
		}
	}
}
