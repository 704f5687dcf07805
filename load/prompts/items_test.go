package prompts

import (
	"strings"
	"testing"

	"hclbench/load"
)

// TestItems: what a chat is asked with goes to the Responses API in its own form, or is a bad line.
func TestItems(t *testing.T) {
	to := load.Workload{Dataset: load.Dataset{Kind: load.JSONL}, OutputTokens: 4, Endpoint: load.Responses}
	for line, want := range map[string]string{
		`{"prompt":"a","tools":[{"type":"function","function":{"name":"f","strict":true}},{"type":"function","name":"g"},{"type":"web_search"}],"tool_choice":"auto"}`: `"tool_choice":"auto","tools":[{"name":"f","strict":true,"type":"function"},{"type":"function","name":"g"},{"type":"web_search"}]`,
		`{"prompt":"a","tools":[{"type":"function","name":"g"}],"tool_choice":{"type":"function","function":{"name":"g"}}}`:                                            `"tool_choice":{"name":"g","type":"function"},"tools":[{"type":"function","name":"g"}]`,
		`{"prompt":"a","response_format":{"type":"json_object"}}`:                                                                                                      `"text":{"format":{"type":"json_object"}}`,
		`{"prompt":"a","response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}},"extra":{"top_p":0.5}}`:                          `"text":{"format":{"name":"n","schema":{"type":"object"},"type":"json_schema"}},"top_p":0.5`,
		`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`:                                                                              ``,
	} {
		l, err := parseLine(to, []byte(line))
		if got := string(l.members(to)); err != nil || got != want {
			t.Errorf("%s\n asks for %s, %v\n want     %s", line, got, err, want)
		}
	}
	for line, want := range map[string]string{
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`:                                                                 `message 1 has a list of parts`,
		`{"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f"}}]}]}`: `message 2 has a tool call`,
		`{"messages":[{"role":"user","content":"a"},{"role":"tool","tool_call_id":"c","content":"b"}]}`:                                         `message 2 has a tool call`,
		`{"prompt":"a","response_format":{"type":"json_object"},"extra":{"text":{"verbosity":"low"}}}`:                                          `"response_format" and "text" mean the same`,
		`{"prompt":"a","extra":{"response_format":{"type":"json_object"},"text":{"verbosity":"low"}}}`:                                          `"response_format" and "text" mean the same`,
		`{"prompt":"a","extra":{"background":true}}`:                                                                                            `"background" belongs in the load block, and not in an entry`,
		`{"messages":[{"role":"user","content":null}]}`:                                                                                         `message 1 has no "content"`,
		`{"prompt":"a","tools":[{"type":"function"}]}`:                                                                                          `tool 1 is a function without a "name"`,
		`{"prompt":"a","extra":{"input":"b"}}`:                                                                                                  `"input" belongs in the load block, and not in an entry`,
		`{"prompt":"a","extra":{"max_output_tokens":3}}`:                                                                                        `"max_output_tokens" belongs in the load block, and not in an entry`,
	} {
		if _, err := parseLine(to, []byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
		if strings.HasPrefix(want, "message") {
			chat := to
			chat.Endpoint = load.Chat
			if _, err := parseLine(chat, []byte(line)); err != nil {
				t.Errorf("%s: to a chat: %v", line, err)
			}
		}
	}
	to.Dataset.Kind = load.Conversation
	parts := `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"b"}]},{"role":"user","content":"c"}]}`
	for history, want := range map[string]string{"": "", load.Answered: "", load.Recorded: "has a list of parts"} {
		to.Dataset.History = history
		if _, err := parseTalk(to, []byte(parts)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("an answer in parts, history %q: %v", history, err)
		}
	}
	to.Dataset.History = ""
	talk := `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"c","content":"b"}]}`
	if _, err := parseTalk(to, []byte(talk)); err == nil || !strings.Contains(err.Error(), "tool call") {
		t.Errorf("a conversation with a tool call: %v", err)
	}
}
