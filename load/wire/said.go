package wire

import "slices"

// What is kept of an answer: more than any model says, and a bound where one never ends.
const (
	maxSaid  = 4 << 20 // bytes of all kinds together, as they stand in JSON
	maxCalls = 256
)

// Said is what an answer says, put together from its pieces, streamed or whole. Its zero value takes the text alone, which
// a conversation needs.
type Said struct {
	All  bool   // reasoning and calls of tools are wanted, too
	Text []byte // as it stands between the quotes of JSON strings
	Cut  bool   // more came than is kept

	reasoning []byte
	forced    []byte
	calls     []pieces
	size      int
}

// Call is a call of a tool.
type Call struct {
	ID        string // empty: the server gave it none
	Name      string // of the function; empty: the server has named none
	Arguments string // JSON, if all is well
}

// pieces are of one call, as they stand in JSON strings: what a chunk brings of it, or all so far.
type pieces struct {
	index               int
	id, name, arguments []byte
}

// Reset makes s ready for another answer.
func (s *Said) Reset() {
	*s = Said{All: s.All, Text: s.Text[:0], reasoning: s.reasoning[:0], forced: s.forced[:0]}
}

// hear takes what a chunk says. Pieces of a call belong to the one of their index, whose first id and last name count: so do
// the clients that the calls are for, and a server that numbers two calls alike makes one of them that is no use.
func (s *Said) hear(c *chunk) {
	if c.whole { // all of the text so far
		s.Text, s.size, s.Cut = s.Text[:0], s.size-len(s.Text), false
	}
	s.add(&s.Text, c.text)
	if !s.All {
		return
	}
	s.add(&s.reasoning, c.reasoning)
	s.add(&s.forced, c.forced)
	for _, piece := range c.calls {
		i := slices.IndexFunc(s.calls, func(call pieces) bool { return call.index == piece.index })
		if i < 0 {
			if len(s.calls) == maxCalls {
				s.Cut = true
				continue
			}
			i = len(s.calls)
			s.calls = append(s.calls, pieces{index: piece.index})
		}
		call := &s.calls[i]
		if len(call.id) == 0 {
			s.add(&call.id, piece.id)
		}
		if len(piece.name) > 0 {
			s.size -= len(call.name)
			call.name = call.name[:0]
			s.add(&call.name, piece.name)
		}
		s.add(&call.arguments, piece.arguments)
	}
}

// add appends a piece while there is room. It is taken wholly or not at all, so that what is kept stays JSON.
func (s *Said) add(to *[]byte, piece []byte) {
	if len(piece) == 0 || s.Cut {
		return
	}
	if s.size+len(piece) > maxSaid {
		s.Cut = true
		return
	}
	s.size += len(piece)
	*to = append(*to, piece...)
}

// Forced is how likely the prompt's tokens were to the server, as JSON in its own form; empty: it has not said.
func (s *Said) Forced() string { return string(s.forced) }

// Read is all that was said. Calls come in the order of their indexes.
func (s *Said) Read() (text, reasoning string, calls []Call) {
	slices.SortStableFunc(s.calls, func(a, b pieces) int { return a.index - b.index })
	for _, c := range s.calls {
		calls = append(calls, Call{string(unescaped(c.id)), string(unescaped(c.name)), string(unescaped(c.arguments))})
	}
	return string(unescaped(s.Text)), string(unescaped(s.reasoning)), calls
}
