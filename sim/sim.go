// Package sim is the simulated engine: an HTTP server that speaks what vLLM,
// SGLang and TensorRT-LLM speak and whose tokens leave on a schedule that is
// known beforehand.
//
// It exists so that everything around an engine can run without a GPU, and so
// that a load generator can be held against the truth: [Server] keeps what it
// really sent and when, by its own clock. It runs no model, knows no tokenizer,
// and imports none of our packages.
package sim

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The engines that a simulated engine can pass for.
const (
	VLLM   = "vllm"
	SGLang = "sglang"
	TRTLLM = "trtllm"
)

// The defaults of a zero Config.
const (
	DefaultModel = "sim"
	DefaultTTFT  = 50 * time.Millisecond
	DefaultITL   = 10 * time.Millisecond
)

// Config says what a simulated engine is and how it behaves. The zero value is
// a vLLM that serves [DefaultModel] at [DefaultTTFT] and [DefaultITL].
type Config struct {
	As    string        // [VLLM], [SGLang] or [TRTLLM]; empty means [VLLM]
	Model string        // the served model's name; empty means [DefaultModel]
	TTFT  time.Duration // from the handler's entry to the first token; 0 means [DefaultTTFT], negative none at all
	ITL   time.Duration // between tokens; 0 means [DefaultITL], negative none at all
	Table Table         // times by concurrency; when set, TTFT and ITL are not used
	Speed float64       // everything above happens so many times faster; 0 means 1
	// Spread is the standard deviation of the logarithm of the time to the first token, which is normal with the TTFT above as
	// its median; 0: every one is the same.
	Spread float64

	// TokensPerChunk is how many tokens travel in one chunk, as with speculative
	// decoding; 0 means 1.
	TokensPerChunk int

	// Reasoning is how many of the first tokens of a chat's answer are reasoning.
	Reasoning int
	// Adapters are the names of LoRA adapters that it serves, each as a model of its own.
	Adapters []string
	// Embeds says that it generates nothing: it makes embeddings, and ranks.
	Embeds bool
	// CallEvery is how often a chat that offers tools is answered with a call of the
	// first of them, where it does not say itself: every n-th time; 0: never.
	CallEvery int

	// LogprobNoise is the standard deviation of what is added to the logarithms of what is told of a prompt's tokens.
	LogprobNoise float64

	// AnswerCache says that it remembers answers: a stream that was asked for before comes at once.
	AnswerCache bool

	// Answers are what it says to those whose question it knows, and then it stops; nil: it says the same to everybody.
	Answers []Answer

	// Flags are those of the engine's command line that say nothing about the
	// simulation, "true" for one without a value. The engine tells them as what it
	// serves with, except for those of Lies, which it tells otherwise.
	Flags, Lies map[string]string

	// SharePort has [Serve] let others listen on the port too (SO_REUSEPORT), as many
	// releases of vLLM do; the kernel then gives each a part of the connections.
	SharePort bool

	// What goes wrong, for those who have to cope with it. Zero: nothing does.
	StopAfter   int           // generation ends after this many tokens with finish_reason "stop", whatever was asked
	HangAfter   int           // requests after this many get headers and then nothing
	FailEvery   int           // every n-th request is answered 500
	NotReadyFor time.Duration // everything is answered 503 for this long after the start
	FailStart   string        // [Serve] prints this instead of getting ready, and returns an error
	DieAfter    time.Duration // [Serve] returns an error after so long

	// Of one that stands among others, and what goes wrong with those.
	Place        Place
	Routes       *Routes // it is a router; nil: an engine
	EarlyReady   bool    // rank 0 says that it is ready before the others are there
	LocalPrefill bool    // decode prefills by itself, and answers as if it had not
	HoldKV       int     // percent of its KV cache that is in use without a request
	LoseKV       int     // every n-th prompt is not handed over: the answer is 500
	WrongText    int     // every n-th answer has other words, with status 200
}

func (c Config) withDefaults() Config {
	if c.As == "" {
		c.As = VLLM
	}
	if c.Model == "" {
		c.Model = DefaultModel
	}
	if c.TTFT == 0 {
		c.TTFT = DefaultTTFT
	}
	if c.ITL == 0 {
		c.ITL = DefaultITL
	}
	if len(c.Table) == 0 {
		c.Table = Table{{Concurrency: 1, TTFT: max(c.TTFT, 0), ITL: max(c.ITL, 0)}}
	}
	if c.Speed > 0 {
		c.Table = slices.Clone(c.Table)
		for i, p := range c.Table {
			c.Table[i].TTFT = time.Duration(float64(p.TTFT) / c.Speed)
			c.Table[i].ITL = time.Duration(float64(p.ITL) / c.Speed)
		}
		c.Speed = 0 // it is in the table now
	}
	c.TokensPerChunk = max(c.TokensPerChunk, 1)
	return c
}

