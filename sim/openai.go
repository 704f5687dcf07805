package sim

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
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
// here. Sampling parameters and unknown fields are accepted and do nothing.
type request struct {
	Model               string          `json:"model"`
	LoraPath            string          `json:"lora_path"` // SGLang's
	Prompt              json.RawMessage `json:"prompt"`
	Messages            []message       `json:"messages"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	Stream              bool            `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
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
	if err != nil {
		return job{}, bad(err.Error())
	}
	return s.openAIJob(req, prompt, completionShape)
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
	j, no := s.openAIJob(req, all.words+all.imageTokens, chatShape)
	j.heard = all
	return j, no
}

func (s *Server) openAIRequest(body []byte) (req request, no *refusal) {
	if err := json.Unmarshal(body, &req); err != nil {
		return req, bad("request body: " + err.Error())
	}
	// SGLang answers whatever model is asked for.
	if s.cfg.As != SGLang && req.Model != "" && req.Model != s.cfg.Model && !slices.Contains(s.cfg.Adapters, req.Model) {
		return req, &refusal{http.StatusNotFound, "NotFoundError",
			fmt.Sprintf("The model `%s` does not exist.", req.Model)}
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

// shape is what differs between the two endpoints whose answers have choices.
type shape struct {
	prefix, object, chunkObject string
	before, after               string // around what a streamed choice says
	wholeBefore, wholeAfter     string // around what a whole choice says
	chat                        bool   // a first event announces the role, and not all need be text
}

var completionShape = shape{
	prefix: "cmpl", object: "text_completion", chunkObject: "text_completion",
}

var chatShape = shape{
	prefix: "chatcmpl", object: "chat.completion", chunkObject: "chat.completion.chunk",
	before: `"delta":{`, after: "}",
	wholeBefore: `"message":{"role":"assistant",`, wholeAfter: "}",
	chat: true,
}

// begin makes a job of what is asked, and says what its answer is to say.
func begin(s *Server, req request, prompt int, chat bool) (j job, says speech, no *refusal) {
	asked := *cmp.Or(req.MaxCompletionTokens, req.MaxTokens, new(defaultMaxTokens))
	if asked < 1 {
		return job{}, says, bad(fmt.Sprintf("max_tokens must be at least 1, got %d.", asked))
	}
	j = job{prompt: prompt, stream: req.Stream}
	if j.adapter, no = adapterOf(s.cfg, req.Model, req.LoraPath); no != nil {
		return job{}, says, no
	}
	j.tokens, j.finish = s.limit(asked)
	says, no = speak(s.cfg, s.accepted.Load()+1, req, &j, chat)
	return j, says, no
}

func (s *Server) openAIJob(req request, prompt int, sh shape) (job, *refusal) {
	j, says, no := begin(s, req, prompt, sh.chat)
	if no != nil {
		return job{}, no
	}
	// Everything in an event but its text is the same for all tokens of a
	// request, so it is put into words once.
	stop := "stop_reason"
	if s.cfg.As == SGLang {
		stop = "matched_stop"
	}
	id, created, model := s.id(sh.prefix), time.Now().Unix(), quote(s.cfg.Model)
	head := func(object string) string {
		return fmt.Sprintf(`{"id":"%s","object":"%s","created":%d,"model":%s,"choices":[`, id, object, created, model)
	}
	usage := fmt.Sprintf(`{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":null%s}`,
		prompt, prompt+j.tokens, j.tokens, s.cfg.reasoned(j.reasoning))
	before := "data: " + head(sh.chunkObject) + `{"index":0,` + sh.before
	after := sh.after + `,"logprobs":null,"finish_reason":null,"` + stop + `":null}],"usage":null}` + "\n\n"
	end := sh.after + `,"logprobs":null,"finish_reason":"` + j.finish + `","` + stop + `":null}],"usage":null}` + "\n\n"
	ended := before + `"reasoning_content":null` + end

	if sh.chat {
		j.opening = []byte("data: " + head(sh.chunkObject) + `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n")
	}
	j.chunk = func(b []byte, from, to int, last bool) []byte {
		switch apart := s.cfg.As == SGLang && sh.chat; { // it says in a chunk of its own why the answer ended
		case last && apart && from >= says.tokens:
			return append(b, ended...)
		case last && apart:
			b = append(says.members(append(b, before...), from, to), after...)
			return append(b, ended...)
		case last:
			return append(says.members(append(b, before...), from, to), end...)
		}
		return append(says.members(append(b, before...), from, to), after...)
	}
	closing := ""
	if req.StreamOptions.IncludeUsage {
		closing = "data: " + head(sh.chunkObject) + `],"usage":` + usage + "}\n\n"
	}
	j.closing = []byte(closing + "data: [DONE]\n\n")
	j.whole = func() []byte {
		b := []byte(head(sh.object) + `{"index":0,` + sh.wholeBefore)
		b = says.members(b, 0, j.tokens)
		return append(b, sh.wholeAfter+`,"logprobs":null,"finish_reason":"`+j.finish+`","`+stop+`":null}],"usage":`+usage+"}"...)
	}
	return j, nil
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

// countPrompt is the number of tokens of a prompt in any of the forms that a
// completion takes: text (its words count), token ids, or a list with one of
// either.
func countPrompt(raw json.RawMessage) (int, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return 0, errors.New("prompt: missing")
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

// refuse writes an error as vLLM does.
func refuse(w http.ResponseWriter, status int, kind, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":{"message":%s,"type":"%s","param":null,"code":%s}}`, quote(text), kind,
		strconv.Itoa(status))
}
