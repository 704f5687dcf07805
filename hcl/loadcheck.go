package hcl

import (
	"time"

	"hclbench/engines"
	"hclbench/load"
)

// What hardly anybody means.
const (
	shortTimeout = 100 * time.Millisecond // of a request: no answer of a model comes as fast
	longCell     = 7 * 24 * time.Hour     // of one cell
	longPrompt   = 1 << 20                // tokens; few models take more
	hotTest      = 2.0                    // temperature; what the OpenAI API allows at most
)

// checkTimes holds the times and the pace of a load against each other.
func (l *lab) checkTimes(s settings, w load.Workload) bool {
	good := true
	whole := time.Duration(w.Duration)
	for _, st := range w.Stages {
		whole += time.Duration(st.Duration)
	}
	if cut := time.Duration(w.CutBeginning + w.CutEnd); cut > 0 && whole > 0 && cut >= whole {
		at := s["load.warmup"].at
		if w.CutBeginning == 0 {
			at = s["load.cooldown"].at
		}
		l.errOnce(at, "Nothing left to measure", "Warm-up and cool-down take %s, and the load lasts %s, so no request would count. Let the load last longer, or cut less.", cut, whole)
		good = false
	}
	if x, said := s["load.timeout"]; said && w.Timeout > 0 && time.Duration(w.Timeout) < shortTimeout {
		l.warn(x.at, "Short timeout", "Requests that take longer than %s fail, and nearly every answer of a model does.", time.Duration(w.Timeout))
	}
	if w.Rate == load.Inf || w.Rate <= 0 {
		return good
	}
	at := s["load.rate"].at
	if expected := float64(w.Rate) * whole.Seconds(); w.Duration > 0 && expected < 1 {
		l.warn(at, "Hardly any request", "At %v requests a second and for %s there are %.2g requests to be expected.", float64(w.Rate), whole, expected)
	}
	if seconds := float64(w.Requests) / float64(w.Rate); seconds > longCell.Seconds() {
		l.warn(at, "Endless load", "At %v requests a second, %d requests take more than %.0f days.", float64(w.Rate), w.Requests, longCell.Hours()/24)
	}
	return good
}

// checkWith holds what a load sends against what the engine serves.
func (l *lab) checkWith(s settings, e *engines.Engine, w load.Workload) bool {
	if x, said := s["load.endpoint"]; said && w.Endpoint == load.Generate && !engines.HasGenerate(e) && w.Mode != load.Offline {
		l.errOnce(x.at, "No such endpoint", "/generate is SGLang's, and %s is of kind %q: every request would fail. Write endpoint = %q or %q.", e.Address(), e.Kind, load.Completions, load.Chat)
		return false
	}
	if x, said := s["load.temperature"]; said && w.Temperature > hotTest {
		l.warn(x.at, "High temperature", "At %v the next token is nearly any token, and the OpenAI API takes at most %v.", w.Temperature, hotTest)
	}
	input, output := w.Longest()
	if _, _, said := engines.MaxContext(e); !said && input+output > longPrompt && e.Kind != engines.Sim {
		x, ok := s["load.output_tokens"]
		if !ok || output < input {
			x = s["dataset"]
		}
		l.warn(x.at, "Very long context", "A prompt of %d tokens and an answer of %d make %d, which few models take. If this one does, say so in the flags of %s, so that it is checked.", input, output, input+output, e.Address())
	}
	return true
}
