// Package load has the nouns of load: what is sent, to whom, what came of it request by
// request, the figures, and what is to be thought of them. What sends is in its
// sub-packages. It knows a server only by its URL and protocol, and nothing of hosts,
// containers, labs or how a result is kept.
package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/plain"
)

// Stage is a part of a load with a pace of its own.
type Stage struct {
	Duration    Duration `json:"duration"`
	Rate        Rate     `json:"rate,omitempty"` // one of rate and concurrency is set
	Concurrency int      `json:"concurrency,omitempty"`
}

// ParseStage reads "1m,rate=2" and "30s,concurrency=8".
func ParseStage(text string) (s Stage, err error) {
	span, pace, _ := strings.Cut(text, ",")
	kind, value, _ := strings.Cut(pace, "=")
	switch strings.TrimSpace(kind) {
	case "rate":
		s.Rate, err = ParseRate(value)
	case "concurrency":
		s.Concurrency, err = strconv.Atoi(value)
	default:
		err = errors.New("no pace")
	}
	if errors.Join(err, s.Duration.UnmarshalText([]byte(strings.TrimSpace(span)))) != nil {
		return s, errors.New("write how long and how fast, such as 1m,rate=2 or 30s,concurrency=8")
	}
	return s, nil
}

// Workload is what is sent and how, and everything that its numbers depend on
// besides the server. [Arguments] says of each member what a lab and a flag say of it.
type Workload struct {
	Dataset     Dataset  `json:"dataset"`
	Requests    int      `json:"requests,omitempty"`    // how many are measured; 0: as many as fit in Duration
	Duration    Duration `json:"duration,omitempty"`    // stop sending after this; 0: after Requests
	Concurrency int      `json:"concurrency,omitempty"` // at most this many in flight; 0: no limit
	Rate        Rate     `json:"rate,omitempty"`        // open loop; 0: closed loop by Concurrency
	// gamma shape of the gaps: 1 (and 0, unset) Poisson, +Inf constant
	Burstiness   Rate     `json:"burstiness,omitempty"`
	OutputTokens int      `json:"output_tokens"` // asked for, per request; 0: as the data set says
	IgnoreEOS    bool     `json:"ignore_eos"`
	Temperature  float64  `json:"temperature"`
	Endpoint     string   `json:"endpoint"`                  // one of [Endpoints]
	ExtraBody    string   `json:"extra_body,omitempty"`      // a JSON object merged into every request body
	Warmup       int      `json:"warmup_requests,omitempty"` // sent and waited for before the measurement
	Timeout      Duration `json:"timeout,omitempty"`         // for one request in all; 0 means [DefaultTimeout]
	// without a token from the server; 0 means [DefaultStall]
	Stall Duration    `json:"stall,omitempty"`
	SLO   []Objective `json:"slo,omitempty"`

	Ramp         Duration `json:"ramp,omitempty"`      // the pace grows from nothing to what is asked over this long
	Stages       []Stage  `json:"stages,omitempty"`    // one after the other, instead of Requests and Duration
	NoStream     bool     `json:"no_stream,omitempty"` // responses come whole
	CutBeginning Duration `json:"warmup,omitempty"`    // this much of the run's beginning does not count
	CutEnd       Duration `json:"cooldown,omitempty"`  // this much of its end does not count
	// LoRA adapters that requests are shared among, sorted by name; nil: all go to the model itself
	Adapters []Adapter `json:"adapters,omitempty"`
	// no more requests are sent once those of an open loop are seen to pile up
	StopWhenOverloaded bool `json:"stop_when_overloaded,omitempty"`
	// how many times faster than real the engine is simulated that it is sent to; 0: as fast
	Speed float64 `json:"speed,omitempty"`
	// how many prompts a request to [Embeddings] has; 0 means 1
	BatchSize int `json:"batch_size,omitempty"`
}

// Arguments are those of a load, in the order in which a plan says them.
func Arguments() []Argument[Workload] { return arguments }

