package wire

import (
	"fmt"
	"sync/atomic"
	"time"

	"hclbench/load"
)

// answer writes down what the events of one stream say.
type answer struct {
	rec    *load.Record
	count  *atomic.Int64 // chunks with a token of the whole run
	said   *Said         // takes what it says; nil: nobody wants it
	items  bool          // it is of the Responses API
	chunk  chunk
	chunks int   // with a token
	seen   kinds // of content, so far
	before int   // the read that brought the last of them
	// Where the text comes whole with every event, and not only what is new, a
	// chunk has a token when it counts more of them than the one before.
	counted int
	moved   time.Duration // when the last token came
	// the chunk that said why generation ended, and nothing else. It is the end token, of which
	// there is no text, or comes behind the last token: the usage tells.
	ended event
}

// mostChunks is how many chunks with a token an answer may have for the tokens that
// were asked for: a token may come in pieces, and a server that cannot count may
// send some more, but one that never stops is not waited for.
func mostChunks(asked int) int { return 2*asked + 1000 }

const (
	firstGaps     = 4 << 10  // for how many gaps there is room at once
	bytesPerAsked = 16 << 10 // more than a token and all that is said of it take
)

type streamError struct{ class, text string } // a failure that the stream itself tells of

func (e *streamError) Error() string { return e.text }

func fails(class, format string, args ...any) error {
	return &streamError{class, fmt.Sprintf(format, args...)}
}

// event takes the next event; over when it was the last one of the answer.
func (a *answer) event(ev event) (over bool, err error) {
	r, c := a.rec, &a.chunk
	if string(ev.data) == done {
		r.End = ev.at
		return true, a.close()
	}
	if err := a.parse(ev.data); err != nil {
		return false, &streamError{load.ClassMalformed, err.Error() + ": " + Shorten(ev.data)}
	}
	if c.failed && a.chunks == 0 && load.Refuses(c.code) { // as some servers do when the head of their answer has gone
		r.Status = c.code
		return false, &streamError{load.ClassStatus, Shorten(ev.data)}
	}
	if c.failed {
		return false, &streamError{load.ClassServer, Shorten(ev.data)}
	}
	if c.finish != nil {
		r.Finish = reason(c.finish)
	}
	if c.usage {
		r.InputTokens, r.CachedTokens, r.OutputTokens, r.ReasoningTokens = c.prompt, c.cached, c.completed, c.reasoned
		if c.whole {
			c.token = c.completed > a.counted
			a.counted = c.completed
		}
	}
	if c.over && a.chunks > 0 {
		// All of it is told once more. What came in no chunk before, as some servers' calls do not, comes now.
		if c.content &^= a.seen; c.content&saidText == 0 {
			c.text = nil
		}
		if c.content&saidReasoning == 0 {
			c.reasoning = nil
		}
	}
	if a.said != nil {
		a.said.hear(c)
	}
	switch said := c.content != 0; {
	case !c.token:
	case !said && c.finish != nil:
		if c.spoke || r.Finish != "length" || a.chunks == 0 { // an answer cut off at its length has told its last token, if any
			a.ended = event{at: ev.at, read: ev.read}
		}
	case !said && r.Finish != "": // a usage of some gateways
	case said || !c.role || a.chunks > 0: // the first chunk of a chat has nothing but the role
		err = a.took(ev)
	}
	if err != nil || !c.over {
		return false, err
	}
	r.End = ev.at
	return true, a.close()
}

func (a *answer) parse(data []byte) error {
	if a.items {
		return a.chunk.response(data)
	}
	return a.chunk.parse(data)
}

// took writes down that a token has come.
func (a *answer) took(ev event) error {
	r := a.rec
	a.ended = event{}
	if a.chunks >= mostChunks(r.AskedOutput) {
		return fails(load.ClassMalformed,
			"the answer did not end: %d chunks came of an answer for which %d tokens were asked",
			a.chunks, r.AskedOutput)
	}
	if a.chunks == 0 {
		r.First, r.Gaps = ev.at, nil
	} else {
		if r.Gaps == nil { // not earlier: answers that fail at once, or come in one piece, can be many
			r.Gaps = make([]time.Duration, 0, min(max(r.AskedOutput-1, 1), firstGaps))
		}
		r.Gaps = append(r.Gaps, ev.at-r.Last)
		if ev.read == a.before {
			r.Merged++
		}
	}
	r.Last, a.moved, a.before = ev.at, ev.at, ev.read
	a.noteKinds()
	a.chunks++
	a.count.Add(1)
	return nil
}

// noteKinds writes down of what kinds the chunk's content is, where it is not all text.
func (a *answer) noteKinds() {
	r, kinds := a.rec, a.chunk.content
	a.seen |= kinds
	if kinds == 0 {
		r.Mute++
	}
	if kinds&saidReasoning != 0 {
		r.Reasoning++
	}
	if kinds&saidCall != 0 {
		r.Calls++
	}
	if kinds&^saidReasoning != 0 && r.Answered == 0 {
		r.Answered = r.Last
	}
}

