package wire

import "errors"

// chunk is what matters of one chunk of a stream, of whichever protocol.
type chunk struct {
	token     bool   // it may bring a token, with or without content
	role      bool   // it names a role
	spoke     bool   // it has a text, which may be empty
	content   kinds  // which kinds are there and not empty
	text      []byte // the content, without reasoning, as it stands between its quotes
	reasoning []byte // likewise
	calls     []pieces
	forced    []byte // how likely the prompt's tokens were, as it stands; nil: it does not say
	finish    []byte // why generation ended; nil: it has not
	usage     bool   // token counts are there
	prompt    int    // tokens, if usage
	cached    int    // of the prompt's, those that were not computed anew; 0: none, or the server does not tell
	completed int    // tokens, if usage
	reasoned  int    // of those, tokens of reasoning; 0: none, or the server does not tell
	whole     bool   // the text is all of it so far, not only what is new
	failed    bool   // the chunk is an error object
	code      int    // of the error, as an HTTP status; 0: it has none
	over      bool   // the answer ends here, and all of it is told once more
}

// kinds are kinds of content, any of them together.
type kinds uint8

const (
	saidText kinds = 1 << iota // what the answer says
	saidReasoning
	saidCall // a part of a tool call: a name, or arguments
)

var errJSON = errors.New("not a JSON object")

// parse reads a chunk in one pass, whatever the order of its members, without making anything. Of
// several choices only the content of any counts: the generator asks for one.
//
// The members that it knows, by where they are:
//
//	choices[].text, choices[].finish_reason, choices[].prompt_logprobs
//	choices[].{delta,message}.{role,content,reasoning_content,reasoning}
//	choices[].{delta,message}.{function_call,tool_calls[].function}.{name,arguments}, choices[].delta.tool_calls[].index,
//	choices[].{delta,message}.tool_calls[].id
//	usage.{prompt_tokens,completion_tokens,reasoning_tokens,completion_tokens_details.reasoning_tokens}, also by
//	the names of the Responses API, and prompt_tokens_details.cached_tokens
//	text, meta_info.{prompt_tokens,cached_tokens,completion_tokens,reasoning_tokens,finish_reason.type,input_top_logprobs}
//	error, object = "error"
func (c *chunk) parse(data []byte) error {
	*c = chunk{calls: c.calls[:0]}
	s := scanner{b: data}
	s.space()
	s.members(func(key []byte) {
		switch string(key) {
		case "choices":
			s.elements(func() { c.choice(&s) })
		case "text":
			c.text = s.string()
			c.fills(len(c.text) > 0, saidText)
			c.whole, c.token = true, true
		case "usage", "meta_info":
			if s.peek() == '{' {
				c.counts(&s)
			} else {
				s.skip()
			}
		case "error":
			c.fails(&s)
		case "code":
			c.code, _ = s.number()
		case "object":
			if s.peek() == '"' {
				c.failed = string(s.text()) == "error" || c.failed
			} else {
				s.skip()
			}
		default:
			s.skip()
		}
	})
	s.space()
	if s.bad || s.i != len(data) {
		return errJSON
	}
	switch string(c.finish) {
	case "abort", "error": // the server gave the request up
		c.failed = true
	}
	return nil
}

// fails reads an error, which may have a code.
func (c *chunk) fails(s *scanner) {
	if s.peek() != '{' {
		c.failed = s.isTruthy() || c.failed
		return
	}
	c.failed = true
	s.members(func(key []byte) {
		if string(key) == "code" {
			c.code, _ = s.number()
		} else {
			s.skip()
		}
	})
}

func (c *chunk) choice(s *scanner) {
	c.token = true
	s.members(func(key []byte) {
		switch string(key) {
		case "text":
			c.readText(s)
		case "prompt_logprobs":
			c.readForced(s)
		case "delta", "message":
			streamed := string(key) == "delta"
			s.object(func(key []byte) {
				switch string(key) {
				case "role":
					c.role = s.filled() || c.role
				case "content":
					c.readText(s)
				case "reasoning_content", "reasoning":
					c.think(s.string())
				case "tool_calls":
					place := 0
					s.elements(func() {
						piece := pieces{index: place} // where it says no other
						place++
						s.members(func(key []byte) {
							switch string(key) {
							case "index":
								if n, ok := s.number(); ok && streamed {
									piece.index = n
								}
							case "id":
								piece.id = s.string()
							case "function":
								piece.function(s)
							default:
								s.skip()
							}
						})
						c.call(piece)
					})
				case "function_call":
					piece := pieces{}
					piece.function(s)
					c.call(piece)
				default:
					s.skip()
				}
			})
		case "finish_reason":
			c.reason(s)
		default:
			s.skip()
		}
	})
}

// readForced takes a list as it stands.
func (c *chunk) readForced(s *scanner) {
	from, list := s.i, s.peek() == '['
	if s.skip(); list && !s.bad {
		c.forced = s.b[from:s.i]
	}
}

func (c *chunk) readText(s *scanner) {
	c.spoke = s.peek() == '"' || c.spoke
	if text := s.string(); len(text) > 0 {
		c.content |= saidText
		c.text = text
	}
}

func (c *chunk) fills(is bool, with kinds) {
	if is {
		c.content |= with
	}
}

func (c *chunk) think(reasoning []byte) {
	if len(reasoning) > 0 {
		c.content |= saidReasoning
		c.reasoning = joined(c.reasoning, reasoning)
	}
}

// call takes a piece of a tool call. An id alone is no content.
func (c *chunk) call(piece pieces) {
	says := len(piece.name)+len(piece.arguments) > 0
	c.fills(says, saidCall)
	if says || len(piece.id) > 0 {
		c.calls = append(c.calls, piece)
	}
}

// function reads the name and the arguments of a tool call, as far as they are there.
func (p *pieces) function(s *scanner) {
	s.object(func(key []byte) {
		switch string(key) {
		case "name":
			p.name = s.string()
		case "arguments":
			p.arguments = s.string()
		default:
			s.skip()
		}
	})
}

// reason reads "length", or SGLang's {"type":"length",…}.
func (c *chunk) reason(s *scanner) {
	if s.peek() == '"' {
		c.finish = s.text()
		return
	}
	s.object(func(key []byte) {
		if string(key) == "type" && s.peek() == '"' {
			c.finish = s.text()
			return
		}
		s.skip()
	})
}

// counts reads tokens by their names in either API: gateways send both, and 0 for what they do not use.
func (c *chunk) counts(s *scanner) {
	prompt, completed := false, false
	most := func(to *int) bool {
		n, ok := s.number()
		*to = max(*to, n)
		return ok
	}
	s.members(func(key []byte) {
		switch string(key) {
		case "prompt_tokens", "input_tokens":
			prompt = most(&c.prompt) || prompt
		case "completion_tokens", "output_tokens":
			completed = most(&c.completed) || completed
		case "reasoning_tokens":
			most(&c.reasoned)
		case "cached_tokens":
			most(&c.cached)
		case "prompt_tokens_details", "input_tokens_details":
			s.object(func(key []byte) {
				if string(key) == "cached_tokens" {
					most(&c.cached)
				} else {
					s.skip()
				}
			})
		case "completion_tokens_details", "output_tokens_details":
			s.object(func(key []byte) {
				if string(key) == "reasoning_tokens" {
					most(&c.reasoned)
				} else {
					s.skip()
				}
			})
		case "finish_reason":
			c.reason(s)
		case "input_top_logprobs":
			c.readForced(s)
		default:
			s.skip()
		}
	})
	c.usage = prompt && completed || c.usage
}
