package sim

import (
	"fmt"
	"net/http"
	"strings"
)

// form is how an engine writes the answers of the two OpenAI endpoints whose answers have choices: all that is the same
// for every token. Those of vLLM and SGLang are what the recordings in testdata/real have.
type form struct {
	prefix, object, chunkObject string
	before, after               string // around what a streamed choice says
	thoughtless                 string // after before, where no reasoning is said
	opening                     string // what the first choice of a stream says; empty: no event goes before the first token
	openingEnd, openingTail     string // after the finish_reason, and after the choices, of that event
	end, lastEnd                string // after the finish_reason of a streamed choice, and of the last
	tail                        string // after the choices of an event
	closingTail                 string // after the usage of the last event
	wholeBefore, wholeAfter     string // around what a whole choice says
	wholeEnd                    string // after its finish_reason
	wholeTail, wholeClosing     string // before the usage of a whole answer, and after it
	chat                        bool   // not all that is said need be text
}

// formOf is the form of an engine's answers to completions or chats, of which j is one.
func formOf(as string, chat bool, j job) form {
	f := form{prefix: "cmpl", object: "text_completion", chunkObject: "text_completion", chat: chat}
	if chat {
		f.prefix, f.object, f.chunkObject = "chatcmpl", "chat.completion", "chat.completion.chunk"
		f.before, f.after, f.opening = `"delta":{`, "}", `"role":"assistant","content":""`
		f.wholeBefore, f.wholeAfter = `"message":{"role":"assistant",`, "}"
	}
	const fingerprint = `,"system_fingerprint":"vllm-` + simVersion + `"`
	switch as {
	case VLLM:
		f.closingTail = fingerprint
		f.wholeTail = `,"service_tier":null` + fingerprint
		f.wholeClosing = `,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null`
		if !chat {
			f.end = `,"stop_reason":null,"prompt_token_ids":null,"token_ids":null`
			f.lastEnd = f.end
			f.wholeEnd = `,"stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null,"routed_experts":null`
			return f
		}
		f.openingTail = `,"prompt_token_ids":null,"prompt_text":null`
		f.end, f.lastEnd = `,"token_ids":null`, `,"stop_reason":null,"token_ids":null`
		f.wholeAfter = `,"refusal":null,"annotations":null,"audio":null,"function_call":null}`
		if j.reasoning == 0 {
			f.wholeAfter = strings.TrimSuffix(f.wholeAfter, "}") + `,"reasoning":null}`
		}
		f.wholeEnd = `,"stop_reason":null,"token_ids":null,"routed_experts":null`
		f.wholeClosing = `,"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null` + f.wholeClosing
	case SGLang:
		f.openingEnd = `,"matched_stop":null`
		f.end, f.lastEnd, f.wholeEnd = f.openingEnd, f.openingEnd, f.openingEnd
		f.wholeClosing = fmt.Sprintf(`,"metadata":{"weight_version":"default","weight_versions":[{"version":"default","start":0,"end":%d}]}`, j.tokens)
		if !chat {
			f.tail = `,"usage":null`
			return f
		}
		f.thoughtless = `"reasoning_content":null,`
		if j.reasoning == 0 {
			f.wholeAfter = `,"reasoning_content":null}`
		}
	default:
		f.end, f.lastEnd, f.wholeEnd = `,"stop_reason":null`, `,"stop_reason":null`, `,"stop_reason":null`
		f.tail, f.openingTail = `,"usage":null`, `,"usage":null`
	}
	return f
}

// usage is what an answer says of its tokens, so many of them generated so far: at its end, whole or as the last event of a
// stream, or underway.
func (c Config) usage(j job, tokens int, chat, end bool) string {
	text := fmt.Sprintf(`{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d`, j.prompt, j.prompt+tokens, tokens)
	_, toldByVLLM := c.Flags["enable-prompt-tokens-details"]
	_, toldBySGLang := c.Flags["enable-cache-report"]
	switch cached, none := `,"prompt_tokens_details":{"cached_tokens":0`, `,"prompt_tokens_details":null`; {
	case c.As == VLLM && !j.stream:
		if toldByVLLM {
			none = cached + `,"created_cache_tokens":0,"multimodal_tokens":null}`
		}
		text += none + `,"completion_tokens_details":null`
	case c.As == VLLM && toldByVLLM && end && chat:
		text += cached + `,"created_cache_tokens":0}`
	case c.As == VLLM && toldByVLLM && end:
		text += cached + "}"
	case c.As == SGLang:
		if toldBySGLang && end {
			none = cached + "}"
		}
		text += none + fmt.Sprintf(`,"reasoning_tokens":%d`, j.reasoning)
		if chat || !j.stream || !end {
			text += `,"completion_tokens_details":null`
		}
	case c.As == TRTLLM:
		text += none
	}
	return text + "}"
}

// refuse writes an error as the engine does.
func refuse(w http.ResponseWriter, as string, status int, kind, text string) {
	(&refusal{status: status, kind: kind, text: text}).write(w, as)
}

func (no *refusal) write(w http.ResponseWriter, as string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(no.status)
	if as == SGLang {
		fmt.Fprintf(w, `{"object":"error","message":%s,"type":"%s","param":null,"code":%d}`, quote(no.text), no.kind, no.status)
		return
	}
	param := "null"
	if no.param != "" {
		param = quote(no.param)
	}
	fmt.Fprintf(w, `{"error":{"message":%s,"type":"%s","param":%s,"code":%d}}`, quote(no.text), no.kind, param, no.status)
}
