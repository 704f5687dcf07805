package prompts

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"hclbench/load"
)

// spoken is a conversation as it was recorded, in any of the forms that are read:
//   - a list of messages, or ShareGPT's list of turns: answers, and the results of tools, stand among
//     the questions;
//   - rows of one session, as AIPerf reads them from a Mooncake trace: each has the messages of a
//     request, all so far ("history") or those that are new ("delta");
//   - a list of rows, as in SGLang's agentic traces: those that are new.
type spoken struct {
	says []saying
}

// saying is one request of it.
type saying struct {
	asking
	messages []message
	history  bool // they are all that goes: none before them
	delay    *time.Duration
	at       *time.Duration // when it went, by the file's clock
	output   int            // how long the answer is to be, by the file; 0: it does not say
	answer   message        // as recorded; without a role: it was not
}

// message is one message, by the members that an engine is sent.
type message struct {
	Role       string          `json:"role"`
	Name       string          `json:"name,omitempty"`
	Content    json.RawMessage `json:"content,omitempty"`
	ToolCalls  []call          `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
}

// call is a tool call that an answer makes.
type call struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// UnmarshalJSON reads a call, which is of a function where it does not say of what: engines want to be told.
func (c *call) UnmarshalJSON(raw []byte) error {
	type plain call
	err := json.Unmarshal(raw, (*plain)(c))
	c.Type = cmp.Or(c.Type, "function")
	return err
}

const (
	roleSystem    = "system"
	roleUser      = "user"
	roleAssistant = "assistant"
	roleTool      = "tool"
)

// roles are who says something, by all names that are in use.
func roles() map[string]string {
	return map[string]string{
		"system": roleSystem, "developer": roleSystem, "user": roleUser, "human": roleUser, "assistant": roleAssistant,
		"gpt": roleAssistant, "chatgpt": roleAssistant, "bing": roleAssistant, "bard": roleAssistant, "tool": roleTool,
	}
}

// talkForm is what an entry may have.
type talkForm struct {
	Conversations []struct {
		From  string          `json:"from"`
		Value json.RawMessage `json:"value"`
	} `json:"conversations"`
	Messages []struct {
		message
		Delay *float64 `json:"delay"` // ms
	} `json:"messages"`
	Session      *sessionName `json:"session_id"`
	Mode         *string      `json:"message_mode"`
	OutputLength *int         `json:"output_length"`
	Delay        *float64     `json:"delay"`     // ms
	Timestamp    *float64     `json:"timestamp"` // ms; looked at where arrivals are recorded ones
	asking
}

// parseTalk reads a conversation: one entry of a file, or the rows of one session, one after the other.
func parseTalk(w load.Workload, raw []byte) (s spoken, err error) {
	if raw[0] == '[' {
		return parseDeltas(w, raw)
	}
	for d := json.NewDecoder(bytes.NewReader(raw)); ; {
		var f talkForm
		if err := d.Decode(&f); errors.Is(err, io.EOF) && len(s.says) > 0 {
			return s, nil
		} else if err != nil {
			return s, plainError(err)
		}
		if err := f.asking.check(w); err != nil {
			return s, err
		}
		switch {
		case f.Conversations == nil && f.Messages == nil:
			return s, errors.New("neither a list \"messages\" nor a list \"conversations\"")
		case f.part() >= request:
			err = s.addRow(w, &f, f.Mode != nil && *f.Mode == "delta")
		default:
			err = s.addTalk(&f)
		}
		if err == nil && w.Dataset.Timed() {
			err = s.timed(&f)
		}
		if err == nil {
			err = s.finish(w)
		}
		if err != nil {
			return s, err
		}
	}
}

// parseDeltas reads a conversation of one of SGLang's agentic traces.
func parseDeltas(w load.Workload, raw []byte) (s spoken, err error) {
	var rows []talkForm
	if err := json.Unmarshal(raw, &rows); err != nil {
		return s, plainError(err)
	}
	for i := range rows {
		if err := errors.Join(rows[i].asking.check(w), s.addRow(w, &rows[i], true)); err != nil {
			return s, fmt.Errorf("turn %d: %w", i+1, err)
		}
	}
	if w.Dataset.Timed() {
		return s, errors.New("a list of turns has no \"timestamp\", which arrivals = \"recorded\" needs")
	}
	if len(s.says) == 0 {
		return s, errSkip
	}
	return s, s.finish(w)
}

// addRow takes the messages of one request.
func (s *spoken) addRow(w load.Workload, f *talkForm, delta bool) error {
	x := saying{asking: f.asking, history: !delta}
	for i, m := range f.Messages {
		role, ok := roles()[m.Role]
		if !ok {
			return fmt.Errorf("message %d: %w", i+1, strange(m.Role))
		}
		if m.Role = role; delta && (role == roleAssistant || role == roleTool) {
			return fmt.Errorf("message %d is %s, and a row with \"message_mode\": \"delta\" has only what is new to the "+
				"engine, which gives the answers itself: remove the message, or write all messages so far", i+1,
				map[string]string{roleAssistant: "an answer", roleTool: "the result of a tool call"}[role])
		}
		if err := m.empty(); err != nil {
			return fmt.Errorf("message %d: %w", i+1, err)
		}
		x.messages = append(x.messages, m.message)
	}
	switch {
	case len(x.messages) == 0:
		return errors.New("\"messages\" is empty")
	case x.last().Role == roleAssistant:
		return errors.New("nothing is asked: the last message is an answer")
	case delta && w.Dataset.History == load.Recorded:
		return errors.New("history = \"recorded\" needs recorded answers, and rows with only the new messages have none")
	case f.Mode != nil && *f.Mode != "delta" && *f.Mode != "history":
		return fmt.Errorf("\"message_mode\" is %q, neither \"history\" nor \"delta\"", *f.Mode)
	case len(s.says) > 0 && s.says[0].history != x.history:
		return errors.New("some of its rows have \"message_mode\": \"delta\", and others have not")
	case f.OutputLength != nil && *f.OutputLength < 1:
		return fmt.Errorf("\"output_length\" is %d: it must be at least 1", *f.OutputLength)
	case f.OutputLength != nil:
		x.output = *f.OutputLength
	}
	if last := len(s.says) - 1; last >= 0 && delta && len(x.asking.given(w)) == 0 {
		x.asking = s.says[last].asking // tools are offered until others are
	}
	var err error
	if x.delay, err = delayOf(f.Delay); err == nil && !delta {
		err = called(x.messages)
	}
	s.says = append(s.says, x)
	return err
}

// addTalk takes a whole conversation.
func (s *spoken) addTalk(f *talkForm) error {
	what := "message"
	var all []message
	var delays []*float64
	for _, m := range f.Messages {
		all, delays = append(all, m.message), append(delays, m.Delay)
	}
	for _, m := range f.Conversations {
		what = "turn"
		all, delays = append(all, message{Role: m.From, Content: m.Value}), append(delays, nil)
	}
	for i, m := range all {
		role, ok := roles()[m.Role]
		if !ok {
			return fmt.Errorf("%s %d: %w", what, i+1, strange(m.Role))
		}
		all[i].Role, m.Role = role, role
		delay, err := delayOf(delays[i])
		if err = errors.Join(err, m.empty()); err == nil {
			err = s.add(m, delay, f.asking)
		}
		if errors.Is(err, errSkip) {
			return err
		}
		if err != nil {
			return fmt.Errorf("%s %d: %w", what, i+1, err)
		}
	}
	if s.says == nil || s.says[0].silent() {
		return errSkip
	}
	return called(all)
}

// add takes the next message of a conversation.
func (s *spoken) add(m message, delay *time.Duration, asks asking) error {
	n := len(s.says)
	open := n > 0 && s.says[n-1].answer.Role == ""
	switch {
	case m.Role == roleSystem && n > 0:
		return errors.New("a system message that is not the first")
	case m.Role == roleAssistant && (n == 0 || s.says[0].silent()):
		return errSkip // ShareGPT has many that begin in the middle
	case m.Role == roleAssistant && !open:
		return errors.New("a second answer to the same question")
	case m.Role == roleAssistant:
		s.says[n-1].answer = m
		return nil
	case m.Role == roleUser && open && !s.says[n-1].silent():
		return errors.New("a second question without an answer in between")
	case m.Role == roleTool && (n == 0 || open && s.says[n-1].last().Role != roleTool):
		return errors.New("the result of a tool call that no message makes")
	}
	if !open {
		s.says = append(s.says, saying{asking: asks})
		n++
	}
	x := &s.says[n-1]
	if x.messages = append(x.messages, m); delay != nil {
		x.delay = delay // of several results, that of the last
	}
	return nil
}

func (x *saying) last() message { return x.messages[len(x.messages)-1] }

// silent reports whether nobody has asked yet: the system alone has spoken.
func (x *saying) silent() bool { return x.last().Role == roleSystem }

// called says which tool calls of messages, which follow each other, have no result, and which results no call.
func called(all []message) error {
	var open []string
	for i, m := range all {
		if m.Role == roleTool {
			k := slices.Index(open, m.ToolCallID)
			if k < 0 {
				return fmt.Errorf("message %d: the result of a tool call %q that no message makes", i+1, m.ToolCallID)
			}
			open = slices.Delete(open, k, k+1)
			continue
		}
		if len(open) > 0 {
			return fmt.Errorf("message %d: the tool call %q before it has no result", i+1, open[0])
		}
		for _, c := range m.ToolCalls {
			if c.ID == "" || c.Function.Name == "" {
				return fmt.Errorf("message %d: a tool call without an \"id\" or a function's \"name\"", i+1)
			}
			open = append(open, c.ID)
		}
	}
	return nil
}

func strange(who string) error {
	return fmt.Errorf("its role is %q: it must be system, user, assistant or tool", who)
}

// empty says when a message has nothing to say.
func (m message) empty() error {
	switch said := len(m.Content) > 0 && string(m.Content) != "null"; {
	case !said && (len(m.ToolCalls) == 0 || m.Role != roleAssistant):
		return errors.New("it has no text")
	case said && m.Content[0] != '"' && m.Content[0] != '[':
		return errors.New("its content is neither a text nor a list")
	}
	return nil
}

// maxDelay is as much as a user may think.
const maxDelay = 24 * time.Hour

func delayOf(ms *float64) (*time.Duration, error) {
	if ms == nil {
		return nil, nil
	}
	if most := load.Ms(maxDelay); !(*ms >= 0 && *ms <= most) {
		return nil, fmt.Errorf("\"delay\" is %v ms: it lies between 0 and %v", *ms, most)
	}
	return new(time.Duration(*ms * float64(time.Millisecond))), nil
}

// salted puts a hole in front of what the user says first: in all requests of a history.
func (s *spoken) salted() error {
	for i := range s.says {
		x := &s.says[i]
		if i > 0 && !x.history {
			break
		}
		k := slices.IndexFunc(x.messages, func(m message) bool { return m.Role == roleUser })
		if k < 0 {
			return errNothingToSalt
		}
		content, ok := withHole(x.messages[k].Content)
		if !ok {
			return noTextToSalt(k)
		}
		x.messages[k].Content = content
	}
	return nil
}

// text is what is counted of an answer: what it says, and its calls.
func (m message) text() string {
	var b strings.Builder
	var text string
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Content, &text) != nil && json.Unmarshal(m.Content, &parts) == nil {
		for _, p := range parts {
			text += p.Text
		}
	}
	b.WriteString(text)
	for _, c := range m.ToolCalls {
		b.WriteString(c.Function.Name + c.Function.Arguments)
	}
	return b.String()
}
