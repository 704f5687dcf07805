package sim

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"time"
)

// vocabulary is what the engine says: token i is word i, over and over.
var vocabulary = [16]string{
	" the", " of", " and", " to", " in", " is", " that", " it",
	" was", " for", " on", " are", " as", " with", " they", " at",
}

// job is one generation and how its protocol writes it.
type job struct {
	prompt int // tokens
	tokens int // to be sent
	finish string
	stream bool
	// of the tokens, so many of the first are reasoning; the rest is text or a tool call
	reasoning int
	calls     bool
	adapter   string // that it is for; empty: the model itself
	heard            // in messages
	half             // of a request that prefill and decode share
	known     bool   // it was asked for before, and is remembered

	opening []byte // an event that goes before the first token; nil: none
	// chunk appends the event that carries tokens from (included) to to (not
	// included); the last one says why generation ended.
	chunk   func(b []byte, from, to int, last bool) []byte
	closing func() []byte // the events after the last token
	whole   func() []byte // the answer when it is not streamed
}

// spoken is how many of the tokens have a text: the one by which an answer ends has none.
func (j job) spoken() int {
	if j.finish == "length" || j.finish == "" {
		return j.tokens
	}
	return j.tokens - 1
}

// plan makes a generation of a request's body.
type plan func(s *Server, body []byte) (job, *refusal)

// plans are those of the endpoints that generate.
var plans = map[string]plan{
	"/v1/completions":      (*Server).completion,
	"/v1/chat/completions": (*Server).chat,
	"/generate":            (*Server).generation,
	"/v1/responses":        response,
	"/v1/embeddings":       embedding,
	"/v1/rerank":           rank,
}

// refusal is why a request gets no tokens.
type refusal struct {
	status     int
	kind, text string
	param      string // that is wrong, where vLLM says it
}

func bad(text string) *refusal {
	return &refusal{status: http.StatusBadRequest, kind: "BadRequestError", text: text}
}

// wrong is what vLLM says of a parameter whose value it does not take.
func wrong(param, value, text string) *refusal {
	no := bad(fmt.Sprintf("%s (parameter=%s, value=%s)", text, param, value))
	no.param = param
	return no
}

// malformed is what both say of a body that is not what they read.
func malformed(err error) *refusal {
	return &refusal{status: http.StatusBadRequest, kind: "Bad Request", text: "1 validation error:\n  " + err.Error(), param: "body"}
}

// answering is the handler of an endpoint that generates.
func (s *Server) answering(p plan) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		entry := time.Now()
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			refuse(w, s.cfg.As, http.StatusBadRequest, "BadRequestError", "request body: "+err.Error())
			return
		}
		side, no := halfOf(s, body)
		var j job
		if no == nil {
			j, no = p(s, body)
		}
		if no != nil {
			no.write(w, s.cfg.As)
			return
		}
		if j.half = side; j.gives != "" {
			j.tokens = 1 // the rest is decode's
		}
		j.known = s.remembers(body)
		s.run(w, r, entry, j)
	}
}

// remembers reports whether an answer cache has what is asked for, and has it remember that.
func (s *Server) remembers(body []byte) (known bool) {
	if s.cfg.AnswerCache {
		_, known = s.asked.LoadOrStore(sha256.Sum256(body), true)
	}
	return known
}

// limit applies what the configuration says about early ends.
func (s *Server) limit(asked int) (tokens int, finish string) {
	if s.cfg.StopAfter > 0 && s.cfg.StopAfter < asked {
		return s.cfg.StopAfter, "stop"
	}
	return asked, "length"
}

