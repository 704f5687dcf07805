package load

import "time"

// Record is one request as it was seen from here. Times count from the start of
// the measurement, on the monotonic clock.
type Record struct {
	Seq       int           `json:"seq"`
	Scheduled time.Duration `json:"scheduled"` // when its arrival was due; closed loop: when it became the next to send
	Ready     time.Duration `json:"ready"`     // Scheduled, or when the concurrency cap let it go, if that was later
	Sent      time.Duration `json:"sent"`      // just before the request was written
	First     time.Duration `json:"first"`     // first chunk with content, or a whole answer; 0: none came
	Last      time.Duration `json:"last"`      // last chunk with content, or a whole answer
	End       time.Duration `json:"end"`       // the answer was complete, or had failed
	// Gaps are the times between successive content chunks, len = chunks−1. A run
	// of millions of tokens keeps those of every second, fourth, … request.
	Gaps         []time.Duration `json:"gaps,omitempty"`
	Dropped      int             `json:"gaps_dropped,omitempty"` // gaps that were not kept: they are in the summary's ITL only
	Merged       int             `json:"merged,omitempty"`       // content chunks that one read brought together with the one before: their gap is 0
	InputTokens  int             `json:"input_tokens"`           // by the server's usage
	OutputTokens int             `json:"output_tokens"`          // by the server's usage, never what was asked for
	NoUsage      bool            `json:"no_usage,omitempty"`     // the server sent none: OutputTokens counts chunks, InputTokens is AskedInput
	AskedInput   int             `json:"asked_input"`            // length of the prompt that was made
	AskedOutput  int             `json:"asked_output"`
	Finish       string          `json:"finish,omitempty"` // "length", "stop"
	Class        string          `json:"class,omitempty"`  // of the error, one of the Class constants; empty: success
	Status       int             `json:"status,omitempty"` // of HTTP, where the class is [ClassStatus]
	Error        string          `json:"error,omitempty"`  // with the response's body, shortened
}

// OK reports whether the request succeeded.
func (r *Record) OK() bool { return r.Class == "" }

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

// Stats describe one metric over the successful requests (ITL: over all gaps).
// Milliseconds, except where the metric is not a time.
type Stats struct {
	Count       int                `json:"count"`
	Mean        float64            `json:"mean"`
	Median      float64            `json:"median"`
	Std         float64            `json:"std"` // population, ddof 0, as numpy
	Min         float64            `json:"min"`
	Max         float64            `json:"max"`
	Percentiles map[string]float64 `json:"percentiles"` // "99", "99.9": linear interpolation, as numpy
}