func (a *answer) close() error {
	r := a.rec
	if a.ended.at > 0 && r.OutputTokens > a.chunks {
		a.chunk = chunk{}
		if err := a.took(a.ended); err != nil {
			return err
		}
	}
	if a.chunks == 0 || a.seen == 0 && r.OutputTokens == 0 {
		return fails(load.ClassEmpty, "the answer was whole but brought nothing; tokens by its usage: %d", r.OutputTokens)
	}
	if r.Reasoning == 0 && r.Mute == 0 {
		r.Answered = 0 // it is when the first chunk came, as always
	}
	// Servers that have not counted say nothing, or 0.
	if r.InputTokens == 0 {
		r.NoUsage, r.InputTokens = true, r.AskedInput
	}
	if r.OutputTokens == 0 {
		r.NoUsage, r.OutputTokens = true, a.chunks
	}
	return nil
}

// truncated is the failure of a stream that ended before its answer did.
func (a *answer) truncated() error {
	last := done
	if a.items {
		last = "response.completed"
	}
	return fails(load.ClassTruncated, "the stream ended without %s after %d chunks", last, a.chunks)
}

// Stream reads one answer: what its reads brought goes in, and it says when the answer is over.
type Stream struct {
	events events
	answer answer
	whole  bool   // there are no events: the answer is one JSON object
	body   []byte // of a whole answer, as far as it has come
	at     time.Duration
	skim   *skim // reads an answer that generates nothing; nil: it does
}

const maxAnswer = 64 << 20 // bounds an answer that comes in one piece, whatever was asked for

// mostBytes is what such an answer may take for the tokens that were asked for.
func mostBytes(asked int) int {
	return min(maxAnswer, maxLine+bytesPerAsked*max(0, min(asked, maxAnswer/bytesPerAsked)))
}

func (s *Stream) Reset(x Exchange) {
	s.events.reset(maxLine)
	if x.Endpoint == load.Responses { // the last event repeats the whole answer, and all that was asked
		s.events.reset(mostBytes(x.Record.AskedOutput))
	}
	s.answer = answer{rec: x.Record, count: x.Chunks, said: x.Said, items: x.Endpoint == load.Responses, before: -1}
	s.whole, s.body, s.at = x.Whole, s.body[:0], 0
	if cap(s.body) > smallBuffer {
		s.body = nil
	}
	s.skim = nil
	if x.Record.Texts > 0 {
		s.skim = new(skim)
	}
}

// moved is when the answer last came nearer to its end: content came, or a part of
// an answer that is not streamed. 0: nothing has.
func (s *Stream) moved() time.Duration {
	if s.whole {
		return s.at
	}
	return s.answer.moved
}

// Feed takes what a read brought. Once over or failed, nothing more is fed.
func (s *Stream) Feed(b []byte, at time.Duration, read int) (over bool, err error) {
	if s.skim != nil {
		if len(b) > 0 {
			s.at = at
		}
		return false, s.skimmed(b)
	}
	if s.whole {
		if len(b) > 0 {
			s.body, s.at = append(s.body, b...), at
		}
		if most := mostBytes(s.answer.rec.AskedOutput); len(s.body) > most {
			return false, fails(load.ClassMalformed, "the answer did not end: more than %d bytes came of an answer "+
				"for which %d tokens were asked", most, s.answer.rec.AskedOutput)
		}
		return false, nil // its end is that of the HTTP message
	}
	s.events.feed(b, at, read)
	for {
		ev, ok, err := s.events.next()
		if err != nil {
			return false, &streamError{load.ClassMalformed, err.Error()}
		}
		if !ok {
			return false, nil
		}
		if over, err := s.answer.event(ev); over || err != nil {
			return over, err
		}
	}
}

// end says what the end of the stream makes of the answer: nil when it is whole.
func (s *Stream) end() error {
	if s.skim != nil {
		r := s.answer.rec
		if err := s.skim.settle(r); err != nil {
			return err
		}
		r.First, r.Last, r.End = s.at, s.at, s.at
		return nil
	}
	if s.whole {
		if len(s.body) == 0 {
			return &streamError{load.ClassEmpty, "the answer has no body"}
		}
		s.answer.rec.End = s.at
		if _, err := s.answer.event(event{data: s.body, at: s.at}); err != nil {
			return err
		}
		return s.answer.close()
	}
	ev, ok := s.events.end()
	if !ok {
		return s.answer.truncated()
	}
	over, err := s.answer.event(ev)
	if !over && err == nil {
		return s.answer.truncated()
	}
	return err
}

// reason makes a string of a finish reason, without making the usual ones anew.
func reason(b []byte) string {
	switch string(b) {
	case "length":
		return "length"
	case "stop":
		return "stop"
	}
	return Shorten(b)
}