var arguments = []Argument[Workload]{
	{Name: "requests", Searched: true, Field: func(w *Workload) any { return &w.Requests }, Place: InBenchmark, Batched: true, Least: 1, Most: maxRequests,
		Help: "how many requests are measured", words: func(w *Workload) string { return plain.Count(w.Requests, "request") }},
	{Name: "duration", Searched: true, Field: func(w *Workload) any { return &w.Duration }, Place: InBenchmark, Least: 100 * shortest, Most: longestRun,
		Help: "send for this long instead of a number of requests", phrase: "for %v"},
	{Name: "rate", Searched: true, Field: func(w *Workload) any { return &w.Rate }, Paces: true,
		Help: "requests per second, or inf; 0 keeps --concurrency in flight",
		words: func(w *Workload) string {
			if w.Rate == Inf {
				return "all at once"
			}
			return fmt.Sprintf("%v requests/s", w.Rate)
		}},
	{Name: "stages", Searched: true, Field: func(w *Workload) any { return &w.Stages }, Paces: true, Flag: "stage",
		Help:   "a part of the run, `DURATION,rate=N` or DURATION,concurrency=N; may be repeated",
		counts: func(w *Workload) string { return eachStage(w, ", ", Stage.pair) },
		words:  func(w *Workload) string { return eachStage(w, ", then ", Stage.words) }},
	{Name: "burstiness", Field: func(w *Workload) any { return &w.Burstiness }, Paces: true, same: Rate(1),
		Help: "gamma shape of the gaps with --rate: 1 is Poisson, inf is constant",
		idle: func(w *Workload) string {
			if w.Rate != 0 || slices.ContainsFunc(w.Stages, func(s Stage) bool { return s.Rate != 0 }) {
				return ""
			}
			return "shapes the times between arrivals, and without a rate there are none"
		}, phrase: "burstiness %v"},
	{Name: "concurrency", Searched: true, Field: func(w *Workload) any { return &w.Concurrency }, Least: 1, Most: maxInFlight,
		Help: "requests in flight: exactly this many, or with --rate at most; 0 is no cap", phrase: "concurrency %v"},
	{Name: "ramp", Searched: true, Field: func(w *Workload) any { return &w.Ramp }, Paces: true, Least: shortest, Most: longestRun,
		Help: "the pace grows evenly from nothing over this long", phrase: "ramp %v"},
	{Name: "dataset", Field: func(w *Workload) any { return &w.Dataset }, Place: Elsewhere, Batched: true,
		counts: func(*Workload) string { return "" }, // its own arguments do
		words:  func(w *Workload) string { return w.Dataset.words() }},
	{Name: "batch_size", Field: func(w *Workload) any { return &w.BatchSize }, Least: 1, Most: maxBatch, same: 1,
		at:   func(e endpoint) bool { return e.several },
		Help: "embeddings: how many prompts a request has; 0 is 1", phrase: "%v prompts a request"},
	{Name: "output_tokens", Field: func(w *Workload) any { return &w.OutputTokens }, Batched: true, Least: 1, Most: maxTokens, at: generates,
		Help:  "tokens asked for per request; as the data set says, if it does and this is not given",
		words: func(w *Workload) string { return plain.Count(w.OutputTokens, "token") + " out" }},
	{Name: "ignore_eos", Field: func(w *Workload) any { return &w.IgnoreEOS }, at: generates, Flag: "stop-at-eos", FlagOff: true,
		Help: "let the model end its answers early",
		otherwise: func(w *Workload) string {
			if w.OutputTokens == 0 {
				return ""
			}
			return "or fewer"
		}},
	{Name: "endpoint", Field: func(w *Workload) any { return &w.Endpoint }, Words: Endpoints(),
		Help: "where requests go: " + strings.Join(Endpoints(), ", ") +
			" (generate is SGLang's own); conversations take chat or responses",
		phrase: "%v"},
	{Name: "stream", Field: func(w *Workload) any { return &w.NoStream }, Off: true, at: generates,
		Flag: "no-stream", FlagOff: true, key: "no_stream", Help: "have answers sent whole; there is no time to first token then",
		phrase: "not streamed"},
	{Name: "temperature", Field: func(w *Workload) any { return &w.Temperature }, Most: 100, at: generates,
		Help: "sampling temperature", phrase: "temperature %v"},
	{Name: "extra_body", Field: func(w *Workload) any { return &w.ExtraBody }, Form: ObjectText,
		Help: "JSON object merged into every request",
		counts: func(w *Workload) string {
			if body := compact(w.ExtraBody); body != "{}" {
				return body
			}
			return ""
		}, phrase: "extra_body %v"},
	{Name: "adapters", Field: func(w *Workload) any { return &w.Adapters }, Flag: "adapter",
		Help: "a LoRA adapter, `NAME=SHARE`, that a share of the requests goes to as a model (SGLang: MODEL:NAME=SHARE); " +
			"may be repeated",
		counts: func(w *Workload) string { return w.Adapting() },
		words:  func(w *Workload) string { return "adapters " + w.Adapting() }},
	{Name: "warmup_requests", Field: func(w *Workload) any { return &w.Warmup }, Most: maxInFlight,
		Help: "sent and waited for before the measurement", phrase: "%v to warm up"},
	{Name: "warmup", Searched: true, Field: func(w *Workload) any { return &w.CutBeginning }, Least: shortest, Most: longestRun,
		Help: "this much of the run's beginning does not count", phrase: "without the first %v"},
	{Name: "cooldown", Searched: true, Field: func(w *Workload) any { return &w.CutEnd }, Least: shortest, Most: longestRun,
		Help: "this much of its end does not count", phrase: "without the last %v"},
	{Name: "stop_when_overloaded", Searched: true, Field: func(w *Workload) any { return &w.StopWhenOverloaded },
		Help:   "send no more once the requests of --rate pile up",
		phrase: "ends when overloaded"},
	{Name: "timeout", Field: func(w *Workload) any { return &w.Timeout }, Least: shortest, Most: longestRun,
		same: Duration(DefaultTimeout), Help: "for one request in all; 0 is 6h"},
	{Name: "stall", Field: func(w *Workload) any { return &w.Stall }, Least: shortest, Most: longestRun,
		same: Duration(DefaultStall), Help: "a request that brings no token for this long has failed; 0 is 5m"},
	{Name: "slo", Field: func(w *Workload) any { return &w.SLO }, Place: Elsewhere,
		Help: "bounds of good requests, `METRIC=DURATION`, and with a percentile of all, as in ttft_p99=5s: " +
			strings.Join(ObjectiveMetrics(), ", "),
		counts: func(*Workload) string { return "" }, // it is computed from the records, whenever it is asked
		words: func(w *Workload) string {
			var bounds []string
			for _, o := range w.SLO {
				bounds = append(bounds, fmt.Sprintf("%s ≤ %s", o.Name(), o.Max))
			}
			return strings.Join(bounds, ", ")
		}},
}

