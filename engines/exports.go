package engines

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"hclbench/engines/setting"
	"hclbench/provision"
	"hclbench/telemetry"
)

// What engines and routers tell, under which names. Quantities of which nothing is said in a report are
// what proves that the members of a group work as planned, see [Counts].

// vllmTells are the names of vLLM since 0.6 (V0 and V1, vllm/v1/metrics/loggers.py) and of its connectors. Of MoRI and
// Mooncake newer versions count failures, of P2pNccl none does.
var vllmTells = []telemetry.Quantity{
	quantity(telemetry.Running, telemetry.Gauge, "vllm:num_requests_running"),
	quantity(telemetry.Waiting, telemetry.Gauge, "vllm:num_requests_waiting"),
	quantity(telemetry.KVCache, telemetry.Level, "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
	quantity(telemetry.Preemptions, telemetry.Gauge, "vllm:num_preemptions_total"),

	quantity(telemetry.HitTokens, telemetry.Counter, "vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
	quantity(telemetry.QueriedTokens, telemetry.Counter, "vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
	quantity(telemetry.AcceptedTokens, telemetry.Counter, "vllm:spec_decode_num_accepted_tokens_total"),
	quantity(telemetry.DraftedTokens, telemetry.Counter, "vllm:spec_decode_num_draft_tokens_total"),
	quantity(telemetry.Drafts, telemetry.Counter, "vllm:spec_decode_num_drafts_total"),

	quantity(telemetry.QueueTime, telemetry.Histogram, "vllm:request_queue_time_seconds"),
	quantity(telemetry.PrefillTime, telemetry.Histogram, "vllm:request_prefill_time_seconds"),
	quantity(telemetry.DecodeTime, telemetry.Histogram, "vllm:request_decode_time_seconds"),
	quantity(telemetry.EngineTTFT, telemetry.Histogram, "vllm:time_to_first_token_seconds"),
	quantity(telemetry.EngineTPOT, telemetry.Histogram, "vllm:request_time_per_output_token_seconds"),
	quantity(telemetry.EngineE2EL, telemetry.Histogram, "vllm:e2e_request_latency_seconds"),

	quantity(telemetry.PromptTokens, telemetry.Counter, "vllm:prompt_tokens_total"),
	quantity(telemetry.Computed, telemetry.Counter, `vllm:prompt_tokens_by_source_total{source="local_compute"}`),
	quantity(telemetry.CachedOnGPU, telemetry.Counter, `vllm:prompt_tokens_cached_by_source_total{source="device"}`,
		`vllm:prompt_tokens_by_source_total{source="local_cache_hit"}`),
	quantity(telemetry.CachedOnHost, telemetry.Counter, `vllm:prompt_tokens_cached_by_source_total{source="host"}`),
	quantity(telemetry.CachedOnDisk, telemetry.Counter, `vllm:prompt_tokens_cached_by_source_total{source="disk"}`),
	quantity(telemetry.Fetched, telemetry.Counter, `vllm:prompt_tokens_cached_by_source_total{source="p2p"}`),
	quantity(telemetry.CachedOutside, telemetry.Counter, `vllm:prompt_tokens_cached_by_source_total{source="external_unspecified"}`,
		`vllm:prompt_tokens_by_source_total{source="external_kv_transfer"}`),
	quantity(telemetry.Generated, telemetry.Counter, "vllm:generation_tokens_total"),

	quantity(telemetry.Ended, telemetry.Counter, "vllm:request_success_total{finished_reason}"),
	quantity(telemetry.Refused, telemetry.Counter, "vllm:admission_rejections_total{reason}"),
	quantity(telemetry.Preempted, telemetry.Counter, "vllm:num_preemptions_total"),
	quantity(telemetry.Failures, telemetry.Counter, "vllm:nixl_num_failed_transfers_total"),
	quantity(telemetry.Failures, telemetry.Counter, "vllm:nixl_num_failed_notifications_total"),
	quantity(telemetry.LetGo, telemetry.Counter, "vllm:nixl_num_kv_expired_reqs_total"),
	quantity(telemetry.Failures, telemetry.Counter, "vllm:moriio_num_failed_transfers_total"),
	quantity(telemetry.Failures, telemetry.Counter, "vllm:moriio_num_failed_notifications_total"),
	quantity(telemetry.LetGo, telemetry.Counter, "vllm:moriio_num_kv_expired_reqs_total"),
	quantity(telemetry.Failures, telemetry.Counter, "vllm:mooncake_num_failed_transfers_total"),
	quantity(telemetry.Failures, telemetry.Counter, "vllm:mooncake_num_failed_recvs_total"),
	quantity(telemetry.LetGo, telemetry.Counter, "vllm:mooncake_num_kv_expired_reqs_total"),

	quantity(telemetry.Transferred, telemetry.Histogram, "vllm:nixl_bytes_transferred"),
	quantity(telemetry.TransferTime, telemetry.Histogram, "vllm:nixl_xfer_time_seconds"),
	quantity(telemetry.TransferBlocks, telemetry.Histogram, "vllm:nixl_num_descriptors"),
	quantity(telemetry.OffloadLoaded, telemetry.Counter, "vllm:kv_offload_load_bytes_total"),
	quantity(telemetry.OffloadStored, telemetry.Counter, "vllm:kv_offload_store_bytes_total"),
	quantity(telemetry.CacheTokens, telemetry.Size, "vllm:cache_config_info{kv_cache_size_tokens}"),
	quantity(telemetry.CacheBytes, telemetry.Size, "vllm:cache_config_info{kv_cache_memory_bytes}"),
}

// sglangTells are the names of srt/observability/metrics_collector.py, which was srt/metrics/collector.py.
var sglangTells = []telemetry.Quantity{
	quantity(telemetry.Running, telemetry.Gauge, "sglang:num_running_reqs"),
	quantity(telemetry.Waiting, telemetry.Gauge, "sglang:num_queue_reqs"),
	quantity(telemetry.KVCache, telemetry.Level, "sglang:token_usage"),

	quantity(telemetry.HitTokens, telemetry.Counter, "sglang:cached_tokens_total"),
	quantity(telemetry.QueriedTokens, telemetry.Counter, "sglang:prompt_tokens_total"),
	quantity(telemetry.Accepted, telemetry.Recent, "sglang:spec_accept_rate"),
	quantity(telemetry.StepTokens, telemetry.Recent, "sglang:spec_accept_length"),

	quantity(telemetry.QueueTime, telemetry.Histogram, "sglang:queue_time_seconds"),
	quantity(telemetry.PrefillTime, telemetry.Histogram, `sglang:per_stage_req_latency_seconds{stage="prefill_forward"}`),
	quantity(telemetry.EngineTTFT, telemetry.Histogram, "sglang:time_to_first_token_seconds"),
	quantity(telemetry.EngineTPOT, telemetry.Histogram, "sglang:request_time_per_output_token_seconds"),
	quantity(telemetry.EngineE2EL, telemetry.Histogram, "sglang:e2e_request_latency_seconds"),

	quantity(telemetry.PromptTokens, telemetry.Counter, "sglang:prompt_tokens_total"),
	quantity(telemetry.Computed, telemetry.Counter, "sglang:uncached_prompt_tokens_histogram_sum"),
	quantity(telemetry.CachedOnGPU, telemetry.Counter, `sglang:cached_tokens_total{cache_source="device"}`),
	quantity(telemetry.CachedOnHost, telemetry.Counter, `sglang:cached_tokens_total{cache_source="host"}`),
	quantity(telemetry.CachedOnDisk, telemetry.Counter, `sglang:cached_tokens_total{cache_source="storage*"}`),
	quantity(telemetry.Generated, telemetry.Counter, "sglang:generation_tokens_total"),

	quantity(telemetry.Aborted, telemetry.Counter, "sglang:num_aborted_requests_total"),
	quantity(telemetry.Preempted, telemetry.Counter, "sglang:num_retracted_requests_total"),
	quantity(telemetry.Failures, telemetry.Counter, "sglang:num_transfer_failed_reqs_total"),
	quantity(telemetry.Failures, telemetry.Counter, "sglang:num_bootstrap_failed_reqs_total"),
	quantity(telemetry.Failures, telemetry.Counter, "sglang:num_prefill_retries_total"),

	quantity(telemetry.HandedOver, telemetry.Counter, "sglang:kv_transfer_total_mb_count"), // a histogram of prefill's
	scaled(quantity(telemetry.Transferred, telemetry.Histogram, "sglang:kv_transfer_total_mb"), 1<<20),
	scaled(quantity(telemetry.TransferTime, telemetry.Histogram, "sglang:kv_transfer_latency_ms"), 1e-3),
	quantity(telemetry.CacheTokens, telemetry.Size, "sglang:max_total_num_tokens"),
	scaled(quantity(telemetry.CacheBytes, telemetry.Size, "sglang:kv_cache_memory_usage_gb"), 1<<30),
}

// trtllmTells are what TensorRT-LLM tells of each iteration.
var trtllmTells = []telemetry.Quantity{
	quantity(telemetry.Running, telemetry.Gauge), quantity(telemetry.Waiting, telemetry.Gauge), quantity(telemetry.KVCache, telemetry.Level),
	quantity(telemetry.HitTokens, telemetry.Counter), quantity(telemetry.QueriedTokens, telemetry.Counter),
	quantity(telemetry.AcceptedTokens, telemetry.Counter), quantity(telemetry.DraftedTokens, telemetry.Counter),
}

// routerTells are the names of the routers' src/metrics.rs. They appear when they count.
var routerTells = []telemetry.Quantity{
	quantity(telemetry.Retried, telemetry.Counter, "vllm_router_retries_total",
		`smg_worker_retries_total{worker_type="decode"}`, "smg_worker_retries_total"), // of a split each retry is one of prefill and one of decode
	quantity(telemetry.Errors, telemetry.Counter, "vllm_router_request_errors_total{error_type}", "smg_router_request_errors_total{error_type}"),
}

func quantity(name string, kind telemetry.Kind, under ...string) telemetry.Quantity {
	return telemetry.Quantity{Name: name, Kind: kind, Under: under}
}

func scaled(q telemetry.Quantity, by float64) telemetry.Quantity {
	q.Scale = by
	return q
}

// exported are the quantities of each kind of engine.
var exported = map[string][]telemetry.Quantity{VLLM: vllmTells, SGLang: sglangTells, TRTLLM: trtllmTells}

// exportsOf is what a server of a kind exports at a base URL; nil: nothing that is known.
func exportsOf(kind, base string) *telemetry.Exports {
	tells := exported[kind]
	if tells == nil {
		return nil
	}
	out := &telemetry.Exports{URL: base + "/metrics", Iterations: kind == TRTLLM, Quantities: slices.Clone(tells)}
	if kind == SGLang {
		out.Loads = base + "/v1/loads"
	}
	return out
}

// Exports says where the engine, as it is started, exports its counters, and under
// which names; nil when it does not.
func Exports(e *Engine) *telemetry.Exports {
	as := e.speaksAs()
	switch {
	case e.Kind == SGLang && !e.isOn(setting.Counters), e.Kind == Sim && as == TRTLLM: // which tells no iterations
		return nil
	case e.Kind == Sim || e.Kind == as:
		return exportsOf(as, BaseURL(e))
	}
	return nil
}

// PodExports is where a pod of a role exports its counters, and under which names; nil: nowhere that
// is known. name is what its series are of: "decode 0".
func PodExports(r provision.PodRole, ip, name string) *telemetry.Exports {
	if r.Port == 0 || ip == "" {
		return nil
	}
	out := exportsOf(r.Engine, "http://"+net.JoinHostPort(ip, strconv.Itoa(r.Port)))
	out.Of = name
	OfRole(out, r.Name)
	return out
}

// OfRole leaves out what a role does not do: decode looks up no prompts, and prefill drafts no tokens.
// That would dilute the shares. SGLang's decode counts for its own what its prefill has computed and found
// (srt/disaggregation/decode.py).
func OfRole(e *telemetry.Exports, role string) {
	not := map[string][]string{
		Decode:  {telemetry.HitTokens, telemetry.QueriedTokens},
		Prefill: {telemetry.AcceptedTokens, telemetry.DraftedTokens, telemetry.Drafts, telemetry.Accepted, telemetry.StepTokens},
	}[role]
	ofPrefill := []string{telemetry.Computed, telemetry.CachedOnGPU, telemetry.CachedOnHost, telemetry.CachedOnDisk}
	e.Quantities = slices.DeleteFunc(e.Quantities, func(q telemetry.Quantity) bool {
		told := role == Decode && slices.Contains(ofPrefill, q.Name) && len(q.Under) > 0 && strings.HasPrefix(q.Under[0], "sglang:")
		return told || slices.Contains(not, q.Name)
	})
}

// Counts is where a member counts what it has done, and under which names: that prompts were read
// by prefill and answers written by decode shows in nothing else, since an engine that falls
// back to doing both answers as if it had not. nil: nothing proves anything.
func Counts(m Member) *telemetry.Exports {
	e := m.Engine
	var out *telemetry.Exports
	switch {
	case e.Router && slices.ContainsFunc(m.Ports, func(p NamedPort) bool { return p.Name == metricsName }):
		out = &telemetry.Exports{Quantities: slices.Clone(routerTells)}
	case !e.Router && Uncounted(e) == "":
		out = exportsOf(e.speaksAs(), "")
	default:
		return nil
	}
	out.URL = countsAt(m) + "/metrics"
	return out
}

// ShowsZero reports whether a member shows a counter that has not counted yet: one that is not there is none of
// its version's.
func ShowsZero(m Member) bool { return !m.Engine.Router && m.Engine.speaksAs() == VLLM }
