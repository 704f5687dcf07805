package results

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"hclbench/load"
)

// The formats of vLLM's own load generator, `vllm bench serve`: the block that it
// prints and the object of its --save-result, with the same names, units and
// order, so that what reads the one reads the other. The numbers are ours, by
// docs/method.md; two differ by definition from what vLLM computes under their
// name: max_concurrent_requests is the true peak, where vLLM counts every request
// that touches a second, and max_output_tokens_per_s counts tokens, where vLLM
// counts messages.

// VLLMJSON is the cell as the object of --save-result, on one line. A cell
// without a measurement is an error.
func VLLMJSON(r Row) ([]byte, error) { return vllmJSON(r, nil, false) }

// VLLMDetailedJSON is VLLMJSON with the arrays of --save-detailed: one element
// per request, failed ones included, and times in seconds since the measurement
// began. The generated texts are not kept, and so are empty, unless they came
// with an import.
func VLLMDetailedJSON(r Row, records []load.Record) ([]byte, error) {
	return vllmJSON(r, records, true)
}

func vllmJSON(r Row, records []load.Record, detailed bool) ([]byte, error) {
	o, err := vllmObject(r)
	if err == nil && detailed {
		o.addRecords(records)
	}
	return exported(r, o, err)
}

// exported is the object as a line, or why there is none.
func exported(r Row, o *object, err error) ([]byte, error) {
	var line []byte
	if err == nil {
		line, err = o.withoutPlaces().line()
	}
	if err != nil {
		return nil, fmt.Errorf("export cell %s: %w", r.ID, err)
	}
	return line, nil
}

// VLLMText writes the cell as the block that `vllm bench serve` prints, to the
// character. A cell without a measurement is an error.
func VLLMText(w io.Writer, r Row) error {
	o, err := vllmObject(r)
	if err != nil {
		return fmt.Errorf("export cell %s: %w", r.ID, err)
	}
	return vllmDialect().write(w, o)
}

// foreign is the object that a cell was read from, when it is of this format;
// nil when it is not. An error says that there is nothing to export.
func foreign(r Row, format string) (*object, error) {
	if r.Summary == nil {
		return nil, fmt.Errorf("there is no measurement: %s", strings.Join(r.Verdict().Texts(), "; "))
	}
	if r.Origin == nil || r.Origin.Format != format {
		return nil, nil
	}
	return readObject(r.Origin.Fields)
}

func vllmObject(r Row) (*object, error) {
	if o, err := foreign(r, "vllm"); o != nil || err != nil {
		return o, err
	}
	s, w := r.Summary, r.Job.Workload
	requests := w.Requests
	if requests == 0 {
		requests = s.Requests
	}
	burstiness := w.Burstiness
	if burstiness == 0 {
		burstiness = 1
	}

	o := &object{}
	o.addOf(r)
	o.add("date", s.Started.Local().Format(vllmDate))
	o.add("endpoint_type", vllmBackend(w.Endpoint))
	o.add("backend", vllmBackend(w.Endpoint))
	o.add("label", nil)
	o.add("model_id", r.Job.Target.Model)
	o.add("tokenizer_id", r.Job.Target.Model)
	o.add("num_prompts", requests)
	o.addRate(w)
	o.addFloat("burstiness", float64(burstiness))
	o.add("max_concurrency", orNull(w.Concurrency))
	o.addFigure(s, "duration_s", "duration", s.Duration)
	o.addCount(s, "completed", "completed", int64(s.Completed))
	o.addCount(s, "failed", "failed", int64(s.Failed))
	o.addCount(s, "input_tokens", "total_input_tokens", s.InputTokens)
	o.addCount(s, "output_tokens", "total_output_tokens", s.OutputTokens)
	o.addFigure(s, "request_throughput", "request_throughput", s.RequestThroughput)
	if o.add("request_goodput", nil); s.Goodput != nil {
		o.addFloat("request_goodput", *s.Goodput)
	}
	o.addFigure(s, "output_throughput", "output_throughput", s.OutputThroughput)
	o.addFigure(s, "total_throughput", "total_token_throughput", s.TotalThroughput)
	o.addFigure(s, "peak_output_throughput", "max_output_tokens_per_s", s.PeakOutputThroughput)
	o.addCount(s, "peak_concurrency", "max_concurrent_requests", int64(s.PeakConcurrency))
	o.addFloat("rtfx", 0) // audio only
	if t := r.Telemetry; t != nil && t.Acceptance != nil {
		o.addFloat("spec_decode_acceptance_rate", 100**t.Acceptance)
	}
	if t := r.Telemetry; t != nil && t.StepTokens != nil {
		o.addFloat("spec_decode_acceptance_length", *t.StepTokens)
	}
	for i, m := range vllmDialect().metrics {
		o.addStats(s, m, []load.Stats{s.TTFT, s.TPOT, s.ITL, s.E2EL}[i], percentiles)
	}
	return o, nil
}

