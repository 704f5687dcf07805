package formats

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/results"
	"hclbench/results/door"
)

// Result is what was read of one measurement of others.
type Result struct {
	results.Cell                    // without ids and benchmark, which they do not know
	Deployment   results.Deployment // engine, kind, GPUs, model and command, as far as they are told
	Records      []load.Record      // where every request was written down; nil: it was not
	server       string             // what tells its server from others of its kind; empty: there are none
	ours         *load.Verdict      // what hcl itself has said of it; nil: others have measured it
	doubts       []load.Reason      // of the tool itself
	rehearsed    bool
	rest         results.Axes // what nobody understands here: each may be a setting or a figure
	unread       []string     // members that are not read, each a list or an object
}

// Read reads what `vllm bench serve`, `throughput` or `latency` or SGLang's
// bench_serving has written or printed, and finds out by itself which of them:
// objects of --save-result and --append-result, lines of --output-file (where a bare
// Infinity or NaN is understood), an array of such objects, or text with result
// blocks in it. It also reads rows of InferenceX, Benchmark Reports, AIPerf's summary
// and GuideLLM's benchmarks, and the answers that K2VV's and MiniMax's verifiers have written.
//
// The summary has the figures that the format has, and names those that it has not
// in [load.Summary.Unknown]; docs/method.md says where they mean something else than
// ours. Every member of the tool's object is kept in [results.Cell.Origin]. What the
// load was, and what --metadata and other members say of the engine, are axes. The
// verdict is "imported", because neither tool looks whether it kept up, and "suspect"
// where requests failed or the figures contradict each other.
//
// Unused are members with a number that nobody understands here.
func Read(r io.Reader) (all []Result, unused []string, err error) {
	text, err := door.File(r)
	if err != nil {
		return nil, nil, fmt.Errorf("read results: %w", err)
	}
	text = bytes.TrimSpace(text)
	if first, ok := readVerified(text); ok {
		one, err := verifierResult(text, first)
		if err != nil {
			return nil, nil, fmt.Errorf("read results: %w", err)
		}
		return []Result{one}, nil, nil
	}
	if isReport(text) {
		if text, err = reportObjects(text); err != nil {
			return nil, nil, fmt.Errorf("read results: %w", err)
		}
	}
	if len(text) > 0 && (text[0] == '{' || text[0] == '[') {
		all, err = readJSON(plain.JSON(strictJSON(text)))
	} else {
		all, err = readBlocks(plain.Text(string(text)))
	}
	if err == nil && len(all) == 0 {
		err = errors.New("read results: there is neither an object nor a \"Serving Benchmark Result\" block")
	}
	if err != nil {
		return nil, nil, err
	}
	return all, tellApart(all), nil
}

func readJSON(text []byte) (all []Result, err error) {
	raws, rest := []json.RawMessage{text}, []byte(nil)
	if !json.Valid(text) { // several, one after the other
		raws, rest = nil, text
	}
	for d := json.NewDecoder(bytes.NewReader(rest)); ; {
		var raw json.RawMessage
		if err := d.Decode(&raw); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read result %d: %w", len(raws)+1, err)
		}
		raws = append(raws, raw)
	}
	if len(raws) == 1 && raws[0][0] == '[' {
		if err := json.Unmarshal(raws[0], &raws); err != nil {
			return nil, fmt.Errorf("read results: %w", err)
		}
	}
	for i, raw := range raws {
		var made []Result
		o, err := readObject(raw)
		if err == nil {
			made, err = resultsOf(o)
		}
		if err != nil {
			return nil, fmt.Errorf("read result %d: %w", i+1, err)
		}
		all = append(all, made...)
	}
	return all, nil
}

