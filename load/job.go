package load

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Progress is where a run stands.
type Progress struct {
	Elapsed      float64 `json:"elapsed_s"`
	Sent         int     `json:"sent"`
	Done         int     `json:"done"`
	Failed       int     `json:"failed"`
	InFlight     int     `json:"in_flight"`
	OutputTokens int64   `json:"output_tokens"` // content chunks so far
	Total        int     `json:"total"`         // requests to be measured; 0 when the run is bounded by time
	Warmup       bool    `json:"warmup,omitempty"`
	Silent       float64 `json:"silent_s,omitempty"` // for how long requests were in flight, and nothing came
	// Overloaded says of an open loop that requests in flight become ever more: the engine does not
	// keep up with the rate.
	Overloaded bool `json:"overloaded,omitempty"`
}

// Result is a finished run.
type Result struct {
	Summary Summary
	Records []Record // in the order in which requests were dispatched
	// Gaps are all times between chunks, where the records have lost some; else nil.
	Gaps *Histogram
}

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

	Share Share `json:"share,omitzero"` // of it, where several clients send the load
}

// Target is the server under load.
type Target struct {
	BaseURL string `json:"base_url"` // without a path: "http://127.0.0.1:8000"
	Model   string `json:"model"`
	// BaseURLs are more servers of the same model: requests go to BaseURL and to
	// each of these in turn.
	BaseURLs []string `json:"base_urls,omitempty"`
	// TokenizeURL is who turns text into tokens, where that is not the server at BaseURL: a
	// router does not.
	TokenizeURL string `json:"tokenize_url,omitempty"`
	// LoraPath has a request name its adapter as SGLang takes it, in a member lora_path, and not as a model: SGLang
	// answers for the model itself whatever model is asked for.
	LoraPath bool `json:"lora_path,omitempty"`
	// Headers are sent with every request. They are stored with the results: what
	// must not be seen there belongs into [Job.Secrets].
	Headers map[string]string `json:"headers,omitempty"`
}

// Fields are the target's headers, sorted and checked.
func (t Target) Fields() ([][2]string, error) {
	var list [][2]string
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		if err := CheckHeader(name, t.Headers[name]); err != nil {
			return nil, err
		}
		list = append(list, [2]string{http.CanonicalHeaderKey(name), t.Headers[name]})
	}
	return list, nil
}

// CheckHeader says why a header cannot be sent with every request: it is one that the generator
// says itself, or not of HTTP. The error has the name and never the value, which may be a key.
func CheckHeader(name, value string) error {
	switch http.CanonicalHeaderKey(name) {
	case "", "Host", "Content-Length", "Content-Type", "Accept", "Connection", "Transfer-Encoding":
		return fmt.Errorf("header %q is for the generator to say", name)
	}
	if !HeaderName([]byte(name)) || !HeaderValue([]byte(value)) {
		return fmt.Errorf("header %q has characters that no header can have", name)
	}
	return nil
}

// Authorization is the header that carries an API key, and Bearer its value.
const Authorization = "Authorization"

// Bearer is the value of [Authorization] with which servers that speak the OpenAI API take a key.
func Bearer(key string) string { return "Bearer " + key }

// HeaderValue reports whether a line has no control characters but tabs.
func HeaderValue(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// HeaderName reports whether a text can be a field's name.
func HeaderName(b []byte) bool {
	return len(b) > 0 && !slices.ContainsFunc(b, func(c byte) bool {
		return (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0
	})
}