// Takes is how long an answer of so many tokens takes while n requests are in flight.
func (c Config) Takes(n, tokens int) time.Duration {
	p := c.withDefaults().Table.At(n)
	return p.TTFT + time.Duration(max(tokens-1, 0))*p.ITL
}

// Server is a simulated engine. It is an [http.Handler]; make one with [New].
type Server struct {
	cfg      Config
	mux      *http.ServeMux
	started  time.Time
	accepted atomic.Int64 // generation requests so far
	kv       handover     // prompts that it has prefilled for others
	ranks    *store       // the other ranks of rank 0; nil: it has none
	broken   atomic.Bool  // one of them has gone
	address  string       // where it listens; empty: it does not
	log      func(line string)
	serial   atomic.Int64 // of response ids
	lifetime counters
	asked    sync.Map // hashes of the bodies of requests, where it has an answer cache

	mu       sync.Mutex
	inFlight int
	ledger   *ledger // what was sent since the last reset
}

// counters only grow, as an engine's own do, whatever is reset.
type counters struct {
	prompt, generated, chunks, finished atomic.Int64
	local, external                     atomic.Int64 // tokens of prompts that it prefilled, and that others did
	transfers, failed                   atomic.Int64 // hand-overs that it asked for
}

// New returns a simulated engine whose start-up time, if it has one, begins now.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg.withDefaults(), mux: http.NewServeMux(), started: time.Now(), ledger: newLedger(0)}
	s.log = func(string) {}
	if cfg.Place.spans() && cfg.Place.Rank == 0 {
		s.ranks = newStore(cfg.Place.Ranks)
	}
	s.routes()
	return s
}

func (s *Server) routes() {
	for path := range plans {
		s.mux.HandleFunc("POST "+path, s.answering(planOf(s.cfg, path)))
		s.mux.HandleFunc(path, lacking(http.StatusMethodNotAllowed))
	}
	s.mux.HandleFunc("GET /v1/models", s.models)
	s.mux.HandleFunc("GET /health", s.health)
	s.mux.HandleFunc("GET /health_generate", s.health)
	s.mux.HandleFunc("GET /version", s.version)
	s.mux.HandleFunc("GET /server_info", s.serverInfo)
	s.mux.HandleFunc("GET /get_server_info", s.serverInfo)
	s.mux.HandleFunc("GET /metrics", s.metrics)
	if s.cfg.As == SGLang {
		s.mux.HandleFunc("GET /v1/loads", s.loads)
	}
	s.mux.HandleFunc("POST /tokenize", s.tokenize)
	s.mux.HandleFunc("POST /reset_prefix_cache", s.flush)
	s.mux.HandleFunc("GET /flush_cache", s.flush)
	s.mux.HandleFunc("POST /flush_cache", s.flush)
	s.mux.HandleFunc("/", lacking(http.StatusNotFound))
	s.mux.Handle("GET /sim/kv", &s.kv)
	s.mux.HandleFunc("GET /sim/truth", s.truth)
	s.mux.HandleFunc("POST /sim/truth/reset", s.truthReset)
}

// ServeHTTP answers as the engine would. While the engine is not ready, only
// /sim/truth is there.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.ready() && r.URL.Path != "/sim/truth" {
		refuse(w, s.cfg.As, http.StatusServiceUnavailable, "ServiceUnavailableError", "the server is starting")
		return
	}
	s.mux.ServeHTTP(w, r)
}

func (s *Server) ready() bool {
	if s.ranks != nil && !s.cfg.EarlyReady {
		select {
		case <-s.ranks.whole:
		default:
			return false
		}
	}
	return time.Since(s.started) >= s.cfg.NotReadyFor
}

// admit counts a request in and says when its tokens are due; the caller calls
// leave when it is over.
func (s *Server) admit() (Point, *ledger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight++
	s.ledger.enter(s.inFlight)
	return s.cfg.speedAt(s.inFlight, rand.NormFloat64()), s.ledger
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
}

func (s *Server) id(prefix string) string {
	return fmt.Sprintf("%s-%032x", prefix, uint64(s.started.UnixNano())+uint64(s.serial.Add(1)))
}
