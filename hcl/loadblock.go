package hcl

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"hclbench/engines"
	"hclbench/hcl/lang"
	"hclbench/load"
	"hclbench/provision"
)

func loadBlock() *lang.BlockType {
	t := lang.BlockOf("load", append(loadArguments(load.InBlock, func(c *Cell) *load.Workload { return &c.Workload }),
		lang.Arg("headers", headers, func(c *Cell, list []provision.EnvVar) { c.Headers = list }),
		lang.Arg("from", clientsOfLab, func(c *Cell, list []*provision.Host) { c.From = list }))...)
	t.Hint = "How requests are sent. Say `concurrency`, `rate`, or both, or `stages`; offline, and with a trace, neither."
	return t
}

func sloBlock() *lang.BlockType {
	bound := lang.Free(lang.DurationBetween[load.Duration](time.Nanosecond, 0), func(w *load.Workload, name string, most load.Duration) {
		o, _ := load.ParseObjective(name)
		o.Max = most
		w.SLO = append(w.SLO, o)
	})
	bound.Named = func(name string) bool {
		_, ok := load.ParseObjective(name)
		return ok
	}
	bound.Hint = "A bound is named for a metric (ttft, ttfa, tpot, itl, e2el or normalized_latency), " +
		"alone or with a percentile: ttft_p99"
	return &lang.BlockType{Name: "slo", Free: bound}
}

// What hardly anybody means.
const (
	shortTimeout = 100 * time.Millisecond // of a request: no answer of a model comes as fast
	longCell     = 7 * 24 * time.Hour     // of one cell
	longPrompt   = 1 << 20                // tokens; few models take more
	hotTest      = 2.0                    // temperature; what the OpenAI API allows at most
)

// warnOfPacing is about arguments of a load that have no effect here.
func warnOfPacing(b *lang.Block, d *draft, w *load.Workload) {
	const offline = "An offline benchmark has all requests at once and no server, so %s has no effect."
	traced := w.Dataset.Timed() && b.Arg("dataset").IsSet()
	for _, a := range load.Arguments() {
		x := b.Find(a.Name) // the bounds, in a block of their own
		switch {
		case a.Place == load.InBenchmark:
			continue
		case a.Place == load.InBlock:
			x = b.Arg("load." + a.Name)
		}
		switch {
		case !x.IsSet():
		case d.Offline && !a.Batched:
			b.Warn(x.At, "No effect", offline, a.Name)
		case d.Offline:
		case traced && a.Paces:
			b.Warn(x.At, "No effect", "A trace says when each request is sent, so %s has no effect. To change its speed, "+
				"write slowdown.", a.Name)
		case !b.Incomplete && !w.Dataset.Timed() && a.Idle(w) != "":
			b.Warn(x.At, "No effect", "%s %s.", a.Name, a.Idle(w))
		}
	}
	for _, name := range []string{"headers", "from"} {
		if x := b.Arg("load." + name); d.Offline && x.IsSet() {
			b.Warn(x.At, "No effect", offline, name)
		}
	}
	if !d.Offline && d.Capacity == nil {
		warnOfFew(b, *w)
	}
}

// warnOfFew is about loads that never have as much in flight as they ask for.
func warnOfFew(b *lang.Block, w load.Workload) {
	x := b.Arg("requests")
	_, each := w.Dataset.TurnRequests()
	each *= w.Dataset.Turns
	if !x.IsValid() {
		return
	}
	switch asked := fmt.Sprintf("concurrency is %d", w.Concurrency); {
	case w.Requests < w.Concurrency:
		b.Warn(x.At.Because(fmt.Sprintf("requests is %d", w.Requests), asked), "Fewer requests than concurrency",
			"The concurrency is never reached. Write at least as many requests; several times as many is usual.")
	case each > 0 && (w.Requests+each-1)/each < w.Concurrency:
		b.Warn(x.At.Because(fmt.Sprintf("requests is %d, a conversation has %d", w.Requests, each), asked), "Fewer conversations than concurrency",
			"The concurrency is never reached: it is of conversations, and requests counts those of them all.")
	}
}

