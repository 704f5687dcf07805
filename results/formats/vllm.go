package formats

import (
	"cmp"
	"strings"

	"hclbench/load"
	"hclbench/results"
	"hclbench/telemetry"
)

// vllm is `vllm bench serve`. Two numbers differ by definition from what it computes
// under their name: max_concurrent_requests is the true peak, where vLLM counts every
// request that touches a second, and max_output_tokens_per_s counts tokens, where vLLM
// counts messages.
func vllm() Tool {
	return Tool{
		format: results.OriginVLLM,
		members: `date endpoint_type backend label model_id tokenizer_id num_prompts request_rate burstiness max_concurrency
			duration completed failed total_input_tokens total_output_tokens request_throughput request_goodput
			output_throughput total_token_throughput max_output_tokens_per_s max_concurrent_requests rtfx
			spec_decode_acceptance_rate spec_decode_acceptance_length`,
		values: map[string]func(*results.Row) any{
			"date":                          vllmTime,
			"endpoint_type":                 vllmBackend,
			"backend":                       vllmBackend,
			"label":                         null,
			"model_id":                      model,
			"tokenizer_id":                  model,
			"num_prompts":                   func(r *results.Row) any { return cmp.Or(r.Summary.Requests, r.Job.Prompts().Requests) },
			"request_rate":                  rate,
			"burstiness":                    func(r *results.Row) any { return float64(cmp.Or(r.Job.Workload.Burstiness, 1)) },
			"max_concurrency":               maxConcurrency,
			"rtfx":                          func(*results.Row) any { return 0.0 }, // audio only
			"spec_decode_acceptance_rate":   engineSays(func(t *telemetry.Record) *float64 { return t.Acceptance }, 100),
			"spec_decode_acceptance_length": engineSays(func(t *telemetry.Record) *float64 { return t.StepTokens }, 1),
		},
		latencies: []section{
			{key: "ttft", name: "TTFT", title: "Time to First Token"},
			{key: "tpot", name: "TPOT", title: "Time per Output Token (excl. 1st token)"},
			{key: "itl", name: "ITL", title: "Inter-token Latency"},
			{key: "e2el", name: "E2EL", title: "End-to-end Latency"},
		},
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
		tail: "Speculative Decoding",
		last: []blockRow{
			{"Acceptance rate (%):", "spec_decode_acceptance_rate", hundredth},
			{"Acceptance length:", "spec_decode_acceptance_length", hundredth},
			{"Drafts:", "spec_decode_num_drafts", whole},
			{"Draft tokens:", "spec_decode_draft_tokens", whole},
			{"Accepted tokens:", "spec_decode_accepted_tokens", whole},
		},
		readLoad: readVLLM,
	}
}

// vllmDate is how vLLM writes the time of a measurement, in local time.
const vllmDate = "20060102-150405"

func vllmTime(r *results.Row) any {
	if r.Summary.Started.IsZero() {
		return nil
	}
	return r.Summary.Started.Local().Format(vllmDate)
}

// vllmBackend is what --backend would have been. vLLM has none for SGLang's own
// endpoint, which SGLang's generator calls "sglang", and none for the Responses API.
func vllmBackend(r *results.Row) any {
	switch r.Job.Workload.Endpoint {
	case load.Chat:
		return "openai-chat"
	case load.Generate:
		return "sglang"
	case load.Responses:
		return "openai-responses"
	}
	return "openai"
}

func readVLLM(c *results.Cell, o *object) {
	s, w := c.Summary, &c.Job.Workload
	c.Started = parseMoment(o.text("date"))
	c.Job.Target.Model = o.text("model_id")
	w.Burstiness = load.Rate(o.float("burstiness"))
	switch backend := cmp.Or(o.text("backend"), o.text("endpoint_type")); {
	case strings.HasSuffix(backend, "chat"):
		w.Endpoint = load.Chat
	case strings.HasSuffix(backend, "responses"):
		w.Endpoint = load.Responses
	case backend == "sglang":
		w.Endpoint = load.Generate
	}
	if s.Duration > 0 {
		s.InputThroughput = float64(s.InputTokens) / s.Duration
		s.MeanConcurrency = float64(s.Completed) * s.E2EL.Mean / 1e3 / s.Duration
	}
}
