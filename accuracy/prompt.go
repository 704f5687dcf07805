package accuracy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"hclbench/plain"
	"hclbench/tokenizer"

	"github.com/ardanlabs/jinja"
)

// maxConfig bounds a tokenizer_config.json: it may list a hundred thousand added tokens.
const maxConfig = 64 << 20

// template is a model's chat template, with the tokens that it may put into a prompt.
type template struct {
	*jinja.Template
	special map[string]jinja.Value
}

// promptQuestions are the questions of the task prompt-tokens: a few messages, and how many tokens they are by the model's own
// chat template (its tokenizer_config.json, or the template alone) and tokenizer (its tokenizer.json).
func promptQuestions(config, tokens io.Reader) (questions []Question, notes []string, err error) {
	t, err := readTemplate(config)
	if err != nil {
		return nil, nil, fmt.Errorf("the chat template: %w", err)
	}
	if tokens == nil {
		return nil, nil, errors.New("it needs the model's tokenizer.json, too: name it with shots_path")
	}
	words, err := tokenizer.Read(tokens)
	if err != nil {
		return nil, nil, fmt.Errorf("the tokenizer: %w", err)
	}
	for _, q := range []struct{ id, messages string }{
		{"user", `[{"role":"user","content":"How far is the moon?"}]`},
		{"system", `[{"role":"system","content":"Answer in one word."},{"role":"user","content":"Which month has 28 days?"}]`},
		{"turns", `[{"role":"user","content":"Name a prime."},{"role":"assistant","content":"Seven."},{"role":"user","content":"And the next?"}]`},
		{"blanks", `[{"role":"user","content":"\n  def f(x):\n\treturn x  \n\n"}]`},
		{"letters", `[{"role":"user","content":"Grüße, 你好, مرحبا, 👩‍🚀 ½"}]`},
	} {
		raw := json.RawMessage(q.messages)
		text, err := t.render(raw)
		if err != nil {
			notes = append(notes, fmt.Sprintf("messages %q are not asked: the template does not take them: %s", q.id, plain.Cut(plain.Line(err.Error()), 200)))
			continue
		}
		questions = append(questions, Question{ID: q.id, Context: raw, Right: []string{strconv.Itoa(len(words.Encode(text)))},
			Asks: &Ask{Messages: raw, MaxTokens: 1}})
	}
	if len(questions) == 0 {
		return nil, nil, fmt.Errorf("the chat template takes no messages: %s", notes[0])
	}
	return questions, notes, nil
}

// markPrompt holds the server's count of a prompt's tokens against that of template and tokenizer.
func markPrompt(q Question, r Reply) (Mark, string) {
	counted := strconv.Itoa(r.InputTokens)
	switch {
	case r.Error != "":
		return Failed, ""
	case r.InputTokens == 0:
		return Invalid, "the server has not counted"
	case counted != q.Right[0]:
		return Wrong, fmt.Sprintf("%s tokens, and %s by template and tokenizer", counted, q.Right[0])
	}
	return Right, counted
}

// readTemplate reads a tokenizer_config.json with a template in it, or a template in Jinja.
func readTemplate(r io.Reader) (template, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxConfig+1))
	if err != nil {
		return template{}, err
	}
	if len(text) > maxConfig {
		return template{}, fmt.Errorf("it is larger than %s", plain.Bytes(maxConfig))
	}
	t, source := template{special: map[string]jinja.Value{}}, string(text)
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) == nil {
		if source, err = sourceOf(members["chat_template"]); err != nil {
			return template{}, err
		}
		for name, raw := range members {
			var word string
			var long struct{ Content string }
			if strings.HasSuffix(name, "_token") && (json.Unmarshal(raw, &word) == nil || json.Unmarshal(raw, &long) == nil) && word+long.Content != "" {
				t.special[name] = jinja.NewString(word + long.Content)
			}
		}
	}
	for _, name := range []string{"bos_token", "eos_token"} {
		if _, known := t.special[name]; !known && strings.Contains(source, name) {
			return template{}, fmt.Errorf("it uses %s, which the file does not say: name the model's tokenizer_config.json", name)
		}
	}
	t.Template, err = jinja.Compile(source)
	return t, err
}

