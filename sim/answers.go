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
	Answer string `json:"answer"` // what is said then
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
		case a.Asked == "" || a.Answer == "":
			return nil, fmt.Errorf("line %d: it wants \"asked\" and \"answer\"", n)
		}
		all = append(all, a)
	}
	if lines.Err() == nil && all == nil {
		return nil, errors.New("there is no answer in it")
	}
	return all, lines.Err()
}

// answerTo is what is said to a request, token by token: the answer whose question stands last in it, as other questions may
// stand before it with their answers. Nil: none does.
func (c Config) answerTo(req request) []string {
	text := string(req.Prompt)
	if n := len(req.Messages); n > 0 {
		text = string(req.Messages[n-1].Content)
	}
	var plain string
	if json.Unmarshal([]byte(text), &plain) == nil {
		text = plain
	}
	said, last := "", -1
	for _, a := range c.Answers {
		if at := strings.LastIndex(text, a.Asked); at > last {
			said, last = a.Answer, at
		}
	}
	if last < 0 {
		return nil
	}
	words := strings.SplitAfter(said, " ")
	for i, w := range words { // a token begins with its space
		if strings.HasSuffix(w, " ") && i+1 < len(words) {
			words[i], words[i+1] = strings.TrimSuffix(w, " "), " "+words[i+1]
		}
	}
	return words
}
