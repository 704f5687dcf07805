package accuracy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// weather is a line of the task: a request with a tool.
func weather(t *testing.T, more string) Question {
	t.Helper()
	q, err := readCall([]byte(`{"messages":[{"role":"user","content":"Weather in Paris?"}],"tools":[{"type":"function","function":{"name":"weather",` +
		`"parameters":{"type":"object","properties":{"city":{"type":"string","pattern":"^(?!the )"},"days":{"type":"integer","maximum":9}},"required":["city"],"additionalProperties":false}}},` +
		`{"type":"function","function":{"name":"now"}}]` + more + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestMarkCall(t *testing.T) {
	calls := func(pairs ...string) (r Reply) {
		for i := 0; i < len(pairs); i += 2 {
			r.Calls = append(r.Calls, Call{pairs[i], pairs[i+1]})
		}
		r.Finish = "tool_calls"
		return r
	}
	cut := calls("weather", `{"city":"Par`)
	cut.Finish = "length"
	const required, none, named = `,"tool_choice":"required"`, `,"tool_choice":"none"`, `,"tool_choice":{"type":"function","function":{"name":"now"}}`
	for _, c := range []struct {
		name, more string
		reply      Reply
		mark       Mark
		extracted  string // its beginning
	}{
		{"a valid call", "", calls("weather", `{"city":"Paris","days":2}`), Right, "call weather"},
		{"two of them", "", calls("weather", `{"city":"Paris"}`, "now", "{}"), Right, "call weather, now"},
		{"a text, where nobody says that a call is right", "", Reply{Text: "Fine."}, Right, "no call"},
		{"no schema, and an object", "", calls("now", `{"a":1}`), Right, "call now"},
		{"no schema, and no object", "", calls("now", `7`), Wrong, "bad call of now"},
		{"no JSON", "", calls("weather", `{"city":"Paris"`), Invalid, "bad call of weather: its arguments are no JSON"},
		{"no arguments", "", calls("weather", ""), Invalid, "bad call of weather: its arguments are no JSON"},
		{"two texts in one, as of one index for two calls", "", calls("weather", `{"city":"Paris"}{"city":"Rome"}`), Invalid, "bad call of weather"},
		{"the JSON of a JSON", "", calls("weather", `"{\"city\":\"Paris\"}"`), Wrong, "bad call of weather: its arguments are not as its schema says: at '': got string, want object"},
		{"another type", "", calls("weather", `{"city":1}`), Wrong, "bad call of weather: its arguments are not as its schema says: at '/city': got number, want string"},
		{"one missing", "", calls("weather", `{}`), Wrong, "bad call of weather: its arguments are not as its schema says: at '': missing property 'city'"},
		{"one that is not asked for", "", calls("weather", `{"city":"Paris","x":1}`), Wrong, "bad call of weather"},
		{"a pattern that looks ahead", "", calls("weather", `{"city":"the moon"}`), Wrong, "bad call of weather"},
		{"2.0 is an integer", "", calls("weather", `{"city":"Paris","days":2.0}`), Right, "call weather"},
		{"10 is too many", "", calls("weather", `{"city":"Paris","days":10}`), Wrong, "bad call of weather"},
		{"the second is bad", "", calls("now", "{}", "weather", "{}"), Wrong, "bad call of weather"},
		{"a function that was not offered", "", calls("moon\nphase", "{}"), Wrong, `bad call of moon`},
		{"no name", "", calls("", "{}"), Wrong, "bad call without a name"},
		{"cut in its arguments", "", cut, Cut, "bad call of weather"},
		{"a call that is announced alone", "", Reply{Finish: "tool_calls"}, Invalid, "bad call: the server says"},
		{"required, and made", required, calls("now", "{}"), Right, "call now"},
		{"required, and a text", required, Reply{Text: "Fine.", Finish: "stop"}, Wrong, "no call"},
		{"required, and a text that was cut", required, Reply{Text: "Fine.", Finish: "length"}, Cut, "no call"},
		{"another function than was named", named, calls("weather", `{"city":"Paris"}`), Wrong, "bad call of weather, and now was asked for"},
		{"the one that was named", named, calls("now", "{}"), Right, "call now"},
		{"none may be made, and one is", none, calls("now", "{}"), Wrong, "call now"},
		{"none may be made, and none is", none, Reply{Text: "Fine."}, Right, "no call"},
		{"the file says that none is right", `,"right":"no call"`, calls("now", "{}"), Wrong, "call now"},
		{"the file says that one is right", `,"right":"call"`, Reply{Text: "Fine."}, Wrong, "no call"},
		{"only reasoning", "", Reply{Text: "\n", Reasoning: "hm", Finish: "stop"}, Invalid, "only reasoning"},
		{"only reasoning, cut", "", Reply{Reasoning: "hm", Finish: "length"}, Cut, "only reasoning"},
		{"nothing", "", Reply{Finish: "stop"}, Invalid, "nothing"},
		{"failed", "", Reply{Error: "status 500"}, Failed, ""},
		{"refused, and should not be", "", Reply{Error: "status 400", Refused: true}, Failed, ""},
		{"refused, and should be", `,"right":"refused"`, Reply{Error: "status 400", Refused: true}, Right, "refused"},
		{"served, and should not be", `,"right":"refused"`, calls("now", "{}"), Wrong, "served"},
		{"failed instead of refused", `,"right":"refused"`, Reply{Error: "status 500"}, Failed, ""},
	} {
		mark, extracted := markCall(weather(t, c.more), c.reply)
		if mark != c.mark || !strings.HasPrefix(extracted, c.extracted) || c.extracted == "" && extracted != "" || strings.Contains(extracted, "\n") {
			t.Errorf("%s: %s, %q, want %s, %q", c.name, mark, extracted, c.mark, c.extracted)
		}
	}
}

// TestReadCall: a line is a whole request, of which our own parts are not sent.
func TestReadCall(t *testing.T) {
	q, err := readCall([]byte(`{"id":"a","right":"call","model":"kimi","stream":true,"n":4,"check_type":["tool_calls"],"messages":[{"role":"_input","content":"é"},{"role":"user","content":"b"}],` +
		`"temperature":0.6,"max_tokens":64000,"stop":"end","thinking":{"type":"enabled"},"tool_choice":"auto"}`))
	if err != nil {
		t.Fatal(err)
	}
	messages := json.RawMessage(`[{"content":"é","role":"system"},{"content":"b","role":"user"}]`)
	want := Question{ID: "a", Right: []string{"call"}, Context: messages, Asks: &Ask{Messages: messages, ToolChoice: json.RawMessage(`"auto"`), MaxTokens: 64000,
		Temperature: new(0.6), Stop: []string{"end"}, Extra: map[string]json.RawMessage{"thinking": json.RawMessage(`{"type":"enabled"}`)}}}
	if diff := cmp.Diff(want, q, cmp.AllowUnexported(Question{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadCallRefuses(t *testing.T) {
	for more, want := range map[string]string{
		`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"text"}}}]`:                `tool 1: "parameters" is no JSON schema`,
		`"tools":[{"type":"function","function":{"name":"f","parameters":[]}}]`:                             `tool 1: "parameters" is no JSON schema`,
		`"tools":[{"type":"function","function":{"name":"f","parameters":{"pattern":"("}}}]`:                `tool 1: "parameters" is no JSON schema`,
		`"tools":[{"type":"function","function":{"name":"f","parameters":{"$ref":"file:///etc/passwd"}}}]`:  `it refers to another document`,
		`"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}]`: `tool 2: there is another function "f"`,
		`"tools":[{"type":"function"}]`: `tool 1 has no name`,
		`"tools":{}`:                    `"tools" is not a list`,
		`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"g"}}`: `"tool_choice" names the function "g"`,
		`"right":"maybe"`: `"right" is "maybe"`,
		`"stop":7`:        `"stop" is neither`,
	} {
		line := `{"messages":[{"role":"user","content":"a"}],` + more + `}`
		if _, err := readCall([]byte(line)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", more, err, want)
		}
		if strings.Contains(more, "tools") { // what must be refused may be anything
			if _, err := readCall([]byte(strings.Replace(line, `{"messages`, `{"right":"refused","messages`, 1))); err != nil {
				t.Errorf("%s: to be refused: %v", more, err)
			}
		}
	}
	for _, line := range []string{``, `7`, `{}`, `{"messages":[]}`, `{"messages":[{"content":"a"}]}`, `{"messages":"a"}`} {
		if _, err := readCall([]byte(line)); err == nil {
			t.Errorf("%q is a request", line)
		}
	}
}

// TestLongPattern: a pattern that a text keeps busy for long is given up, and the call is not valid.
func TestLongPattern(t *testing.T) {
	q, err := readCall([]byte(`{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"string","pattern":"^(?:(a+)+)+\\1b?c$"}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	arguments, _ := json.Marshal(strings.Repeat("a", 60) + "b")
	if mark, extracted := markCall(q, Reply{Calls: []Call{{"f", string(arguments)}}}); mark != Wrong {
		t.Errorf("%s, %q", mark, extracted)
	}
}

// verified is a line of results.jsonl, as K2VV writes it; MiniMax's has the same, and reasoning by its newer name.
func verified(index int, at, finish, message string) string {
	return fmt.Sprintf(`{"data_index":%d,"request":{"model":"m","messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","required":["a"]}}}]},`+
		`"extra_body":{},"response":{"id":"1","choices":[{"index":0,"message":%s,"finish_reason":%q}],"usage":{"prompt_tokens":9,"completion_tokens":3}},"status":"success","finish_reason":%[3]q,`+
		`"tool_calls_valid":null,"last_run_at":%[4]q,"duration_ms":7,"hash":"00"}`, index, message, finish, at) + "\n"
}

func TestVerifiers(t *testing.T) {
	const valid, bad = `{"content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}`,
		`{"content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	official, _, err := ReadVerifier(strings.NewReader(verified(3, "2025-11-15T10:00:00", "stop", `{"content":"x","tool_calls":null}`) + "\n" +
		verified(1, "2025-11-15T10:00:00", "tool_calls", valid) + verified(2, "2025-11-15T10:00:00", "tool_calls", valid) +
		verified(4, "2025-11-15T10:00:00", "tool_calls", valid)))
	if err != nil {
		t.Fatal(err)
	}
	vendor, _, err := ReadVerifier(strings.NewReader(verified(1, "2025-11-15T10:00:00", "tool_calls", bad) + verified(1, "2025-11-15T11:00:00", "tool_calls", valid) +
		verified(2, "2025-11-15T10:00:00", "tool_calls", bad) + verified(3, "2025-11-15T10:00:00", "tool_calls", strings.Replace(valid, `"{\"a\":1}"`, `{"a":1}`, 1)) +
		`{"data_index":4,"request":{"messages":[{"role":"user","content":"a"}]},"response":{"error_type":"APIError","error":"no"},"status":"failed","finish_reason":null,"last_run_at":"2025"}` + "\n" +
		verified(5, "2025-11-15T10:00:00", "stop", `{"content":null,"reasoning":"hm","tool_calls":null}`)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Answer{Question: "1", Mark: Right, Extracted: "call f", Calls: []Call{{"f", `{"a":1}`}}, Finish: "tool_calls", InputTokens: 9, OutputTokens: 3}, vendor[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := SumCalls(vendor); got != (CallScore{Asked: 5, Called: 3, Valid: 2, OnlyReasoning: 1, Failed: 1}) {
		t.Errorf("%+v", got)
	}
	if s := Sum(vendor[4:]); s.Calls == nil || s.Calls.OnlyReasoning != 1 || s.Calls.Called != 0 {
		t.Errorf("where nobody calls: %+v", s)
	}
	if got, ok := SumCalls(vendor).Accuracy(); !ok || got != 2./3 {
		t.Errorf("accuracy %v, %v", got, ok)
	}
	triggers := Triggers(official, vendor)
	if triggers != (Trigger{Both: 2, Alone: 1, Missed: 1}) {
		t.Errorf("%+v", triggers)
	}
	if f1, ok := triggers.F1(); !ok || f1 != 2./3 { // precision 2/3, recall 2/3
		t.Errorf("F1 %v, %v", f1, ok)
	}
	if _, ok := (Trigger{Neither: 3}).F1(); ok {
		t.Error("an F1 where nobody calls")
	}
}

func TestVerifiersRefuse(t *testing.T) {
	for _, text := range []string{"", "{", "{}\n", `{"data_index":1}`, `{"data_index":0,"status":"success"}`, `{"prompt":"a"}`} {
		if answers, _, err := ReadVerifier(strings.NewReader(text)); err == nil {
			t.Errorf("%q: %v", text, answers)
		}
	}
}

// TestVerifiersOdd: a line that is none, as where a verifier was killed, is left out and told; a file with as many odd lines as whole ones is refused.
func TestVerifiersOdd(t *testing.T) {
	whole := func(i int) string {
		return verified(i, "2025-11-15T10:00:00", "stop", `{"content":"x","tool_calls":null}`)
	}
	answers, note, err := ReadVerifier(strings.NewReader(whole(1) + `{"data_index":2,"status":"succ` + "\n" + whole(3) + whole(4) + `{"data_index":5,"stat`))
	if err != nil || len(answers) != 3 || answers[1].Question != "3" {
		t.Fatalf("%d answers: %v", len(answers), err)
	}
	if want := "2 of the 5 lines of its file are no results and were left out, such as line 2: unexpected end of JSON input"; note != want {
		t.Errorf("%q, want %q", note, want)
	}
	if _, note, err := ReadVerifier(strings.NewReader(whole(1) + whole(2))); err != nil || note != "" {
		t.Errorf("%q, %v", note, err)
	}
	if _, _, err := ReadVerifier(strings.NewReader(whole(1) + "{}\n")); err == nil || !strings.Contains(err.Error(), "1 of its 2 lines are no results, such as line 2: it has no") {
		t.Errorf("half of it is odd: %v", err)
	}
}
