package hcl

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"hclbench/engines"
	"hclbench/load"
	"hclbench/provision"
)

func loadBlock() *blockType {
	t := blockOf("load",
		arg("concurrency", whole(1, 1_000_000), func(c *Cell, n int) { c.Workload.Concurrency = n }),
		arg("rate", rate, func(c *Cell, r load.Rate) { c.Workload.Rate = r }),
		arg("burstiness", rate, func(c *Cell, r load.Rate) { c.Workload.Burstiness = r }),
		arg("ramp", span, func(c *Cell, d load.Duration) { c.Workload.Ramp = d }),
		arg("stages", stages, func(c *Cell, list []load.Stage) { c.Workload.Stages = list }),
		arg("output_tokens", whole(1, 1<<24), func(c *Cell, n int) { c.Workload.OutputTokens = n }),
		arg("ignore_eos", truth, func(c *Cell, on bool) { c.Workload.IgnoreEOS = on }),
		arg("temperature", number(0, 100), func(c *Cell, t float64) { c.Workload.Temperature = t }),
		arg("extra_body", object, func(c *Cell, json string) { c.Workload.ExtraBody = json }),
		arg("adapters", adapters, func(c *Cell, list []load.Adapter) { c.Workload.Adapters = list }),
		arg("headers", headers, func(c *Cell, list []provision.EnvVar) { c.Headers = list }),
		arg("endpoint", endpoint, func(c *Cell, s string) { c.Workload.Endpoint = s }),
		arg("batch_size", whole(1, 4096), func(c *Cell, n int) { c.Workload.BatchSize = n }),
		arg("stream", truth, func(c *Cell, on bool) { c.Workload.NoStream = !on }),
		arg("warmup_requests", whole(0, 1_000_000), func(c *Cell, n int) { c.Workload.Warmup = n }),
		arg("warmup", span, func(c *Cell, d load.Duration) { c.Workload.CutBeginning = d }),
		arg("cooldown", span, func(c *Cell, d load.Duration) { c.Workload.CutEnd = d }),
		arg("stop_when_overloaded", truth, func(c *Cell, on bool) { c.Workload.StopWhenOverloaded = on }),
		arg("timeout", span, func(c *Cell, d load.Duration) { c.Workload.Timeout = d }),
		arg("stall", span, func(c *Cell, d load.Duration) { c.Workload.Stall = d }),
		arg("from", clientsOfLab, func(c *Cell, list []*provision.Host) { c.From = list }),
	)
	t.hint = "How requests are sent. Say `concurrency`, `rate`, or both, or `stages`; offline, and with a trace, neither."
	return t
}

func sloBlock() *blockType {
	bound := free(lasting[load.Duration](time.Nanosecond, 0), func(w *load.Workload, name string, most load.Duration) {
		o, _ := load.ParseObjective(name)
		o.Max = most
		w.SLO = append(w.SLO, o)
	})
	bound.named = func(name string) bool {
		_, ok := load.ParseObjective(name)
		return ok
	}
	bound.hint = "A bound is named for a metric (ttft, ttfa, tpot, itl, e2el or normalized_latency), " +
		"alone or with a percentile: ttft_p99"
	return &blockType{name: "slo", free: bound}
}

// What hardly anybody means.
const (
	shortTimeout = 100 * time.Millisecond // of a request: no answer of a model comes as fast
	longCell     = 7 * 24 * time.Hour     // of one cell
	longPrompt   = 1 << 20                // tokens; few models take more
	hotTest      = 2.0                    // temperature; what the OpenAI API allows at most
)

