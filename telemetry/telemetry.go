// Package telemetry reads, once a second while a cell is measured, what the GPUs,
// the host and the engine say of themselves, and keeps it as series over time.
//
// It knows the vendors' tools and the text format of Prometheus. It knows no hosts, engines or
// plans: whoever samples says what to run and what to ask, and it judges nothing that it reads.
package telemetry

import (
	"slices"
	"strings"
)

// Sources of series. A GPU's is "gpu" and its index on the host: "gpu0"; that of a member of an
// engine of several is its name: "decode 0"; that of a network device is its name: "mlx5_0".
const (
	Host   = "host"
	Engine = "engine"
)

// Names of series. The unit goes with the name.
const (
	Power       = "power"        // W, of one GPU
	Utilisation = "utilisation"  // percent of the time that a kernel ran on the GPU
	Memory      = "memory"       // bytes in use on the GPU, or of the host's own
	Temperature = "temperature"  // degrees Celsius, of the GPU
	SMClock     = "sm_clock"     // MHz, of the GPU's cores
	MemoryClock = "memory_clock" // MHz
	Throttled   = "throttled"    // 1 while heat or the hardware's power brake holds the clocks down, else 0
	PowerCapped = "power_capped" // 1 while the clocks are held at the power limit, as full load does, else 0

	CPU      = "cpu"          // percent of all the host's processors that are at work
	Steal    = "cpu_steal"    // percent of them that other machines of the same hypervisor had meanwhile
	Others   = "cpu_others"   // percent of them at work for neither the engine nor hcl; a little below 0 by the coarseness of the kernel's count
	Pressure = "cpu_pressure" // percent of the time in which something waited for a processor of the host

	Sent     = "sent"     // bytes a second, by a network interface or an RDMA device
	Received = "received" // bytes a second, by one

	Running     = "requests_running"       // requests that the engine works on
	Waiting     = "requests_waiting"       // requests in the engine's queue
	KVCache     = "kv_cache"               // share of the KV cache in use, 0 to 1
	PrefixHits  = "prefix_cache_hit_rate"  // share of prompt tokens found in the prefix cache, 0 to 1
	Preemptions = "preemptions"            // requests pushed back, since the engine started
	Accepted    = "speculative_acceptance" // share of drafted tokens that were accepted, 0 to 1
	StepTokens  = "tokens_per_step"        // tokens that one step of speculative decoding brings, its own one included
)

// What engines count, which is no series: see [Count]. Times of requests are in seconds, by the engine's clock.
const (
	HitTokens      = "prefix_hits"    // tokens of prompts that were in the prefix cache
	QueriedTokens  = "prefix_queries" // that were looked up there
	AcceptedTokens = "accepted"       // drafted tokens that were accepted
	DraftedTokens  = "drafted"        // drafted tokens
	Drafts         = "drafts"         // steps that had a draft

	QueueTime   = "queue_time"   // of a request, until it is worked on
	PrefillTime = "prefill_time" // of a request, from there to its first token
	DecodeTime  = "decode_time"  // of a request, from there to its last
	EngineTTFT  = "ttft"
	EngineTPOT  = "tpot"
	EngineE2EL  = "e2el"

	PromptTokens  = "prompt_tokens"   // of prompts, wherever they came from
	Computed      = "prompt_computed" // of these, those that prefill has read
	CachedOnGPU   = "prompt_cached"   // that were in the cache that it computes with
	CachedOnHost  = "prompt_cached_host"
	CachedOnDisk  = "prompt_cached_disk"
	Fetched       = "prompt_fetched"  // that another instance had read
	CachedOutside = "prompt_external" // that came from elsewhere, nobody says whence
	Generated     = "generated_tokens"

	Ended     = "ended"     // requests, by why they did
	Aborted   = "aborted"   // requests that were given up
	Refused   = "refused"   // requests, by why
	Preempted = "preempted" // requests pushed back
	Failures  = "failures"  // of transfers, that no answer shows
	LetGo     = "let_go"    // requests whose KV cache prefill gave up before it was told that decode has it
	Retried   = "retried"   // requests that a router has sent again
	Errors    = "errors"    // requests that a router answered with an error, by its kind

	Transferred    = "kv_transferred"     // bytes of KV cache, from instance to instance
	TransferTime   = "kv_transfer_time"   // seconds
	TransferBlocks = "kv_transfer_blocks" // pieces of memory
	HandedOver     = "kv_handed_over"     // requests whose KV cache prefill has handed over
	OffloadLoaded  = "kv_offload_loaded"  // bytes of KV cache that came back from the host or a disk
	OffloadStored  = "kv_offload_stored"  // bytes that went there
	CacheTokens    = "kv_cache_tokens"    // that the KV cache has room for
	CacheBytes     = "kv_cache_bytes"
)

var units = map[string]string{
	Power: "W", Utilisation: "%", Memory: "B", Temperature: "°C", SMClock: "MHz", MemoryClock: "MHz", CPU: "%", Steal: "%", Others: "%", Pressure: "%", Sent: "B/s", Received: "B/s",
}

