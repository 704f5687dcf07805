package prompts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"hclbench/load"
)

// said are the requests of a file's conversations, each as its messages in short, what it waits for, and its length.
func said(t *testing.T, w load.Workload, n int) (list []string, source *load.Source) {
	t.Helper()
	w.Requests, w.Endpoint = n, load.Chat
	set, err := opened(t, job(w), true)
	if err != nil {
		t.Fatal(err)
	}
	for q := set.Queue(ForPrompt, n); ; {
		s, ok := q.Next()
		if !ok {
			return list, set.source
		}
		for goes := true; goes; goes = s.Heard(true, []byte("live")) {
			r := s.Request()
			var body struct {
				Messages []message         `json:"messages"`
				Tools    []json.RawMessage `json:"tools"`
			}
			if err := json.Unmarshal(bytes.Join(r.Body, nil), &body); err != nil {
				t.Fatalf("%s: %v", r.Body, err)
			}
			var words []string
			for _, m := range body.Messages {
				text := m.text()
				for _, c := range m.ToolCalls {
					if text += "#" + c.ID; c.Type != "function" {
						t.Errorf("a call of type %q", c.Type)
					}
				}
				words = append(words, fmt.Sprintf("%.1s:%s%s", m.Role, text, m.ToolCallID))
			}
			list = append(list, fmt.Sprintf("%s | %d of %d tools after %v calls %t", strings.Join(words, " "), r.Output, len(body.Tools), r.After, r.Calls))
		}
	}
}

// calling is a conversation with two calls of tools at once.
const calling = `{"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "a"},
	{"role": "assistant", "content": null, "tool_calls": [{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}, {"id": "y", "type": "function", "function": {"name": "g", "arguments": "{}"}}]},
	{"role": "tool", "tool_call_id": "x", "content": "1", "delay": 5}, {"role": "tool", "tool_call_id": "y", "content": [{"type": "text", "text": "2"}], "delay": 70},
	{"role": "assistant", "content": "b c d"}, {"role": "user", "content": "e", "delay": 900}, {"role": "assistant", "content": "f"}], "tools": ` + weather + `}`

