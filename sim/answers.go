package sim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Answer is what is said to whoever asks something.
type Answer struct {
	Asked  string `json:"asked"`  // stands in what is asked
	Answer string `json:"answer"` // what is said then; empty: nothing beside the calls
	// Calls are made then, side by side, of whoever offers tools.
	Calls []struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"` // a text is sent as it is, be it JSON or not
	} `json:"calls"`
}

// readAnswers reads answers, one JSON object a line: from a file, or what begins as an object is them.
func readAnswers(from string) (all []Answer, err error) {
	var text io.Reader = strings.NewReader(from)
	if !strings.HasPrefix(from, "{") {
		f, err := os.Open(from)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		text = f
	}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, maxBody)
	for n := 1; lines.Scan(); n++ {
		var a Answer
		switch err := json.Unmarshal(lines.Bytes(), &a); {
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", n, err)
		case a.Asked == "" || a.Answer == "" && a.Calls == nil:
			return nil, fmt.Errorf("line %d: it wants \"asked\", and \"answer\" or \"calls\"", n)
		}
		all = append(all, a)
	}
	if lines.Err() == nil && all == nil {
		return nil, errors.New("there is no answer in it")
	}
	return all, lines.Err()
}

// answerTo is what is said to a request, token by token, and which functions are called behind that: the answer whose question stands
// last in it, as other questions may stand before it with their answers. Nil: none does.
func (c Config) answerTo(req request) (words []string, calls []calling) {
	text := string(req.Prompt)
	if n := len(req.Messages); n > 0 {
		text = string(req.Messages[n-1].Content)
	}
	var plain string
	if json.Unmarshal([]byte(text), &plain) == nil {
		text = plain
	}
	var said Answer
	last := -1
	for _, a := range c.Answers {
		if at := strings.LastIndex(text, a.Asked); at > last {
			said, last = a, at
		}
	}
	if last < 0 {
		return nil, nil
	}
	words = wordsOf(said.Answer)
	if req.offersNone() {
		return words, nil
	}
	for _, c := range said.Calls {
		calls = append(calls, calling{c.Name, len(words)})
		arguments := string(c.Arguments)
		_ = json.Unmarshal(c.Arguments, &arguments) // where it is a text
		words = append(append(words, ""), wordsOf(arguments)...)
	}
	return words, calls
}

// wordsOf are the tokens of a text: each begins with its space.
func wordsOf(text string) []string {
	if text == "" {
		return nil
	}
	words := strings.SplitAfter(text, " ")
	for i, w := range words {
		if strings.HasSuffix(w, " ") && i+1 < len(words) {
			words[i], words[i+1] = strings.TrimSuffix(w, " "), " "+words[i+1]
		}
	}
	return words
}
