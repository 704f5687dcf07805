package accuracy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hclbench/plain"

	"github.com/dlclark/regexp2/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// What an answer to a request with tools is, as [Answer.Extracted] has it. A call is followed by the names of the functions, a bad
// one by what is wrong with it.
const (
	aCall         = "call"
	badCall       = "bad call"
	noCall        = "no call"        // a text
	onlyReasoning = "only reasoning" // and then neither a text nor a call
	refusal       = "refused"        // by the server: the request is one that nobody may serve
	nothing       = "nothing"
)

// readCall reads a line of the task tool-calls: the body of a request to chat completions, as K2VV's and MiniMax's files have them,
// and beside it what is right, if the file knows: "call", "no call", or "refused" where the server must not serve it.
func readCall(line []byte) (Question, error) {
	var own struct {
		ID          string          `json:"id"`
		Right       string          `json:"right"`
		Messages    json.RawMessage `json:"messages"`
		Tools       json.RawMessage `json:"tools"`
		ToolChoice  json.RawMessage `json:"tool_choice"`
		MaxTokens   int             `json:"max_tokens"`
		MaxNewer    int             `json:"max_completion_tokens"` // its newer name
		Temperature *float64        `json:"temperature"`
		TopP        *float64        `json:"top_p"`
		Seed        *int64          `json:"seed"`
		Stop        json.RawMessage `json:"stop"`
	}
	var all map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(line, &own), json.Unmarshal(line, &all)); err != nil {
		return Question{}, fmt.Errorf("no request: %w", err)
	}
	var messages []map[string]json.RawMessage
	if json.Unmarshal(own.Messages, &messages) != nil || len(messages) == 0 {
		return Question{}, errors.New("\"messages\" is not a list of messages")
	}
	for i, m := range messages {
		var role string
		if json.Unmarshal(m["role"], &role) != nil || role == "" {
			return Question{}, fmt.Errorf("message %d has no \"role\"", i+1)
		}
		if role == "_input" { // K2VV's, which it sends as a system's message
			m["role"] = json.RawMessage(`"system"`)
			own.Messages, _ = json.Marshal(messages) // what was just read
		}
	}
	if !slices.Contains([]string{"", aCall, noCall, refusal}, own.Right) {
		return Question{}, fmt.Errorf("\"right\" is %q: write %q, %q or %q, or leave it out", own.Right, aCall, noCall, refusal)
	}
	var stop []string
	if one := ""; json.Unmarshal(own.Stop, &one) == nil && one != "" {
		stop = []string{one}
	} else if len(own.Stop) > 0 && json.Unmarshal(own.Stop, &stop) != nil {
		return Question{}, errors.New("\"stop\" is neither a word nor a list of them")
	}
	q := Question{ID: own.ID, Context: own.Messages, Tools: own.Tools, Asks: &Ask{
		Messages: own.Messages, Tools: own.Tools, ToolChoice: own.ToolChoice, MaxTokens: max(own.MaxNewer, own.MaxTokens, 0),
		Temperature: own.Temperature, TopP: own.TopP, Seed: own.Seed, Stop: stop,
	}}
	if own.Right != "" {
		q.Right = []string{own.Right}
	}
	// What is sent of the rest; who answers, how many times, and whether as a stream is not the file's to say.
	for _, name := range []string{"id", "right", "messages", "tools", "tool_choice", "max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "stop",
		"model", "n", "stream", "stream_options", "check_type"} {
		delete(all, name)
	}
	if len(all) > 0 {
		q.Asks.Extra = all
	}
	if own.Right == refusal {
		return q, nil // its tools may be none
	}
	tools, err := toolsOf(own.Tools)
	if err != nil {
		return Question{}, err
	}
	_, name := choiceOf(own.ToolChoice)
	if _, offered := tools[name]; name != "" && !offered {
		return Question{}, fmt.Errorf("\"tool_choice\" names the function %q, and it is not among the tools", plain.Cut(plain.Line(name), 64))
	}
	return q, nil
}

