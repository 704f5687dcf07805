package load

import (
	"math"
	"slices"
)

// The data set kinds.
const (
	Random       = "random"        // random tokens of an exact length
	SharedPrefix = "shared-prefix" // groups of prompts with a common beginning (SGLang's generated-shared-prefix)
	ShareGPT     = "sharegpt"      // the first turns of recorded conversations
	Text         = "text"          // a file or folder of text, cut to an exact length
	JSONL        = "jsonl"         // prompts in a file, one JSON object to a line
	Conversation = "conversation"  // conversations of several turns
	Trace        = "trace"         // requests with timestamps (Mooncake's JSONL), replayed
)

// The two meanings that range_ratio has: vLLM and SGLang use the same word for
// different ranges.
const (
	// ConventionSGLang draws lengths from [L·r, L]; r = 1 is fixed length.
	ConventionSGLang = "sglang"
	// ConventionVLLM draws lengths from [L·(1−r), L·(1+r)]; r = 0 is fixed length.
	ConventionVLLM = "vllm"
)

// Dataset says what prompts are made of. Which members mean something depends on
// the kind.
type Dataset struct {
	Kind string `json:"kind"` // one of [DatasetKinds]
	// prompt length: random, text; of sharegpt, an exact cut, 0: as recorded
	InputTokens int `json:"input_tokens,omitempty"`
	// of prompts and outputs, as with both peers; nil: every one is exactly as long as asked
	RangeRatio *float64 `json:"range_ratio,omitempty"`
	Convention string   `json:"convention,omitempty"` // what RangeRatio means; empty means [ConventionSGLang]
	Seed       uint64   `json:"seed,omitempty"`       // mixed into every cell's own seed

	Groups          int `json:"groups,omitempty"`            // shared-prefix: how many beginnings there are
	PromptsPerGroup int `json:"prompts_per_group,omitempty"` // shared-prefix
	PrefixTokens    int `json:"prefix_tokens,omitempty"`     // shared-prefix: length of a beginning
	QuestionTokens  int `json:"question_tokens,omitempty"`   // shared-prefix: length of what follows it
	// of the file, or for text the folder, relative to the lab's directory
	Path   string `json:"path,omitempty"`
	SHA256 string `json:"sha256,omitempty"` // of the file, 64 hex digits; empty: whatever is there
	// sharegpt: which conversations count, [ConventionSGLang] or [ConventionVLLM]
	Filter string `json:"filter,omitempty"`
	// sharegpt: an exact cut of the answers; 0: as recorded
	OutputTokens int `json:"output_tokens,omitempty"`
	// trace: times between requests are multiplied by this; 0 means 1
	Slowdown float64 `json:"slowdown,omitempty"`
	// path of the model's tokenizer.json, as Path is; empty: the server's own, where it has one
	Tokenizer string `json:"tokenizer,omitempty"`
	// of that file, 64 hex digits; empty: whatever is there
	TokenizerSHA256 string `json:"tokenizer_sha256,omitempty"`
}

// Ranged reports whether lengths are drawn from a range.
func (d Dataset) Ranged() bool {
	switch {
	case d.RangeRatio == nil:
		return false
	case d.Kind == Random && d.Convention == ConventionVLLM:
		return *d.RangeRatio != 0
	}
	return *d.RangeRatio != 1
}

// Source is what a data set that is read from files was made of, for the
// results.
type Source struct {
	Tokenizer string `json:"tokenizer,omitempty"` // who counted: "tokenizer.json sha256:…", "server" or "none"
	SHA256    string `json:"sha256,omitempty"`    // of the file that was read
	// different ones that there were to send; of conversations, how many; 0: not known
	Prompts  int      `json:"prompts,omitempty"`
	LeftOut  int      `json:"left_out,omitempty"`  // by the filter, or as too short, before there were enough
	Bad      int      `json:"bad,omitempty"`       // entries of the file that could not be used
	BadLines []string `json:"bad_lines,omitempty"` // the first few of them, and why
	Repeated int      `json:"repeated,omitempty"`  // requests with a prompt that an earlier one had
	// different prompts, or conversations, that were measured and that the warm-up had sent before
	Warmed   int `json:"warmed,omitempty"`
	Measured int `json:"measured,omitempty"` // of so many; 0 where Warmed is
}

// Inputs returns the paths that the data set reads, as they are written: a path
// may be a folder. A job's Files says where each lies on the machine that runs it.
func (d Dataset) Inputs() []string {
	return slices.DeleteFunc([]string{d.Path, d.Tokenizer}, func(p string) bool { return p == "" })
}

// Span is a range of lengths, both ends included.
type Span struct{ Low, High int }

// Lengths is what a length and a range ratio mean in a convention. No length is
// below 1.
func Lengths(n int, ratio *float64, convention string) Span {
	if ratio == nil {
		return Span{n, n}
	}
	l, r := float64(n), *ratio
	if convention == ConventionVLLM {
		return Span{max(1, int(math.Floor(l*(1-r)))), max(1, int(math.Ceil(l*(1+r))))}
	}
	return Span{max(1, int(l*r)), n}
}
