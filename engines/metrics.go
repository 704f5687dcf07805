package engines

import (
	"hclbench/telemetry"
)

// Exports says where the engine, as it is started, exports its counters, and under
// which names; nil when it does not. The names are those of vLLM since 0.6 (V0 and
// V1, vllm/v1/metrics/loggers.py), of SGLang (srt/metrics/collector.py), which
// exports only with --enable-metrics, and TensorRT-LLM's iteration statistics. To
// ask is no probe: no request is made of the engine's scheduler.
func Exports(e *Engine) *telemetry.Exports {
	kind := e.Kind
	_, enabled := e.Flag("enable-metrics", "enable_metrics")
	if kind == Sim {
		kind, _ = e.Flag("as")
		enabled = true
	}
	out := telemetry.Exports{URL: BaseURL(e) + "/metrics"}
	switch kind {
	case VLLM, "": // the simulated engine's default
		out.Running, out.Waiting = []string{"vllm:num_requests_running"}, []string{"vllm:num_requests_waiting"}
		out.KVCache = []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"}
		out.Preempt = []string{"vllm:num_preemptions_total"}
		out.Hits = []string{"vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"}
		out.Queries = []string{"vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"}
		out.Accepted, out.Drafted = []string{"vllm:spec_decode_num_accepted_tokens_total"}, []string{"vllm:spec_decode_num_draft_tokens_total"}
		out.Drafts = []string{"vllm:spec_decode_num_drafts_total"}
	case SGLang:
		if !enabled {
			return nil
		}
		out.Running, out.Waiting = []string{"sglang:num_running_reqs"}, []string{"sglang:num_queue_reqs"}
		out.KVCache = []string{"sglang:token_usage"}
		out.Hits, out.Queries = []string{"sglang:cached_tokens_total"}, []string{"sglang:prompt_tokens_total"}
		out.AcceptRate, out.StepTokens = []string{"sglang:spec_accept_rate"}, []string{"sglang:spec_accept_length"}
	case TRTLLM:
		if e.Kind == Sim {
			return nil // the simulated one tells no iterations
		}
		out.Iterations = true
	default:
		return nil
	}
	return &out
}