// addStats adds the members of one metric, with the percentiles that which picks.
func (o *object) addStats(of *load.Summary, m blockMetric, s load.Stats, which func(load.Stats) []string) {
	figure := strings.Replace(m.key, "e2e_latency", "e2el", 1) + "_ms."
	o.addFigure(of, figure+"mean", "mean_"+m.key+"_ms", s.Mean)
	o.addFigure(of, figure+"median", "median_"+m.key+"_ms", s.Median)
	o.addFigure(of, figure+"std", "std_"+m.key+"_ms", s.Std)
	for _, p := range which(s) {
		o.addFloat("p"+p+"_"+m.key+"_ms", s.Percentiles[p])
	}
}

// addOf marks what was not measured, so that nobody who reads it again takes it for a
// measurement.
func (o *object) addOf(r Row) {
	if r.Run.Command == "rehearse" {
		o.add(rehearsal, true)
	}
}

// addRate adds the rate that was asked for in the words of both tools, where a closed
// loop sends all at once as far as its cap lets it.
func (o *object) addRate(w load.Workload) {
	if w.Rate == 0 || w.Rate == load.Inf {
		o.add("request_rate", load.Inf)
		return
	}
	o.addFloat("request_rate", float64(w.Rate))
}

// vllmDate is how vLLM writes the time of a measurement, in local time.
const vllmDate = "20060102-150405"

func readVLLM(c *Cell, o *object) {
	s, w := c.Summary, &c.Job.Workload
	if t, err := time.ParseInLocation(vllmDate, o.text("date"), time.Local); err == nil {
		c.Started = t
	}
	c.Job.Target.Model = o.text("model_id")
	w.Burstiness = load.Rate(o.float("burstiness"))
	switch backend := cmp.Or(o.text("backend"), o.text("endpoint_type")); {
	case strings.HasSuffix(backend, "chat"):
		w.Endpoint = load.Chat
	case backend == "sglang":
		w.Endpoint = load.Generate
	}
	s.TotalThroughput = o.float("total_token_throughput")
	if s.Duration > 0 {
		s.InputThroughput = float64(s.InputTokens) / s.Duration
	}
	if g, ok := o.number("request_goodput"); ok {
		s.Goodput = &g
	}
	m := vllmDialect().metrics
	s.TTFT, s.TPOT = m[0].stats(o, s.Completed), m[1].stats(o, s.Completed)
	s.ITL, s.E2EL = m[2].stats(o, gaps(s)), m[3].stats(o, s.Completed)
	if s.Duration > 0 {
		s.MeanConcurrency = float64(s.E2EL.Count) * s.E2EL.Mean / 1e3 / s.Duration
	}
}

// gaps is how many there are between tokens that come one by one.
func gaps(s *load.Summary) int { return max(0, int(s.OutputTokens)-s.Completed) }

// vllmDialect is the block of `vllm bench serve`.
func vllmDialect() dialect {
	return dialect{
		name: formatVLLM,
		head: []blockRow{
			{"Successful requests:", "completed", whole},
			{"Failed requests:", "failed", whole},
			{"Maximum request concurrency:", "max_concurrency", whole},
			{"Request rate configured (RPS):", "request_rate", hundredth},
			{"Benchmark duration (s):", "duration", hundredth},
			{"Total input tokens:", "total_input_tokens", whole},
			{"Total generated tokens:", "total_output_tokens", whole},
			{"Request throughput (req/s):", "request_throughput", hundredth},
			{"Request goodput (req/s):", "request_goodput", hundredth},
			{"Output token throughput (tok/s):", "output_throughput", hundredth},
			{"Peak output token throughput (tok/s):", "max_output_tokens_per_s", hundredth},
			{"Peak concurrent requests:", "max_concurrent_requests", hundredth},
			{"Total token throughput (tok/s):", "total_token_throughput", hundredth},
		},
		metrics: []blockMetric{
			{key: "ttft", name: "TTFT", title: "Time to First Token"},
			{key: "tpot", name: "TPOT", title: "Time per Output Token (excl. 1st token)"},
			{key: "itl", name: "ITL", title: "Inter-token Latency"},
			{key: "e2el", name: "E2EL", title: "End-to-end Latency"},
		},
		tail: "Speculative Decoding",
		last: []blockRow{
			{"Acceptance rate (%):", "spec_decode_acceptance_rate", hundredth},
			{"Acceptance length:", "spec_decode_acceptance_length", hundredth},
			{"Drafts:", "spec_decode_num_drafts", whole},
			{"Draft tokens:", "spec_decode_draft_tokens", whole},
			{"Accepted tokens:", "spec_decode_accepted_tokens", whole},
		},
	}
}

// vllmBackend is what --backend would have been. vLLM has none for SGLang's own
// endpoint; "sglang" is what SGLang's generator calls it.
func vllmBackend(endpoint string) string {
	switch endpoint {
	case load.Chat:
		return "openai-chat"
	case load.Generate:
		return "sglang"
	default:
		return "openai"
	}
}

// percentiles are the keys of the percentiles that there are, in rising order.
func percentiles(s load.Stats) []string {
	return slices.SortedFunc(maps.Keys(s.Percentiles), byValue)
}

func orNull(n int) any {
	if n == 0 {
		return nil
	}
	return n
}