// TestSpoken: each form of a conversation is sent as it says, with the server's answers, or those of the file.
func TestSpoken(t *testing.T) {
	oneLine := strings.ReplaceAll(calling, "\n", " ")
	for name, c := range map[string]struct {
		text string
		w    load.Workload
		want []string
	}{
		"messages": {oneLine, load.Workload{}, []string{
			"s:be brief u:a | 1 of 1 tools after 0s calls true",
			"s:be brief u:a a:f{}g{}#x#y t:1x t:2y | 3 of 1 tools after 70ms calls false",
			"s:be brief u:a a:f{}g{}#x#y t:1x t:2y a:live u:e | 1 of 1 tools after 900ms calls false",
		}},
		"vLLM's, told of recorded answers": {"[{\"id\": \"7\", " + calling[1:] + "]", load.Workload{Dataset: load.Dataset{History: load.Recorded}, OutputTokens: 9}, []string{
			"s:be brief u:a | 9 of 1 tools after 0s calls true",
			"s:be brief u:a a:f{}g{}#x#y t:1x t:2y | 9 of 1 tools after 70ms calls false",
			"s:be brief u:a a:f{}g{}#x#y t:1x t:2y a:b c d u:e | 9 of 1 tools after 900ms calls false",
		}},
		"rows of a history": {`{"session_id": "s", "messages": [{"role": "user", "content": "a"}], "output_length": 4, "timestamp": 0}
{"session_id": "s", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "hi"}, {"role": "user", "content": "b"}], "output_length": 6, "delay": 20.5, "tools": ` + weather + `}`,
			load.Workload{}, []string{"u:a | 4 of 0 tools after 0s calls false", "u:a a:hi u:b | 6 of 1 tools after 20.5ms calls false"}},
		"rows that are new": {`{"session_id": "s", "message_mode": "delta", "messages": [{"role": "system", "content": "z"}, {"role": "user", "content": "a"}], "output_length": 4, "tools": ` + weather + `}
{"session_id": "s", "message_mode": "delta", "messages": [{"role": "user", "content": "b"}], "output_length": 6}`,
			load.Workload{}, []string{"s:z u:a | 4 of 1 tools after 0s calls false", "s:z u:a a:live u:b | 6 of 1 tools after 0s calls false"}},
		"ShareGPT's, with a name that rows have": {`{"session_id": "s", "conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b c"}]}`,
			load.Workload{}, []string{"u:a | 2 of 0 tools after 0s calls false"}},
		"a conversation with a name and a length, as rows have": {`{"session_id": "s", "output_length": 3, "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b c"}, {"role": "user", "content": "d"}, {"role": "assistant", "content": "e"}]}`,
			load.Workload{}, []string{"u:a | 2 of 0 tools after 0s calls false", "u:a a:live u:d | 1 of 0 tools after 0s calls false"}},
		"rows of a history, whose session is a number, with a tool": {`{"session_id": 7, "messages": [{"role": "user", "content": "a"}], "output_length": 4}
{"session_id": 7, "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"id": "x", "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "x", "content": "1"}], "output_length": 6}`,
			load.Workload{Dataset: load.Dataset{ThinkTime: load.Duration(time.Hour)}}, []string{"u:a | 4 of 0 tools after 0s calls false", "u:a a:f{}#x t:1x | 6 of 0 tools after 0s calls false"}},
		"SGLang's trace": {`{
  "metadata": {"made": ["by", "hand"]},
  "conversations": [
    [{"messages": [{"role": "system", "content": "z"}, {"role": "user", "content": "a"}], "prompt_tokens": 2}, {"messages": [{"role": "user", "content": "b"}], "prompt_tokens": 9}]
  ]
}`, load.Workload{OutputTokens: 220}, []string{"s:z u:a | 220 of 0 tools after 0s calls false", "s:z u:a a:live u:b | 220 of 0 tools after 0s calls false"}},
	} {
		c.w.Dataset.Kind, c.w.Dataset.Path = load.Conversation, written(t, "f", c.text)
		got, source := said(t, c.w, len(c.want))
		if diff := gocmp.Diff(c.want, got); diff != "" || source.Bad != 0 || source.Prompts != 1 {
			t.Errorf("%s: source %+v, requests (-want +got):\n%s", name, source, diff)
		}
	}
}

// TestSpokenSalt: a salt stands before what the user says first, in every request of the conversation the same.
func TestSpokenSalt(t *testing.T) {
	w := load.Workload{Dataset: load.Dataset{Kind: load.Conversation, Salt: true, Path: written(t, "f", `{"session_id": "s", "messages": [{"role": "system", "content": "z"}, {"role": "user", "content": "<a>"}], "output_length": 4}
{"session_id": "s", "messages": [{"role": "system", "content": "z"}, {"role": "user", "content": [{"type": "text", "text": "<a>"}]}, {"role": "assistant", "content": "hi"}, {"role": "user", "content": "b"}], "output_length": 6}`)}}
	got, _ := said(t, w, 2)
	first, _, _ := strings.Cut(got[0], "<a>")
	if n := len(strings.Fields(first)); n != 1+saltWords || !strings.HasPrefix(first, "s:z u:") || strings.TrimSpace(first) != strings.TrimSpace(got[1][:len(first)-1]) {
		t.Errorf("%d words before the first question: %q", n, got)
	}
}

