package load

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"sort"
	"strings"
	"time"
)

// Summary is what one run measured. docs/method.md defines each number.
type Summary struct {
	Part           // that counts
	Source *Source `json:"source,omitempty"` // what prompts were read from; nil: none were
	// Unknown are the figures that whoever measured this has not told, by their names
	// in JSON ("failed", "itl_ms.mean"): they are 0 here, and absent from the JSON
	// form. Nil: we have measured, and know them all.
	Unknown []string `json:"unknown,omitempty"`

	Untrimmed *Part   `json:"untrimmed,omitempty"` // the whole run, where its beginning or end was cut
	Steady    *Part   `json:"steady,omitempty"`    // the steady state of a closed loop, where one was found
	Series    *Series `json:"series,omitempty"`    // the whole run over time

	// Clients are the hosts that have sent the load, where several did: each with the figures of
	// its share, which are no part of any other number.
	Clients []Client `json:"clients,omitempty"`
}

// Part is a run, or a part of it: what was seen of the server, what that took here, and
// what is to be thought of it.
type Part struct {
	Window *Window `json:"window,omitempty"` // which part of the run; nil: all of it
	Figures
	Generator
	Judgement
}

// Figures are what the records of requests say of a server. Those of several senders are
// the figures of all their records.
type Figures struct {
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
	// of InputTokens those that the servers' usage says were not computed anew; 0: none, or it does not tell
	CachedTokens int64 `json:"cached_tokens,omitempty"`
	AskedInput   int64 `json:"asked_input_tokens"`  // of completed requests
	AskedOutput  int64 `json:"asked_output_tokens"` // of completed requests
	// of completed requests those whose answer was not ended by its length, as the server says; 0: none, or it does not say
	EndedEarly int `json:"ended_early,omitempty"`
	// completed requests whose stream brought no usage; counted by chunks
	UsageMissing int `json:"usage_missing,omitempty"`

	RequestThroughput float64 `json:"request_throughput"` // completed / duration
	InputThroughput   float64 `json:"input_throughput"`   // tokens/s
	OutputThroughput  float64 `json:"output_throughput"`  // tokens/s
	TotalThroughput   float64 `json:"total_throughput"`   // tokens/s

	TTFT Stats `json:"ttft_ms"`
	// TTFA is the time to the first chunk with text or a part of a tool call; nil: it is TTFT, of all answers.
	TTFA *Stats `json:"ttfa_ms,omitempty"`
	TPOT Stats  `json:"tpot_ms"`
	ITL  Stats  `json:"itl_ms"`
	E2EL Stats  `json:"e2el_ms"`
	// PerToken is the normalised latency: E2EL / output tokens.
	PerToken Stats `json:"normalized_latency_ms"`
	Queue    Stats `json:"queue_ms"` // Sent − Scheduled: waiting in the generator
	// SendLag is how late requests left against an absolute schedule, waiting for
	// the concurrency cap not counted: the generator's own error.
	SendLag Stats `json:"send_lag_ms"`

	MeanConcurrency float64 `json:"mean_concurrency"` // Σ E2EL / duration
	PeakConcurrency int     `json:"peak_concurrency"` // by sweep line
	// tokens in the best whole second; of less than a second, OutputThroughput
	PeakOutputThroughput float64 `json:"peak_output_throughput"`

	// MergedChunks came in the same read as the chunk before, so that the gap
	// between the two is not known. MergedShare is their share of all gaps.
	MergedChunks int     `json:"merged_chunks"`
	MergedShare  float64 `json:"merged_share"`

	// ITLFrom says how the spread of ITL is known when there were too many gaps to
	// keep: [FromHistogram] or [FromSample]. Empty: from every gap.
	ITLFrom string `json:"itl_from,omitempty"`

	// Content is of what kinds the answers were; nil: of text alone.
	Content *Content `json:"content,omitempty"`

	// Sessions are what conversations took; nil: there were none.
	Sessions *Sessions `json:"sessions,omitempty"`

	// Adapters are the figures of each adapter's requests, and of those of the model itself; nil: the load has
	// no adapters.
	Adapters []OfAdapter `json:"adapters,omitempty"`

	// Intervals are those of figures that have one, by their names in JSON:
	// "output_throughput", "ttft_ms.mean", "ttft_ms.p99".
	Intervals map[string]Interval `json:"intervals,omitempty"`
	// Unbounded is why the others have none, where that is known.
	Unbounded []Unbounded `json:"unbounded,omitempty"`
}

