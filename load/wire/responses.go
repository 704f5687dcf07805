package wire

import (
	"bytes"
	"slices"
)

// response reads an event of a stream of the Responses API, or a whole answer of it, in one pass as
// [chunk.parse] does.
//
// The members that it knows, by where they are. Those of "response" stand at the top where the
// answer is whole:
//
//	type, delta
//	response.{status,incomplete_details.reason,error}
//	response.usage.{input_tokens,input_tokens_details.cached_tokens,output_tokens,output_tokens_details.reasoning_tokens}
//	response.output[].{type,call_id,name,arguments}, response.output[].{content,summary}[].{text,refusal}
//
// The last event of a stream repeats all that was said.
func (c *chunk) response(data []byte) error {
	*c = chunk{token: true, calls: c.calls[:0]}
	s := scanner{b: data}
	var kind, delta, status, why []byte
	member := func(key []byte) {
		switch string(key) {
		case "status":
			status = s.string()
		case "incomplete_details":
			s.object(func(key []byte) {
				if string(key) == "reason" {
					why = s.string()
				} else {
					s.skip()
				}
			})
		case "error":
			c.fails(&s)
		case "usage":
			if s.peek() == '{' {
				c.counts(&s)
			} else {
				s.skip()
			}
		case "output":
			s.elements(func() { c.item(&s) })
		default:
			s.skip()
		}
	}
	s.space()
	s.members(func(key []byte) {
		switch string(key) {
		case "type":
			kind = s.string()
		case "delta":
			delta = s.string()
		case "response":
			s.object(member)
		default:
			member(key)
		}
	})
	s.space()
	if s.bad || s.i != len(data) {
		return errJSON
	}
	c.takeEvent(kind, delta)
	c.became(status, why)
	return nil
}

// item reads what an answer consists of: a message, reasoning, or the call of a function.
func (c *chunk) item(s *scanner) {
	var kind, text []byte
	call := pieces{index: len(c.calls)}
	part := func() {
		s.members(func(key []byte) {
			switch string(key) {
			case "text", "refusal":
				text = joined(text, s.string())
			default:
				s.skip()
			}
		})
	}
	s.members(func(key []byte) {
		switch string(key) {
		case "type":
			kind = s.string()
		case "call_id":
			call.id = s.string()
		case "name":
			call.name = s.string()
		case "arguments":
			call.arguments = s.string()
		case "content", "summary":
			s.elements(part)
		default:
			s.skip()
		}
	})
	switch {
	case string(kind) == "reasoning":
		c.think(text)
	case len(text) > 0:
		c.content |= saidText
		c.text = joined(c.text, text)
	default:
		c.call(call)
	}
}

// joined is two pieces of a text, of which most have but one.
func joined(a, b []byte) []byte {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	return slices.Concat(a, b)
}

// takeEvent takes in what an event of a kind brings. Without a kind the answer is whole, and the last event has
// all of it, too; the first ones have an answer of which nothing is there yet.
func (c *chunk) takeEvent(kind, delta []byte) {
	switch string(kind) {
	case "":
		return
	case "response.completed", "response.incomplete":
		c.over = true
		return
	}
	c.content, c.reasoning, c.calls, c.token = 0, nil, c.calls[:0], bytes.HasSuffix(kind, []byte(".delta"))
	switch string(kind) {
	case "response.output_text.delta", "response.refusal.delta":
		c.fills(len(delta) > 0, saidText)
		c.text = delta
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		c.think(delta)
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta",
		"response.mcp_call_arguments.delta", "response.code_interpreter_call_code.delta":
		c.fills(len(delta) > 0, saidCall)
	case "response.failed", "error":
		c.failed = true
	}
}

// became is what the status of an answer says of it.
func (c *chunk) became(status, why []byte) {
	switch string(status) {
	case "completed":
		c.finish = []byte("stop")
	case "incomplete":
		if c.finish = why; string(why) == "max_output_tokens" || len(why) == 0 {
			c.finish = []byte("length")
		}
	case "failed", "cancelled":
		c.failed = true
	}
}
