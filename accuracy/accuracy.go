// Package accuracy says what to ask a server, and how right its answers are: tasks (whose questions), protocols (whose
// prompts, sampling and extraction), marks, scores, and what two lists of answers to the same questions prove. It refuses
// to know engines, HTTP and clocks: whoever asks tells it what was answered. It opens no file, fetches none, and ships none.
//
// Whoever asks it does:
//
//	set, err := accuracy.New(spec, questions, shots)
//	for i := range set.Len() {
//		ask := set.Ask(i)
//		… // send it
//		answer := set.Mark(i, reply)
//	}
//	score := accuracy.Sum(answers)
package accuracy

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"hclbench/plain"
)

// Spec is what is asked, as far as it can change a score: a lab says it, and two scores compare where it is the same.
type Spec struct {
	Task     string `json:"task"`     // one of [Tasks]
	Protocol string `json:"protocol"` // one of [Protocols] that has the task
	// Path and SHA256 are of the file of the questions, ShotsPath and ShotsSHA256 of that of the examples, where the
	// protocol takes them from a file of their own. A checksum has 64 hex digits; empty: whatever is there.
	Path        string `json:"path,omitempty"`
	SHA256      string `json:"sha256,omitempty"`
	ShotsPath   string `json:"shots_path,omitempty"`
	ShotsSHA256 string `json:"shots_sha256,omitempty"`

	Scoring   string `json:"scoring,omitempty"`    // of jsonl: one of [Scorings]
	Pattern   string `json:"pattern,omitempty"`    // of scoring pattern: a regular expression whose last match, or its group, is the answer
	Extract   string `json:"extract,omitempty"`    // which of the protocol's extractions counts; empty: its first
	Endpoint  string `json:"endpoint,omitempty"`   // [load.Chat], [load.Completions] or [load.Generate]; empty: the protocol's
	Shots     *int   `json:"shots,omitempty"`      // examples before each question; nil: the protocol's
	Samples   int    `json:"samples,omitempty"`    // answers to each question; 0: the protocol's
	Questions int    `json:"questions,omitempty"`  // the first so many of the file; 0: the protocol's, as a rule all
	MaxTokens int    `json:"max_tokens,omitempty"` // of an answer, reasoning included; 0: the protocol's
}

// MostSamples are the most answers to one question.
const MostSamples = 256

// Question is one question of a task, with its right answer.
type Question struct {
	ID      string          // that no other has: what the file says, else its place there from 1
	Text    string          // what is asked
	Context json.RawMessage // messages in its place, as chat takes them; nil: Text is asked
	Choices []string        // to choose from, as the file has them; nil: the answer is free
	Right   []string        // the right answers: each of them is right; where there are choices, one number of a choice from 0
	Subject string          // which part of the task it is of; empty: the task has none
	Worked  string          // the right answer with the way to it, for an example; empty: the file has none
	Tools   json.RawMessage // that may be called, as chat takes them; nil: none
	Asks    *Ask            // the request, where the file has it; nil: the protocol makes it
	line    int             // of its file, from 1
}

// Ask is one request: what a server is asked for one answer.
type Ask struct {
	Endpoint    string                     // [load.Chat], [load.Completions] or [load.Generate]
	Prompt      string                     // of completions and generate
	Messages    json.RawMessage            // of chat: the list
	Tools       json.RawMessage            // of chat; nil: none
	ToolChoice  json.RawMessage            // which of them is to be called, as chat takes it; nil: the model decides
	MaxTokens   int                        // of the answer, reasoning included; 0: the request does not say
	Temperature *float64                   // nil: the request does not say, and the server's default holds
	TopP        *float64                   // as Temperature
	Seed        *int64                     // as Temperature
	Stop        []string                   // words that end the answer; nil: none
	Whole       bool                       // the answer is to come in one piece, and not as a stream
	Extra       map[string]json.RawMessage // more members of the request, by their names; nil: none
}

// Reply is what came back on an [Ask].
type Reply struct {
	Text         string // what was answered
	Reasoning    string // what was thought before it, where the server tells it apart (`reasoning_content`, `reasoning`)
	Calls        []Call // of tools
	Finish       string // why it ended: "stop", "length", "tool_calls", …; empty: the server has not said
	Forced       string // how likely the prompt's tokens were, as JSON in the server's own form; empty: it has not said
	InputTokens  int    // of the prompt, as the server has counted; 0: it has not
	OutputTokens int    // of the answer with its reasoning, as the server has counted; 0: it has not
	Error        string // why there is none; empty: there is one
	// Refused says that the server took the request for wrong: its status was 400 or 422. Error has what it said.
	Refused bool
}

// Call is one call of a tool.
type Call struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // as they came: JSON, if all is well
}

// Mark is what an answer is worth.
type Mark string

// The marks. An answer whose right value was extracted is right, even if it was cut afterwards: so do all harnesses. One that
// is not right is cut if its length has ended it, and otherwise wrong, or invalid if nothing could be extracted.
const (
	Right   Mark = "right"
	Wrong   Mark = "wrong"
	Invalid Mark = "invalid" // the protocol finds no answer in it
	Cut     Mark = "cut"     // it was not right when its length ended it: the budget was too small, or it went round in circles
	Failed  Mark = "failed"  // the request has failed
)