// Content is what the answers of completed requests were made of.
type Content struct {
	Reasoned   int `json:"reasoned"`   // answers with reasoning
	Called     int `json:"called"`     // answers with a tool call
	Unanswered int `json:"unanswered"` // answers of reasoning alone
	// chunks in all, those with reasoning, and those with a part of a tool call
	Chunks          int64 `json:"chunks"`
	ReasoningChunks int64 `json:"reasoning_chunks"`
	CallChunks      int64 `json:"call_chunks"`
	// among the output tokens, by the server's usage; 0: there were none, or it does not tell
	ReasoningTokens int64 `json:"reasoning_tokens,omitempty"`
}

// Sessions are conversations, those that have ended, of a window in it: all of their requests completed.
type Sessions struct {
	Begun      int     `json:"begun"`
	Ended      int     `json:"ended"`
	Throughput float64 `json:"throughput"` // ended / duration
	// from the first request to the end of the last answer, with the time that their users thought
	Duration Stats `json:"duration_ms"`
	// of each, on average
	Requests     float64 `json:"requests"`
	InputTokens  float64 `json:"input_tokens"`
	OutputTokens float64 `json:"output_tokens"`
	// Of all turns that were answered, those whose recorded answer calls a tool, and those of them whose
	// answer called none.
	ToCall   int `json:"to_call,omitempty"`
	Uncalled int `json:"uncalled,omitempty"`
}

// Generator is what sending and reading took of the process that did it. Of several clients it has
// the sums of what is counted or shared, and of times those of the client that is worst.
type Generator struct {
	// ReadLag is how long what had come may have waited until it was read, at most
	// and of each read: the loop's own delay. With TLS: how long the last of what a read
	// brought had waited, by the kernel's stamp. Nil when the client cannot tell: on
	// other systems than Linux.
	ReadLag   *Stats  `json:"read_lag_ms,omitempty"`
	GCPauses  int     `json:"gc_pauses,omitempty"`       // while measuring
	GCPauseMs float64 `json:"gc_pause_ms,omitempty"`     // all of them together
	GCLongest float64 `json:"gc_pause_max_ms,omitempty"` // the longest of the last 256

	// Stopped is for how long of this part its process did not run: it was stopped or swapped out, or its machine paused.
	Stopped float64 `json:"stopped_ms,omitempty"`
	// Starved is for how long of this part its process was ready to run and had no processor, where it had none for 100 ms and more.
	Starved float64 `json:"starved_ms,omitempty"`

	Warmup       int     `json:"warmup_requests,omitempty"` // sent before the measurement; in no other number
	WarmupFailed int     `json:"warmup_failed,omitempty"`
	CPUShare     float64 `json:"client_cpu_share"`       // of one core, while measuring
	Cores        int     `json:"client_cores,omitempty"` // that it could use; 0: not known
	// Calibrated is what was known of its machine; nil: it had not been calibrated.
	Calibrated *Calibrated `json:"calibrated,omitempty"`
}

