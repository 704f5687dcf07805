package sim

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// defaultNewTokens is what SGLang generates when nothing is asked for.
const defaultNewTokens = 128

// generation is SGLang's own endpoint: every event carries the whole text so far.
func (s *Server) generation(raw []byte) (job, *refusal) {
	var req struct {
		Text           *string         `json:"text"`
		InputIDs       json.RawMessage `json:"input_ids"`
		Stream         bool            `json:"stream"`
		LoraPath       string          `json:"lora_path"`
		ReturnLogprob  bool            `json:"return_logprob"`
		TopLogprobs    int             `json:"top_logprobs_num"`
		SamplingParams struct {
			MaxNewTokens *int `json:"max_new_tokens"`
		} `json:"sampling_params"`
	}
	if err := json.Unmarshal(raw, &req); err != nil {
		return job{}, malformed(err)
	}
	prompt := 0
	switch {
	case req.Text != nil:
		prompt = len(strings.Fields(*req.Text))
	default:
		n, err := countPrompt(req.InputIDs)
		if err != nil {
			return job{}, bad("input_ids or text: " + err.Error())
		}
		prompt = n
	}
	asked := defaultNewTokens
	if n := req.SamplingParams.MaxNewTokens; n != nil {
		asked = *n
	}
	asked, no := s.fits(asked, prompt, "max_new_tokens", false)
	if no != nil {
		return job{}, no
	}
	adapter, no := adapterOf(s.cfg, "", req.LoraPath)
	if no != nil {
		return job{}, no
	}
	j := job{prompt: prompt, adapter: adapter, stream: req.Stream, closing: func() []byte { return []byte("data: [DONE]\n\n") }}
	j.tokens, j.finish = s.limit(asked)
	reason := fmt.Sprintf(`{"type":"length","length":%d}`, asked)
	if j.finish == "stop" {
		reason = `{"type":"stop","matched":0}`
	}
	id := s.id("gen")
	body := func(b []byte, to int, reason string) []byte {
		b = append(appendText(append(b, `{"text":"`...), 0, min(to, j.spoken())), `","output_ids":[`...)
		for i := range to {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(firstID+i%len(vocabulary)), 10)
		}
		b = fmt.Appendf(b, `],"meta_info":{"id":"%s","finish_reason":%s,"prompt_tokens":%d,"weight_version":"default","num_retractions":0,`+
			`"reasoning_tokens":0,"completion_tokens":%d,"cached_tokens":0,"cached_tokens_details":{"device":0,"host":0},"dp_rank":null`,
			id, reason, prompt, to)
		if to == j.tokens {
			b = fmt.Appendf(b, `,"weight_versions":[{"version":"default","start":0,"end":%d}]`, to)
		}
		if req.ReturnLogprob && req.TopLogprobs > 0 {
			b = append(b, `,"input_top_logprobs":[null`...)
			for at := 1; at < prompt; at++ {
				for i, logprob := range s.cfg.likely(at, req.TopLogprobs) {
					b = fmt.Appendf(b, `%s[%.6f,%d,null]`, []string{",[", ","}[min(i, 1)], logprob, 100+i)
				}
				b = append(b, ']')
			}
			b = append(b, ']')
		}
		return append(b, "}}"...)
	}
	j.chunk = func(b []byte, _, to int, last bool) []byte {
		b = append(b, "data: "...)
		if last {
			b = body(b, to, reason)
		} else {
			b = body(b, to, "null")
		}
		return append(b, "\n\n"...)
	}
	j.whole = func() []byte { return body(nil, j.tokens, reason) }
	return j, nil
}
