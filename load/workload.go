// Package load is the load generator: it makes prompts, sends them to an
// inference engine at the asked pace, stamps what streams back, and computes
// the metrics.
//
// It knows a server only by its URL and protocol. It knows nothing of hosts,
// containers, labs or how a result is kept, and of our packages it imports the
// tokenizer only.
package load

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Rate is in requests per second. Zero means "not set"; +Inf, written "inf",
// means all at once.
type Rate float64

// Inf is the rate at which every request is sent at once.
var Inf = Rate(math.Inf(1))

func (r Rate) String() string {
	if math.IsInf(float64(r), 1) {
		return "inf"
	}
	return strconv.FormatFloat(float64(r), 'g', -1, 64)
}

// ParseRate reads a number of requests per second or "inf".
func ParseRate(s string) (Rate, error) {
	if s == "inf" {
		return Inf, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f < 0 || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Errorf("%q is not a rate: write requests per second, such as 2.5, or \"inf\"", s)
	}
	return Rate(f), nil
}

// MarshalJSON writes a number, or "inf", which JSON has no number for.
func (r Rate) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(r), 1) {
		return []byte(`"inf"`), nil
	}
	return json.Marshal(float64(r))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Rate) UnmarshalJSON(b []byte) error {
	var f float64
	if err := json.Unmarshal(b, &f); err == nil {
		*r = Rate(f)
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	v, err := ParseRate(s)
	*r = v
	return err
}

// Duration is a time.Duration that JSON writes as text, "1m30s".
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes "1m30s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

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

// DatasetKinds lists the data set kinds in the order in which help names them.
func DatasetKinds() []string {
	return []string{Random, SharedPrefix, ShareGPT, Text, JSONL, Conversation, Trace}
}

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
	Kind        string   `json:"kind"`                   // one of [DatasetKinds]
	InputTokens int      `json:"input_tokens,omitempty"` // prompt length: random, text; of sharegpt, an exact cut, 0: as recorded
	RangeRatio  *float64 `json:"range_ratio,omitempty"`  // of prompts and outputs, as with both peers; nil: every one is exactly as long as asked
	Convention  string   `json:"convention,omitempty"`   // what RangeRatio means; empty means [ConventionSGLang]
	Seed        uint64   `json:"seed,omitempty"`         // mixed into every cell's own seed

	Groups          int     `json:"groups,omitempty"`            // shared-prefix: how many beginnings there are
	PromptsPerGroup int     `json:"prompts_per_group,omitempty"` // shared-prefix
	PrefixTokens    int     `json:"prefix_tokens,omitempty"`     // shared-prefix: length of a beginning
	QuestionTokens  int     `json:"question_tokens,omitempty"`   // shared-prefix: length of what follows it
	Path            string  `json:"path,omitempty"`              // of the file, or for text the folder, relative to the lab's directory
	SHA256          string  `json:"sha256,omitempty"`            // of the file, 64 hex digits; empty: whatever is there
	Filter          string  `json:"filter,omitempty"`            // sharegpt: which conversations count, [ConventionSGLang] or [ConventionVLLM]
	OutputTokens    int     `json:"output_tokens,omitempty"`     // sharegpt: an exact cut of the answers; 0: as recorded
	Slowdown        float64 `json:"slowdown,omitempty"`          // trace: times between requests are multiplied by this; 0 means 1
	Tokenizer       string  `json:"tokenizer,omitempty"`         // path of the model's tokenizer.json, as Path is; empty: the server's own, where it has one
	TokenizerSHA256 string  `json:"tokenizer_sha256,omitempty"`  // of that file, 64 hex digits; empty: whatever is there
}