// Record is what was read while one cell was measured.
type Record struct {
	Interval float64  `json:"interval_s"` // between two readings, as planned
	Series   []Series `json:"series,omitempty"`
	// Problems are what could not be read, and why, each once.
	Problems []string `json:"problems,omitempty"`

	// Expected and Missing count the readings that should have come in the measured window and those
	// that did not. Energy is not given when more than a tenth is missing.
	Expected int `json:"expected"`
	Missing  int `json:"missing"`
	// Energy is what all GPUs of the deployment took over the measured window:
	// power integrated by trapezoids. Joules; 0: not known.
	Energy float64 `json:"energy_j,omitempty"`

	// PrefixHitRate and Acceptance are over the whole window, 0 to 1, and StepTokens 1 or more:
	// from counters at the window's two ends, or, where the engine exports only what it is at
	// the moment, the mean of the readings; nil: the engine does not say.
	PrefixHitRate *float64 `json:"prefix_cache_hit_rate,omitempty"`
	Acceptance    *float64 `json:"speculative_acceptance,omitempty"`
	StepTokens    *float64 `json:"tokens_per_step,omitempty"`
	// Counts are what else engines and routers have counted of the window.
	Counts []Count `json:"counts,omitempty"`
	// Shares are what these three are of, summed over the members of an engine, by the series' name.
	Shares map[string]Share `json:"shares,omitempty"`
}

// Share is a part of a whole, both counted over the window: tokens of prompts that were in the
// prefix cache and all that were looked up; or the sum of readings and their number.
type Share struct {
	Part  float64 `json:"part"`
	Whole float64 `json:"whole"`
}

// Count is what an engine has counted over the window, or how large something of it is. What it does not
// tell, or did not happen, is not there.
type Count struct {
	Of    string  `json:"of,omitempty"`    // the role of its members, "decode", over all of which it is summed; empty: the engine
	Name  string  `json:"name"`            // one of the constants above
	Label string  `json:"label,omitempty"` // which of several: the reason, in the engine's own word
	Sum   float64 `json:"sum"`
	Times float64 `json:"times,omitempty"` // of how many values it is the sum; 0: it is a count
}

// Add adds what was read on another host over the same window. The energy of one alone would be
// too little.
func (r *Record) Add(of *Record, host string) {
	for _, s := range of.Series {
		s.Host = host
		r.Series = append(r.Series, s)
	}
	r.Problems = append(r.Problems, of.Problems...)
	unknown := func(r *Record) bool { return r.Expected > 0 && r.Energy == 0 }
	if unknown(r) || unknown(of) {
		r.Energy = 0
	} else {
		r.Energy += of.Energy
	}
	r.Expected += of.Expected
	r.Missing += of.Missing
	for name, s := range of.Shares {
		r.share(name, s)
	}
	for _, c := range of.Counts {
		r.count(c)
	}
}

// count adds to a count of the record.
func (r *Record) count(more Count) {
	i := slices.IndexFunc(r.Counts, func(c Count) bool { return c.Of == more.Of && c.Name == more.Name && c.Label == more.Label })
	if i < 0 {
		r.Counts = append(r.Counts, more)
		return
	}
	r.Counts[i].Sum += more.Sum
	r.Counts[i].Times += more.Times
}

// share adds to a share of the record, and says what it is now.
func (r *Record) share(name string, more Share) {
	if r.Shares == nil {
		r.Shares = map[string]Share{}
	}
	s := r.Shares[name]
	s.Part, s.Whole = s.Part+more.Part, s.Whole+more.Whole
	r.Shares[name] = s
	switch v := s.Part / s.Whole; name {
	case PrefixHits:
		r.PrefixHitRate = new(min(v, 1))
	case Accepted:
		r.Acceptance = new(min(v, 1))
	case StepTokens:
		r.StepTokens = &v
	}
}

// Series is one quantity of one source over time.
type Series struct {
	Host  string    `json:"host,omitempty"` // its name; empty: the one that has sent the load
	Of    string    `json:"of"`             // "gpu0", Host or Engine
	Name  string    `json:"name"`           // one of the constants above
	Unit  string    `json:"unit,omitempty"`
	At    []float64 `json:"at_s"`  // seconds since the start of the measurement, rising
	Value []float64 `json:"value"` // as many
}

// Member is the member of an engine of several that has told the series, "decode 0 rank 1"; empty: it is not of one.
func (s Series) Member() string {
	if !strings.Contains(s.Of, " ") { // "gpu0", "engine", "host", "mlx5_0"
		return ""
	}
	return s.Of
}

// Role is that of the member, "decode"; empty: the series is not of one.
func (s Series) Role() string {
	role, _, _ := strings.Cut(s.Member(), " ")
	return role
}

// Source names what the series is of, among all hosts: "gpu0", "h200-b gpu0".
func (s Series) Source() string {
	if s.Host == "" {
		return s.Of
	}
	return s.Host + " " + s.Of
}