// TestBadSpoken: what is wrong with a conversation is said with its place.
func TestBadSpoken(t *testing.T) {
	user, answer := `{"role":"user","content":"a"}`, `{"role":"assistant","content":"b"}`
	calls := `{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":""}}]}`
	row := func(more, messages string) string {
		return `{"session_id":"s","output_length":2,` + more + `"messages":[` + messages + `]}`
	}
	for _, c := range []struct{ text, want string }{
		{`{"messages":[` + user + `,` + user + `]}`, "line 1: message 2: a second question without an answer in between"},
		{`{"messages":[` + user + `,` + answer + `,` + answer + `]}`, "line 1: message 3: a second answer to the same question"},
		{`{"messages":[` + user + `,` + calls + `,` + user + `,` + answer + `]}`, `line 1: message 3: the tool call "x" before it has no result`},
		{`{"messages":[` + user + `,` + calls + `,{"role":"tool","tool_call_id":"y","content":"1"}]}`, `line 1: message 3: the result of a tool call "y" that no message makes`},
		{`{"messages":[` + user + `,{"role":"tool","tool_call_id":"y","content":"1"}]}`, `line 1: message 2: the result of a tool call that no message makes`},
		{`{"messages":[` + user + `,{"role":"assistant","tool_calls":[{"type":"function"}]}]}`, `line 1: message 2: a tool call without an "id" or a function's "name"`},
		{`{"messages":[{"role":"user","content":{"a":1}}]}`, "line 1: message 1: its content is neither a text nor a list"},
		{`{"messages":[{"role":"user"}]}`, "line 1: message 1: it has no text"},
		{`{"messages":[` + user + `,` + answer + `,{"role":"user","content":"a","delay":-1}]}`, `line 1: message 3: "delay" is -1 ms: it lies between 0 and 8.64e+07`},
		{`{"conversations":[{"from":"robot","value":"a"}]}`, `line 1: turn 1: its role is "robot": it must be system, user, assistant or tool`},
		{row(`"message_mode":"whole",`, user), `line 1: "message_mode" is "whole", neither "history" nor "delta"`},
		{row(`"message_mode":"delta",`, answer), `line 1: message 1 is an answer, and a row with "message_mode": "delta" has only what is new to the engine`},
		{row(`"message_mode":"delta",`, `{"role":"tool","content":"a"}`), `line 1: message 1 is the result of a tool call, and a row with`},
		{row("", user+`,`+calls+`,`+user), `line 1: message 3: the tool call "x" before it has no result`},
		{row("", ""), `line 1: "messages" is empty`},
		{`{"session_id":[7],"messages":[` + user + `]}`, `line 1: "session_id" is neither a text nor a number`},
		{row("", `{"role":"user"}`), "line 1: message 1: it has no text"},
		{row("", `{"role":"user","content":5}`), "line 1: message 1: its content is neither a text nor a list"},
		{`{"messages":[` + strings.Replace(calls, "assistant", "user", 1) + `]}`, "line 1: message 1: it has no text"},
		{`{"conversations":[[{"messages":[{"role":"user"}]}]]}`, "entry 1: turn 1: message 1: it has no text"},
		{row(`"message_mode":"history",`, user+","+answer), "line 1: nothing is asked: the last message is an answer"},
		{row("", user+","+answer) + "\n" + row("", user) + "\n" + row("", user), `1 of the entries with "session_id" or "output_length" end in an answer, as conversations do, ` +
			`and 2 in a question, as single requests do: remove both members from conversations, or add "message_mode": "history" to requests`},
		{row("", user+","+answer) + "\n" + row("", user+","+answer), `several entries of session "s" end in an answer: keep one of them`},
		{row("", user) + "\n" + row(`"message_mode":"delta",`, user), `session "s": some of its rows have "message_mode": "delta", and others have not`},
		{`{"conversations":[[{"messages":[` + answer + `]}]]}`, `entry 1: turn 1: message 1 is an answer`},
		{`{"filetype":"generate_conversations",` + "\n" + `"num_conversations":24}`, "it describes how vLLM makes conversations, and has none: use a data set of kind \"random-conversation\""},
	} {
		for _, salt := range []bool{false, true} {
			w := load.Workload{Dataset: load.Dataset{Kind: load.Conversation, Salt: salt, Path: written(t, "f", c.text)}, Endpoint: load.Chat}
			if err := CheckInputs(job(w)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: salt %t, error %v, want one with %q", c.text, salt, err, c.want)
			}
		}
	}
	for _, text := range []string{row(`"message_mode":"delta",`, user), `{"conversations":[[{"messages":[` + user + `]}]]}`} {
		w := load.Workload{Dataset: load.Dataset{Kind: load.Conversation, History: load.Recorded, Path: written(t, "f", text)}, Endpoint: load.Chat}
		if err := CheckInputs(job(w)); err == nil || !strings.Contains(err.Error(), `history = "recorded" needs recorded answers, and rows with only the new messages have none`) {
			t.Errorf("%s: told of recorded answers: %v", text, err)
		}
	}
	w := load.Workload{Dataset: load.Dataset{Kind: load.Conversation, Path: written(t, "f", `{"conversations":[[{"messages":[`+user+`]}]]}`)}, Requests: 1, Endpoint: load.Chat}
	if _, err := opened(t, job(w), true); err == nil || !strings.Contains(err.Error(), "no length for the answer (set output_tokens in the load block)") {
		t.Errorf("without output_tokens: %v", err)
	}
	w.Dataset.Path = written(t, "f", `{"messages":[`+user+`,`+answer+`]}`)
	if _, err := opened(t, job(w), false); err == nil || !strings.Contains(err.Error(), "the lengths of recorded answers have to be counted, and the server has no /tokenize: name the model's tokenizer.json in the data set, or set output_tokens in the load block") {
		t.Errorf("without a tokenizer: %v", err)
	}
}

