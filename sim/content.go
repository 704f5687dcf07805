package sim

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// speech is what a generation's tokens are: of a chat first reasoning, then text or a tool call.
type speech struct {
	tokens    int       // that have a text
	chat      bool      // else it is the text of a completion
	shift     int       // of the words, where the answer is to be wrong
	as        string    // the engine that says it
	reasoning int       // how many of the first tokens are reasoning
	calls     []calling // behind the text; nil: all is text
	object    bool      // the text is a JSON object
	words     []string  // the tokens behind the reasoning; nil: those of the vocabulary
}

// calling is a call of a function: the first of its tokens is the name, the others are the arguments.
type calling struct {
	name string
	from int // its first token, of those behind the reasoning
}

// tool is a function that a request offers.
type tool struct {
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
}

// responseFormat is the form that a request asks the answer to have.
type responseFormat struct {
	Type   string `json:"type"`
	Schema *struct {
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

// offersNone reports whether a request offers no function that may be called.
func (r request) offersNone() bool { return len(r.Tools) == 0 || string(r.ToolChoice) == `"none"` }

// speak decides what the n-th answer of the engine says, and notes it in its job: these words and calls; nil: its own.
func speak(cfg Config, n int64, req request, j *job, chat bool, words []string, calls []calling) (sp speech, no *refusal) {
	sp = speech{tokens: j.spoken(), chat: chat, as: cfg.As, words: words}
	if every := cfg.WrongText; every > 0 && n%int64(every) == 0 {
		sp.shift = 1
	}
	if !chat {
		return sp, nil
	}
	sp.reasoning = min(cfg.Reasoning, sp.tokens)
	j.reasoning = sp.reasoning
	switch f := req.ResponseFormat; f.Type {
	case "", "text":
	case "json_object":
		sp.object = true
	case "json_schema":
		if f.Schema == nil || !strings.HasPrefix(strings.TrimSpace(string(f.Schema.Schema)), "{") {
			return sp, bad("response_format: the schema is not an object")
		}
		sp.object = true
	default:
		return sp, bad("response_format: there is no type " + quote(f.Type))
	}
	if sp.reasoning == sp.tokens || req.offersNone() {
		return sp, nil
	}
	asked := len(req.ToolChoice) > 0 && string(req.ToolChoice) != `"auto"`
	if every := cfg.CallEvery; calls == nil && (asked || every > 0 && n%int64(every) == 0) {
		calls, sp.object = []calling{{name: req.Tools[0].Function.Name}}, true
	}
	sp.calls = slices.DeleteFunc(calls, func(c calling) bool { return sp.reasoning+c.from >= sp.tokens }) // the answer was cut before
	if j.calls = len(sp.calls) > 0; j.calls && j.finish == "stop" {
		j.finish = "tool_calls"
	}
	return sp, nil
}

// said is one kind of what is said, as a member of a delta or a message.
type said struct {
	member   string
	from, to int    // tokens
	call     string // the function that they call; empty: they are text
	number   int    // of the call among the answer's, from 0
	open     string // before the first, as it stands in a JSON string
	shut     string // after the last
}

// members appends the tokens from (included) to to, as members of a message, or of a delta of one.
func (sp speech) members(b []byte, from, to int, delta bool) []byte {
	if !sp.chat {
		b = append(b, `"text":"`...)
		return append(sp.appendWords(b, from, min(to, sp.tokens)), '"')
	}
	if from >= sp.tokens {
		return append(b, `"content":""`...)
	}
	first, texts, calls := true, false, false
	for p := range sp.pieces(from, to) {
		if !first {
			b = append(b, ',')
		}
		first = false
		if p.call == "" {
			b = append(append(append(b, '"'), p.member...), `":"`...)
			b = append(sp.text(b, p, p.from), '"')
			texts = texts || !p.reasons
			continue
		}
		if !calls {
			calls = true
			if delta && sp.as == SGLang {
				b = append(b, `"role":null,`...)
			}
			if !texts {
				b = append(b, `"content":null,`...)
			}
			b = append(b, `"tool_calls":[`...)
		}
		id, name := fmt.Sprintf(`"call-%d"`, p.number), quote(p.call)
		switch {
		case p.begins():
		case sp.as == SGLang:
			id, name = "null", "null"
		default:
			id, name = "", ""
		}
		b = fmt.Appendf(b, `{"index":%d,`, p.number)
		if id != "" {
			b = append(append(append(b, `"id":`...), id...), `,"type":"function",`...)
		}
		b = append(b, `"function":{`...)
		if name != "" {
			b = append(append(b, `"name":`...), name...)
		}
		if text := sp.text(nil, p, p.from+1); len(text) > 0 || sp.as != VLLM { // the first token is the name, and vLLM has nothing of arguments beside it
			if name != "" {
				b = append(b, ',')
			}
			b = append(append(append(b, `"arguments":"`...), text...), '"')
		}
		b = append(b, "}}"...)
	}
	if calls {
		b = append(b, ']')
	}
	return b
}

// piece is those tokens of a kind that are sent together.
type piece struct {
	said
	reasons   bool
	item      int // which part of the answer it is of, from 0
	low, high int
}

func (p piece) begins() bool { return p.low == p.from }

// pieces are what the tokens from (included) to to say, kind by kind.
func (sp speech) pieces(from, to int) iter.Seq[piece] {
	thoughts := "reasoning_content"
	if sp.as == VLLM {
		thoughts = "reasoning"
	}
	kinds := []said{{member: thoughts, to: sp.reasoning}, {member: "content", from: sp.reasoning}}
	for i, c := range sp.calls {
		kinds[len(kinds)-1].to = sp.reasoning + c.from
		kinds = append(kinds, said{call: c.name, number: i, from: sp.reasoning + c.from})
	}
	last := &kinds[len(kinds)-1]
	if last.to = sp.tokens; sp.object {
		last.open, last.shut = `{\"text\":\"`, `\"}`
	}
	return func(yield func(piece) bool) {
		item := 0
		for i, k := range kinds {
			p := piece{k, i == 0, item, max(from, k.from), min(to, k.to)}
			if p.low < p.high && !yield(p) {
				return
			}
			if k.from < k.to {
				item++
			}
		}
	}
}

// text appends a piece as it stands between the quotes of a JSON string, whose first token is so late.
func (sp speech) text(b []byte, p piece, first int) []byte {
	if p.low <= first && (first < p.high || p.high == p.to) {
		b = append(b, p.open...)
	}
	b = sp.appendWords(b, max(p.low, first), p.high)
	if p.high == p.to {
		b = append(b, p.shut...)
	}
	return b
}
