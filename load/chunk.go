package load

import (
	"bytes"
	"encoding/json"
	"errors"
)

// chunk is what matters of one chunk of a stream, of whichever protocol.
type chunk struct {
	content   bool   // text, an answer's content, its reasoning or a tool call, is there and not empty
	text      []byte // the content, without reasoning, as it stands between its quotes
	finish    []byte // why generation ended; nil: it has not
	usage     bool   // token counts are there
	prompt    int    // tokens, if usage
	completed int    // tokens, if usage
	whole     bool   // the text is all of it so far, not only what is new
	failed    bool   // the chunk is an error object
}

var errJSON = errors.New("not a JSON object")

// parse reads a chunk in one pass, whatever the order of its members, without
// making anything. Of several choices only the content of any counts: the
// generator asks for one.
//
// The members that it knows, by where they are:
//
//	choices[].text, choices[].finish_reason
//	choices[].{delta,message}.{content,reasoning_content,reasoning}
//	choices[].{delta,message}.{function_call,tool_calls[].function}.{name,arguments}
//	usage.{prompt_tokens,completion_tokens}
//	text, meta_info.{prompt_tokens,completion_tokens,finish_reason.type}
//	error, object = "error"
func (c *chunk) parse(data []byte) error {
	*c = chunk{}
	s := scanner{b: data}
	s.space()
	s.members(func(key []byte) {
		switch string(key) {
		case "choices":
			s.elements(func() { c.choice(&s) })
		case "text":
			c.content = s.filled() || c.content
			c.whole = true
		case "usage", "meta_info":
			if s.peek() == '{' {
				c.counts(&s)
			} else {
				s.skip()
			}
		case "error":
			c.failed = s.said() || c.failed
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

func (c *chunk) choice(s *scanner) {
	s.members(func(key []byte) {
		switch string(key) {
		case "text":
			c.says(s)
		case "delta", "message":
			if s.peek() != '{' {
				s.skip()
				return
			}
			s.members(func(key []byte) {
				switch string(key) {
				case "content":
					c.says(s)
				case "reasoning_content", "reasoning":
					c.content = s.filled() || c.content
				case "tool_calls":
					s.elements(func() {
						s.members(func(key []byte) {
							if string(key) == "function" {
								c.call(s)
							} else {
								s.skip()
							}
						})
					})
				case "function_call":
					c.call(s)
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

// says reads content.
func (c *chunk) says(s *scanner) {
	if s.peek() != '"' {
		s.skip()
		return
	}
	if text := s.text(); len(text) > 0 {
		c.content, c.text = true, text
	}
}

// call reads a part of a tool call: its function's name, or of its arguments.
func (c *chunk) call(s *scanner) {
	if s.peek() != '{' {
		s.skip()
		return
	}
	s.members(func(key []byte) {
		switch string(key) {
		case "name", "arguments":
			c.content = s.filled() || c.content
		default:
			s.skip()
		}
	})
}

// reason reads "length", or SGLang's {"type":"length",…}.
func (c *chunk) reason(s *scanner) {
	switch s.peek() {
	case '"':
		c.finish = s.text()
	case '{':
		s.members(func(key []byte) {
			if string(key) == "type" && s.peek() == '"' {
				c.finish = s.text()
				return
			}
			s.skip()
		})
	default:
		s.skip()
	}
}

func (c *chunk) counts(s *scanner) {
	prompt, completed := false, false
	s.members(func(key []byte) {
		switch string(key) {
		case "prompt_tokens":
			c.prompt, prompt = s.number()
		case "completion_tokens":
			c.completed, completed = s.number()
		case "finish_reason":
			c.reason(s)
		default:
			s.skip()
		}
	})
	c.usage = prompt && completed || c.usage
}

// scanner walks over one JSON text. Once bad, it stays where it is.
type scanner struct {
	b     []byte
	i     int
	bad   bool
	depth int
}

// maxDepth is deeper than any chunk and shallower than any stack.
const maxDepth = 64

func (s *scanner) fail() {
	s.bad = true
	s.i = len(s.b)
}

// peek is the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// take moves over c, which must be next.
func (s *scanner) take(c byte) {
	if s.peek() != c {
		s.fail()
		return
	}
	s.i++
}

// members calls each with every key of an object; each must move over the value.
func (s *scanner) members(each func(key []byte)) {
	s.list('{', '}', func() {
		key := s.text()
		if bytes.IndexByte(key, '\\') >= 0 {
			key = unescaped(key)
		}
		s.space()
		s.take(':')
		s.space()
		if !s.bad {
			each(key)
		}
	})
}

// elements calls each at every element of an array, over which it must move.
// What is not an array is passed over.
func (s *scanner) elements(each func()) {
	if s.peek() != '[' {
		s.skip()
		return
	}
	s.list('[', ']', func() {
		if s.peek() == '{' {
			each()
		} else {
			s.skip()
		}
	})
}

func (s *scanner) list(open, end byte, each func()) {
	s.take(open)
	if s.depth++; s.depth > maxDepth {
		s.fail()
	}
	s.space()
	if s.peek() == end {
		s.i++
		s.depth--
		return
	}
	for !s.bad {
		each()
		s.space()
		if s.peek() == end {
			s.i++
			s.depth--
			return
		}
		s.take(',')
		s.space()
	}
}

// text moves over a string and returns what is between its quotes, as written.
// Strings of a chunk are short: a loop finds their end sooner than a search would.
func (s *scanner) text() []byte {
	s.take('"')
	for i, start := s.i, s.i; i < len(s.b); i++ {
		switch s.b[i] {
		case '"':
			s.i = i + 1
			return s.b[start:i]
		case '\\':
			i++ // over what it escapes, which may be a quote
		}
	}
	s.fail()
	return nil
}

// filled moves over a value and reports whether it is a string with something in it.
func (s *scanner) filled() bool {
	if s.peek() != '"' {
		s.skip()
		return false
	}
	return len(s.text()) > 0
}

// said moves over a value and reports whether it says something: null, false, 0 and
// an empty string do not.
func (s *scanner) said() bool {
	switch s.peek() {
	case '"':
		return s.filled()
	case 'n', 'f':
		s.skip()
		return false
	case '0':
		n, ok := s.number()
		return !ok || n != 0
	}
	s.skip()
	return true
}

// number moves over a value and returns it if it is a whole number.
func (s *scanner) number() (n int, ok bool) {
	start := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' && s.i-start < 18 {
		n = n*10 + int(s.b[s.i]-'0')
		s.i++
	}
	if s.i > start && !numeric(s.peek()) {
		return n, true
	}
	s.i = start
	s.skip()
	return 0, false
}

func numeric(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

// skip moves over any value.
func (s *scanner) skip() {
	switch c := s.peek(); {
	case c == '"':
		s.text()
	case c == '{':
		s.members(func([]byte) { s.skip() })
	case c == '[':
		s.list('[', ']', s.skip)
	case c == 't':
		s.word("true")
	case c == 'f':
		s.word("false")
	case c == 'n':
		s.word("null")
	case c == '-' || c >= '0' && c <= '9':
		for numeric(s.peek()) {
			s.i++
		}
	default:
		s.fail()
	}
}

func (s *scanner) word(w string) {
	if !bytes.HasPrefix(s.b[s.i:], []byte(w)) {
		s.fail()
		return
	}
	s.i += len(w)
}

// unescaped is a string's text; rare, for keys only.
func unescaped(raw []byte) []byte {
	var text string
	if json.Unmarshal(append(append([]byte{'"'}, raw...), '"'), &text) != nil {
		return raw
	}
	return []byte(text)
}
