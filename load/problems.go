package load

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"hclbench/plain"
)

const maxPrompts = 10_000_000 // bounds the shuffled order of shared-prefix prompts

// FieldError is a rule that a workload breaks, and the argument that it is about.
// The lab language points it at the argument, the command line at the flag.
type FieldError struct {
	// Field is the argument's name in a lab: of a benchmark or its load ("requests",
	// "rate", "stages", "slo"), of its data set after a dot
	// ("dataset.path"). It may be one that is missing.
	Field string
	Text  string // what is wrong and what to say instead, without the field's name at its beginning
	// Or are other arguments that would do as well, where one of them is missing.
	Or []string
}

func (e FieldError) Error() string { return e.Text }

// Check is all of [Workload.Problems] as one error; nil when there are none.
func (w Workload) Check() error { return problems(w.Problems()).joined() }

// Check is what is wrong with a data set, as one error.
func (d Dataset) Check() error {
	var all problems
	d.problems(&all)
	return all.joined()
}

// Problems are the rules that a workload breaks, all of them: what cannot be sent,
// whatever the server. They are the same for a lab and for the command line.
func (w Workload) Problems() []FieldError {
	var all problems
	w.Dataset.problems(&all)
	for _, a := range arguments {
		a.check(&all, &w, a.Name, false)
	}
	w.ending(&all)
	w.pacing(&all)
	w.sending(&all)
	w.adapting(&all)
	return all
}

type problems []FieldError

func (p *problems) add(is bool, field, format string, args ...any) {
	if is {
		*p = append(*p, FieldError{Field: field, Text: fmt.Sprintf(format, args...)})
	}
}

// missing adds the rule that one of several arguments is needed.
func (p *problems) missing(is bool, field string, or []string, text string) {
	if is {
		*p = append(*p, FieldError{field, text, or})
	}
}

