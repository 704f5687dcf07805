package sim

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// defaultMaxTokens is what the engines generate when nothing is asked for.
const defaultMaxTokens = 16

// maxBody bounds a request's body; the longest prompts in use are far below.
const maxBody = 64 << 20

// request is what the endpoints of the OpenAI API are asked with, as far as it matters
// here. Other sampling parameters and unknown fields are accepted and do nothing.
type request struct {
	Model               string          `json:"model"`
	LoraPath            string          `json:"lora_path"` // SGLang's
	Prompt              json.RawMessage `json:"prompt"`
	Messages            []message       `json:"messages"`
	MaxTokens           *int            `json:"max_tokens"`
	Temperature         float64         `json:"temperature"`
	PromptLogprobs      int             `json:"prompt_logprobs"` // vLLM's; 0: none
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	Stream              bool            `json:"stream"`
	StreamOptions       struct {
		IncludeUsage    bool `json:"include_usage"`
		ContinuousUsage bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	Tools          []tool          `json:"tools"`
	ToolChoice     json.RawMessage `json:"tool_choice"`
	ResponseFormat responseFormat  `json:"response_format"`
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

func (s *Server) completion(body []byte) (job, *refusal) {
	req, no := s.openAIRequest(body)
	if no != nil {
		return job{}, no
	}
	prompt, err := countPrompt(req.Prompt)
	switch {
	case err == errNoPrompt && s.cfg.As == SGLang:
		return job{}, malformed(err)
	case err == errNoPrompt:
		no := bad("Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)")
		no.param = "prompt"
		return job{}, no
	case err != nil:
		return job{}, bad(err.Error())
	}
	return s.openAIJob(req, prompt, false)
}

func (s *Server) chat(body []byte) (job, *refusal) {
	req, no := s.openAIRequest(body)
	if no != nil {
		return job{}, no
	}
	if len(req.Messages) == 0 {
		return job{}, bad("messages: at least one is needed")
	}
	var all heard
	for _, m := range req.Messages {
		one, err := content(m.Content)
		if err != nil {
			return job{}, bad(err.Error())
		}
		all.add(one)
	}
	j, no := s.openAIJob(req, all.words+all.imageTokens, true)
	j.heard = all
	return j, no
}

func (s *Server) openAIRequest(body []byte) (req request, no *refusal) {
	if err := json.Unmarshal(body, &req); err != nil {
		return req, malformed(err)
	}
	// SGLang answers whatever model is asked for.
	if s.cfg.As != SGLang && req.Model != "" && req.Model != s.cfg.Model && !slices.Contains(s.cfg.Adapters, req.Model) {
		return req, &refusal{http.StatusNotFound, "NotFoundError",
			fmt.Sprintf("The model `%s` does not exist. Valid aliases: %s.", req.Model, strings.Join(append([]string{s.cfg.Model}, s.cfg.Adapters...), ", ")), "model"}
	}
	return req, nil
}

// adapterOf is the adapter that a request asks for: of SGLang beside the model, of others as the model.
func adapterOf(cfg Config, model, path string) (name string, no *refusal) {
	switch {
	case cfg.As != SGLang && slices.Contains(cfg.Adapters, model):
		return model, nil
	case cfg.As == SGLang && path != "" && !slices.Contains(cfg.Adapters, path):
		return "", bad("The following requested LoRA adapters are not loaded: " + path)
	case cfg.As == SGLang:
		return path, nil
	}
	return "", nil
}

// begin makes a job of what is asked, and says what its answer is to say.
func begin(s *Server, req request, prompt int, chat bool) (j job, says speech, no *refusal) {
	asked, param := *cmp.Or(req.MaxCompletionTokens, req.MaxTokens, new(defaultMaxTokens)), "max_tokens"
	if req.MaxCompletionTokens != nil {
		param = "max_completion_tokens"
	}
	if asked, no = s.fits(asked, prompt, param, chat); no != nil {
		return job{}, says, no
	}
	if req.Temperature < 0 {
		no := wrong("temperature", fmt.Sprintf("%.1f", req.Temperature), fmt.Sprintf("temperature must be non-negative, got %.1f.", req.Temperature))
		if s.cfg.As == SGLang {
			no = bad(fmt.Sprintf("temperature must be a non-negative finite number, got %.1f.", req.Temperature))
		}
		return job{}, says, no
	}
	j = job{prompt: prompt, stream: req.Stream}
	if j.adapter, no = adapterOf(s.cfg, req.Model, req.LoraPath); no != nil {
		return job{}, says, no
	}
	j.tokens, j.finish = s.limit(asked)
	words, calls := s.cfg.answerTo(req)
	if all := s.cfg.Reasoning + len(words) + 1; words != nil && all <= asked { // the end of text is a token
		j.tokens, j.finish = all, "stop"
	}
	says, no = speak(s.cfg, s.accepted.Load()+1, req, &j, chat, words, calls)
	return j, says, no
}

// fits is how many of the tokens that are asked for go into the context with a prompt: vLLM cuts the answer there, SGLang
// refuses the request.
func (s *Server) fits(asked, prompt int, param string, chat bool) (tokens int, no *refusal) {
	most := func(n int) *refusal {
		return wrong(param, strconv.Itoa(n), fmt.Sprintf("%s must be at least 1, got %d.", param, n))
	}
	longest, told := s.modelLen()
	switch over := told && prompt+asked > longest; {
	case asked < 1:
		return 0, most(asked)
	case !over:
		return asked, nil
	case s.cfg.As == SGLang && chat && asked > longest:
		return 0, bad(fmt.Sprintf("max_completion_tokens is too large: %d.This model supports at most %d completion tokens.", asked, longest))
	case s.cfg.As == SGLang && prompt >= longest:
		return 0, bad(fmt.Sprintf("The input (%d tokens) is longer than the model's context length (%d tokens).", prompt, longest))
	case s.cfg.As == SGLang:
		return 0, bad(fmt.Sprintf("Requested token count exceeds the model's maximum context length of %d tokens. You requested a total of %d tokens: "+
			"%d tokens from the input messages and %d tokens for the completion. Please reduce the number of tokens in the input messages or the "+
			"completion to fit within the limit.", longest, prompt+asked, prompt, asked))
	case asked > longest:
		return 0, wrong(param, strconv.Itoa(asked), fmt.Sprintf("%s=%d cannot be greater than max_model_len=%d. Please request fewer output tokens.", param, asked, longest))
	case prompt > longest:
		return 0, wrong("input_tokens", strconv.Itoa(prompt), fmt.Sprintf("This model's maximum context length is %d tokens. However, your prompt contains %d input tokens, "+
			"which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.", longest, prompt))
	case prompt == longest:
		return 0, most(0)
	}
	return longest - prompt, nil
}

func (s *Server) openAIJob(req request, prompt int, chat bool) (job, *refusal) {
	j, says, no := begin(s, req, prompt, chat)
	if no != nil {
		return job{}, no
	}
	// Everything in an event but its text is the same for all tokens of a
	// request, so it is put into words once.
	f := formOf(s.cfg.As, chat, j)
	id, created, model := s.id(f.prefix), time.Now().Unix(), quote(s.cfg.Model)
	head := func(object string) string {
		return fmt.Sprintf(`{"id":"%s","object":"%s","created":%d,"model":%s,"choices":[`, id, object, created, model)
	}
	finish := `,"logprobs":null,"finish_reason":"` + j.finish + `"`
	const unfinished = `,"logprobs":null,"finish_reason":null`
	before := "data: " + head(f.chunkObject) + `{"index":0,` + f.before
	thoughtless := before + f.thoughtless
	after, end := f.after+unfinished+f.end+"}]", f.after+finish+f.lastEnd+"}]"

	if f.opening != "" {
		j.opening = []byte(thoughtless + f.opening + f.after + unfinished + f.openingEnd + "}]" + f.openingTail + "}\n\n")
	}
	// tail is what follows the choices of an event, so many tokens sent.
	apart := s.cfg.As == SGLang && chat // it says in a chunk of its own why the answer ended
	tail := func(b []byte, tokens int, over bool) []byte {
		if o := req.StreamOptions; o.IncludeUsage && o.ContinuousUsage {
			b = append(append(b, `,"usage":`...), s.cfg.usage(j, tokens, chat, false)...)
		} else {
			b = append(b, f.tail...)
		}
		if apart && len(says.calls) > 0 && tokens > says.reasoning+says.calls[0].from && !over {
			b = append(b, `,"usage":null`...)
		}
		return append(b, "}\n\n"...)
	}
	j.chunk = func(b []byte, from, to int, last bool) []byte {
		if !last || !apart || from < says.tokens {
			if from < says.reasoning {
				b = append(b, before...)
			} else {
				b = append(b, thoughtless...)
			}
			b = says.members(b, from, to, true)
			if last && !apart {
				return tail(append(b, end...), to, true)
			}
			b = tail(append(b, after...), to, false)
		}
		if last {
			b = tail(append(append(b, strings.TrimSuffix(thoughtless, ",")...), end...), to, true)
		}
		return b
	}
	closing := ""
	if req.StreamOptions.IncludeUsage {
		closing = "data: " + head(f.chunkObject) + `],"usage":` + s.cfg.usage(j, j.tokens, chat, true) + f.closingTail + "}\n\n"
	}
	j.closing = func() []byte { return []byte(closing + "data: [DONE]\n\n") }
	j.whole = func() []byte {
		b := []byte(head(f.object) + `{"index":0,` + f.wholeBefore)
		b = says.members(b, 0, j.tokens, false)
		return append(b, f.wholeAfter+finish+f.wholeEnd+forced(s.cfg, req, prompt)+"}]"+f.wholeTail+`,"usage":`+s.cfg.usage(j, j.tokens, chat, true)+f.wholeClosing+"}"...)
	}
	return j, nil
}

// forced is what vLLM says of the tokens of a prompt.
func forced(cfg Config, req request, prompt int) string {
	if cfg.As != VLLM || req.PromptLogprobs <= 0 {
		return ""
	}
	b := []byte(`,"prompt_logprobs":[null`)
	for at := 1; at < prompt; at++ {
		for i, logprob := range cfg.likely(at, req.PromptLogprobs) {
			b = fmt.Appendf(b, `%s"%d":{"logprob":%.6f,"rank":%d,"decoded_token":"x"}`, []string{",{", ","}[min(i, 1)], 100+i, logprob, i+1)
		}
		b = append(b, '}')
	}
	return string(append(b, ']'))
}

// likely are how likely the top tokens of a position are, as logarithms. They fall off from the likeliest, as in every engine but for its noise.
func (c Config) likely(position, top int) []float64 {
	draw := rand.New(rand.NewPCG(uint64(position), 28))
	top = min(top, 100)
	all, sum := make([]float64, 4*top), 0.0
	for i := range all {
		all[i] = c.LogprobNoise*draw.NormFloat64() - float64(i)
		sum += math.Exp(all[i])
	}
	for i := range top {
		all[i] -= math.Log(sum)
	}
	return all[:top]
}

// appendWords appends tokens of what is said, as they stand between the quotes of a JSON string.
func (sp speech) appendWords(b []byte, from, to int) []byte {
	for i := from; i < to; i++ {
		if at := i - sp.reasoning; sp.words == nil || at < 0 {
			b = appendText(b, i+sp.shift, i+1+sp.shift)
		} else if at < len(sp.words) {
			text := quote(sp.words[at])
			b = append(b, text[1:len(text)-1]...)
		}
	}
	return b
}

func appendText(b []byte, from, to int) []byte {
	for i := from; i < to; i++ {
		b = append(b, vocabulary[i%len(vocabulary)]...)
	}
	return b
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string always marshals
	return string(b)
}

var errNoPrompt = errors.New("prompt: missing")

// countPrompt is the number of tokens of a prompt in any of the forms that a
// completion takes: text (its words count), token ids, or a list with one of
// either.
func countPrompt(raw json.RawMessage) (int, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return 0, errNoPrompt
	}
	if raw[0] == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return 0, fmt.Errorf("prompt: %w", err)
		}
		return len(strings.Fields(text)), nil
	}
	if raw[0] != '[' {
		return 0, errors.New("prompt: neither text nor a list")
	}
	if n, ok := countIDs(raw); ok {
		return n, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return 0, fmt.Errorf("prompt: %w", err)
	}
	if len(list) != 1 {
		return 0, fmt.Errorf("prompt: a list of %d prompts, of which the simulated engine takes one", len(list))
	}
	return countPrompt(list[0])
}

// countIDs counts the elements of a valid JSON array if all are whole numbers,
// without making them: prompts of thousands of ids are the usual case.
func countIDs(raw []byte) (n int, ok bool) {
	digits := false
	for _, c := range raw[1 : len(raw)-1] {
		switch {
		case c >= '0' && c <= '9':
			digits = true
		case c == ',':
			n++
		case c != ' ' && c != '\n' && c != '\t' && c != '\r':
			return 0, false
		}
	}
	if !digits {
		return 0, false
	}
	return n + 1, true
}

func decode(w http.ResponseWriter, r *http.Request, v any) error {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(v); err != nil {
		return fmt.Errorf("request body: %w", err)
	}
	return nil
}

// answer writes v as JSON. A client that has gone is no concern of the engine.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}
