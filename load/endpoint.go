package load

import "slices"

// The endpoints that a workload can be sent to.
const (
	Completions = "completions" // prompts travel as token ids
	Chat        = "chat"        // prompts travel as messages
	Generate    = "generate"    // SGLang's own; prompts travel as token ids
	Responses   = "responses"   // prompts travel as text or messages; of vLLM, SGLang and trtllm-serve
	Embeddings  = "embeddings"  // makes a vector of each prompt, which travels as token ids
	Rerank      = "rerank"      // orders documents by a query; all travel as text
)

// endpoint is one way to ask a server.
type endpoint struct {
	name, path string
	// words says that a prompt is text, of which the server makes more tokens than it has: a template's. Elsewhere
	// it travels as token ids, and is exactly as long as it was made.
	words    bool
	messages bool     // a prompt may be a list of messages
	silent   bool     // it generates no tokens: answers come whole
	several  bool     // a request may have several prompts
	nameless bool     // a request names no model: the server has but one
	own      []string // members of its bodies that only the generator can say
	// body is a request without what all have: the model's name and the extra body.
	body func(w Workload, prompts Form) map[string]any
}

// ofPrompts are what only the generator can say where a model goes on from a prompt, by whichever name.
var ofPrompts = []string{"prompt", "messages", "input_ids", "text", "max_tokens", "max_completion_tokens", "max_new_tokens",
	"stream", "stream_options", "n"}

// endpoints are all of them, in the order in which help names them.
var endpoints = []endpoint{
	{name: Completions, path: "/v1/completions", own: ofPrompts, body: func(w Workload, _ Form) map[string]any {
		return w.openAI(map[string]any{"prompt": promptMark})
	}},
	{name: Chat, path: "/v1/chat/completions", words: true, messages: true, own: ofPrompts, body: func(w Workload, prompts Form) map[string]any {
		if prompts == Messages {
			return w.openAI(map[string]any{"messages": promptMark})
		}
		return w.openAI(map[string]any{"messages": []any{map[string]any{"role": "user", "content": promptMark}}})
	}},
	{name: Generate, path: "/generate", nameless: true, own: ofPrompts, body: func(w Workload, prompts Form) map[string]any {
		member := "input_ids"
		if prompts == Words {
			member = "text"
		}
		return map[string]any{member: promptMark, "stream": !w.NoStream,
			"sampling_params": w.sampled(map[string]any{"max_new_tokens": tokensMark})}
	}},
	{name: Responses, path: "/v1/responses", words: true, messages: true, own: []string{"input", "max_output_tokens", "stream", "stream_options", "background"},
		body: func(w Workload, _ Form) map[string]any {
			// A server that keeps answers for later questions would fill its memory.
			return w.sampled(map[string]any{"input": promptMark, "max_output_tokens": tokensMark, "stream": !w.NoStream,
				"store": false})
		}},
	{name: Embeddings, path: "/v1/embeddings", silent: true, several: true, own: []string{"input"},
		body: func(Workload, Form) map[string]any { return map[string]any{"input": promptMark} }},
	// The documents are members of each request.
	{name: Rerank, path: "/v1/rerank", silent: true, words: true, own: []string{"query", "documents", "top_n"},
		body: func(Workload, Form) map[string]any { return map[string]any{"query": promptMark} }},
}

// Idle are the arguments of a load, by their names in a lab, that mean nothing where its requests go.
func (w Workload) Idle() []string {
	var names []string
	for _, a := range arguments {
		if a.at != nil && !a.at(w.endpoint()) {
			names = append(names, a.Name)
		}
	}
	return names
}

// Generates reports whether its answers are tokens that are generated.
func (w Workload) Generates() bool { return !w.endpoint().silent }

// sampled adds how tokens are chosen.
func (w Workload) sampled(body map[string]any) map[string]any {
	body["temperature"] = w.Temperature
	if w.IgnoreEOS {
		body["ignore_eos"] = true
	}
	return body
}

// openAI adds what the two oldest endpoints of the OpenAI API have in common.
func (w Workload) openAI(body map[string]any) map[string]any {
	body["max_tokens"], body["stream"] = tokensMark, !w.NoStream
	if !w.NoStream {
		body["stream_options"] = map[string]any{"include_usage": true}
	}
	return w.sampled(body)
}

// Endpoints are the names of all endpoints, in the order in which help names them.
func Endpoints() []string { return endpointsWith(func(endpoint) bool { return true }) }

// endpointsWith are the names of those of which something holds.
func endpointsWith(is func(endpoint) bool) []string {
	var names []string
	for _, e := range endpoints {
		if is(e) {
			names = append(names, e.name)
		}
	}
	return names
}

// endpoint is the workload's, or one that has nothing, nor a name, when it is not known.
func (w Workload) endpoint() endpoint {
	if i := slices.IndexFunc(endpoints, func(e endpoint) bool { return e.name == w.Endpoint }); i >= 0 {
		return endpoints[i]
	}
	return endpoint{}
}

// Path is where the workload's requests go, below a server's URL: "/v1/completions".
func (w Workload) Path() string { return w.endpoint().path }

// SendsText reports whether its prompts travel as text, which the server's template may make longer;
// else as token ids, exactly as long as they are made.
func (w Workload) SendsText() bool { return w.endpoint().words }

// TakesMessages reports whether a prompt of it may be a list of messages.
func (w Workload) TakesMessages() bool { return w.endpoint().messages }

// Streams reports whether its answers come token by token.
func (w Workload) Streams() bool { return !w.NoStream && w.Generates() }

// TimesTokens reports whether it is measured when their tokens come: what answers to questions say is all that counts of them.
func (w Workload) TimesTokens() bool { return w.Streams() && !w.Dataset.Questions }
