package sim

import (
	"cmp"
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
		return job{}, malformed(err)
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
	items(s, &j, says, *cmp.Or(req.MaxOutputTokens, new(defaultMaxTokens)))
	return j, nil
}

// items has a job write its answer as the Responses API of the engine does: asked is how many tokens the request wants.
func items(s *Server, j *job, says speech, asked int) {
	id, item, created, phase := s.id("resp"), s.id("item"), time.Now().Unix(), "null"
	if s.cfg.As == SGLang {
		phase = `"final_answer"`
	}
	// response is the answer so far: what it consists of, its status and usage.
	response := func(output []byte, status, why, usage string) []byte {
		b := fmt.Appendf(nil, `{"id":"%s","object":"response","created_at":%d,"model":%s,"status":"%s","incomplete_details":%s,"output":[%s],"usage":%s,`+
			`"instructions":null,"max_output_tokens":%d,"parallel_tool_calls":true,"previous_response_id":null,"temperature":1.0,"tools":[],`+
			`"truncation":"disabled","user":null,`, id, created, quote(s.cfg.Model), status, why, output, usage, asked)
		if s.cfg.As == SGLang {
			text := "null"
			if usage != "null" {
				text = `{"format":{"type":"text"}}`
			}
			return fmt.Appendf(b, `"tool_choice":"auto","error":null,"reasoning":{"effort":null,"summary":null},"store":true,"text":%s,"top_p":null,"metadata":{}}`, text)
		}
		return append(b, `"tool_choice":"none","metadata":null,"top_p":1.0,"background":false,"max_tool_calls":null,"prompt":null,"reasoning":null,`+
			`"service_tier":"auto","text":null,"top_logprobs":null,"presence_penalty":0.0,"frequency_penalty":0.0,"kv_transfer_params":null,`+
			`"ec_transfer_params":null,"input_messages":null,"output_messages":null}`...)
	}
	status, why, end := "completed", "null", "response.completed"
	if j.finish == "length" {
		if status, why = "incomplete", `{"reason":"max_output_tokens"}`; s.cfg.As == SGLang {
			end = "response.incomplete" // vLLM says that it is completed, whatever its status
		}
	}
	read, wrote := "", ""
	if s.cfg.As == VLLM {
		read = `,"input_tokens_per_turn":[],"cached_tokens_per_turn":[]`
		wrote = `,"tool_output_tokens":0,"output_tokens_per_turn":[],"tool_output_tokens_per_turn":[]`
	}
	usage := fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0%s},"output_tokens":%d,`+
		`"output_tokens_details":{"reasoning_tokens":%d%s},"total_tokens":%d}`, j.prompt, read, j.tokens, j.reasoning, wrote, j.prompt+j.tokens)

	// of is an item, as far as it is said; part is the text of a message.
	part := func(text []byte, logprobs string) []byte {
		return fmt.Appendf(nil, `{"annotations":[],"text":"%s","type":"output_text","logprobs":%s}`, text, logprobs)
	}
	of := func(p piece, text []byte, status string) []byte {
		head := fmt.Sprintf(`{"id":"%s-%d","status":"%s",`, item, p.from, status)
		switch {
		case p.call != "":
			return fmt.Appendf(nil, `%s"type":"function_call","call_id":"call-%d","name":%s,"arguments":"%s"}`, head, p.number, quote(p.call), text)
		case p.reasons:
			return fmt.Appendf(nil, `%s"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"%s"}]}`, head, text)
		}
		content := part(text, "null")
		if text == nil {
			content = nil
		}
		return fmt.Appendf(nil, `%s"type":"message","role":"assistant","phase":%s,"content":[%s]}`, head, phase, content)
	}
	var whole []byte
	for p := range says.pieces(0, j.tokens) {
		if p.low > 0 {
			whole = append(whole, ',')
		}
		whole = append(whole, of(p, says.text(nil, p, p.from), "completed")...)
	}
	whole = response(whole, status, why, usage)

	sent := 0 // events
	event := func(b []byte, name, members string) []byte {
		b = fmt.Appendf(b, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%d,%s}\n\n", name, name, sent, members)
		sent++
		return b
	}
	begun := `"response":` + string(response(nil, "in_progress", "null", "null"))
	j.opening = event(event(nil, "response.created", begun), "response.in_progress", begun)
	j.chunk = func(b []byte, from, to int, _ bool) []byte {
		for p := range says.pieces(from, to) {
			at := fmt.Sprintf(`"output_index":%d`, p.item)
			in := fmt.Sprintf(`%s,"item_id":"%s-%d","content_index":0`, at, item, p.from)
			if p.begins() {
				b = event(b, "response.output_item.added", fmt.Sprintf(`%s,"item":%s`, at, of(p, nil, "in_progress")))
				if p.isText() {
					b = event(b, "response.content_part.added", fmt.Sprintf(`%s,"part":%s`, in, part(nil, "null")))
				}
			}
			delta := fmt.Sprintf(`%s,"delta":"%s"`, in, says.text(nil, p, p.from))
			if p.isText() {
				delta += `,"logprobs":[]`
			}
			b = event(b, p.event(), delta)
			if p.high < p.to {
				continue
			}
			p.low = p.from
			text := says.text(nil, p, p.from)
			if p.isText() {
				b = event(b, "response.output_text.done", fmt.Sprintf(`%s,"text":"%s","logprobs":[]`, in, text))
				b = event(b, "response.content_part.done", fmt.Sprintf(`%s,"part":%s`, in, part(text, "null")))
			}
			b = event(b, "response.output_item.done", fmt.Sprintf(`%s,"item":%s`, at, of(p, text, "completed")))
		}
		return b
	}
	j.closing = func() []byte { return event(nil, end, `"response":`+string(whole)) }
	j.whole = func() []byte { return whole }
}

// event is the name of the events that bring such pieces.
func (p piece) event() string {
	switch {
	case p.call != "":
		return "response.function_call_arguments.delta"
	case p.reasons:
		return "response.reasoning_text.delta"
	}
	return "response.output_text.delta"
}

func (p piece) isText() bool { return p.call == "" && !p.reasons }

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
