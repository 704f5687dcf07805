package load

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// The verdicts of a cell.
const (
	Valid    = "valid"
	Imported = "imported" // measured by others, and nothing in it contradicts the rest
	Suspect  = "suspect"  // measured, but with reasons to doubt
	Void     = "void"     // not a measurement
)

// Verdict says whether numbers can be trusted, and why not.
type Verdict struct {
	Verdict string
	Reasons []Reason
}

// Reason is why figures are doubted.
type Reason struct {
	Text string `json:"-"` // in words
	// Code is a word that stays the same when the words change: "send-lag". Empty: the
	// reason was written down without one.
	Code  string  `json:"code"`
	Value float64 `json:"value,omitempty"` // what was found
	Limit float64 `json:"limit,omitempty"` // what would have been right; 0, as Value: nothing that has a bound
	// Metrics are the figures that the reason concerns, as columns name them: "ttft",
	// "output_throughput". Nil: all of them.
	Metrics []string `json:"metrics,omitempty"`
}

// alone are the metrics that can be right where others are wrong. What is worked out
// from several, as goodput and costs are, is doubted with any of them.
var alone = []string{"ttft", "ttfa", "tpot", "itl", "e2el", "normalized_latency",
	"request_throughput", "input_throughput", "output_throughput", "total_throughput", "mean_concurrency"}

// Concerns reports whether the reason is about a column: a metric, a statistic of it as
// p99_ttft_ms, or what is worked out from it as output_throughput_per_gpu.
func (r Reason) Concerns(column string) bool {
	if column == "interactivity" {
		column = "tpot" // it is the inverse
	}
	of := func(metric string) bool { return strings.Contains("_"+column+"_", "_"+metric+"_") }
	return r.Metrics == nil || slices.ContainsFunc(r.Metrics, of) || !slices.ContainsFunc(alone, of)
}

// The codes of reasons that are found beside the load: at its engine and at its hosts. docs/method.md has those of all.
const (
	CodeNotMeasured   = "not-measured"
	CodeNoneCompleted = "none-completed"
	CodeFailed        = "requests-failed"
	CodeOutputs       = "other-outputs"
	CodeCutShort      = "cut-short"    // where the engine's context ends
	CodeServed        = "served-other" // the engine runs with other settings than the lab says
	CodeImages        = "image-unknown"
	CodeThrottled     = "throttled"
	CodeSteal         = "host-steal"
	CodeBusy          = "host-busy"
	CodePods          = "pods-unknown"
	CodePort          = "port-shared"
	CodeUnproved      = "group-unproved"
	CodeGroup         = "group-otherwise" // its members have done other work than was asked for
	CodeLeft          = "left-over"       // of the cell before
	CodePrompts       = "prompts-other"   // than the model's own chat template and tokenizer make them
	CodeAnswers       = "answers-worse"   // than those of the baseline that the lab names
)

// Because are reasons of one code that concern all figures; empty: it is not known.
func Because(code string, texts ...string) []Reason {
	var list []Reason
	for _, text := range texts {
		list = append(list, Reason{Code: code, Text: text})
	}
	return list
}

// Texts are the reasons in words.
func (v Verdict) Texts() []string {
	var list []string
	for _, r := range v.Reasons {
		list = append(list, r.Text)
	}
	return list
}

// String is the verdict and its reasons in words.
func (v Verdict) String() string {
	if len(v.Reasons) == 0 {
		return v.Verdict
	}
	return v.Verdict + ": " + strings.Join(v.Texts(), "; ")
}

// Doubts reports whether a column cannot be trusted: nothing of a void cell can, and of
// a suspect one what a reason concerns.
func (v Verdict) Doubts(column string) bool {
	if v.Verdict != Suspect {
		return v.Verdict == Void
	}
	return len(v.Reasons) == 0 || slices.ContainsFunc(v.Reasons, func(r Reason) bool { return r.Concerns(column) })
}

// verdictJSON is a verdict as it is stored. Reasons were sentences only at first, and
// still stand there as such; what else is known of each stands beside, in their order.
type verdictJSON struct {
	Verdict  string   `json:"verdict"`
	Reasons  []string `json:"reasons,omitempty"`
	Findings []Reason `json:"findings,omitempty"`
}

// MarshalJSON writes the reasons as sentences, and what else is known of them.
func (v Verdict) MarshalJSON() ([]byte, error) {
	out := verdictJSON{Verdict: v.Verdict, Reasons: v.Texts()}
	if slices.ContainsFunc(v.Reasons, func(r Reason) bool { return r.Code != "" }) {
		out.Findings = v.Reasons
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // whoever writes the whole document decides
	err := e.Encode(out)
	return b.Bytes(), err
}

// UnmarshalJSON reads what MarshalJSON writes, and verdicts with sentences only.
func (v *Verdict) UnmarshalJSON(b []byte) error {
	var in verdictJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*v = Verdict{Verdict: in.Verdict, Reasons: Because("", in.Reasons...)}
	if len(in.Findings) == len(in.Reasons) {
		for i, text := range in.Reasons {
			v.Reasons[i] = in.Findings[i]
			v.Reasons[i].Text = text
		}
	}
	return nil
}