// Summary is what one run measured. docs/method.md defines each number.
type Summary struct {
	Started      time.Time      `json:"started"`
	Duration     float64        `json:"duration_s"` // first dispatch to last response
	Requests     int            `json:"requests"`   // dispatched
	Completed    int            `json:"completed"`
	Failed       int            `json:"failed"`
	Errors       map[string]int `json:"errors,omitempty"`        // by class
	Statuses     map[int]int    `json:"statuses,omitempty"`      // those of class [ClassStatus], by status
	ErrorSamples []string       `json:"error_samples,omitempty"` // the first few distinct messages

	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	AskedInput   int64 `json:"asked_input_tokens"`      // of completed requests
	AskedOutput  int64 `json:"asked_output_tokens"`     // of completed requests
	UsageMissing int   `json:"usage_missing,omitempty"` // completed requests whose stream brought no usage; counted by chunks

	RequestThroughput float64  `json:"request_throughput"` // completed / duration
	InputThroughput   float64  `json:"input_throughput"`   // tokens/s
	OutputThroughput  float64  `json:"output_throughput"`  // tokens/s
	TotalThroughput   float64  `json:"total_throughput"`   // tokens/s
	Goodput           *float64 `json:"goodput,omitempty"`  // good requests/s; nil without an SLO
	// Objectives is how the cell stands to each line of its SLO, in the SLO's order.
	Objectives []Attainment `json:"objectives,omitempty"`

	TTFT Stats `json:"ttft_ms"`
	TPOT Stats `json:"tpot_ms"`
	ITL  Stats `json:"itl_ms"`
	E2EL Stats `json:"e2el_ms"`
	// PerToken is the normalised latency: E2EL / output tokens.
	PerToken Stats `json:"normalized_latency_ms"`
	Queue    Stats `json:"queue_ms"` // Sent − Scheduled: waiting in the generator
	// SendLag is how late requests left against an absolute schedule, waiting for
	// the concurrency cap not counted: the generator's own error.
	SendLag Stats `json:"send_lag_ms"`

	MeanConcurrency      float64 `json:"mean_concurrency"`       // Σ E2EL / duration
	PeakConcurrency      int     `json:"peak_concurrency"`       // by sweep line
	PeakOutputThroughput float64 `json:"peak_output_throughput"` // tokens in the best whole second; of less than a second, OutputThroughput

	// MergedChunks came in the same read as the chunk before, so that the gap
	// between the two is not known. MergedShare is their share of all gaps.
	MergedChunks int     `json:"merged_chunks"`
	MergedShare  float64 `json:"merged_share"`

	// ITLFrom says how the spread of ITL is known when there were too many gaps to
	// keep: [FromHistogram] or [FromSample]. Empty: from every gap.
	ITLFrom string `json:"itl_from,omitempty"`

	// ReadLag is how long what had come may have waited until it was read, at most
	// and of each read: the loop's own delay. Nil when the client cannot tell: with
	// TLS, and on other systems than Linux.
	ReadLag   *Stats  `json:"read_lag_ms,omitempty"`
	GCPauses  int     `json:"gc_pauses,omitempty"`       // of the generator, while measuring
	GCPauseMs float64 `json:"gc_pause_ms,omitempty"`     // all of them together
	GCLongest float64 `json:"gc_pause_max_ms,omitempty"` // the longest of the last 256

	Warmup       int     `json:"warmup_requests,omitempty"` // sent before the measurement; in no other number
	WarmupFailed int     `json:"warmup_failed,omitempty"`
	CPUShare     float64 `json:"client_cpu_share"` // of one core, this process, while measuring
	// Cores is how many cores the generator could use; 0: not known.
	Cores  int     `json:"client_cores,omitempty"`
	Source *Source `json:"source,omitempty"` // what prompts were read from; nil: none were
	// Calibrated is what was known of the machine that ran the generator; nil: it
	// had not been calibrated.
	Calibrated *Calibrated `json:"calibrated,omitempty"`
	Verdict    Verdict     `json:"verdict"`
	// Unknown are the figures that whoever measured this has not told, by their names
	// in JSON ("failed", "itl_ms.mean"): they are 0 here, and absent from the JSON
	// form. Nil: we have measured, and know them all.
	Unknown []string `json:"unknown,omitempty"`

	Window    *Window  `json:"window,omitempty"`    // which part of the run this is; nil: all of it
	Untrimmed *Summary `json:"untrimmed,omitempty"` // the whole run, where its beginning or end was cut
	Steady    *Summary `json:"steady,omitempty"`    // the steady state of a closed loop, where one was found
	Series    *Series  `json:"series,omitempty"`    // the whole run over time
}

// The verdicts of a cell.
const (
	Valid    = "valid"
	Imported = "imported" // measured by others, and nothing in it contradicts the rest
	Suspect  = "suspect"  // measured, but with reasons to doubt
	Void     = "void"     // not a measurement
)

// Verdict says whether numbers can be trusted, and why not.
type Verdict struct {
	Verdict string   `json:"verdict"`
	Reasons []string `json:"reasons,omitempty"`
}

// Calibrated is up to where the generator's numbers were found to be right on a
// machine, with a server that knew what it sent.
type Calibrated struct {
	Streams   int     `json:"streams"` // requests in flight
	Events    float64 `json:"events_per_s"`
	TTFTError float64 `json:"ttft_p99_error_ms"` // the greatest up to there
	ITLError  float64 `json:"itl_p99_error_ms"`
	Bounded   bool    `json:"bounded"` // beyond, they were wrong; false: more was not tried
}

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
}

// Result is a finished run.
type Result struct {
	Summary Summary
	Records []Record // in the order in which requests were dispatched
}
