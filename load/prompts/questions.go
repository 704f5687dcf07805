package prompts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"hclbench/load"
)

// Question is one line of a file of questions: all that a request says but for the model's name. Its members have the
// names of the OpenAI API, wherever it goes.
type Question struct {
	Endpoint    string                     `json:"-"` // the load's: no line says it
	Prompt      string                     `json:"prompt,omitempty"`
	Messages    json.RawMessage            `json:"messages,omitempty"` // in place of the prompt
	Tools       json.RawMessage            `json:"tools,omitempty"`
	ToolChoice  json.RawMessage            `json:"tool_choice,omitempty"`
	MaxTokens   int                        `json:"max_tokens,omitempty"` // 0: the request does not say
	Temperature *float64                   `json:"temperature,omitempty"`
	TopP        *float64                   `json:"top_p,omitempty"`
	Seed        *int64                     `json:"seed,omitempty"`
	Stop        []string                   `json:"stop,omitempty"`
	Whole       bool                       `json:"whole,omitempty"` // the answer is to come in one piece
	Extra       map[string]json.RawMessage `json:"extra,omitempty"` // more members
}

// parseQuestion reads a line of a file of questions.
func parseQuestion(w load.Workload, raw []byte) (q Question, err error) {
	if err := json.Unmarshal(raw, &q); err != nil {
		return q, plainError(err)
	}
	switch {
	case q.Messages != nil:
		err = checkMessages(w, q.Messages)
	case q.Prompt == "":
		err = errors.New("neither a text \"prompt\" nor a list \"messages\"")
	}
	return q, err
}

// longestAnswer is how many tokens an answer may have whose question does not say, before it is given up.
const longestAnswer = 1 << 20

// questions are asked in the order of their file.
func questions(job load.Job) (*Set, error) {
	f, err := readEntries(job, soundFor(parseQuestion))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.source.Tokenizer = "none"; f.source.Bad > 0 {
		return nil, fmt.Errorf("a question is bad: %s", f.source.BadLines[0])
	}
	var items []item
	messages := false
	for _, e := range f.found {
		raw, err := f.read(e)
		var q Question
		if err == nil {
			q, err = parseQuestion(job.Workload, raw)
		}
		if err != nil {
			return nil, fmt.Errorf("read the questions again: %w", err)
		}
		q.Whole = q.Whole || job.Workload.NoStream
		it := item{text: q.Messages, ask: ask{output: q.MaxTokens, members: q.members(job.Workload), whole: q.Whole}}
		if messages = messages || it.text != nil; it.text == nil {
			it.text = quoted(q.Prompt)
		}
		if it.output == 0 {
			it.output = longestAnswer
		}
		items = append(items, it)
	}
	set, err := setOf(items, job.Workload.Warmup, f.source)
	if err == nil && messages {
		set.form = load.Messages
	}
	return set, err
}

// members are what the question says beside its prompt, as they stand between the braces of a request's body.
func (q Question) members(w load.Workload) []byte {
	all, sampled := map[string]any{}, map[string]any{}
	for name, value := range q.Extra {
		if !w.Says(name) {
			all[name] = value
		}
	}
	if all["stream"] = !q.Whole; !q.Whole && w.Endpoint != load.Generate {
		all["stream_options"] = map[string]any{"include_usage": true}
	}
	tokens := "max_tokens"
	if w.Endpoint == load.Generate {
		tokens = "max_new_tokens"
	}
	if q.MaxTokens > 0 {
		sampled[tokens] = q.MaxTokens
	}
	if q.Temperature != nil {
		sampled["temperature"] = *q.Temperature
	}
	if q.TopP != nil {
		sampled["top_p"] = *q.TopP
	}
	if q.Stop != nil {
		sampled["stop"] = q.Stop
	}
	if q.Seed != nil {
		sampled["seed"] = *q.Seed
	}
	if q.Tools != nil {
		all["tools"] = q.Tools
	}
	if q.ToolChoice != nil {
		all["tool_choice"] = q.ToolChoice
	}
	if w.Endpoint == load.Generate { // which keeps how tokens are chosen apart, and calls the seed another name
		if q.Seed != nil {
			delete(sampled, "seed")
			sampled["sampling_seed"] = *q.Seed
		}
		all["sampling_params"] = sampled
	} else {
		maps.Copy(all, sampled)
	}
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value, err := json.Marshal(all[name])
		if err != nil {
			continue // it was JSON, or is a number
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", name, value)
	}
	return b.Bytes()
}