// generates: it is about tokens, which some endpoints do not generate.
func generates(e endpoint) bool { return !e.silent }

// eachStage says the stages: as a fingerprint has them, "1m0s rate 2", or as a plan, "2/s for 1m0s".
func eachStage(w *Workload, between string, say func(Stage) string) string {
	var parts []string
	for _, s := range w.Stages {
		parts = append(parts, say(s))
	}
	return strings.Join(parts, between)
}

func (s Stage) pair() string {
	text := s.Duration.String()
	if s.Rate != 0 {
		text += " rate " + s.Rate.String()
	}
	if s.Concurrency != 0 {
		text += fmt.Sprint(" concurrency ", s.Concurrency)
	}
	return text
}

func (s Stage) words() string {
	if s.Concurrency > 0 {
		return fmt.Sprintf("concurrency %d for %s", s.Concurrency, s.Duration)
	}
	return fmt.Sprintf("%v/s for %s", s.Rate, s.Duration)
}

// Told is what a plan says of the workload: as many words in the same order for every one, of which empty ones
// say nothing.
func (w Workload) Told() []string { return wordsOf(arguments, &w) }

// DefaultStall is how long no token may come before a request has failed, and DefaultTimeout how
// long it may take in all, which is what vLLM's and SGLang's clients allow.
const (
	DefaultStall   = 5 * time.Minute
	DefaultTimeout = 6 * time.Hour
)

// DefaultPercentiles are those that the field prints.
func DefaultPercentiles() []float64 { return []float64{50, 90, 95, 99} }

// Even reports whether requests are asked for at one rate, so that it is seen when that is too much.
func (w Workload) Even() bool {
	return w.Rate > 0 && w.Rate != Inf && len(w.Stages) == 0 && !w.Dataset.Timed() && !w.Dataset.Talks()
}

// Takes is how long the load takes by its own pace; 0 where the answers decide that.
func (w Workload) Takes() time.Duration {
	w = w.effective()
	if w.End() == 0 && w.Rate > 0 && w.Rate != Inf {
		return time.Duration(float64(w.Requests) / float64(w.Rate) * float64(time.Second))
	}
	return w.End()
}

