package prompts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"hclbench/load"
)

// The length of a salt, in tokens: in ids, and in words. Either way there are more than 2⁶⁴ of them.
const (
	saltIDs   = 5
	saltWords = load.SaltTokens
)

// saltHole is where the salt goes in a list of messages, as JSON has it. No text marshals to it but this.
const saltHole = `\u0000salt\u0000`

// salted are prompts of which each begins like no other: what a server has in its cache is of no use to it.
type salted struct {
	maker
	seed, use uint64
}

func (s salted) append(b []byte, i int) ([]byte, ask) {
	prompt, a := s.maker.append(nil, i)
	b, n := withSalt(b, prompt, s.seed, s.use, i)
	if a.input > 0 {
		a.input += n
	}
	return b, a
}

// withSalt writes a prompt with its salt behind b: number i of a use. n is the length of the salt.
func withSalt(b, prompt []byte, seed, use uint64, i int) (_ []byte, n int) {
	at, n, words := 1, saltWords, true
	rest := at
	switch {
	case bytes.Contains(prompt, []byte(saltHole)):
		at = bytes.Index(prompt, []byte(saltHole))
		rest = at + len(saltHole)
	case prompt[0] == '[':
		n, words = saltIDs, false
	}
	s := newSynthetic(append(b, prompt[:at]...), words)
	s.b = s.b[:len(s.b)-1] // what opens a prompt stands there
	s.add(Random(seed^scramble(use), forSalt, uint64(i)), n)
	return append(append(s.b, s.between), prompt[rest:]...), n
}

// saltable is a list of messages with a hole in front of what its user says first.
func saltable(messages []byte) ([]byte, error) {
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(messages, &list); err != nil {
		return nil, plainError(err)
	}
	for i, m := range list {
		if string(m["role"]) != `"user"` {
			continue
		}
		var ok bool
		if m["content"], ok = withHole(m["content"]); !ok {
			return nil, noTextToSalt(i)
		}
		return json.Marshal(list)
	}
	return nil, errNothingToSalt
}

// withHole is the content of a message with a hole in front; ok is false where it is neither a text nor a list.
func withHole(content json.RawMessage) (_ json.RawMessage, ok bool) {
	const part = `{"type":"text","text":"` + saltHole + `"}`
	content = bytes.TrimSpace(content)
	switch {
	case bytes.Contains(content, []byte(saltHole)):
		return content, true
	case bytes.HasPrefix(content, []byte(`"`)):
		return slices.Concat([]byte(`"`+saltHole), content[1:]), true
	case bytes.HasPrefix(content, []byte("[")) && len(bytes.TrimSpace(content[1:])) == 1:
		return []byte("[" + part + "]"), true
	case bytes.HasPrefix(content, []byte("[")):
		return slices.Concat([]byte("["+part+","), content[1:]), true
	}
	return content, false
}

var errNothingToSalt = errors.New("no user message to put the salt in")

func noTextToSalt(i int) error { return fmt.Errorf("message %d has no text to put the salt in", i+1) }

// maker makes the prompts of a use.
func (s *Set) maker(use uint64) maker {
	m := s.rows(use)
	if s.salt {
		m = salted{m, s.seed, use}
	}
	if s.workload.BatchSize > 1 {
		m = batched{m, s.workload.BatchSize}
	}
	return m
}