// run sends a job's tokens, each at its time. The request's clock starts at
// entry, and the schedule is absolute: a late token does not delay the next.
func (s *Server) run(w http.ResponseWriter, r *http.Request, entry time.Time, j job) {
	n := s.accepted.Add(1)
	speed, ledger := s.admit()
	defer s.leave()
	if every := int64(s.cfg.FailEvery); every > 0 && n%every == 0 {
		ledger.fail()
		refuse(w, s.cfg.As, http.StatusInternalServerError, "InternalServerError", "simulated failure")
		return
	}
	if err := takeHandle(r.Context(), s, j.half, j.prompt); err != nil {
		s.log(err.Error())
		ledger.fail()
		refuse(w, s.cfg.As, http.StatusInternalServerError, "InternalServerError", err.Error())
		return
	}
	if j.takes != "" && !s.cfg.LocalPrefill { // the prompt is read: the first token is a step away
		speed.TTFT = time.Since(entry) + speed.ITL
	}
	if j.known {
		speed.TTFT, speed.ITL = 0, 0
	}
	if j.stream {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.Header().Set("Cache-Control", "no-cache")
	} else {
		w.Header().Set("Content-Type", "application/json")
	}
	if after := int64(s.cfg.HangAfter); after > 0 && n > after || s.broken.Load() {
		ledger.fail()
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	}
	var sent, due []time.Duration
	ok := false
	if j.stream {
		sent, due, ok = s.streamed(w, r.Context(), entry, speed, j)
	} else {
		sent, due, ok = s.unstreamed(w, r.Context(), entry, speed, j)
	}
	if !ok {
		ledger.fail()
		return
	}
	s.complete(ledger, j, sent, due)
	if j.stream {
		w.Write(j.closing())
	}
}

// complete writes down a generation. That is done before the stream closes, so
// that whoever has read the whole answer finds it in the truth.
func (s *Server) complete(l *ledger, j job, sent, due []time.Duration) {
	l.complete(j, sent, due, s.cfg.TokensPerChunk)
	if j.gives != "" {
		s.kv.give(j.gives, j.prompt)
	}
	s.lifetime.prompt.Add(int64(j.prompt))
	s.lifetime.generated.Add(int64(j.tokens))
	s.lifetime.chunks.Add(int64(len(sent)))
	s.lifetime.finished.Add(1)
}

func (s *Server) streamed(w http.ResponseWriter, ctx context.Context, entry time.Time, speed Point, j job) (sent,
	due []time.Duration, ok bool) {
	k := s.cfg.TokensPerChunk
	chunks := (j.tokens + k - 1) / k
	times := make([]time.Duration, 2*chunks)
	sent, due = times[:0:chunks], times[chunks:chunks]
	flusher := http.NewResponseController(w)
	write := func(b []byte) bool {
		if _, err := w.Write(b); err != nil {
			return false
		}
		return flusher.Flush() == nil
	}
	clock := newAlarm(ctx)
	defer clock.stop()
	buf := make([]byte, 0, 512)
	for from := 0; from < j.tokens; from += k {
		to := min(from+k, j.tokens)
		at := speed.due(to)
		// What can be done before the token is due is done before.
		buf = j.chunk(buf[:0], from, to, to == j.tokens)
		if !clock.wait(entry.Add(at)) {
			return nil, nil, false
		}
		if from == 0 && j.opening != nil && !write(j.opening) {
			return nil, nil, false
		}
		if !write(buf) {
			return nil, nil, false
		}
		sent, due = append(sent, time.Since(entry)), append(due, at)
	}
	return sent, due, true
}

func (s *Server) unstreamed(w http.ResponseWriter, ctx context.Context, entry time.Time, speed Point, j job) (sent,
	due []time.Duration, ok bool) {
	clock := newAlarm(ctx)
	defer clock.stop()
	at := speed.TTFT + time.Duration(max(j.tokens-1, 0))*speed.ITL
	if !clock.wait(entry.Add(at)) {
		return nil, nil, false
	}
	if _, err := w.Write(j.half.addedTo(j.whole())); err != nil {
		return nil, nil, false
	}
	return []time.Duration{time.Since(entry)}, []time.Duration{at}, true
}

// alarm waits for moments, until its context ends.
type alarm struct {
	ctx   context.Context
	timer *time.Timer
}

func newAlarm(ctx context.Context) *alarm {
	t := time.NewTimer(0)
	t.Stop()
	return &alarm{ctx, t}
}

func (a *alarm) stop() { a.timer.Stop() }

// wait reports whether t came before the context ended.
func (a *alarm) wait(t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		return a.ctx.Err() == nil
	}
	a.timer.Reset(d)
	select {
	case <-a.timer.C:
		return true
	case <-a.ctx.Done():
		return false
	}
}