// warnOfPacing is about arguments of load blocks that have no effect here.
func warnOfPacing(b *block, d *draft) {
	w := d.Workload
	traced := w.Dataset.Timed()
	var idle []string
	why := "A trace says when each request is sent, so %s has no effect. To change its speed, write slowdown."
	switch {
	case d.Offline:
		idle = []string{"concurrency", "rate", "burstiness", "ramp", "stages", "stream", "endpoint", "from",
			"adapters", "batch_size"}
		why = "An offline benchmark has all requests at once and no server, so %s has no effect."
	case traced && b.arg("dataset").said():
		idle = []string{"rate", "burstiness", "ramp", "stages"}
	}
	for _, name := range idle {
		if x := b.arg("load." + name); x.said() {
			b.warn(x.at, "No effect", why, name)
		}
	}
	paced := b.arg("load.rate").said() || b.arg("load.stages").said() || d.Offline || traced
	if x := b.arg("load.burstiness"); x.said() && !paced {
		b.warn(x.at, "No effect",
			"burstiness shapes the times between arrivals, and without a rate there are none.")
	}
	if !d.Offline {
		warnOfFew(b, w)
	}
}

// warnOfFew is about loads that never have as much in flight as they ask for.
func warnOfFew(b *block, w load.Workload) {
	x := b.arg("requests")
	_, each := w.Dataset.TurnRequests()
	each *= w.Dataset.Turns
	if !x.fits() {
		return
	}
	switch asked := fmt.Sprintf("concurrency is %d", w.Concurrency); {
	case w.Requests < w.Concurrency:
		b.add(SeverityWarning, x.at, "Fewer requests than concurrency", "",
			"The concurrency is never reached. Write at least as many requests; several times as many is usual.",
			fmt.Sprintf("requests is %d", w.Requests), asked)
	case each > 0 && (w.Requests+each-1)/each < w.Concurrency:
		b.add(SeverityWarning, x.at, "Fewer conversations than concurrency", "",
			"The concurrency is never reached: it is of conversations, and requests counts those of them all.",
			fmt.Sprintf("requests is %d, a conversation has %d", w.Requests, each), asked)
	}
}

// checkIdle is about arguments that mean nothing where requests go, said or not.
func checkIdle(b *block, d *draft) {
	if d.Offline {
		return
	}
	w := &d.Workload
	for _, name := range w.Idle() {
		if x := b.arg("load." + name); x.said() {
			b.fail(x.at, "No effect", "%s means nothing to the endpoint %q. Leave it out.", name, w.Endpoint)
		}
	}
	w.IgnoreEOS = w.IgnoreEOS && w.Generates() // where it is not said
}

// checkRules holds a load against its rules; what is missing has been reported.
func checkRules(b *block, w load.Workload) {
	for _, p := range w.Problems() {
		if at, said := placeOf(b, p.Field); said {
			b.fail(at, "Wrong load", "%s.", title(p.Text))
		}
	}
	if !b.incomplete {
		warnOfPace(b, w)
	}
}

// placeOf is where a benchmark says something; of its data set, where it names it. A
// data set that needs another endpoint needs one to be said.
func placeOf(b *block, field string) (hcl.Range, bool) {
	names := []string{"load." + field, field}
	if field == "endpoint" || field == "dataset.tokenizer" {
		names = []string{"load.endpoint", "dataset"}
	} else if strings.HasPrefix(field, "dataset.") {
		names = []string{"dataset"}
	}
	for _, name := range names {
		if x := b.said[name]; x.said() {
			return x.at, true
		}
	}
	return hcl.Range{}, false
}

// warnOfPace is about times and rates that hardly anybody means.
func warnOfPace(b *block, w load.Workload) {
	if x, limit := b.arg("load.timeout"), time.Duration(w.Timeout); x.fits() && limit < shortTimeout {
		b.warn(x.at, "Short timeout",
			"Requests that take longer than %s fail, and nearly every answer of a model does.", limit)
	}
	if x := b.arg("load.ramp"); x.fits() && w.End() > 0 && time.Duration(w.Ramp) >= w.End() {
		b.warn(x.at, "Never at its pace", "The load is still rising when it ends, after %s. Write a shorter ramp.", w.End())
	}
	if w.Rate == load.Inf || w.Rate <= 0 {
		return
	}
	at, rate := b.arg("load.rate").at, float64(w.Rate)
	if expected := rate * time.Duration(w.Duration).Seconds(); w.Duration > 0 && expected < 1 {
		b.warn(at, "Hardly any request",
			"At %v requests a second and for %s there are %.2g requests to be expected.", rate, w.Duration, expected)
	}
	if seconds := float64(w.Requests) / rate; seconds > longCell.Seconds() {
		b.warn(at, "Endless load",
			"At %v requests a second, %d requests take more than %.0f days.", rate, w.Requests, longCell.Hours()/24)
	}
}