// checkIdle is about arguments that mean nothing where requests go, said or not.
func checkIdle(b *lang.Block, d *draft) {
	if d.Offline {
		return
	}
	w := &d.Workload
	if said := b.Arg("load.endpoint"); !said.IsSet() && d.Engine != nil && refusedIDs(d.Engine, *w) && engines.HasGenerate(d.Engine) {
		w.Endpoint = load.Generate
	}
	for _, name := range w.Idle() {
		if x := b.Arg("load." + name); x.IsSet() {
			b.Fail(x.At, "No effect", "%s means nothing to the endpoint %q. Leave it out.", name, w.Endpoint)
		}
	}
	w.IgnoreEOS = w.IgnoreEOS && w.Generates() // where it is not said
}

// refusedIDs reports whether the engine's router refuses the prompts of a workload, as they are token ids.
func refusedIDs(e *engines.Engine, w load.Workload) bool {
	return engines.RefusesIDs(e) && w.Endpoint == load.Completions && w.Dataset.Kind != load.JSONL // whose prompts are text
}

// checkRules holds a load against its rules. One of which not all is known breaks them by what it lacks alone, and what it
// lacks and nothing else would do for has been reported.
func checkRules(b *lang.Block, d *draft, sent load.Workload) {
	broken, known := sent.Problems, !b.Incomplete
	if d.Offline {
		broken = d.Workload.BatchProblems
	}
	for _, p := range broken() {
		at, said := placeOf(b, p.Field)
		if said && known {
			b.Fail(at, "Wrong load", "%s.", lang.Title(p.Text))
		}
		if said || p.Or == nil {
			continue
		}
		lacks, inLoad := b.Header, b.Type.Knows("load."+p.Field)
		if inLoad {
			lacks = b.At("load")
		}
		if (!inLoad || b.Arg("load").IsSet()) && !slices.ContainsFunc(append(p.Or, p.Field), func(name string) bool {
			_, said := placeOf(b, name)
			return said || b.IsMisspelt(lacks, name)
		}) {
			b.Fail(lacks.Lacking(""), "Missing argument", "%s.", lang.Title(p.Text))
		}
	}
	if !b.Incomplete && !d.Offline {
		warnOfPace(b, d.Workload)
	}
}

// placeOf is where a benchmark says something; of its data set, where it names it. A
// data set that needs another endpoint needs one to be said.
func placeOf(b *lang.Block, field string) (lang.Place, bool) {
	names := []string{"load." + field, field}
	if field == "endpoint" || field == "dataset.tokenizer" {
		names = []string{"load.endpoint", "dataset"}
	} else if strings.HasPrefix(field, "dataset.") {
		names = []string{"dataset"}
	}
	for _, name := range names {
		if x := b.Find(name); x.IsSet() {
			return x.At, true
		}
	}
	return lang.Place{}, false
}

// warnOfPace is about times and rates that hardly anybody means.
func warnOfPace(b *lang.Block, w load.Workload) {
	if x, limit := b.Arg("load.timeout"), time.Duration(w.Timeout); x.IsValid() && limit < shortTimeout {
		b.Warn(x.At, "Short timeout",
			"Requests that take longer than %s fail, and nearly every answer of a model does.", limit)
	}
	if x := b.Arg("load.ramp"); x.IsValid() && w.End() > 0 && time.Duration(w.Ramp) >= w.End() {
		b.Warn(x.At, "Never at its pace", "The load is still rising when it ends, after %s. Write a shorter ramp.", w.End())
	}
	if w.Rate == load.Inf || w.Rate <= 0 {
		return
	}
	at, rate := b.At("load.rate"), float64(w.Rate)
	if expected := rate * time.Duration(w.Duration).Seconds(); w.Duration > 0 && expected < 1 {
		b.Warn(at, "Hardly any request",
			"At %v requests a second and for %s there are %.2g requests to be expected.", rate, w.Duration, expected)
	}
	if seconds := float64(w.Requests) / rate; seconds > longCell.Seconds() {
		b.Warn(at, "Endless load",
			"At %v requests a second, %d requests take more than %.0f days.", rate, w.Requests, longCell.Hours()/24)
	}
}

