package wire

import (
	"bytes"
	"encoding/json"
)

// scanner walks over one JSON text. Once bad, it stays where it is.
type scanner struct {
	b     []byte
	i     int
	bad   bool
	depth int
}

const maxDepth = 64 // deeper than any chunk and shallower than any stack

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

// object is members of what is an object; another value is passed over.
func (s *scanner) object(each func(key []byte)) {
	if s.peek() != '{' {
		s.skip()
		return
	}
	s.members(each)
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

// string moves over a value and returns what is between its quotes; nil of what is no string.
func (s *scanner) string() []byte {
	if s.peek() != '"' {
		s.skip()
		return nil
	}
	return s.text()
}

// filled moves over a value and reports whether it is a string with something in it.
func (s *scanner) filled() bool {
	return len(s.string()) > 0
}

// isTruthy moves over a value and reports whether it says something: null, false, 0 and
// an empty string do not.
func (s *scanner) isTruthy() bool {
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

func unescaped(raw []byte) []byte {
	var text string
	if json.Unmarshal(append(append([]byte{'"'}, raw...), '"'), &text) != nil {
		return raw
	}
	return []byte(text)
}

func numeric(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

func (s *scanner) word(w string) {
	if !bytes.HasPrefix(s.b[s.i:], []byte(w)) {
		s.fail()
		return
	}
	s.i += len(w)
}