// markCall marks the answer to a request with tools. It is right if nothing is wrong with it: each call names a function that was
// offered, with arguments that its schema takes; and a call is made, or not, where the request or the file says so. Of an answer
// that nobody knows more of, text alone is right, too: whether the model should have called, [Triggers] tells by a baseline.
func markCall(q Question, r Reply) (mark Mark, extracted string) {
	right, only := "", ""
	if q.Asks != nil {
		right, only = choiceOf(q.Asks.ToolChoice)
	}
	if len(q.Right) > 0 {
		right = q.Right[0]
	}
	cut := func(m Mark) Mark {
		if r.Finish == "length" {
			return Cut
		}
		return m
	}
	switch {
	case r.Refused && right == refusal:
		return Right, refusal
	case r.Error != "":
		return Failed, ""
	case right == refusal:
		return Wrong, "served"
	case len(r.Calls) == 0 && r.Finish == "tool_calls":
		return Invalid, badCall + ": the server says that there is one"
	case len(r.Calls) > 0:
		names, err := checkCalls(q.Tools, r.Calls, only)
		switch {
		case errors.Is(err, errNoJSON):
			return cut(Invalid), badCall + " " + err.Error()
		case err != nil:
			return cut(Wrong), badCall + " " + err.Error()
		case right == noCall:
			return Wrong, aCall + " " + names
		}
		return Right, aCall + " " + names
	case strings.TrimSpace(r.Text) == "" && r.Reasoning != "":
		return cut(Invalid), onlyReasoning
	case strings.TrimSpace(r.Text) == "":
		return cut(Invalid), nothing
	case right == aCall:
		return cut(Wrong), noCall
	}
	return Right, noCall
}

// choiceOf is what a tool_choice wants: a call, none, or whatever the model decides; and of which function alone.
func choiceOf(raw json.RawMessage) (right, name string) {
	var word string
	var one struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	switch {
	case json.Unmarshal(raw, &word) == nil && word == "required":
		return aCall, ""
	case word == "none":
		return noCall, ""
	case json.Unmarshal(raw, &one) == nil && one.Function.Name != "":
		return aCall, one.Function.Name
	}
	return "", ""
}

// toolsOf are the schemas of the functions that tools offer, by their names; nil: any arguments will do. Tools that no server need
// take are an error.
func toolsOf(raw json.RawMessage) (map[string]*jsonschema.Schema, error) {
	var tools []struct {
		Function struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &tools); err != nil {
		return nil, errors.New("\"tools\" is not a list of tools")
	}
	schemas := map[string]*jsonschema.Schema{}
	for i, t := range tools {
		name := t.Function.Name
		if name == "" {
			return nil, fmt.Errorf("tool %d has no name of a function", i+1)
		}
		if _, twice := schemas[name]; twice {
			return nil, fmt.Errorf("tool %d: there is another function %q", i+1, plain.Cut(plain.Line(name), 64))
		}
		schema, err := schemaOf(t.Function.Parameters)
		if err != nil {
			return nil, fmt.Errorf("tool %d: \"parameters\" is no JSON schema: %s", i+1, shortError(err))
		}
		schemas[name] = schema
	}
	return schemas, nil
}

// schemaOf reads a JSON schema, by draft 2020-12 where it does not say another; nil: there is none. It follows no reference out of
// it, and asserts no format: so do the verifiers of vendors.
func schemaOf(raw json.RawMessage) (*jsonschema.Schema, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	c.UseRegexpEngine(func(pattern string) (jsonschema.Regexp, error) {
		re, err := regexp2.Compile(pattern, regexp2.ECMAScript, regexp2.Unicode)
		if err != nil {
			return nil, err
		}
		re.MatchTimeout = time.Second // some look at a text in exponentially many ways
		return expression{re}, nil
	})
	if err := c.AddResource("tool.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("tool.json")
}

// nowhere loads no schema from anywhere: not from a file of this machine, nor from another.
type nowhere struct{}

func (nowhere) Load(string) (any, error) {
	return nil, errors.New("it refers to another document, which is not read")
}

// expression is a regular expression of a schema.
type expression struct{ *regexp2.Regexp }

func (e expression) MatchString(s string) bool {
	ok, err := e.Regexp.MatchString(s)
	return ok && err == nil
}

var errNoJSON = errors.New("no JSON")

// checkCalls says what is wrong with the first bad one of an answer's calls, or the names of the functions. only is the function that
// all must call; empty: any that was offered.
func checkCalls(tools json.RawMessage, calls []Call, only string) (names string, err error) {
	schemas, err := toolsOf(tools)
	if err != nil {
		return "", err
	}
	var list []string
	for _, c := range calls {
		schema, offered := schemas[c.Name]
		named := plain.Cut(plain.Line(c.Name), 64)
		switch {
		case c.Name == "":
			return "", errors.New("without a name")
		case !offered:
			return "", fmt.Errorf("of %s, which was not offered", named)
		case only != "" && c.Name != only:
			return "", fmt.Errorf("of %s, and %s was asked for", named, plain.Cut(plain.Line(only), 64))
		}
		arguments, err := jsonschema.UnmarshalJSON(strings.NewReader(c.Arguments))
		if err != nil {
			return "", fmt.Errorf("of %s: its arguments are %w: %s", named, errNoJSON, shortError(err))
		}
		if schema != nil {
			err = schema.Validate(arguments)
		} else if _, isObject := arguments.(map[string]any); !isObject {
			err = errors.New("they are no object")
		}
		if err != nil {
			return "", fmt.Errorf("of %s: its arguments are not as its schema says: %s", named, shortError(err))
		}
		list = append(list, named)
	}
	return strings.Join(list, ", "), nil
}

// shortError is what a schema has found, in a line: the deepest finding says it best.
func shortError(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	return plain.Cut(plain.Line(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(lines[len(lines)-1]), "- "))), 200)
}