// checkSent holds what a load sends against what the engine serves.
func checkSent(b *lang.Block, c Cell) {
	e, w := c.Engine, c.Workload
	x := b.Arg("load.endpoint")
	if x.IsSet() && w.Endpoint == load.Generate && !engines.HasGenerate(e) && !c.Offline {
		b.Fail(x.At, "No such endpoint", "/generate is SGLang's, and %s is of kind %q: every request would fail. "+
			"Write endpoint = %q or %q.", e.Address(), e.Kind, load.Completions, load.Chat)
		return
	}
	if at, said := placeOf(b, "endpoint"); said && !c.Offline && refusedIDs(e, w) {
		other := load.Chat
		if engines.HasGenerate(e) {
			other = load.Generate
		}
		b.Fail(at, "No token ids", "SGLang's router takes no prompts of token ids on /v1/completions: every request would fail. "+
			"Write endpoint = %q.", other)
		return
	}
	if w.Endpoint == load.Responses && engines.TakesLoraPath(e) {
		if checkSGLangResponses(b, c, x); b.Incomplete {
			return
		}
	}
	if x := b.Arg("load.temperature"); x.IsSet() && w.Temperature > hotTest {
		b.Warn(x.At, "High temperature",
			"At %v the next token is nearly any token, and the OpenAI API takes at most %v.", w.Temperature, hotTest)
	}
	if x := b.Arg("load.adapters"); x.IsSet() && !c.Offline && !engines.HasAdapters(e) {
		b.Warn(x.At, "No adapters", "%s is told of no adapter, so it would refuse every request for one. "+
			"Name them in its flags: lora-modules with vLLM, lora-paths with SGLang.", e.Address())
	}
	warnOfSpeculation(b, c)
	input, output := w.Longest()
	if _, _, said := engines.MaxContext(e); !said && input+output > longPrompt && engines.Real(e) {
		x := b.Arg("load.output_tokens")
		if !x.IsSet() || output < input {
			x = b.Arg("dataset")
		}
		b.Warn(x.At, "Very long context", "A prompt of %d tokens and an answer of %d make %d, which few models take. "+
			"Say the limit in the flags of %s.", input, output, input+output, e.Address())
	}
}

// checkSGLangResponses is about what SGLang's Responses API does not do (its entrypoints/openai/protocol.py, ResponsesRequest).
func checkSGLangResponses(b *lang.Block, c Cell, endpoint lang.Setting) {
	if len(c.Workload.Adapters) > 0 {
		b.Fail(b.At("load.adapters"), "Adapters out of reach", "The Responses API of %s takes no adapter: the model "+
			"itself would answer. Write endpoint = %q.", c.Engine.Address(), load.Chat)
		return
	}
	b.Warn(endpoint.At, "Shorter answers", "The Responses API of %s generates two tokens fewer than it is asked for, and knows "+
		"no ignore_eos: expect a verdict about lengths. Write endpoint = %q to compare engines.", c.Engine.Address(), load.Chat)
}

// warnOfSpeculation is about drafted tokens that are accepted for another reason than in use.
func warnOfSpeculation(b *lang.Block, c Cell) {
	e, w, x := c.Engine, c.Workload, b.Arg("dataset")
	setting, forced := engines.Speculates(e), engines.ForcesAcceptance(e)
	made := slices.Contains([]string{load.Random, load.SharedPrefix, load.RandomAgents}, w.Dataset.Kind)
	switch {
	case forced != "":
		b.Warn(b.At("engine"), "Forced acceptance", "%s says %s: drafted tokens are accepted whatever they are, so "+
			"the figures are of that setting and not of the model's drafts.", e.Address(), forced)
	case setting != "" && made && !w.SendsText():
		b.Warn(x.At, "Speculation on random prompts", "%s drafts tokens (%s), and after random ones the model accepts more "+
			"or fewer of them than in use. Write endpoint = %q, which sends words in the model's template, or a data set "+
			"of real prompts.", e.Address(), setting, load.Chat)
	}
}

// draft is a benchmark while one of its cells is read.
type draft struct {
	*Benchmark
	Cell
}