// OwnOutputs reports whether the data set itself says how long answers are, so
// that a workload need not.
func (d Dataset) OwnOutputs() bool {
	switch d.Kind {
	case ShareGPT, JSONL, Conversation, Trace:
		return true
	}
	return false
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

// WithoutServer says why prompts of the data set cannot be made where no server is.
func (d Dataset) WithoutServer() error {
	switch d.Kind {
	case Conversation, Trace:
		return fmt.Errorf("a data set of kind %q is no batch of prompts", d.Kind)
	case ShareGPT, Text, JSONL:
		if d.Tokenizer == "" {
			return fmt.Errorf("no server is there to count the tokens of a data set of kind %q: name the model's tokenizer in it, tokenizer = \"tokenizer.json\"", d.Kind)
		}
	}
	return nil
}

// The endpoints that a workload can be sent to.
const (
	Completions = "completions" // /v1/completions; prompts travel as token ids
	Chat        = "chat"        // /v1/chat/completions
	Generate    = "generate"    // SGLang's /generate; prompts travel as token ids
)

// Stage is a part of a load with a pace of its own.
type Stage struct {
	Duration    Duration `json:"duration"`
	Rate        Rate     `json:"rate,omitempty"` // one of rate and concurrency is set
	Concurrency int      `json:"concurrency,omitempty"`
}

// CheckExtraBody says what of the workload's extra body cannot be merged into a
// request: what is not an object, or says what the generator says itself.
func (w Workload) CheckExtraBody() error {
	_, err := newTemplate(Target{}, w)
	return err
}

// NeedsTokenizerFile reports whether the data set's prompts can only be made with
// a tokenizer.json: text that is cut to a length and sent as text, as chat wants
// it, has to be put together again from its tokens.
func (w Workload) NeedsTokenizerFile() bool {
	d := w.Dataset
	return w.Endpoint == Chat && d.InputTokens > 0 && (d.Kind == Text || d.Kind == ShareGPT)
}

// Workload is what is sent and how, and everything that its numbers depend on
// besides the server. Its JSON form is part of a cell's identity.
type Workload struct {
	Dataset      Dataset     `json:"dataset"`
	Requests     int         `json:"requests,omitempty"`    // how many are measured; 0: as many as fit in Duration
	Duration     Duration    `json:"duration,omitempty"`    // stop sending after this; 0: after Requests
	Concurrency  int         `json:"concurrency,omitempty"` // at most this many in flight; 0: no limit
	Rate         Rate        `json:"rate,omitempty"`        // open loop; 0: closed loop by Concurrency
	Burstiness   Rate        `json:"burstiness,omitempty"`  // gamma shape of the gaps: 1 (and 0, unset) Poisson, +Inf constant
	OutputTokens int         `json:"output_tokens"`         // asked for, per request; 0: as the data set says
	IgnoreEOS    bool        `json:"ignore_eos"`
	Temperature  float64     `json:"temperature"`
	Endpoint     string      `json:"endpoint"`                  // [Completions], [Chat] or [Generate]
	ExtraBody    string      `json:"extra_body,omitempty"`      // a JSON object merged into every request body
	Warmup       int         `json:"warmup_requests,omitempty"` // sent and waited for before the measurement
	Timeout      Duration    `json:"timeout,omitempty"`         // for one request in all; 0 means [DefaultTimeout]
	Stall        Duration    `json:"stall,omitempty"`           // without a token from the server; 0 means [DefaultStall]
	SLO          []Objective `json:"slo,omitempty"`

	Ramp         Duration `json:"ramp,omitempty"`      // the pace grows from nothing to what is asked over this long
	Stages       []Stage  `json:"stages,omitempty"`    // one after the other, instead of Requests and Duration
	NoStream     bool     `json:"no_stream,omitempty"` // responses come whole
	CutBeginning Duration `json:"warmup,omitempty"`    // this much of the run's beginning does not count
	CutEnd       Duration `json:"cooldown,omitempty"`  // this much of its end does not count
	Hurried      bool     `json:"hurried,omitempty"`   // sent to an engine that is simulated at another speed than its own
}

// DefaultStall is how long no token may come before a request has failed, and
// DefaultTimeout how long it may take in all, which is what vLLM's and SGLang's
// clients allow.
const (
	DefaultStall   = 5 * time.Minute
	DefaultTimeout = 6 * time.Hour
)

// DefaultPercentiles are those that the field prints.
func DefaultPercentiles() []float64 { return []float64{50, 90, 95, 99} }

// Takes is how long the load takes by its own pace; 0 where the answers decide that.
func (w Workload) Takes() time.Duration {
	switch {
	case w.Duration > 0:
		return time.Duration(w.Duration)
	case len(w.Stages) > 0:
		var sum time.Duration
		for _, s := range w.Stages {
			sum += time.Duration(s.Duration)
		}
		return sum
	case w.Rate > 0 && w.Rate != Inf:
		return time.Duration(float64(w.Requests) / float64(w.Rate) * float64(time.Second))
	}
	return 0
}

// Longest is the length of the longest prompt and of the longest answer, in
// tokens; 0 for what only the data set's file tells.
func (w Workload) Longest() (input, output int) {
	d := w.Dataset
	input, output = d.InputTokens, w.OutputTokens
	switch d.Kind {
	case Random:
		input = lengths(d.InputTokens, d.RangeRatio, d.Convention).high
		output = lengths(w.OutputTokens, d.RangeRatio, d.Convention).high
	case SharedPrefix:
		input = d.PrefixTokens + d.QuestionTokens
	case ShareGPT:
		output = max(output, d.OutputTokens)
	}
	return input, output
}

// Target is the server under load.
type Target struct {
	BaseURL string `json:"base_url"` // without a path: "http://127.0.0.1:8000"
	Model   string `json:"model"`
	// BaseURLs are more servers of the same model: requests go to BaseURL and to
	// each of these in turn.
	BaseURLs []string `json:"base_urls,omitempty"`
	// Headers are sent with every request. They are stored with the results: what
	// must not be seen there belongs into [Job.Secrets].
	Headers map[string]string `json:"headers,omitempty"`
}

// headers are the target's, sorted and checked.
func (t Target) headers() ([][2]string, error) {
	var list [][2]string
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		if err := CheckHeader(name, t.Headers[name]); err != nil {
			return nil, err
		}
		list = append(list, [2]string{http.CanonicalHeaderKey(name), t.Headers[name]})
	}
	return list, nil
}

