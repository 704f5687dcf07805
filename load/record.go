package load

import (
	"math"
	"time"
)

// Record is one request as it was seen from here. Times count from the start of
// the measurement, on the monotonic clock.
type Record struct {
	Seq       int           `json:"seq"`
	Client    int           `json:"client,omitempty"` // that has sent it: the place in [Summary.Clients]
	Scheduled time.Duration `json:"scheduled"`        // when its arrival was due; closed loop: when it became the next to send
	Ready     time.Duration `json:"ready"`            // Scheduled, or when the concurrency cap let it go, if that was later
	Sent      time.Duration `json:"sent"`             // just before the request was written
	First     time.Duration `json:"first"`            // first chunk with a token, or a whole answer; 0: none came
	Last      time.Duration `json:"last"`             // last chunk with a token, or a whole answer
	End       time.Duration `json:"end"`              // the answer was complete, or had failed
	// Gaps are the times between successive chunks with tokens, len = chunks−1. A run
	// of millions of tokens keeps those of every second, fourth, … request.
	Gaps []time.Duration `json:"gaps,omitempty"`
	// gaps that were not kept: they are in the summary's ITL only
	Dropped int `json:"gaps_dropped,omitempty"`
	// chunks that one read brought together with the one before: their gap is 0
	Merged       int `json:"merged,omitempty"`
	InputTokens  int `json:"input_tokens"`            // by the server's usage
	CachedTokens int `json:"cached_tokens,omitempty"` // likewise, of InputTokens those that were not computed anew; 0: none, or it does not tell
	OutputTokens int `json:"output_tokens"`           // by the server's usage, never what was asked for
	Reasoning    int `json:"reasoning,omitempty"`     // chunks with reasoning in them
	Calls        int `json:"calls,omitempty"`         // chunks with a part of a tool call in them
	Mute         int `json:"mute,omitempty"`          // chunks with nothing in them, as of an end token or a part of a character
	// first chunk with text or a part of a tool call, of an answer that has other chunks too; 0: none came
	Answered time.Duration `json:"answered,omitempty"`
	// by the server's usage, among OutputTokens; 0: there are none, or it does not tell
	ReasoningTokens int `json:"reasoning_tokens,omitempty"`
	Session         int `json:"session,omitempty"` // number of its conversation, from 1; 0: it stands alone
	Turn            int `json:"turn,omitempty"`    // of the conversation, from 1
	// the conversation has as many requests as its turn says: of agents, one with a lower turn may be sent later, or never
	Final   bool   `json:"final,omitempty"`
	Adapter string `json:"adapter,omitempty"` // that it was sent to; empty: the model itself
	// the answer that was recorded calls a tool, whose result the next turn brings
	ToCall bool `json:"to_call,omitempty"`
	// the server sent no count, or 0: OutputTokens counts chunks, or InputTokens is AskedInput, or both
	NoUsage     bool   `json:"no_usage,omitempty"`
	AskedInput  int    `json:"asked_input"` // length of the prompt that was made
	AskedOutput int    `json:"asked_output"`
	Texts       int    `json:"texts,omitempty"`  // that are embedded or ranked; 0: it generates
	Finish      string `json:"finish,omitempty"` // "length", "stop"
	Class       string `json:"class,omitempty"`  // of the error, one of the Class constants; empty: success
	Status      int    `json:"status,omitempty"` // of HTTP, where the class is [ClassStatus]
	Error       string `json:"error,omitempty"`  // with the response's body, shortened
	Said        *Said  `json:"said,omitempty"`   // what was answered, of questions; nil: it is not kept
}

// Said is what a server has answered.
type Said struct {
	Text      string     `json:"text,omitempty"`
	Reasoning string     `json:"reasoning,omitempty"` // where the server tells it apart from the text
	Calls     []ToolCall `json:"calls,omitempty"`
	Forced    string     `json:"forced,omitempty"` // how likely the prompt's tokens were to it, as JSON in its own form
	Cut       bool       `json:"cut,omitempty"`    // more came than is kept
}

// ToolCall is a call of a tool.
type ToolCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON, if all is well
}

// OK reports whether the request succeeded.
func (r *Record) OK() bool { return r.Class == "" }

// Answer is when the first chunk came with text or a part of a tool call: what the one who asked can
// read. ok is false when none did.
func (r *Record) Answer() (at time.Duration, ok bool) {
	if r.Reasoning == 0 && r.Mute == 0 {
		return r.First, true
	}
	return r.Answered, r.Answered > 0
}

// Fail writes down how and when the request failed; class is one of the Class constants.
func (r *Record) Fail(at time.Duration, class, text string) {
	r.End, r.Class, r.Error = at, class, text
	if class != ClassStatus {
		r.Status = 0
	}
}

// value is a completed request's value of a metric. One of a single token has no
// TPOT, one of a single chunk no ITL; both then are 0, which is within any bound.
func (r *Record) value(metric string) (v time.Duration, ok bool) {
	switch metric {
	case "ttft":
		return r.First - r.Sent, true
	case "ttfa":
		if at, ok := r.Answer(); ok {
			return at - r.Sent, true
		}
		return math.MaxInt64, false
	case "tpot":
		if r.OutputTokens > 1 {
			return (r.Last - r.First) / time.Duration(r.OutputTokens-1), true
		}
	case "itl":
		if gaps := len(r.Gaps) + r.Dropped; gaps > 0 {
			return (r.Last - r.First) / time.Duration(gaps), true
		}
	case "e2el":
		return r.Last - r.Sent, true
	case "normalized_latency":
		return (r.Last - r.Sent) / time.Duration(max(1, r.OutputTokens)), true
	}
	return 0, false
}

func (r *Record) good(bounds []Objective) bool {
	for _, o := range bounds {
		if v, _ := r.value(o.Metric); v > time.Duration(o.Max) {
			return false
		}
	}
	return true
}

// The classes of failed requests.
const (
	ClassConnect   = "connect"   // no connection
	ClassStale     = "stale"     // the server ended a connection that it had kept as the request went out on it
	ClassStatus    = "status"    // an HTTP status other than 200
	ClassTruncated = "truncated" // the stream ended before it was complete
	ClassMalformed = "malformed" // what came is not the protocol
	ClassServer    = "server"    // an error object inside the stream
	ClassStall     = "stall"     // no token for Workload.Stall
	ClassTimeout   = "timeout"   // Workload.Timeout ran out
	ClassEmpty     = "empty"     // the answer was whole but brought no token
	ClassCancelled = "cancelled" // the run was stopped while it was in flight
)
