package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// vectorSize is how many numbers an embedding of the engine has.
const vectorSize = 256

// planOf is the plan of an endpoint; nil: it is none. An engine whose model is for embeddings refuses to
// generate, as vLLM does.
func planOf(c Config, path string) plan {
	p, ok := plans[path]
	if !ok || !c.Embeds || path == "/v1/embeddings" || path == "/v1/rerank" {
		return p
	}
	return func(*Server, []byte) (job, *refusal) {
		return job{}, &refusal{status: http.StatusNotFound, kind: "NotFoundError", text: "The model does not support " + path}
	}
}

// embedding makes vectors of texts or of token ids.
func embedding(s *Server, raw []byte) (job, *refusal) {
	var req struct {
		Model    string          `json:"model"`
		LoraPath string          `json:"lora_path"`
		Input    json.RawMessage `json:"input"`
		Encoding string          `json:"encoding_format"`
	}
	if err := json.Unmarshal(raw, &req); err != nil {
		return job{}, malformed(err)
	}
	texts, tokens, err := countInputs(req.Input)
	if err != nil {
		return job{}, bad(err.Error())
	}
	j, no := silent(s, raw, tokens)
	if no != nil {
		return job{}, no
	}
	j.whole = func() []byte {
		b := fmt.Appendf(nil, `{"id":"%s","object":"list","model":%s,"data":[`, s.id("embd"), quote(s.cfg.Model))
		for i := range texts {
			if i > 0 {
				b = append(b, ',')
			}
			b = fmt.Appendf(b, `{"object":"embedding","index":%d,"embedding":`, i)
			b = append(appendVector(b, i, req.Encoding == "base64"), '}')
		}
		return fmt.Appendf(b, `],"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":0}}`, tokens, tokens)
	}
	return j, nil
}

func appendVector(b []byte, of int, base64 bool) []byte {
	if base64 {
		return append(append(append(b, '"'), strings.Repeat("AACAPw", vectorSize*4/6)...), '"')
	}
	b = append(b, '[')
	for i := range vectorSize {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(b, float64((of+i)%17)/100-0.08, 'g', -1, 64)
	}
	return append(b, ']')
}

// rank orders documents by a query, the longest first.
func rank(s *Server, raw []byte) (job, *refusal) {
	var req struct {
		Query     string   `json:"query"`
		Documents []string `json:"documents"`
	}
	if err := json.Unmarshal(raw, &req); err != nil {
		return job{}, malformed(err)
	}
	if req.Query == "" || len(req.Documents) == 0 {
		return job{}, bad("query and documents: both are needed")
	}
	tokens := len(req.Documents) * len(strings.Fields(req.Query))
	for _, d := range req.Documents {
		tokens += len(strings.Fields(d))
	}
	j, no := silent(s, raw, tokens)
	if no != nil {
		return job{}, no
	}
	j.whole = func() []byte {
		if s.cfg.As == SGLang {
			return rankedBySGLang(req.Documents)
		}
		b := fmt.Appendf(nil, `{"id":"%s","model":%s,"usage":{"prompt_tokens":%d,"total_tokens":%d},"results":[`, s.id("rerank"),
			quote(s.cfg.Model), tokens, tokens)
		for i, d := range req.Documents {
			if i > 0 {
				b = append(b, ',')
			}
			b = fmt.Appendf(b, `{"index":%d,"document":{"text":%s},"relevance_score":%g}`, i, quote(d), 1/float64(i+2))
		}
		return append(b, "]}"...)
	}
	return j, nil
}

// rankedBySGLang is SGLang's form, which tells no usage of all.
func rankedBySGLang(documents []string) []byte {
	b := []byte{'['}
	for i, d := range documents {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"score":%g,"document":%s,"index":%d,"meta_info":null}`, 1/float64(i+2), quote(d), i)
	}
	return append(b, ']')
}

// silent is a job that generates nothing: the whole answer comes when a first token would.
func silent(s *Server, raw []byte, prompt int) (job, *refusal) {
	req, no := s.openAIRequest(raw)
	if no != nil {
		return job{}, no
	}
	j := job{prompt: prompt}
	j.adapter, no = adapterOf(s.cfg, req.Model, req.LoraPath)
	return j, no
}

// countInputs is how many texts there are, and their tokens: one text or list of ids, or a list of them.
func countInputs(raw json.RawMessage) (texts, tokens int, err error) {
	raw = bytes.TrimSpace(raw)
	var list []json.RawMessage
	if len(raw) == 0 || raw[0] != '[' {
		list = []json.RawMessage{raw}
	} else if _, ids := countIDs(raw); ids {
		list = []json.RawMessage{raw}
	} else if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return 0, 0, errors.New("input: an empty list")
	}
	for _, one := range list {
		n, err := countPrompt(one)
		if err != nil || n == 0 {
			return 0, 0, errors.New("input: neither texts nor lists of token ids")
		}
		tokens += n
	}
	return len(list), tokens, nil
}