// checkSent holds what a load sends against what the engine serves.
func checkSent(b *block, c Cell) {
	e, w := c.Engine, c.Workload
	x := b.arg("load.endpoint")
	if x.said() && w.Endpoint == load.Generate && !engines.HasGenerate(e) && !c.Offline {
		b.fail(x.at, "No such endpoint", "/generate is SGLang's, and %s is of kind %q: every request would fail. "+
			"Write endpoint = %q or %q.", e.Address(), e.Kind, load.Completions, load.Chat)
		return
	}
	if w.Endpoint == load.Responses && engines.TakesLoraPath(e) {
		if checkSGLangResponses(b, c, x); b.incomplete {
			return
		}
	}
	if x := b.arg("load.temperature"); x.said() && w.Temperature > hotTest {
		b.warn(x.at, "High temperature",
			"At %v the next token is nearly any token, and the OpenAI API takes at most %v.", w.Temperature, hotTest)
	}
	if x := b.arg("load.adapters"); x.said() && !c.Offline && !engines.HasAdapters(e) {
		b.warn(x.at, "No adapters", "%s is told of no adapter, so it would refuse every request for one. "+
			"Name them in its flags: lora-modules with vLLM, lora-paths with SGLang.", e.Address())
	}
	warnOfSpeculation(b, c)
	input, output := w.Longest()
	if _, _, said := engines.MaxContext(e); !said && input+output > longPrompt && engines.Real(e) {
		x := b.arg("load.output_tokens")
		if !x.said() || output < input {
			x = b.arg("dataset")
		}
		b.warn(x.at, "Very long context", "A prompt of %d tokens and an answer of %d make %d, which few models take. "+
			"Say the limit in the flags of %s.", input, output, input+output, e.Address())
	}
}

// checkSGLangResponses is about what SGLang's Responses API does not do (its entrypoints/openai/protocol.py, ResponsesRequest).
func checkSGLangResponses(b *block, c Cell, endpoint setting) {
	if len(c.Workload.Adapters) > 0 {
		b.fail(b.arg("load.adapters").at, "Adapters out of reach", "The Responses API of %s takes no adapter: the model "+
			"itself would answer. Write endpoint = %q.", c.Engine.Address(), load.Chat)
		return
	}
	b.warn(endpoint.at, "Shorter answers", "The Responses API of %s generates two tokens fewer than it is asked for, and knows "+
		"no ignore_eos: expect a verdict about lengths. Write endpoint = %q to compare engines.", c.Engine.Address(), load.Chat)
}

// warnOfSpeculation is about drafted tokens that are accepted for another reason than in use.
func warnOfSpeculation(b *block, c Cell) {
	e, w, x := c.Engine, c.Workload, b.arg("dataset")
	setting, forced := engines.Speculates(e), engines.ForcesAcceptance(e)
	made := slices.Contains([]string{load.Random, load.SharedPrefix, load.RandomAgents}, w.Dataset.Kind)
	switch {
	case forced != "":
		b.warn(b.arg("engine").at, "Forced acceptance", "%s says %s: drafted tokens are accepted whatever they are, so "+
			"the figures are of that setting and not of the model's drafts.", e.Address(), forced)
	case setting != "" && made && !w.SendsText():
		b.warn(x.at, "Speculation on random prompts", "%s drafts tokens (%s), and after random ones the model accepts more "+
			"or fewer of them than in use. Write endpoint = %q, which sends words in the model's template, or a data set "+
			"of real prompts.", e.Address(), setting, load.Chat)
	}
}
