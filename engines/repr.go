package engines

import (
	"encoding/json"
	"strconv"
	"strings"
)

// ServedIn is what a line of the benchmark's log says that its engine runs with, as
// a JSON object for [WithoutSecrets] and [Differences]; nil: it says nothing of that.
// The engines' Python prints it as soon as it is settled, "name=value" after
// "name=value" or "'name': value" after "'name': value", as repr() and str() write them.
func (b *Bench) ServedIn(line string) json.RawMessage {
	if b.served == nil {
		return nil
	}
	found := b.served.FindStringSubmatch(line)
	if found == nil {
		return nil
	}
	text, err := json.Marshal(members(strings.Join(found[1:], ""))) // of its forms one
	if err != nil {
		return nil // a number that JSON has no form for
	}
	return text
}

// ServedWith is what the benchmark's figures say that its engine ran with, in the
// same way.
func (b *Bench) ServedWith(result []byte) json.RawMessage {
	var said struct {
		Engine json.RawMessage `json:"engine,omitempty"`
		World  json.RawMessage `json:"world_info,omitempty"`
	}
	if json.Unmarshal(result, &said) != nil || said.World == nil {
		return nil
	}
	text, err := json.Marshal(said)
	if err != nil {
		return nil
	}
	return text
}

// members reads "name=value, name=value". Values that are made of others stay text.
func members(text string) map[string]any {
	out := map[string]any{}
	for len(text) > 0 {
		var pair string
		pair, text = nextPair(text)
		pair = strings.TrimSpace(pair)
		name, value, ok := strings.Cut(pair, "=")
		if strings.HasPrefix(pair, "'") { // of a dictionary
			name, value, ok = strings.Cut(pair[1:], "': ")
		}
		if ok {
			out[name] = scalar(value)
		}
	}
	return out
}

// nextPair cuts at the first comma that is in no brackets and in no quotes.
func nextPair(text string) (pair, rest string) {
	depth, quote := 0, byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			depth--
		case c == ',' && depth == 0:
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}

// scalar is a value of Python's as JSON has it.
func scalar(text string) any {
	switch text {
	case "None":
		return nil
	case "True":
		return true
	case "False":
		return false
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return n
	}
	if n := len(text); n >= 2 && (text[0] == '\'' || text[0] == '"') && text[n-1] == text[0] {
		return text[1 : n-1]
	}
	return text
}
