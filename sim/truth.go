package sim

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Spread describes one true time, in milliseconds. Percentiles are by linear
// interpolation.
type Spread struct {
	Count  int     `json:"count"`
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

// Truth is what a simulated engine really did since its start or its last
// reset: the answer of GET /sim/truth. A request's clock starts when its
// handler is entered; a chunk has been sent when the write that flushes it has
// returned. Times and token counts are of completed requests only, because no
// more can be compared with what a client saw.
type Truth struct {
	Requests         int   `json:"requests"`  // that asked for tokens
	Completed        int   `json:"completed"` // every token was written
	Failed           int   `json:"failed"`    // refused, hung, or left by the client
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	Chunks           int64 `json:"chunks"` // with tokens in them
	ReasoningTokens  int64 `json:"reasoning_tokens"`
	Called           int   `json:"called"`       // answers with a tool call
	Images           int   `json:"images"`       // of prompts
	ImageTokens      int64 `json:"image_tokens"` // of PromptTokens, those of images
	// of each adapter, how many were completed, and their tokens
	Adapters     map[string]Adapted `json:"adapters,omitempty"`
	InFlight     int                `json:"in_flight"`
	PeakInFlight int                `json:"peak_in_flight"`
	TTFT         Spread             `json:"ttft_ms"` // handler's entry to first token
	ITL          Spread             `json:"itl_ms"`  // between successive chunks, pooled
	TTFA         Spread             `json:"ttfa_ms"` // handler's entry to the first token that is no reasoning
	TPOT         Spread             `json:"tpot_ms"` // (E2EL − TTFT) / (tokens − 1), by request
	E2EL         Spread             `json:"e2el_ms"` // handler's entry to last token
	Late         Spread             `json:"late_ms"` // how long after it was due a chunk was written: this server's own error
}

// Adapted is what was completed for one adapter.
type Adapted struct {
	Completed        int   `json:"completed"`
	CompletionTokens int64 `json:"completion_tokens"`
}

// Truth returns what the engine did since its start or its last reset.
func (s *Server) Truth() Truth {
	s.mu.Lock()
	l, n := s.ledger, s.inFlight
	s.mu.Unlock()
	t := l.truth()
	t.InFlight = n
	return t
}

// ResetTruth forgets what was done so far. Requests in flight are forgotten too.
func (s *Server) ResetTruth() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger = newLedger(s.inFlight)
}

func (s *Server) truth(w http.ResponseWriter, _ *http.Request) { answer(w, s.Truth()) }

func (s *Server) truthReset(w http.ResponseWriter, _ *http.Request) {
	s.ResetTruth()
	answer(w, struct{}{})
}

// ledger is what was done between two resets. A request writes into the ledger
// that was open when it came.
type ledger struct {
	mu                        sync.Mutex
	requests, completed, peak int
	failed                    int
	prompt, tokens, chunks    int64
	reasoning                 int64
	called, images            int
	imageTokens               int64
	adapters                  map[string]Adapted
	ttft, ttfa                sample
	itl, tpot, e2el           sample
	late                      sample
}

func newLedger(inFlight int) *ledger { return &ledger{peak: inFlight} }

func (l *ledger) enter(inFlight int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests++
	l.peak = max(l.peak, inFlight)
}

func (l *ledger) fail() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed++
}

// complete writes down one request whose chunks had been written at sent and
// were due at due, all counted from its handler's entry, so many tokens in each. An answer that was not
// streamed is one chunk and has no first token.
func (l *ledger) complete(j job, sent, due []time.Duration, perChunk int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.completed++
	l.prompt += int64(j.prompt)
	l.tokens += int64(j.tokens)
	if j.tokens > 0 {
		l.chunks += int64(len(sent))
	}
	l.reasoning += int64(j.reasoning)
	l.images += j.images
	l.imageTokens += int64(j.imageTokens)
	if j.calls {
		l.called++
	}
	if j.adapter != "" {
		if l.adapters == nil {
			l.adapters = map[string]Adapted{}
		}
		a := l.adapters[j.adapter]
		a.Completed++
		a.CompletionTokens += int64(j.tokens)
		l.adapters[j.adapter] = a
	}
	if len(sent) == 0 {
		return
	}
	first, last := sent[0], sent[len(sent)-1]
	l.e2el.add(last)
	if j.stream {
		l.ttft.add(first)
	}
	if j.stream && j.reasoning < j.spoken() {
		l.ttfa.add(sent[j.reasoning/perChunk])
	}
	if j.stream && j.tokens > 1 {
		l.tpot.add((last - first) / time.Duration(j.tokens-1))
	}
	for i := range sent {
		if i > 0 {
			l.itl.add(sent[i] - sent[i-1])
		}
		l.late.add(sent[i] - due[i])
	}
}

func (l *ledger) truth() Truth {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Truth{
		Requests: l.requests, Completed: l.completed, Failed: l.failed, PeakInFlight: l.peak,
		PromptTokens: l.prompt, CompletionTokens: l.tokens, Chunks: l.chunks,
		ReasoningTokens: l.reasoning, Called: l.called, Images: l.images, ImageTokens: l.imageTokens, Adapters: maps.Clone(l.adapters),
		TTFT: l.ttft.spread(), TTFA: l.ttfa.spread(), ITL: l.itl.spread(), TPOT: l.tpot.spread(), E2EL: l.e2el.spread(), Late: l.late.spread(),
	}
}

// sample keeps times in microseconds, four bytes each, so that the truth of
// millions of tokens fits in memory; its mean is exact.
type sample struct {
	sum    time.Duration
	values []uint32
}

func (s *sample) add(d time.Duration) {
	s.sum += d
	s.values = append(s.values, uint32(min(max(d.Microseconds(), 0), math.MaxUint32)))
}

func (s *sample) spread() Spread {
	n := len(s.values)
	if n == 0 {
		return Spread{}
	}
	v := slices.Clone(s.values)
	slices.Sort(v)
	at := func(p float64) float64 {
		h := float64(n-1) * p / 100
		i := int(h)
		x := float64(v[i])
		if i+1 < n {
			x += (h - float64(i)) * (float64(v[i+1]) - x)
		}
		return x / 1e3
	}
	return Spread{Count: n, Mean: s.sum.Seconds() * 1e3 / float64(n), Median: at(50), P99: at(99), Max: at(100)}
}