func (p problems) joined() error {
	var errs []error
	for _, e := range p {
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// ending: something says when the run is over, and something of it is left.
func (w Workload) ending(p *problems) {
	traced, staged := w.Dataset.Timed(), len(w.Stages) > 0
	p.missing(w.Requests == 0 && w.Duration == 0 && !traced && !staged, "requests", []string{"duration", "stages"},
		"nothing says when to stop: write requests or duration")
	p.add(staged && w.Duration > 0, "duration", "the stages say how long it takes: remove duration, or the stages")
	p.add(staged && w.Requests > 0, "requests", "the stages say how long it takes: remove requests, or the stages")
	p.add(!staged && w.Requests > 0 && w.Duration > 0, "duration",
		"it ends after so many requests or after so long: remove requests or duration")
	p.add(staged && traced, "stages", "a trace says when requests are sent, and so do stages")
	if end := w.End(); end > 0 && w.CutBeginning >= 0 && w.CutEnd >= 0 && !traced {
		p.add(time.Duration(w.CutBeginning+w.CutEnd) >= end, "warmup",
			"a warm-up of %v and a cool-down of %v leave nothing of a run of %v", w.CutBeginning, w.CutEnd, end)
	}
}

// pacing: something says how requests are sent.
func (w Workload) pacing(p *problems) {
	traced, staged := w.Dataset.Timed(), len(w.Stages) > 0
	p.missing(w.Rate == 0 && w.Concurrency == 0 && !traced && !staged, "concurrency", []string{"rate", "stages"},
		"nothing says when to send: write concurrency, the requests in flight, or rate, those per second; the rate \"inf\" "+
			"sends all at once")
	p.add(staged && w.Rate > 0, "rate", "each stage says its rate: remove rate, or the stages")
	p.add(w.Rate == Inf && w.Concurrency == 0 && w.Requests == 0, "rate",
		"all at once without an end: set requests or concurrency")
	if w.Rate > 0 && w.Rate != Inf && w.Requests > 0 {
		takes := float64(w.Requests) / float64(w.Rate)
		p.add(takes*1e9 > longestRun, "rate", "at %v requests per second %d requests take more than a year",
			w.Rate, w.Requests)
	}
	p.add(w.StopWhenOverloaded && (!w.Even() || w.Concurrency > 0), "stop_when_overloaded",
		"requests pile up where they come at one rate: it goes with rate, "+
			"without concurrency, stages, traces and conversations")
	for i, s := range w.Stages {
		p.add(s.Duration <= 0 || float64(s.Duration) > longestRun, "stages", "stage %d: its duration is %v", i+1,
			s.Duration)
		p.add(!(s.Rate >= 0) || s.Concurrency < 0 || (s.Rate > 0) == (s.Concurrency > 0), "stages",
			"stage %d: one of rate and concurrency is needed, above zero", i+1)
		p.add(s.Concurrency > 0 && w.Concurrency > 0, "stages",
			"stage %d says its concurrency, and the load says another: remove one", i+1)
		p.add(s.Rate == Inf && w.Concurrency == 0, "stages",
			"stage %d: all at once without an end: set concurrency", i+1)
	}
}

// sending: requests can be made, and their answers be judged.
func (w Workload) sending(p *problems) {
	known := w.endpoint().name != ""
	p.add(w.Endpoint == "", "endpoint", "none is said: write one of %s", plain.List(Endpoints(), "or"))
	// The Responses API has another form for images.
	p.add(known && w.Dataset.NeedsChat() && w.Endpoint != Chat && !(w.Dataset.Talks() && w.TakesMessages()), "endpoint",
		"a data set of kind %q needs the endpoint %q: its prompts are messages", w.Dataset.Kind, Chat)
	p.add(w.OutputTokens == 0 && w.Generates() && !w.Dataset.OwnOutputs(), "output_tokens",
		"output tokens 0: at least 1 is needed, since prompts of kind %q do not say how long the answers are to be",
		w.Dataset.Kind)
	w.silence(p)
	cut := w.Dataset.kind().cut && w.Dataset.InputTokens > 0
	p.add(cut && w.SendsText() && w.Dataset.Tokenizer == "", "dataset.tokenizer",
		"text that is cut to a length and sent to the endpoint %q is put together again "+
			"by the model's own tokenizer.json: name it, or use another endpoint", w.Endpoint)
	if known && w.ExtraBody != "" {
		_, err := NewTemplate(Target{}, w, IDs, "") // what is no object, or says what we say ourselves
		p.add(err != nil, "extra_body", "%v", err)
	}
	for _, o := range w.SLO {
		p.add(!slices.Contains(ObjectiveMetrics(), o.Metric), "slo", "SLO metric %q: write one of %s", o.Metric,
			plain.List(ObjectiveMetrics(), "or"))
		p.add(!(o.Percentile >= 0 && o.Percentile <= 100), "slo", "SLO %s: a percentile lies between 0 and 100",
			o.Name())
		p.add(o.Max <= 0, "slo", "SLO %s: a bound of %v is met by nothing", o.Name(), o.Max)
		p.add(w.NoStream && w.Generates() && slices.Contains([]string{"ttft", "ttfa", "tpot", "itl"}, o.Metric), "slo",
			"SLO metric %q: without a stream there is no time to the first token", o.Metric)
		p.add(!w.Generates() && o.Metric != "e2el", "slo", "SLO metric %q: the endpoint %q generates no tokens, so there is "+
			"only e2el", o.Metric, w.Endpoint)
	}
}

// silence: nothing is asked of tokens where none are generated, and of batches where there are none.
func (w Workload) silence(p *problems) {
	for _, a := range arguments {
		idle := a.at != nil && !a.at(w.endpoint()) && a.isChanged(a.value(&w))
		p.add(idle, a.Name, "%s means nothing to the endpoint %q: leave it out", a.Name, w.Endpoint)
	}
	p.add(w.BatchSize > 1 && w.Dataset.Kind == Trace, "batch_size", "a trace says when each prompt is sent")
	p.add(!w.Generates() && w.Dataset.Talks() && !w.Dataset.NeedsChat(), "endpoint",
		"a data set of kind %q waits for answers, and the endpoint %q generates none", w.Dataset.Kind, w.Endpoint)
	ranks, known := w.Dataset.Kind == RandomRerank, w.endpoint().name != ""
	p.add(ranks && known && w.Endpoint != Rerank, "endpoint", "a data set of kind %q needs the endpoint %q", w.Dataset.Kind, Rerank)
	p.add(w.Endpoint == Rerank && !ranks && w.Dataset.Kind != JSONL, "endpoint",
		"the endpoint %q is asked with queries and documents, and a data set of kind %q has none: take %q or %q", Rerank,
		w.Dataset.Kind, RandomRerank, JSONL)
}