// CheckHeader says why a header cannot be sent with every request: it is one that
// the generator says itself, or not of HTTP. The error has the name and never the
// value, which may be a key.
func CheckHeader(name, value string) error {
	switch http.CanonicalHeaderKey(name) {
	case "", "Host", "Content-Length", "Content-Type", "Accept", "Connection", "Transfer-Encoding":
		return fmt.Errorf("header %q is for the generator to say", name)
	}
	if slices.ContainsFunc([]byte(name), func(c byte) bool { return !token(c) }) || !printable([]byte(value)) {
		return fmt.Errorf("header %q has characters that no header can have", name)
	}
	return nil
}

// Authorization is the header that carries an API key, and Bearer its value.
const Authorization = "Authorization"

// Bearer is the value of [Authorization] with which servers that speak the OpenAI
// API take a key.
func Bearer(key string) string { return "Bearer " + key }

// Job is one run of the generator, complete: what the agent is handed.
type Job struct {
	Target   Target   `json:"target"`
	Workload Workload `json:"workload"`
	Seed     uint64   `json:"seed"` // of prompts and arrivals; derived from the cell
	// Percentiles are reported beside mean, median and std; nil means
	// [DefaultPercentiles]. They select what is shown, not what is measured.
	Percentiles []float64 `json:"percentiles,omitempty"`

	// Secrets are headers, by name, that are sent like [Target.Headers] and are
	// never marshalled: neither results nor logs can show them. Whoever hands a job
	// to another process has to hand them over beside it.
	Secrets map[string]string `json:"-"`

	// Calibrated is what is known of the machine that runs the job; it belongs to
	// the machine and not to the job, and is never marshalled.
	Calibrated *Calibrated `json:"-"`

	// Files says where the paths of the data set ([Dataset.Inputs]) lie on the
	// machine that runs the job. What is not in it lies where it says.
	Files map[string]string `json:"files,omitempty"`
}
