package engines

import (
	"cmp"
	"time"
)

// Readiness says how to tell that a server really serves.
type Readiness struct {
	Health      string        // path that answers 200; empty: skip
	HealthEvery time.Duration // never ask more often than this
	Models      string        // path that lists the models; empty: it lists none
	Model       string        // the model that must be listed; empty: any
	Stall       time.Duration // nothing has moved for this long: give up
	Timeout     time.Duration // give up after this in all; 0: never
}

// ReadinessOf returns how the engine is to be waited for.
func ReadinessOf(e *Engine) Readiness {
	k := kinds[e.Kind]
	if e.Kind == GroupKind { // the slowest decides
		out := Readiness{Models: "/v1/models", Model: ServedModel(e)}
		for _, r := range e.workers() {
			one := ReadinessOf(r.engine)
			out.Stall, out.Timeout = max(out.Stall, one.Stall), max(out.Timeout, one.Timeout)
		}
		return out
	}
	models := "/v1/models"
	if e.Router && e.Kind != OpenAI { // its workers are asked, whose names it has: before vLLM SGLang's lists "unknown"
		models = ""
	}
	return Readiness{
		Health:      k.health,
		HealthEvery: max(k.healthEvery, 250*time.Millisecond),
		Models:      models,
		Model:       ServedModel(e),
		Stall:       cmp.Or(e.Ready.Stall, DefaultStall),
		Timeout:     e.Ready.Timeout,
	}
}

// CacheReset are the requests, each a POST, that drop what the engine has cached of prompts, one after the other. kept is
// what stays all the same; empty: nothing. posts is nil when the engine, as it is started, cannot: why says so.
func CacheReset(e *Engine) (posts []string, kept, why string) {
	r := kinds[e.Kind].reset
	switch {
	case r.posts == nil:
		return nil, "", e.Kind + " has no request for it"
	case r.needsEnv != "" && !e.hasEnv(r.needsEnv):
		return nil, "", e.Kind + " offers it only with env " + r.needsEnv
	}
	posts, kept = r.posts(e)
	return posts, kept, ""
}
