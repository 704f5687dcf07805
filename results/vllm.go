package results

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

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
// began. The generated texts are not kept, and so are empty.
func VLLMDetailedJSON(r Row, records []load.Record) ([]byte, error) {
	return vllmJSON(r, records, true)
}

func vllmJSON(r Row, records []load.Record, detailed bool) ([]byte, error) {
	s := r.Summary
	if s == nil {
		return nil, fmt.Errorf("export cell %s: there is no measurement: %s", r.ID, strings.Join(r.Verdict().Reasons, "; "))
	}
	w := r.Job.Workload
	requests := w.Requests
	if requests == 0 {
		requests = s.Requests
	}
	rate, burstiness := w.Rate, w.Burstiness
	if rate == 0 {
		rate = load.Inf
	}
	if burstiness == 0 {
		burstiness = 1
	}

	var o object
	o.add("date", s.Started.Local().Format("20060102-150405"))
	o.add("endpoint_type", vllmBackend(w.Endpoint))
	o.add("backend", vllmBackend(w.Endpoint))
	o.add("label", nil)
	o.add("model_id", r.Job.Target.Model)
	o.add("tokenizer_id", r.Job.Target.Model)
	o.add("num_prompts", requests)
	o.add("request_rate", rate)
	o.add("burstiness", burstiness)
	o.add("max_concurrency", orNull(w.Concurrency))
	o.add("duration", s.Duration)
	o.add("completed", s.Completed)
	o.add("failed", s.Failed)
	o.add("total_input_tokens", s.InputTokens)
	o.add("total_output_tokens", s.OutputTokens)
	o.add("request_throughput", s.RequestThroughput)
	o.add("request_goodput", s.Goodput)
	o.add("output_throughput", s.OutputThroughput)
	o.add("total_token_throughput", s.TotalThroughput)
	if detailed {
		o.addRecords(records)
	}
	o.add("max_output_tokens_per_s", s.PeakOutputThroughput)
	o.add("max_concurrent_requests", s.PeakConcurrency)
	o.add("rtfx", 0.0) // audio only
	for _, m := range vllmMetrics(s) {
		o.add("mean_"+m.key+"_ms", m.stats.Mean)
		o.add("median_"+m.key+"_ms", m.stats.Median)
		o.add("std_"+m.key+"_ms", m.stats.Std)
		for _, p := range percentiles(m.stats) {
			o.add("p"+p+"_"+m.key+"_ms", m.stats.Percentiles[p])
		}
	}
	text, err := o.text()
	if err != nil {
		return nil, fmt.Errorf("export cell %s: %w", r.ID, err)
	}
	return text, nil
}

func (o *object) addRecords(records []load.Record) {
	n := len(records)
	inputs, outputs := make([]int, n), make([]int, n)
	ttfts, itls, starts := make([]float64, n), make([][]float64, n), make([]float64, n)
	texts, errs := make([]string, n), make([]string, n)
	for i, r := range records {
		inputs[i], outputs[i], starts[i], itls[i] = r.InputTokens, r.OutputTokens, r.Sent.Seconds(), []float64{}
		if !r.OK() {
			if inputs[i] == 0 {
				inputs[i] = r.AskedInput // the server said nothing about it
			}
			errs[i] = r.Class + ": " + r.Error
		}
		if r.First > 0 {
			ttfts[i] = (r.First - r.Sent).Seconds()
		}
		for _, gap := range r.Gaps {
			itls[i] = append(itls[i], gap.Seconds())
		}
	}
	o.add("input_lens", inputs)
	o.add("output_lens", outputs)
	o.add("ttfts", ttfts)
	o.add("itls", itls)
	o.add("start_times", starts)
	o.add("generated_texts", texts)
	o.add("errors", errs)
}

// VLLMText writes the cell as the block that `vllm bench serve` prints, to the
// character. A cell without a measurement is an error.
func VLLMText(w io.Writer, r Row) error {
	s := r.Summary
	if s == nil {
		return fmt.Errorf("export cell %s: there is no measurement: %s", r.ID, strings.Join(r.Verdict().Reasons, "; "))
	}
	workload, rate := r.Job.Workload, float64(r.Job.Workload.Rate)

	var b bytes.Buffer
	title := func(text, fill string) {
		left := (50 - len(text)) / 2
		fmt.Fprintln(&b, strings.Repeat(fill, left)+text+strings.Repeat(fill, 50-len(text)-left))
	}
	count := func(name string, v int64) { fmt.Fprintf(&b, "%-40s %-10d\n", name, v) }
	number := func(name string, v float64) { fmt.Fprintf(&b, "%-40s %-10.2f\n", name, v) }

	title(" Serving Benchmark Result ", "=")
	count("Successful requests:", int64(s.Completed))
	count("Failed requests:", int64(s.Failed))
	if workload.Concurrency > 0 {
		count("Maximum request concurrency:", int64(workload.Concurrency))
	}
	if rate > 0 && !math.IsInf(rate, 1) {
		number("Request rate configured (RPS):", rate)
	}
	number("Benchmark duration (s):", s.Duration)
	count("Total input tokens:", s.InputTokens)
	count("Total generated tokens:", s.OutputTokens)
	number("Request throughput (req/s):", s.RequestThroughput)
	if s.Goodput != nil {
		number("Request goodput (req/s):", *s.Goodput)
	}
	number("Output token throughput (tok/s):", s.OutputThroughput)
	number("Peak output token throughput (tok/s):", s.PeakOutputThroughput)
	number("Peak concurrent requests:", float64(s.PeakConcurrency))
	number("Total token throughput (tok/s):", s.TotalThroughput)
	for _, m := range vllmMetrics(s) {
		title(m.title, "-")
		number("Mean "+m.name+" (ms):", m.stats.Mean)
		number("Median "+m.name+" (ms):", m.stats.Median)
		for _, p := range percentiles(m.stats) {
			number("P"+p+" "+m.name+" (ms):", m.stats.Percentiles[p])
		}
	}
	title("", "=")
	_, err := w.Write(b.Bytes())
	return err
}

type vllmMetric struct {
	key, name, title string
	stats            load.Stats
}

func vllmMetrics(s *load.Summary) []vllmMetric {
	return []vllmMetric{
		{"ttft", "TTFT", "Time to First Token", s.TTFT},
		{"tpot", "TPOT", "Time per Output Token (excl. 1st token)", s.TPOT},
		{"itl", "ITL", "Inter-token Latency", s.ITL},
		{"e2el", "E2EL", "End-to-end Latency", s.E2EL},
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
	keys := make([]string, 0, len(s.Percentiles))
	for k := range s.Percentiles {
		keys = append(keys, k)
	}
	value := func(k string) float64 {
		f, _ := strconv.ParseFloat(k, 64) // load writes numbers; anything else sorts first
		return f
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(value(a), value(b)), strings.Compare(a, b))
	})
	return keys
}

func orNull(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

// object is a JSON object whose members keep their order, written on one line as
// Python's json.dump writes it.
type object struct {
	b   bytes.Buffer
	err error
}

func (o *object) add(key string, value any) {
	text, err := json.Marshal(value)
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("%s: %w", key, err)
	}
	if o.b.Len() > 0 {
		o.b.WriteString(", ")
	}
	fmt.Fprintf(&o.b, "%q: %s", key, text)
}

func (o *object) text() ([]byte, error) {
	return []byte("{" + o.b.String() + "}\n"), o.err
}
