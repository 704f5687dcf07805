package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAnswersOfATable: whose question stands last is answered, and the answer stops; who asks something else hears what all hear.
func TestAnswersOfATable(t *testing.T) {
	server := httptest.NewServer(New(Config{TTFT: -1, ITL: -1, Answers: []Answer{{Asked: "2 + 2", Answer: "four, \"4\""}, {Asked: "2 + 3", Answer: "5"}}}))
	t.Cleanup(server.Close)
	for _, x := range []struct {
		asked, text, finish string
		most                int
	}{
		{"what is 2 + 2", `four, "4"`, "stop", 16},
		{"2 + 2 is 4. And 2 + 3?", "5", "stop", 16},
		{"2 + 2", "four,", "length", 1},
		{"who", " the of", "length", 2},
	} {
		body, err := json.Marshal(map[string]any{"messages": []any{map[string]string{"role": "user", "content": x.asked}}, "max_tokens": x.most})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post(server.URL+"/v1/chat/completions", "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Choices []struct {
				Message struct{ Content string }
				Finish  string `json:"finish_reason"`
			}
		}
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if c := got.Choices[0]; c.Message.Content != x.text || c.Finish != x.finish {
			t.Errorf("%q is answered %q, %s; want %q, %s", x.asked, c.Message.Content, c.Finish, x.text, x.finish)
		}
	}
}

// TestCallsOfATable: calls of a table are made side by side behind its text, whole and as a stream of all engines, the same from each; who offers no
// tool, or says that none is to be called, gets the text alone; a budget cuts them.
func TestCallsOfATable(t *testing.T) {
	answers, err := readAnswers(`{"asked": "warmer", "answer": "Let me see.", "calls": [{"name": "weather", "arguments": {"city": "Oslo"}}, {"name": "weather", "arguments": "{\"city\": \"Bad"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, as := range []string{VLLM, SGLang, TRTLLM} {
		server := httptest.NewServer(New(Config{As: as, TTFT: -1, ITL: -1, Answers: answers}))
		t.Cleanup(server.Close)
		for _, x := range []struct {
			more string // of the request
			want string
		}{
			{`"max_tokens": 50, "tools": [{"type": "function", "function": {"name": "weather"}}]`,
				`Let me see. 0 weather {"city": "Oslo"} 1 weather {"city": "Bad tool_calls`},
			{`"max_tokens": 50`, `Let me see. stop`},
			{`"max_tokens": 50, "tool_choice": "none", "tools": [{"type": "function", "function": {"name": "weather"}}]`, `Let me see. stop`},
			{`"max_tokens": 5, "tools": [{"type": "function", "function": {"name": "weather"}}]`, `Let me see. 0 weather {"city": length`},
		} {
			for _, stream := range []bool{false, true} {
				body := fmt.Sprintf(`{"messages": [{"role": "user", "content": "Where is it warmer?"}], "stream": %v, %s}`, stream, x.more)
				if got := heardFrom(t, server.URL, body, stream); got != x.want {
					t.Errorf("%s, stream %v, %s: %q, want %q", as, stream, x.more, got, x.want)
				}
			}
		}
	}
}

// heardFrom is what a chat is answered, put together: its text, each call with its index, and why it ended.
func heardFrom(t *testing.T, url, body string, stream bool) string {
	t.Helper()
	resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, finish := "", ""
	var names, arguments []string
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		line := lines.Text()
		if stream {
			line = strings.TrimPrefix(line, "data: ")
		}
		type said struct {
			Content string
			Calls   []struct {
				Index    int
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		var chunk struct {
			Choices []struct {
				Delta, Message said
				Finish         string `json:"finish_reason"`
			}
		}
		if line == "" || line == "[DONE]" {
			continue
		}
		if err := json.Unmarshal([]byte(line), &chunk); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		for _, c := range chunk.Choices {
			finish += c.Finish
			text += c.Delta.Content + c.Message.Content
			for _, call := range append(c.Delta.Calls, c.Message.Calls...) {
				for len(names) <= call.Index {
					names, arguments = append(names, ""), append(arguments, "")
				}
				names[call.Index] += call.Function.Name
				arguments[call.Index] += call.Function.Arguments
			}
		}
	}
	for i := range names {
		text += fmt.Sprintf(" %d %s %s", i, names[i], arguments[i])
	}
	return text + " " + finish
}