// sourceOf is the template that a tokenizer_config.json says: of several that which is used without tools.
func sourceOf(raw json.RawMessage) (source string, err error) {
	if json.Unmarshal(raw, &source) == nil && source != "" {
		return source, nil
	}
	var several []struct{ Name, Template string }
	_ = json.Unmarshal(raw, &several) // which it then is not
	for _, one := range several {
		if one.Name == "default" {
			return one.Template, nil
		}
	}
	return "", errors.New("the file has no \"chat_template\": newer models have it in a chat_template.jinja")
}

// render is the text of messages before an answer, as servers make it where a request says nothing more.
func (t template) render(messages json.RawMessage) (text string, err error) {
	defer func() { // the library is small and young: what it does not know must not end a run
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	d := json.NewDecoder(bytes.NewReader(messages))
	d.UseNumber()
	list, err := valueOf(d)
	if err != nil {
		return "", err
	}
	values := map[string]jinja.Value{"messages": list, "tools": jinja.None(), "documents": jinja.None(), "add_generation_prompt": jinja.NewBool(true)}
	for name, word := range t.special {
		values[name] = word
	}
	return t.RenderValues(values)
}

// valueOf reads the next value of JSON as a template sees it: the members of objects stay in their order.
func valueOf(d *json.Decoder) (jinja.Value, error) {
	token, err := d.Token()
	if err != nil {
		return jinja.None(), err
	}
	switch token := token.(type) {
	case json.Delim:
		dict, list := jinja.NewDict(), []jinja.Value(nil)
		for d.More() {
			var name json.Token
			if token == '{' {
				if name, err = d.Token(); err != nil {
					return jinja.None(), err
				}
			}
			value, err := valueOf(d)
			if err != nil {
				return jinja.None(), err
			}
			if token == '{' {
				dict.AsDict().Set(name.(string), value)
			} else {
				list = append(list, value)
			}
		}
		if _, err := d.Token(); err != nil {
			return jinja.None(), err
		}
		if token == '{' {
			return dict, nil
		}
		return jinja.NewList(list), nil
	case string:
		return jinja.NewString(token), nil
	case json.Number:
		if n, err := token.Int64(); err == nil {
			return jinja.NewInt(n), nil
		}
		f, err := token.Float64()
		return jinja.NewFloat(f), err
	case bool:
		return jinja.NewBool(token), nil
	}
	return jinja.None(), nil
}

// PromptTokens is how the prompts of two deployments compare, question by question: the same messages to the same model are the same
// tokens, so that another count is another template, another tokenizer, or something that somebody has put before it.
type PromptTokens struct {
	Same  int    `json:"same"`
	Other int    `json:"other"`
	First string `json:"first,omitempty"` // the first that differs: what it is, and both counts
}

// ComparePrompts holds the prompts of a candidate against those of a baseline. It needs no file, and sees neither what is wrong in both
// nor what is as long.
func ComparePrompts(baseline, candidate []Answer) (p PromptTokens) {
	counts := map[string]int{}
	for _, a := range baseline {
		if a.InputTokens > 0 {
			counts[a.Question] = a.InputTokens
		}
	}
	seen := map[string]bool{}
	for _, a := range candidate {
		base, has := counts[a.Question]
		if !has || a.InputTokens == 0 || seen[a.Question] {
			continue
		}
		seen[a.Question] = true
		if base == a.InputTokens {
			p.Same++
		} else if p.Other++; p.Other == 1 {
			p.First = fmt.Sprintf("question %s has %d tokens, and %d of the baseline's", a.Question, a.InputTokens, base)
		}
	}
	return p
}
