package prompts

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/sim"
)

const (
	weather = `[{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}]`
	form    = `{"type":"json_schema","json_schema":{"name":"f","schema":{"type":"object"}}}`
)

// bodies are the requests of a data set's file, as they are sent, sorted.
func bodies(t *testing.T, d load.Dataset, endpoint string, n int) (list []string) {
	t.Helper()
	set, err := opened(t, job(load.Workload{Dataset: d, Requests: n, Endpoint: endpoint, ExtraBody: `{"top_p":0.5}`}), true)
	if err != nil {
		t.Fatal(err)
	}
	for q := set.Queue(ForPrompt, n); ; {
		s, ok := q.Next()
		if !ok {
			break
		}
		for goes := true; goes; goes = s.Heard(true, []byte("answer")) {
			var members map[string]json.RawMessage
			body := bytes.Join(s.Request().Body, nil)
			if err := json.Unmarshal(body, &members); err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			for _, same := range []string{"model", "stream", "stream_options", "temperature", "top_p"} {
				delete(members, same)
			}
			text, err := json.Marshal(members)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, string(text))
		}
	}
	slices.Sort(list)
	return list
}

// TestAsking: what an entry says of tools, of the answer's form and of anything else is sent as it
// stands there, with its own requests alone.
func TestAsking(t *testing.T) {
	rows := `{"prompt":"plain","output_tokens":3,"tools":[],"tool_choice":null}
{"prompt":"called","output_tokens":4,"tools":` + weather + `,"tool_choice":"required"}
{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"listed"}]}],"output_tokens":5,"extra":{"min_p":0.1}}
{"prompt":"formed","output_tokens":6,"response_format":` + form + `}`
	user := func(text string) string { return `"messages":[{"role":"user","content":"` + text + `"}]` }
	want := []string{
		`{"max_tokens":3,` + user("plain") + `}`,
		`{"max_tokens":4,` + user("called") + `,"tool_choice":"required","tools":` + weather + `}`,
		`{"max_tokens":5,"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"listed"}]}],"min_p":0.1}`,
		`{"max_tokens":6,` + user("formed") + `,"response_format":` + form + `}`,
	}
	file := func(text string) string { return written(t, "f", text) }
	if diff := gocmp.Diff(want, bodies(t, load.Dataset{Kind: load.JSONL, Path: file(rows)}, load.Chat, 4)); diff != "" {
		t.Errorf("requests of lines (-want +got):\n%s", diff)
	}
	// Without messages, prompts stay what they are.
	got := bodies(t, load.Dataset{Kind: load.JSONL, Path: file(`{"prompt":"a b","output_tokens":3,"response_format":` + form + `}`)}, load.Completions, 1)
	if diff := gocmp.Diff([]string{`{"max_tokens":3,"prompt":[1000,1001],"response_format":` + form + `}`}, got); diff != "" {
		t.Errorf("a completion (-want +got):\n%s", diff)
	}
	// A conversation offers its tools with each of its requests.
	talk := `{"messages":[{"role":"user","content":"one"},{"role":"assistant","content":"a b"},{"role":"user","content":"two"},{"role":"assistant","content":"c"}],"tools":` + weather + `}`
	got = bodies(t, load.Dataset{Kind: load.Conversation, Path: file(talk)}, load.Chat, 2)
	if n := strings.Count(strings.Join(got, ""), `"tools":`+weather); len(got) != 2 || n != 2 {
		t.Errorf("a conversation of two turns offers tools %d times: %s", n, got)
	}
	// The engine takes them.
	if _, err := opened(t, job(load.Workload{Dataset: load.Dataset{Kind: load.JSONL, Path: file(rows)}, Requests: 4, Endpoint: load.Chat}), true); err != nil {
		t.Error(err)
	}
}

// TestBadAsking: what no engine takes is said of the line, before anything is sent.
func TestBadAsking(t *testing.T) {
	for _, c := range []struct{ kind, endpoint, entry, want string }{
		{load.JSONL, load.Chat, `"prompt":"a","tools":"weather"`, `"tools" is not a list of tools`},
		{load.JSONL, load.Chat, `"prompt":"a","tools":[{"type":"function","function":{}}]`, `tool 1 is a function without a "name"`},
		{load.JSONL, load.Completions, `"prompt":"a","tools":` + weather, `"tools" needs the endpoint "chat"`},
		{load.JSONL, load.Chat, `"prompt":"a","response_format":"json"`, `"response_format" is not an object with a "type"`},
		{load.JSONL, load.Chat, `"prompt":"a","response_format":{"type":"json_schema"}`, `"response_format" has no object "json_schema.schema"`},
		{load.JSONL, load.Chat, `"prompt":"a","extra":{"temperature":1}`, `"temperature" belongs in the load block, and not in an entry`},
		{load.JSONL, load.Chat, `"prompt":"a","extra":{"max_tokens":1}`, `"max_tokens" belongs in the load block, and not in an entry`},
		{load.JSONL, load.Chat, `"prompt":"a","extra":{"top_p":1}`, `"top_p" belongs in the load block, and not in an entry`},
		{load.JSONL, load.Chat, `"prompt":"a","messages":[{"role":"user"}]`, `both "prompt" and "messages"`},
		{load.JSONL, load.Chat, `"messages":[]`, `"messages" is not a list of messages`},
		{load.JSONL, load.Chat, `"messages":[{"content":"a"}]`, `message 1 has no "role"`},
		{load.JSONL, load.Generate, `"messages":[{"role":"user"}]`, `"messages" needs the endpoint "chat"`},
		{load.Conversation, load.Chat, `"messages":[{"role":"user","content":"a"}],"tools":3`, `"tools" is not a list of tools`},
	} {
		w := load.Workload{Dataset: load.Dataset{Kind: c.kind, Path: written(t, "f", `{"output_tokens":3,`+c.entry+`}`)}, Endpoint: c.endpoint, ExtraBody: `{"top_p":0.5}`}
		if err := CheckInputs(job(w)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.entry, err, c.want)
		}
	}
}

// TestRefusedForm: the engine's own words for a form that it does not take are the request's failure.
func TestRefusedForm(t *testing.T) {
	set, err := opened(t, job(load.Workload{Dataset: load.Dataset{Kind: load.JSONL, Path: written(t, "f",
		`{"prompt":"a","output_tokens":3,"response_format":{"type":"poem"}}`)}, Requests: 1, Endpoint: load.Chat}), true)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := set.Queue(ForPrompt, 1).Next()
	answer := httptest.NewRecorder()
	sim.New(sim.Config{}).ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", bytes.NewReader(bytes.Join(s.Request().Body, nil))))
	if want := `response_format: there is no type \"poem\"`; answer.Code != http.StatusBadRequest || !strings.Contains(answer.Body.String(), want) {
		t.Errorf("%d %s, want 400 with %s", answer.Code, answer.Body, want)
	}
}