// TestBrokenSession: a session is not sent without one of its requests.
func TestBrokenSession(t *testing.T) {
	row := func(session, text string, output int) string {
		return fmt.Sprintf(`{"session_id": %q, "message_mode": "delta", "messages": [{"role": "user", "content": %q}], "output_length": %d}`+"\n", session, text, output)
	}
	w := load.Workload{Dataset: load.Dataset{Kind: load.Conversation,
		Path: written(t, "f", row("a", "one", 1)+row("b", "other", 5)+row("a", "two", 0)+row("a", "three", 1))}}
	cut := w
	cut.Dataset.Path = written(t, "cut", row("a", "one", 1)+row("b", "other", 5)+row("a", "two", 1)[:50]+"\n"+row("a", "three", 1))
	if got, source := said(t, cut, 1); source.Prompts != 1 || source.Bad != 1 || source.LeftOut != 2 || !strings.HasPrefix(got[0], "u:other") {
		t.Errorf("a line that is cut off: %v, source %+v", got, source)
	}
	got, source := said(t, w, 2)
	other := "u:other | 5 of 0 tools after 0s calls false"
	if diff := gocmp.Diff([]string{other, other}, got); diff != "" || source.Prompts != 1 {
		t.Errorf("source %+v, requests (-want +got):\n%s", source, diff)
	}
	if diff := gocmp.Diff([]string{`line 3: "output_length" is 0: it must be at least 1`}, source.BadLines); diff != "" || source.Bad != 1 || source.LeftOut != 2 {
		t.Errorf("%d bad, %d left out (-want +got):\n%s", source.Bad, source.LeftOut, diff)
	}
}