// Judgement is what figures are worth, and whether they are good enough.
type Judgement struct {
	Verdict Verdict  `json:"verdict"`
	Goodput *float64 `json:"goodput,omitempty"` // good requests/s; nil without an SLO
	// Objectives is how the cell stands to each line of its SLO, in the SLO's order.
	Objectives []Attainment `json:"objectives,omitempty"`
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

// Series is a run over time, from its first dispatch. Every list has a value for
// each interval; the last one may be cut short by the end of the run.
type Series struct {
	Every        Duration  `json:"every"`         // 1s, doubled until the run fits into 600 intervals
	InFlight     []float64 `json:"in_flight"`     // mean
	OutputTokens []float64 `json:"output_tokens"` // per second, of completed requests
	TTFT         []float64 `json:"ttft_p50_ms"`   // of requests whose first token came in the interval; 0: none did
}

// How the spread of ITL is known, when not from every gap.
const (
	FromHistogram = "histogram" // of all gaps: median and percentiles are right to three digits, the rest is exact
	FromSample    = "sample"    // the gaps of every second, fourth, … request; count and mean are exact
)

// MaxLittle is how far Little's law may be off, relative.
const MaxLittle = 0.05

// MaxMergedShare is the share of chunks that may come together with the one before:
// with more, when each came is not known.
const MaxMergedShare = 0.2

// Refuses reports whether a status says that the server takes no request now, which it may be asked again.
func Refuses(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// Failures lists failed requests by what happened to them, HTTP's statuses each by
// itself: "3 × refused (429), 1 × stall". It is empty when none failed. Where the model is too small for random prompts it
// says what to send instead.
func (s *Figures) Failures() string {
	var list []string
	add := func(n int, what string) {
		if n > 0 {
			list = append(list, fmt.Sprintf("%d × %s", n, what))
		}
	}
	known := 0
	for _, code := range slices.Sorted(maps.Keys(s.Statuses)) {
		what := fmt.Sprintf("HTTP %d", code)
		if Refuses(code) {
			what = fmt.Sprintf("refused (%d)", code)
		}
		add(s.Statuses[code], what)
		known += s.Statuses[code]
	}
	for _, class := range slices.Sorted(maps.Keys(s.Errors)) {
		n := s.Errors[class]
		if class == ClassStatus {
			n -= known
		}
		add(n, class)
	}
	text := strings.Join(list, ", ")
	if slices.ContainsFunc(s.ErrorSamples, func(said string) bool { return strings.Contains(said, "out of vocab") }) {
		text += `; the model has fewer tokens than random prompts are drawn from: endpoint = "chat" sends words, and a data set "text" the model's own tokens`
	}
	return text
}

// Window is a part of a run, in time from its first dispatch.
type Window struct {
	From Duration `json:"from"` // included
	To   Duration `json:"to"`   // not included
}

// Parts are the part that counts and those beside it.
func (s *Summary) Parts() []*Part {
	return slices.DeleteFunc([]*Part{&s.Part, s.Untrimmed, s.Steady}, func(x *Part) bool { return x == nil })
}

// FirstDispatch is the moment from which a run's time counts.
func FirstDispatch(records []Record) time.Duration {
	first := time.Duration(math.MaxInt64)
	for i := range records {
		first = min(first, records[i].Sent)
	}
	return first
}

// Sent are the records of the requests that were sent in a window: where they are in the
// order of sending, as ours are, a part of those that were given.
func (x Window) Sent(records []Record) []Record {
	first := FirstDispatch(records)
	from, to := first+time.Duration(x.From), first+time.Duration(x.To)
	if slices.IsSortedFunc(records, func(a, b Record) int { return cmp.Compare(a.Sent, b.Sent) }) {
		at := func(t time.Duration) int {
			return sort.Search(len(records), func(i int) bool { return records[i].Sent >= t })
		}
		i, j := at(from), at(max(from, to))
		return records[i:j:j]
	}
	return slices.DeleteFunc(slices.Clone(records), func(r Record) bool { return r.Sent < from || r.Sent >= to })
}

// Silent reports whether requests were completed and none generated a token, as those for embeddings do.
func (s *Summary) Silent() bool {
	return s.Completed > 0 && s.OutputTokens == 0 && s.Knows("output_tokens")
}

// Knows reports whether a figure was told, by its name in JSON: "failed", "itl_ms.mean".
func (s *Summary) Knows(name string) bool { return !slices.Contains(s.Unknown, name) }

// MarshalJSON leaves out what is not known: a 0 would be taken for a figure.
func (s Summary) MarshalJSON() ([]byte, error) {
	type bare Summary
	text, err := json.Marshal(bare(s))
	if err != nil || len(s.Unknown) == 0 {
		return text, err
	}
	return withoutMembers(text, s.Unknown)
}

// withoutMembers is an object less some members, which are named with a point between
// a member and its own: "itl_ms.mean".
func withoutMembers(text []byte, names []string) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	out := []byte{'{'}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		name := fmt.Sprint(key)
		if slices.Contains(names, name) {
			continue
		}
		var within []string
		for _, n := range names {
			if rest, ok := strings.CutPrefix(n, name+"."); ok {
				within = append(within, rest)
			}
		}
		if within != nil && value[0] == '{' {
			if value, err = withoutMembers(value, within); err != nil {
				return nil, err
			}
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, "%q:%s", name, value) // the names are our own
	}
	return append(out, '}'), nil
}
