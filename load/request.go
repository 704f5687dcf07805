package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// The places in a request body that differ from request to request. No JSON
// text of a user's extra body marshals to these.
const (
	promptMark = "\x00prompt"
	tokensMark = "\x00tokens"
)

// Template is a request body with holes for the prompt and the number of tokens.
type Template struct {
	pieces [3][]byte
	tokens bool // the first hole is the number of tokens, not the prompt
}

// NewTemplate says once what all requests of a job have in common. Prompts are
// token ids where the endpoint takes them.
func NewTemplate(t Target, w Workload) (Template, error) { return TemplateOf(t, w, false) }

// TemplateOf is newTemplate; as text, prompts are strings at every endpoint.
func TemplateOf(t Target, w Workload, asText bool) (Template, error) {
	var body map[string]any
	sampling := map[string]any{"temperature": w.Temperature}
	if w.IgnoreEOS {
		sampling["ignore_eos"] = true
	}
	switch w.Endpoint {
	case Completions:
		body = sampling
		body["prompt"] = promptMark
	case Chat:
		body = sampling
		body["messages"] = []any{map[string]any{"role": "user", "content": promptMark}}
		if w.Dataset.Kind == Conversation {
			body["messages"] = promptMark
		}
	case Generate:
		sampling["max_new_tokens"] = tokensMark
		body = map[string]any{"sampling_params": sampling}
		if asText {
			body["text"] = promptMark
		} else {
			body["input_ids"] = promptMark
		}
	default:
		return Template{}, fmt.Errorf("endpoint %q: write %q, %q or %q", w.Endpoint, Completions, Chat, Generate)
	}
	body["stream"] = !w.NoStream
	if w.Endpoint != Generate {
		body["max_tokens"] = tokensMark
	}
	if w.Endpoint != Generate && !w.NoStream {
		body["stream_options"] = map[string]any{"include_usage": true}
	}
	if w.Endpoint != Generate && t.Model != "" {
		body["model"] = t.Model
	}
	if w.ExtraBody != "" {
		var extra map[string]any
		d := json.NewDecoder(bytes.NewReader([]byte(w.ExtraBody)))
		d.UseNumber() // an integer stays as it was written
		if err := d.Decode(&extra); err != nil {
			return Template{}, fmt.Errorf("extra body: it is not a JSON object: %w", err)
		}
		if err := merge(body, extra); err != nil {
			return Template{}, err
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return Template{}, fmt.Errorf("extra body: %w", err)
	}
	return split(text), nil
}

// merge puts extra into body, objects into objects. What the generator relies on
// must stay as it is.
func merge(body, extra map[string]any) error {
	for _, k := range slices.Sorted(maps.Keys(extra)) {
		switch k {
		case "prompt", "messages", "input_ids", "text", "max_tokens", "max_completion_tokens", "max_new_tokens", "stream", "stream_options", "n":
			return fmt.Errorf("extra body: %q is for the generator to say", k)
		}
		to, ok1 := body[k].(map[string]any)
		from, ok2 := extra[k].(map[string]any)
		switch {
		case ok1 && !ok2:
			return fmt.Errorf("extra body: %q has to be an object", k)
		case !ok1:
			body[k] = extra[k]
			continue
		}
		if err := merge(to, from); err != nil {
			return err
		}
	}
	return nil
}

func split(text []byte) Template {
	mark := func(s string) []byte {
		b, _ := json.Marshal(s) // a string always marshals
		return b
	}
	p, n := mark(promptMark), mark(tokensMark)
	i, j := bytes.Index(text, p), bytes.Index(text, n)
	if j < i {
		return Template{[3][]byte{text[:j], text[j+len(n) : i], text[i+len(p):]}, true}
	}
	return Template{[3][]byte{text[:i], text[i+len(p) : j], text[j+len(n):]}, false}
}

// Fill puts a prompt and a number of tokens into the holes.
func (t Template) Fill(prompt []byte, tokens int) []byte {
	b := make([]byte, 0, len(prompt)+len(t.pieces[0])+len(t.pieces[1])+len(t.pieces[2])+20)
	b = append(b, t.pieces[0]...)
	if t.tokens {
		b = strconv.AppendInt(b, int64(tokens), 10)
		b = append(append(b, t.pieces[1]...), prompt...)
	} else {
		b = append(append(b, prompt...), t.pieces[1]...)
		b = strconv.AppendInt(b, int64(tokens), 10)
	}
	return append(b, t.pieces[2]...)
}