// TestFinal: a conversation that the number of requests cuts off has not ended.
func TestFinal(t *testing.T) {
	w := load.Workload{Endpoint: load.Chat, Requests: 6, OutputTokens: 8,
		Dataset: load.Dataset{Kind: load.RandomConversation, Turns: 4, QuestionTokens: 10}}
	set, err := opened(t, job(w), true)
	if err != nil {
		t.Fatal(err)
	}
	var final []bool
	for q := set.Queue(ForPrompt, 6); ; {
		s, ok := q.Next()
		if !ok {
			break
		}
		for goes := true; goes; goes = s.Heard(true, nil) {
			final = append(final, s.Request().Final)
		}
	}
	if diff := gocmp.Diff([]bool{false, false, false, true, false, false}, final); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRandomTalks: conversations are as long as asked, share a beginning, and are the same for every engine.
func TestRandomTalks(t *testing.T) {
	half := 0.5
	w := load.Workload{Dataset: load.Dataset{Kind: load.RandomConversation, Turns: 4, QuestionTokens: 10, PrefixTokens: 7, ThinkTime: load.Duration(time.Second)}, OutputTokens: 8}
	got, _ := said(t, w, 40)
	again, _ := said(t, w, 40)
	if diff := gocmp.Diff(got, again); diff != "" {
		t.Errorf("made once more (-first +second):\n%s", diff)
	}
	begins := map[string]int{}
	for i, r := range got {
		words, rest, _ := strings.Cut(r, " | ")
		turn := i%4 + 1
		if n := len(strings.Fields(words)); n != 7+turn*10+turn-1 || !strings.HasPrefix(rest, "8 of 0 tools") || strings.Contains(rest, "after 0s") != (turn == 1) {
			t.Errorf("request %d has %d words and %q", i, n, rest)
		}
		begins[strings.Join(strings.Fields(words)[:7], " ")]++
	}
	if len(begins) != 1 {
		t.Errorf("%d beginnings", len(begins))
	}
	w.Dataset.RangeRatio = &half
	got, _ = said(t, w, 200)
	questions, outputs := map[int]bool{}, map[string]bool{}
	for _, r := range got {
		words, rest, _ := strings.Cut(r, " | ")
		questions[len(strings.Fields(words[strings.LastIndex(words, "u:"):]))] = true
		outputs[rest[:1]] = true
	}
	if len(questions) != 6 || len(outputs) != 5 { // 5 to 10, 4 to 8
		t.Errorf("questions of %v words, answers of %v tokens", questions, outputs)
	}
}

// TestUntimed: where arrivals are to be recorded ones, something has to say when each session begins.
func TestUntimed(t *testing.T) {
	const row = `{"session_id":"s","messages":[{"role":"user","content":"a"}],"output_length":2`
	for text, want := range map[string]string{
		row + `}`: `line 1: no number "timestamp", which arrivals = "recorded" needs`,
		row + `,"delay":1}` + "\n" + row + `,"timestamp":1}`:                              `its first request has no number "timestamp"`,
		row + `,"timestamp":1e300}`:                                                       `line 1: "timestamp" is 1e+300 ms: it lies between -4e+12 and 4e+12`,
		`{"conversations":[[{"messages":[{"role":"user","content":"a"}]}]]}`:              `a list of turns has no "timestamp"`,
		`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`: `line 1: no number "timestamp"`,
	} {
		w := load.Workload{Requests: 1, OutputTokens: 1, Endpoint: load.Chat,
			Dataset: load.Dataset{Kind: load.Conversation, Path: written(t, "t.jsonl", text), Arrivals: load.Recorded}}
		if err := CheckInputs(job(w)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestTimedWarmup: the warm-up opens sessions that lie beyond the end of the load, as long as there are any.
func TestTimedWarmup(t *testing.T) {
	text := ""
	for i, name := range []string{"c", "a", "d", "b"} {
		text += fmt.Sprintf(`{"session_id":%q,"messages":[{"role":"user","content":"%s"}],"output_length":2,"timestamp":%d}`+"\n",
			name, name, []int{3000, 1000, 4000, 2000}[i])
	}
	for name, w := range map[string]load.Workload{
		"requests": {Requests: 2}, "duration": {Duration: load.Duration(1500 * time.Millisecond)},
	} {
		w.Endpoint, w.Warmup = load.Chat, 2
		w.Dataset = load.Dataset{Kind: load.Conversation, Path: written(t, "t.jsonl", text), Arrivals: load.Recorded}
		set, err := opened(t, job(w), false)
		if err != nil {
			t.Fatal(err)
		}
		sent := map[uint64]string{}
		for _, use := range []uint64{ForPrompt, ForWarmup} {
			for q := set.Queue(use, set.Total); ; {
				s, ok := q.Next()
				if !ok {
					break
				}
				_, rest, _ := strings.Cut(string(bytes.Join(s.Request().Body, nil)), `"content":"`)
				sent[use] += rest[:1]
			}
		}
		if sent[ForPrompt] != "ab" || sent[ForWarmup] != "dc" || len(set.Due) != 2 {
			t.Errorf("%s: %s are measured at %v, and the warm-up has %s", name, sent[ForPrompt], set.Due, sent[ForWarmup])
		}
		if s := set.Drawn(2, 2); s.Warmed != 0 {
			t.Errorf("%s: %d are said to be warmed", name, s.Warmed)
		}
	}
}
