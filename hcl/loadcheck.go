package hcl

import (
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

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

// checkRules holds a load against the rules that it has wherever it is written; what
// is missing has been reported.
func (l *lab) checkRules(b *hclsyntax.Block, s settings, w load.Workload) bool {
	good := true
	for _, p := range w.Problems() {
		at, said := placeOf(b, s, p.Field)
		if !said {
			continue
		}
		l.errOnce(at, "Wrong load", "%s.", title(p.Text))
		good = false
	}
	if good {
		l.warnOfPace(s, w)
	}
	return good
}

// placeOf is where a benchmark says something; of its data set, where it names it. A
// data set that needs another endpoint needs one to be said.
func placeOf(b *hclsyntax.Block, s settings, field string) (hcl.Range, bool) {
	if field == "slo" {
		return blockRange(b.Body, field)
	}
	names := []string{"load." + field, field}
	if field == "endpoint" || field == "dataset.tokenizer" {
		names = []string{"load.endpoint", "dataset"}
	} else if strings.HasPrefix(field, "dataset.") {
		names = []string{"dataset"}
	}
	for _, name := range names {
		if x, said := s[name]; said {
			return x.at, true
		}
	}
	return hcl.Range{}, false
}

// warnOfPace is about times and rates that hardly anybody means.
func (l *lab) warnOfPace(s settings, w load.Workload) {
	if x, said := s["load.timeout"]; said && w.Timeout > 0 && time.Duration(w.Timeout) < shortTimeout {
		l.warn(x.at, "Short timeout", "Requests that take longer than %s fail, and nearly every answer of a model does.", time.Duration(w.Timeout))
	}
	if w.Rate == load.Inf || w.Rate <= 0 {
		return
	}
	at := s["load.rate"].at
	if expected := float64(w.Rate) * time.Duration(w.Duration).Seconds(); w.Duration > 0 && expected < 1 {
		l.warn(at, "Hardly any request", "At %v requests a second and for %s there are %.2g requests to be expected.", float64(w.Rate), w.Duration, expected)
	}
	if seconds := float64(w.Requests) / float64(w.Rate); seconds > longCell.Seconds() {
		l.warn(at, "Endless load", "At %v requests a second, %d requests take more than %.0f days.", float64(w.Rate), w.Requests, longCell.Hours()/24)
	}
}

// checkWith holds what a load sends against what the engine serves.
func (l *lab) checkWith(s settings, c Cell) bool {
	e, w := c.Engine, c.Workload
	if x, said := s["load.endpoint"]; said && w.Endpoint == load.Generate && !engines.HasGenerate(e) && !c.Offline {
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