// Answer is one answer, as it is stored: one line of JSON, of at most [MaxLine] bytes, all of it printable.
type Answer struct {
	Question     string `json:"question"`            // its ID
	Sample       int    `json:"sample,omitempty"`    // which of its question's, from 0
	At           int    `json:"at,omitempty"`        // the concurrency at which it was asked; 0: who asked has not said
	Mark         Mark   `json:"mark"`                //
	Extracted    string `json:"extracted,omitempty"` // what counts as its answer, as the protocol has it
	Text         string `json:"text,omitempty"`      //
	Reasoning    string `json:"reasoning,omitempty"` //
	Calls        []Call `json:"calls,omitempty"`     //
	Finish       string `json:"finish,omitempty"`    // as of [Reply]
	InputTokens  int    `json:"input_tokens,omitempty"`
	OutputTokens int    `json:"output_tokens,omitempty"`
	Error        string `json:"error,omitempty"`
	// Short says that some of it was too long to be kept: it was marked by all that came.
	Short bool `json:"short,omitempty"`
}

// What is kept of an answer, in bytes. Marks are given by all that came.
const (
	MaxText  = 32 << 10 // of its text, and as much of its reasoning and of all its calls
	MaxShort = 1 << 10  // of its error, of what was extracted, of a name
	MaxCalls = 64
	MaxLine  = 1 << 20 // of its line: JSON makes up to six bytes of one
)

// stored is the line of an answer: printable, and no longer than there is room for.
func stored(a Answer, r Reply) Answer {
	keep := func(s string, n int) string {
		if s = plain.Text(s); len(s) <= n {
			return s
		}
		a.Short = true
		head, tail := n/4, len(s)-n*3/4 // what counts stands at the end
		for !utf8.RuneStart(s[head]) {
			head--
		}
		for tail < len(s) && !utf8.RuneStart(s[tail]) {
			tail++
		}
		return s[:head] + "\n[…]\n" + s[tail:]
	}
	a.Text, a.Reasoning = keep(r.Text, MaxText), keep(r.Reasoning, MaxText)
	a.Extracted, a.Error = keep(a.Extracted, MaxShort), keep(r.Error, MaxShort)
	a.Finish = plain.Cut(plain.Line(r.Finish), 64)
	a.InputTokens, a.OutputTokens = max(r.InputTokens, 0), max(r.OutputTokens, 0)
	room := MaxText
	for i, c := range r.Calls {
		if i == MaxCalls || room <= MaxShort {
			a.Short = true
			break
		}
		name := keep(c.Name, MaxShort)
		kept := Call{name, keep(c.Arguments, max(room-len(name), MaxShort))}
		room -= len(kept.Name) + len(kept.Arguments)
		a.Calls = append(a.Calls, kept)
	}
	return a
}

// Score is what a list of answers comes to.
type Score struct {
	Asked   int `json:"asked"`
	Right   int `json:"right"`
	Wrong   int `json:"wrong"`
	Invalid int `json:"invalid"`
	Cut     int `json:"cut"`
	Failed  int `json:"failed"`
	// Share is of the right ones among those that were asked, from 0 to 1; Low and High are the ends of its 95 % interval.
	Share float64 `json:"share"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`

	InputTokens  int `json:"input_tokens,omitempty"` // of all answers, as the server has counted
	OutputTokens int `json:"output_tokens,omitempty"`

	Texts    bool       `json:"texts,omitempty"`    // they are no answers but what was told of given texts; told counts as right
	Reasoned int        `json:"reasoned,omitempty"` // answers with reasoning that the server tells apart
	Calls    *CallScore `json:"calls,omitempty"`    // nil: no answer calls a tool, or has reasoning alone
}

// String is "264 of 300 right (88.0 %)", with those that were cut or failed.
func (s Score) String() string {
	text := fmt.Sprintf("%d of %d right (%.1f %%)", s.Right, s.Asked, 100*s.Share)
	if s.Texts {
		text = fmt.Sprintf("told of %d of %s", s.Right, plain.Count(s.Asked, "text"))
	}
	if s.Cut > 0 {
		text += fmt.Sprintf(", %d cut", s.Cut)
	}
	if s.Failed > 0 {
		text += fmt.Sprintf(", %d failed", s.Failed)
	}
	return text
}

// Sum is the score of answers.
func Sum(answers []Answer) Score {
	var s Score
	for _, a := range answers {
		s.Asked++
		switch a.Mark {
		case Right:
			s.Right++
		case Invalid:
			s.Invalid++
		case Cut:
			s.Cut++
		case Failed:
			s.Failed++
		default:
			s.Wrong++
		}
		if a.Reasoning != "" {
			s.Reasoned++
		}
		if a.Mark != Failed {
			s.InputTokens += a.InputTokens
			s.OutputTokens += a.OutputTokens
		}
	}
	if s.Asked > 0 {
		s.Share = float64(s.Right) / float64(s.Asked)
		s.Low, s.High = interval(answers)
	}
	if calls := SumCalls(answers); calls.Called+calls.OnlyReasoning > 0 { // where a parser is dead, nobody calls
		s.Calls = &calls
	}
	return s
}

// Verdict is what the answers of a deployment say beside those of a baseline.
type Verdict string

// The verdicts.
const (
	Holds     Verdict = "holds"     // it loses less than the margin: that is certain
	Worse     Verdict = "worse"     // it loses: that is certain
	NotShown  Verdict = "not shown" // neither is
	Unchecked Verdict = "unchecked" // nothing was asked, or nothing to hold it against
)

// Verdicts are all of them, the worst first.
func Verdicts() []Verdict { return []Verdict{Worse, NotShown, Unchecked, Holds} }