// CallScore is what answers to requests with tools come to, beside their marks. K2VV and MiniMax count the same.
type CallScore struct {
	Asked         int `json:"asked"`
	Called        int `json:"called"`         // answers that call, or say so by why they ended
	Valid         int `json:"valid"`          // of those, with calls of functions that were offered, and arguments that are valid
	OnlyReasoning int `json:"only_reasoning"` // answers with neither a text nor a call
	Failed        int `json:"failed"`
}

// SumCalls counts the calls of answers of the task tool-calls.
func SumCalls(answers []Answer) (s CallScore) {
	for _, a := range answers {
		s.Asked++
		if a.Mark == Failed {
			s.Failed++
		}
		if a.called() {
			s.Called++
		}
		if a.called() && strings.HasPrefix(a.Extracted, aCall+" ") {
			s.Valid++
		}
		if a.Extracted == onlyReasoning {
			s.OnlyReasoning++
		}
	}
	return s
}

// Accuracy is the part of the answers that call whose calls are valid, K2VV's schema_accuracy; ok is false where none calls.
func (s CallScore) Accuracy() (share float64, ok bool) {
	return float64(s.Valid) / float64(max(1, s.Called)), s.Called > 0
}

func (a Answer) called() bool { return len(a.Calls) > 0 || a.Finish == "tool_calls" }

// Trigger is whether a candidate calls where a baseline does.
type Trigger struct {
	Both    int `json:"both"`
	Alone   int `json:"alone"`  // the candidate calls, and the baseline does not
	Missed  int `json:"missed"` // the baseline calls, and the candidate does not
	Neither int `json:"neither"`
}

// Triggers pairs answers by question and sample. A failed answer calls nothing.
func Triggers(baseline, candidate []Answer) (t Trigger) {
	before := callers(baseline)
	for at, calls := range callers(candidate) {
		switch base, has := before[at]; {
		case !has:
		case base && calls:
			t.Both++
		case base:
			t.Missed++
		case calls:
			t.Alone++
		default:
			t.Neither++
		}
	}
	return t
}

// callers says of each answer whether it calls a tool.
func callers(answers []Answer) map[slot]bool {
	all := map[slot]bool{}
	for _, a := range answers {
		all[slot{a.Question, a.Sample}] = a.called()
	}
	return all
}

// F1 is the harmonic mean of precision and recall, K2VV's tool_call_f1, from 0 to 1; ok is false where neither calls.
func (t Trigger) F1() (f1 float64, ok bool) {
	of := 2*t.Both + t.others()
	return float64(2*t.Both) / float64(max(1, of)), of > 0
}

func (t Trigger) others() int { return t.Alone + t.Missed }

func (t Trigger) pairs() int { return t.Both + t.Neither + t.others() }

// Calling is how a candidate calls tools beside its baseline.
type Calling struct {
	Baseline  CallScore `json:"baseline"`
	Candidate CallScore `json:"candidate"`
	Trigger   Trigger   `json:"trigger"`         // of the two
	F1        float64   `json:"f1"`              // of it
	Again     *Trigger  `json:"again,omitempty"` // of two starts of the baseline: the floor; nil: there was no second
	// Chance is the probability of so many more answers that call otherwise than between two starts of the baseline, if nothing but the
	// start had changed; 1: there was no second.
	Chance float64 `json:"chance"`
}

// CallF1 is how far the candidate calls tools where its baseline does; ok is false where neither calls.
func (c Comparison) CallF1() (f1 float64, ok bool) {
	if c.Readings == nil || c.Readings.Calls == nil {
		return 0, false
	}
	return c.Readings.Calls.Trigger.F1()
}

func compareCalls(baseline, candidate, again []Answer) Calling {
	c := Calling{Baseline: SumCalls(baseline), Candidate: SumCalls(candidate), Trigger: Triggers(baseline, candidate), Chance: 1}
	if c.F1, _ = c.Trigger.F1(); again == nil {
		return c
	}
	floor := Triggers(baseline, again)
	c.Again = &floor
	before, is, own := callers(baseline), callers(candidate), callers(again)
	more, fewer := 0, 0
	for at, base := range before {
		one, asked := is[at]
		other, askedAgain := own[at]
		switch {
		case !asked || !askedAgain || one == other:
		case one != base:
			more++
		default:
			fewer++
		}
	}
	if more > fewer {
		c.Chance = flips(append(slices.Repeat([]float64{1}, more), slices.Repeat([]float64{-1}, fewer)...))
	}
	return c
}
