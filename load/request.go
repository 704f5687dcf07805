package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hclbench/plain"
)

// The places in a request body that differ from request to request, and how JSON has
// them. No text of a user's extra body marshals to these.
const (
	promptMark, promptHole = "\x00prompt", `"\u0000prompt"`
	tokensMark, tokensHole = "\x00tokens", `"\u0000tokens"`
)

// Form is what the prompts of a job are as JSON.
type Form int

// The forms. Where an endpoint takes messages alone, a text is that of one.
const (
	IDs      Form = iota // token ids, where the endpoint takes them
	Words                // a string
	Messages             // a list of messages
)

// Template is a request body with holes for the prompt and the number of tokens.
type Template struct {
	pieces [3][]byte
	tokens bool // the first hole is the number of tokens, not the prompt
	silent bool // there is no number of tokens
}

// NewTemplate says once what all requests of a job to one adapter have in common; empty: to the model itself.
func NewTemplate(t Target, w Workload, prompts Form, adapter string) (Template, error) {
	path := t.LoraPath || w.endpoint().nameless
	if adapter != "" && !path {
		t.Model = adapter
	}
	body, err := bodyOf(t, w, prompts)
	if adapter != "" && path && err == nil {
		body["lora_path"] = adapter
	}
	if err != nil {
		return Template{}, err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return Template{}, fmt.Errorf("extra body: %w", err)
	}
	return split(text), nil
}

// Says reports whether requests of the workload have a member of this name already: one of
// our own, or of the extra body.
func (w Workload) Says(member string) bool {
	body, err := bodyOf(Target{Model: "model"}, w, Words)
	_, has := body[member]
	return has || err != nil || w.endpoint().reserves(member) || w.routes(member)
}

func bodyOf(t Target, w Workload, prompts Form) (map[string]any, error) {
	e := w.endpoint()
	if e.name == "" {
		return nil, fmt.Errorf("endpoint %q: write one of %s", w.Endpoint, plain.List(Endpoints(), "or"))
	}
	body := e.body(w, prompts)
	if t.Model != "" && !e.nameless {
		body["model"] = t.Model
	}
	if w.Dataset.Questions { // which say themselves how long answers are, how their tokens are chosen, and how they come
		for _, name := range []string{"temperature", "max_tokens", "max_output_tokens", "sampling_params", "stream", "stream_options"} {
			delete(body, name)
		}
	}
	if w.ExtraBody == "" {
		return body, nil
	}
	var extra map[string]any
	d := json.NewDecoder(strings.NewReader(w.ExtraBody))
	d.UseNumber() // an integer stays as it was written
	if err := d.Decode(&extra); err != nil {
		return nil, fmt.Errorf("extra body: it is not a JSON object: %w", err)
	}
	for member := range extra {
		if w.routes(member) {
			return nil, fmt.Errorf("extra body: %q says for all requests who answers them, and adapters say it "+
				"for each: write one of the two", member)
		}
	}
	return body, e.merge(body, extra)
}

// reserves reports whether only the generator can say a member of a body: it relies on it.
func (e endpoint) reserves(member string) bool { return slices.Contains(e.own, member) }

// merge puts extra into body, objects into objects. What the generator relies on
// must stay as it is.
func (e endpoint) merge(body, extra map[string]any) error {
	for _, k := range slices.Sorted(maps.Keys(extra)) {
		if e.reserves(k) {
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
		if err := e.merge(to, from); err != nil {
			return err
		}
	}
	return nil
}

func split(text []byte) Template {
	i, j := bytes.Index(text, []byte(promptHole)), bytes.Index(text, []byte(tokensHole))
	afterPrompt, afterTokens := i+len(promptHole), j+len(tokensHole)
	switch {
	case j < 0:
		return Template{pieces: [3][]byte{text[:i], text[afterPrompt:]}, silent: true}
	case j < i:
		return Template{pieces: [3][]byte{text[:j], text[afterTokens:i], text[afterPrompt:]}, tokens: true}
	}
	return Template{pieces: [3][]byte{text[:i], text[afterPrompt:j], text[afterTokens:]}}
}

// Fill puts a prompt and a number of tokens into the holes. members are more of the object,
// as they stand between its braces; nil: none.
func (t Template) Fill(prompt []byte, tokens int, members []byte) []byte {
	begin := t.pieces[0]
	if len(members) > 0 {
		begin = slices.Concat([]byte("{"), members, []byte(","), begin[1:])
	}
	if t.silent {
		return slices.Concat(begin, prompt, t.pieces[1])
	}
	first, second := prompt, strconv.AppendInt(make([]byte, 0, 20), int64(tokens), 10)
	if t.tokens {
		first, second = second, first
	}
	return slices.Concat(begin, first, t.pieces[1], second, t.pieces[2])
}
