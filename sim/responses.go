package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// response is the Responses API, as vLLM and SGLang serve it: a stream of named events, of which the
// last has the whole answer.
func response(s *Server, raw []byte) (job, *refusal) {
	var req struct {
		Model           string          `json:"model"`
		Input           json.RawMessage `json:"input"`
		Instructions    string          `json:"instructions"`
		MaxOutputTokens *int            `json:"max_output_tokens"`
		Stream          bool            `json:"stream"`
		Tools           []struct {
			Type string `json:"type"`
			Name string `json:"name"`
		} `json:"tools"`
		ToolChoice json.RawMessage `json:"tool_choice"`
		Text       struct {
			Format struct {
				Type   string          `json:"type"`
				Schema json.RawMessage `json:"schema"`
			} `json:"format"`
		} `json:"text"`
	}
	if err := json.Unmarshal(raw, &req); err != nil {
		return job{}, bad("request body: " + err.Error())
	}
	like, no := s.openAIRequest(fmt.Appendf(nil, `{"model":%s}`, quote(req.Model)))
	if no != nil {
		return job{}, no
	}
	prompt, err := countItems(req.Input)
	if err != nil {
		return job{}, bad(err.Error())
	}
	prompt += len(strings.Fields(req.Instructions))
	like.MaxTokens, like.Stream, like.ToolChoice = req.MaxOutputTokens, req.Stream, req.ToolChoice
	for i, t := range req.Tools {
		if t.Type == "function" && t.Name == "" {
			return job{}, bad(fmt.Sprintf("tools.%d.function.name: Field required", i))
		}
		var one tool
		one.Function.Name = t.Name
		like.Tools = append(like.Tools, one)
	}
	if f := req.Text.Format; f.Type != "" {
		like.ResponseFormat.Type = f.Type
		like.ResponseFormat.Schema = &struct {
			Schema json.RawMessage `json:"schema"`
		}{f.Schema}
	}
	j, says, no := begin(s, like, prompt, true)
	if no != nil {
		return job{}, no
	}
	items(s, &j, says)
	return j, nil
}

// items has a job write its answer as the Responses API does.
func items(s *Server, j *job, says speech) {
	head := fmt.Sprintf(`{"id":"%s","object":"response","created_at":%d,"model":%s,`, s.id("resp"), time.Now().Unix(),
		quote(s.cfg.Model))
	status := `"status":"completed","incomplete_details":null,`
	if j.finish == "length" {
		status = `"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},`
	}
	whole, done := []byte(head+status+`"output":[`), []byte(`"output_index":0,"item":null`)
	for p := range says.pieces(0, j.tokens) {
		if p.low > 0 {
			whole = append(whole, ',')
		}
		item := says.item(nil, p, says.text(nil, p))
		whole, done = append(whole, item...), fmt.Appendf(nil, `"output_index":%d,"item":%s`, min(p.from, 1), item)
	}
	whole = fmt.Appendf(whole, `],"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":0},"output_tokens":%d,`+
		`"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}}`, j.prompt, j.tokens, j.reasoning, j.prompt+j.tokens)

	begun := []byte(`"response":` + head + `"status":"in_progress","output":[],"usage":null}`)
	j.opening = event(event(nil, "response.created", begun), "response.in_progress", begun)
	j.chunk = func(b []byte, from, to int, last bool) []byte {
		for p := range says.pieces(from, to) {
			at := fmt.Appendf(nil, `"output_index":%d,`, min(p.from, 1))
			if p.begins() {
				b = event(b, "response.output_item.added", says.item(append(at, `"item":`...), p, nil))
			}
			b = event(b, p.event(), append(says.text(append(at, `"content_index":0,"delta":"`...), p), '"'))
		}
		if last {
			b = event(b, "response.output_item.done", done)
		}
		return b
	}
	j.closing = event(nil, "response.completed", append([]byte(`"response":`), whole...))
	j.whole = func() []byte { return whole }
}

// event appends an event with members beside its name.
func event(b []byte, name string, members []byte) []byte {
	b = append(append(append(b, "event: "...), name...), "\ndata: {\"type\":\""...)
	b = append(append(append(b, name...), `",`...), members...)
	return append(b, "}\n\n"...)
}

// event is the name of the events that bring such pieces.
func (p piece) event() string {
	switch {
	case p.call:
		return "response.function_call_arguments.delta"
	case p.reasons:
		return "response.reasoning_text.delta"
	}
	return "response.output_text.delta"
}

// item appends what an answer consists of, as far as it is said.
func (sp speech) item(b []byte, p piece, text []byte) []byte {
	switch {
	case p.call:
		return fmt.Appendf(b, `{"type":"function_call","id":"fc-0","call_id":"call-0","name":%s,"arguments":"%s"}`, quote(sp.call), text)
	case p.reasons:
		return fmt.Appendf(b, `{"type":"reasoning","id":"rs-0","summary":[],"content":[{"type":"reasoning_text","text":"%s"}]}`, text)
	}
	return fmt.Appendf(b, `{"type":"message","id":"msg-0","role":"assistant","content":[{"type":"output_text","text":"%s","annotations":[]}]}`, text)
}

// countItems is how many words an input has: a text, or a list of messages, each with a text or parts with one.
func countItems(raw json.RawMessage) (int, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil && text != "" {
		return len(strings.Fields(text)), nil
	}
	var list []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(raw, &list); err != nil || len(list) == 0 {
		return 0, errors.New("input: neither a text nor a list of items")
	}
	n := 0
	for i, m := range list {
		said, err := content(m.Content)
		if err != nil || m.Role == "" {
			return 0, fmt.Errorf("input.%d: not a message", i)
		}
		n += said.words + said.imageTokens
	}
	return n, nil
}