func resultsOf(o *object) (all []Result, err error) {
	parts, err := partsOf(o)
	for _, part := range parts {
		one, e := readerOf(part).result(part)
		if err = errors.Join(err, e); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, err
}

// reader is a format of objects.
type reader struct {
	format   string // as [results.Origin] has it
	is       func(has func(keys ...string) bool) bool
	required []string // numbers without which it is none
	read     func(r *Result, o *object) (told map[string]bool, err error)
	known    func() map[string]bool // members whose meaning is known; nil: of all
}

// readers are all of them; an object is the first that it is. Of vLLM's own members, some
// are in no other; its --metadata can add any.
func readers() []reader {
	vllm, sglang := vllm().reader(), sglang().reader()
	sglang.is = func(has func(...string) bool) bool {
		return has("mean_e2e_latency_ms", "total_throughput", "dataset_name")
	}
	either := vllm
	vllm.is = func(has func(...string) bool) bool {
		return has("num_prompts", "model_id", "tokenizer_id", "endpoint_type", "total_token_throughput")
	}
	either.is = func(func(...string) bool) bool { return true }
	return []reader{
		reportReader(), inferenceXReader(), aiperfReader(), guideLLMReader(), vllm, sglang,
		{results.OriginLatency, func(has func(...string) bool) bool {
			return has("avg_latency") && has("latencies", "percentiles")
		}, []string{"avg_latency"}, readLatency, knownMembers},
		{results.OriginThroughput, func(has func(...string) bool) bool {
			return has("elapsed_time") && has("num_requests") && !has("completed")
		}, []string{"num_requests", "elapsed_time"}, readThroughput, knownMembers},
		{format: results.OriginAIPerf, is: func(has func(...string) bool) bool { return has("metadata") && has("metrics") },
			read: func(*Result, *object) (map[string]bool, error) {
				return nil, errors.New("it is one request of AIPerf's; import the summary, profile_export_aiperf.json")
			}},
		either,
	}
}

func (t Tool) reader() reader {
	return reader{format: t.format, required: []string{"completed", "duration"}, read: t.read, known: knownMembers}
}

// readerOf tells by its members what has written an object.
func readerOf(o *object) reader {
	has := func(keys ...string) bool { return slices.ContainsFunc(keys, o.has) }
	all := readers()
	return all[slices.IndexFunc(all, func(r reader) bool { return r.is(has) })]
}

func (t reader) result(o *object) (one Result, err error) {
	if o.has(rehearsal) {
		return one, errRehearsal
	}
	for _, key := range t.required {
		if v, ok := o.number(key); !ok || v < 0 {
			return one, fmt.Errorf("it has no number %q, so it is not a result of vllm bench or of bench_serving", key)
		}
	}
	records, kept, err := readRecords(o)
	if err != nil {
		return one, err
	}
	s := &load.Summary{}
	one.Records = records
	if t.known != nil {
		one.rest, one.unread = o.numbers(t.known())
	}
	one.Summary, one.Origin = s, &results.Origin{Format: t.format, Fields: bytes.TrimSpace(kept.line())}
	one.Job.Workload.Endpoint = load.Completions
	told, err := t.read(&one, o)
	if err != nil {
		return one, err
	}
	var errs []string
	if told != nil && o.has("errors") && o.into("errors", &errs) == nil { // SGLang counts them nowhere
		failed := len(slices.DeleteFunc(errs, func(e string) bool { return e == "" }))
		s.Failed, told["failed"] = max(s.Failed, failed), true
	}
	s.Requests = max(s.Requests, s.Completed+s.Failed)
	one.timed()
	one.judge(told)
	if t.known != nil {
		one.readTexts(o, t.known())
	}
	d := &one.Deployment
	d.Model = cmp.Or(d.Model, one.Job.Target.Model, o.text("model_id"))
	d.Kind = cmp.Or(d.Kind, engineKind(o.text("backend")))
	return one, errors.Join(door.Summary(s), door.Axes(one.Axes), door.Lines(&one.Job.Target.Model,
		&one.Job.Workload.Dataset.Kind, &d.Model, &d.Kind, &d.GPUs, &d.Image, &one.Benchmark))
}

var errRehearsal = errors.New("it is of a rehearsal, with a simulated engine: nothing was measured")

// timed fills in when it was, where that is known.
func (r *Result) timed() {
	r.Summary.Started = r.Started
	if r.Finished.IsZero() && !r.Started.IsZero() {
		r.Finished = r.Started.Add(time.Duration(r.Summary.Duration * float64(time.Second)))
	}
}

// read reads a result of a tool that sends over HTTP, and returns which figures it has.
func (t Tool) read(r *Result, o *object) (told map[string]bool, err error) {
	c := &r.Cell
	s, w := c.Summary, &c.Job.Workload
	notFigure := func(key string) bool { return t.values[key] != nil }
	told = readFigures(c, o, slices.DeleteFunc(strings.Fields(t.members+" "+t.after), notFigure))
	if asked := int(o.integer("num_prompts")); asked > 0 {
		// All that were asked for were sent; those without an answer are in no count.
		s.Requests, s.Failed = asked, max(s.Failed, asked-s.Completed)
		told["requests"], told["failed"] = true, true
	}
	w.Requests = max(s.Requests, s.Completed+s.Failed)
	w.Concurrency, w.Rate = int(o.integer("max_concurrency")), load.Rate(o.float("request_rate"))
	if math.IsInf(float64(w.Rate), 1) && w.Concurrency > 0 {
		w.Rate = 0 // a closed loop is what both tools make of it
	}
	readLatencies(c, o, told)
	t.readLoad(c, o)
	if c.Axes = loadAxes(*c); t.format == results.OriginSGLang && o.has("dataset_name") {
		c.Axes = append(c.Axes, results.Axis{Name: "dataset", Value: o.text("dataset_name")})
	}
	return told, nil
}

// readFigures reads the figures that these members are, of several that are one the first,
// and returns which there are.
func readFigures(c *results.Cell, o *object, members []string) (told map[string]bool) {
	told = map[string]bool{}
	for _, key := range members {
		f := figureOf(key)
		if v, ok := o.number(key); ok && !told[f.name] {
			f.set(c, v)
			told[f.name] = true
		}
	}
	return told
}

// readLatencies reads latencies in milliseconds, and those in other units where there are no
// such. A name without a unit is taken to be of seconds, as Python's clocks are,
// unless that were longer than the whole run.
func readLatencies(c *results.Cell, o *object, told map[string]bool) {
	longest := 0.0
	for _, key := range o.keys {
		if _, unit, ok := latencyNamed(key); ok && unit == "" {
			longest = max(longest, o.float(key))
		}
	}
	for _, t := range latencies(c.Summary) {
		t.Percentiles = map[string]float64{}
	}
	for _, want := range []string{"", "us", "s", "ms"} { // the last one counts
		for _, key := range o.keys {
			f, unit, ok := latencyNamed(key)
			if v, number := o.number(key); ok && number && unit == want {
				if unit == "" && longest <= c.Summary.Duration {
					f.ms = milliseconds["s"]
				}
				f.set(c, v)
				told[f.name] = true
			}
		}
	}
}

func loadAxes(c results.Cell) (axes results.Axes) {
	add := func(name string, value any, known bool) {
		if known {
			axes = append(axes, results.Axis{Name: name, Value: value})
		}
	}
	w, s := c.Job.Workload, c.Summary
	add("concurrency", int64(w.Concurrency), w.Concurrency > 0)
	add("rate", float64(w.Rate), w.Rate > 0 && w.Rate != load.Inf)
	input, same := length(s, s.InputTokens)
	add("input_tokens", input, same)
	output, same := length(s, s.OutputTokens)
	add("output_tokens", output, same)
	return axes
}

// readThroughput reads a result of vllm bench throughput, which sends all at once.
func readThroughput(r *Result, o *object) (map[string]bool, error) {
	c := &r.Cell
	told := readFigures(c, o, []string{"num_requests", "elapsed_time", "requests_per_second", "tokens_per_second"})
	n := c.Summary.Completed
	c.Summary.Requests, c.Job.Workload.Requests = n, n
	c.Axes = results.Axes{{Name: "batch", Value: int64(n)}}
	told["requests"] = true
	r.Deployment.Kind = "vllm" // as every offline tool of vLLM's
	return told, nil
}

// readLatency reads a result of vllm bench latency: how long one batch takes, in
// seconds, and not of how many requests that is.
func readLatency(r *Result, o *object) (map[string]bool, error) {
	t := &r.Summary.E2EL
	t.Mean, t.Percentiles = 1e3*o.float("avg_latency"), map[string]float64{}
	var latencies []float64
	var percentiles map[string]float64
	if o.into("latencies", &latencies) == nil {
		t.Count = len(latencies)
	}
	if o.into("percentiles", &percentiles) == nil {
		for p, v := range percentiles {
			t.Percentiles[p] = 1e3 * v
		}
	}
	t.Median = t.Percentiles["50"]
	r.Deployment.Kind = "vllm"
	return map[string]bool{"e2el_ms.mean": true}, nil
}