// Waits is how long the users and the tools of a closed loop take beside its answers, at least; 0
// where they take no time, or nothing says how many there are.
func (w Workload) Waits() time.Duration {
	d := w.Dataset
	wait := func(mean Duration) Duration {
		if d.MaxDelay > 0 {
			return min(mean, d.MaxDelay)
		}
		return mean
	}
	think, tool := wait(d.ThinkTime), wait(d.ToolDelay)
	if w.Concurrency == 0 || w.Requests == 0 {
		return 0
	}
	if d.Turns == 0 { // of a file, whose turns are not known: each request waits
		return time.Duration(think) * time.Duration(ceil(w.Requests, w.Concurrency))
	}
	_, all := d.TurnRequests()
	each := Duration(d.Turns-1)*think + Duration(d.Turns*d.ToolCalls)*tool
	return time.Duration(each) * time.Duration(ceil(ceil(w.Requests, all*d.Turns), w.Concurrency))
}

func ceil(n, by int) int { return (n + by - 1) / by }

// End is when a workload stops sending; 0: only its requests say.
func (w Workload) End() time.Duration {
	end := time.Duration(w.Duration)
	for _, s := range w.Stages {
		end += time.Duration(s.Duration)
	}
	return end
}

// SaltTokens is how many tokens a salt adds to a prompt, at most.
const SaltTokens = 11

// Longest is the length of the longest prompt and of the longest answer, in
// tokens; 0 for what only the data set's file tells.
func (w Workload) Longest() (input, output int) {
	d := w.Dataset
	input, output = d.InputTokens, w.OutputTokens
	switch d.Kind {
	case Random, RandomImages: // images have tokens beside, which only the model knows
		input = Lengths(d.InputTokens, d.RangeRatio, d.Convention).High
		output = Lengths(w.OutputTokens, d.RangeRatio, d.Convention).High
	case SharedPrefix:
		input = d.PrefixTokens + d.QuestionTokens
	case RandomConversation:
		input = d.PrefixTokens + d.Turns*d.QuestionTokens + max(0, d.Turns-1)*output
	case RandomAgents: // the agent's last: it has all before, and what its sub-agents have answered
		own, _ := d.TurnRequests()
		input = d.PrefixTokens + d.Turns*(d.QuestionTokens+d.ToolCalls*d.ResultTokens+(own+d.SubAgents)*output) - output
	case ShareGPT:
		output = max(output, d.OutputTokens)
	}
	if d.Salt && input > 0 {
		input += SaltTokens
	}
	return input, output
}

// Batch is requests that are all there at the start and are sent to no server: what an
// engine's own benchmark is given.
type Batch struct {
	Dataset      Dataset `json:"dataset"`
	Requests     int     `json:"requests"`
	OutputTokens int     `json:"output_tokens"` // asked for, per request; 0: as the data set says
}

// Offline is what tells a batch from a workload where either may stand: in JSON and in
// fingerprints.
const Offline = "offline"

// MarshalJSON writes the batch as a workload with a mode of its own.
func (b Batch) MarshalJSON() ([]byte, error) {
	type members Batch
	return json.Marshal(struct {
		Mode string `json:"mode"`
		members
	}{Offline, members(b)})
}

// BatchProblems are the rules that a workload breaks that is to be a [Batch].
func (w Workload) BatchProblems() []FieldError {
	var all problems
	all.add(w.Duration > 0, "duration", "an offline benchmark runs a number of requests, not for a time: write requests")
	all.missing(w.Requests == 0 && w.Duration == 0, "requests", []string{"duration"},
		"an offline benchmark runs a number of requests: say how many, for example 512")
	return all
}

// Fingerprint is everything about the batch that can change a number, as
// [Workload.Fingerprint] is of a workload.
func (b Batch) Fingerprint() map[string]string {
	f := Workload{Dataset: b.Dataset, Requests: b.Requests, OutputTokens: b.OutputTokens}.Fingerprint()
	f["mode"] = Offline
	return f
}

// Prompts is a job that makes the prompts of the batch, as token ids wherever they are
// known. It is not to be sent.
func (b Batch) Prompts(seed uint64) Job {
	return Job{Seed: seed, Workload: Workload{Dataset: b.Dataset, Requests: b.Requests, OutputTokens: b.OutputTokens,
		Endpoint: Completions}}
}

// Rate is in requests per second. Zero means "not set"; +Inf, written "inf", means all at once.
type Rate float64

// Inf is the rate at which every request is sent at once.
var Inf = Rate(math.Inf(1))

func (r Rate) String() string {
	if r == Inf {
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
	if r == Inf {
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
