package prompts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// sessions say which entries of a file of conversations are requests of one session.
type sessions struct {
	places map[string]int  // of the sessions among the entries that were found
	broken map[string]bool // sessions of which a request is bad, or left out
	parts  map[part]int    // how many entries there are of each
	talks  map[string]bool // the sessions of entries that end in an answer
	twice  string          // one of them of which there are several entries; empty: none
}

func newSessions() *sessions {
	return &sessions{places: map[string]int{}, broken: map[string]bool{}, parts: map[part]int{}, talks: map[string]bool{}}
}

// place is where the session of a sound entry was found before, so that the entry belongs there. Else it is
// found at next.
func (s *sessions) place(raw []byte, next int) (at int, begun bool) {
	p, name := partOf(raw)
	s.parts[p]++
	if p == answered { // another one would be the same conversation again
		if talk := sessionOf(raw); talk != "" && s.talks[talk] {
			s.twice = talk
		} else {
			s.talks[talk] = true
		}
	}
	if name == "" {
		return next, false
	}
	if at, begun = s.places[name]; !begun {
		s.places[name] = next
	}
	return at, begun
}

// check says why the entries of a file cannot be told apart.
func (s *sessions) check() error {
	switch talks, rows := s.parts[answered], s.parts[request]; {
	case talks > 0 && rows > 0:
		return fmt.Errorf("%d of the entries with \"session_id\" or \"output_length\" end in an answer, as conversations do, "+
			"and %d in a question, as single requests do: remove both members from conversations, or add "+
			"\"message_mode\": \"history\" to requests", talks, rows)
	case s.twice != "":
		return fmt.Errorf("several entries of session %q end in an answer: keep one of them, which is the whole "+
			"conversation, or add \"message_mode\": \"history\" and remove the answers at their ends", s.twice)
	}
	return nil
}

// sessionName is a text, or a number as it is written.
type sessionName string

func (n *sessionName) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		return json.Unmarshal(raw, (*string)(n))
	}
	if *n = sessionName(raw); json.Unmarshal(raw, new(float64)) != nil {
		return errors.New("\"session_id\" is neither a text nor a number")
	}
	return nil
}

// part is what an entry with members of rows is.
type part int

const (
	alone    part = iota // it has none of them
	answered             // a conversation all the same: it ends in an answer
	request              // a request: it ends in what is asked
	told                 // a request, as it says itself
)

func (f *talkForm) part() part {
	switch last := len(f.Messages) - 1; {
	case f.Conversations != nil || f.Session == nil && f.Mode == nil && f.OutputLength == nil:
		return alone
	case f.Mode != nil:
		return told
	case last >= 0 && roles()[f.Messages[last].Role] == roleAssistant:
		return answered
	}
	return request
}

// partOf is what a sound entry is, and the session that it is a request of; empty: it stands alone.
func partOf(raw []byte) (part, string) {
	var f talkForm
	if raw[0] == '[' || json.Unmarshal(raw, &f) != nil {
		return alone, ""
	}
	p := f.part()
	if p < request || f.Session == nil {
		return p, ""
	}
	return p, string(*f.Session)
}

// sessionOf is the session that is named in an entry, also where what follows is bad, or cut off.
func sessionOf(raw []byte) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.Token() // {
	for {
		key, err := d.Token()
		if err != nil || key == json.Delim('}') {
			return ""
		}
		var name sessionName
		if key == "session_id" {
			d.Decode(&name)
			return string(name)
		}
		if d.Decode(new(json.RawMessage)) != nil {
			return ""
		}
	}
}

// formOfTalks is the member by which a file is known that is one object, from its beginning: of SGLang's
// agentic traces "conversations", lists of rows, and of vLLM's recipe for conversations "filetype". Empty: it
// is neither.
func formOfTalks(b []byte) string {
	d := json.NewDecoder(bytes.NewReader(b))
	d.Token()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return ""
		}
		switch key {
		case "filetype":
			return "filetype"
		case "conversations":
			if t, _ := d.Token(); t == json.Delim('[') {
				if t, _ = d.Token(); t == json.Delim('[') {
					return "conversations"
				}
			}
			return ""
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return ""
		}
	}
	return ""
}
