package engines

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hclbench/testhost/recording"
)

// notRead are metrics of real engines and routers that hcl does not read, as patterns, and why.
var notRead = map[string]string{
	"python_*":  "of Python itself",
	"process_*": "of the process: hcl reads those of all processes from the host, and here when it began",
	"http_*":    "requests of HTTP: hcl counts its own",

	"vllm:external_prefix_cache_*":                   "the tokens are told by source",
	"vllm:mm_cache_*":                                "of images, which are no prompt tokens",
	"vllm:prompt_tokens_cached_total":                "they are told by source",
	"vllm:prompt_tokens_cached":                      "likewise",
	"vllm:iteration_tokens_total":                    "tokens of a step",
	"vllm:inter_token_latency_seconds":               "the client's own clock has it",
	"vllm:request_inference_time_seconds":            "prefill and decode together",
	"vllm:request_prompt_tokens":                     "lengths: the client knows its own",
	"vllm:request_generation_tokens":                 "likewise",
	"vllm:request_max_num_generation_tokens":         "likewise",
	"vllm:request_params_*":                          "what was asked for",
	"vllm:request_prefill_kv_computed_tokens":        "the tokens are told by source",
	"vllm:request_num_preemptions":                   "preemptions are counted",
	"vllm:num_requests_waiting_by_reason":            "those that wait are counted",
	"vllm:num_requests_kv_fetch_by_stage":            "likewise",
	"vllm:estimated_*":                               "computed from the model, not measured",
	"vllm:tool_call_parser_*":                        "calls of tools that it reads: hcl reads the answers",
	"vllm:engine_sleep_state":                        "hcl sends no engine to sleep",
	"vllm:nixl_post_time_seconds":                    "a part of the transfer",
	"vllm:nixl_num_notifications_after_expiry_total": "expired requests are counted",
	"vllm:nixl_num_notifications_after_expiry":       "likewise",

	"sglang:cache_hit_rate":                 "the share of the last batch alone; tokens are counted",
	"sglang:num_*":                          "queues and requests within: those that run and wait are read",
	"sglang:spec_*":                         "settings, and shares of speculation in other forms",
	"sglang:*token_usage":                   "of other pools of the cache; the whole is read",
	"sglang:kv_*_tokens":                    "the share of the cache that is in use is read",
	"sglang:mamba_*":                        "pools of other kinds of models",
	"sglang:swa_*":                          "likewise",
	"sglang:dp_attention_*":                 "balance within",
	"sglang:startup_*":                      "phases of the start are read from the log",
	"sglang:*_memory_usage_gb":              "memory is read from the GPUs; that of the cache here",
	"sglang:scheduler_*":                    "the scheduler's own time",
	"sglang:process_cpu_seconds_total":      "read from the host",
	"sglang:http_*":                         "requests of HTTP: hcl counts its own",
	"sglang:routing_key*":                   "of a router's keys",
	"sglang:generation_tokens_histogram":    "lengths: the client knows its own",
	"sglang:prompt_tokens_histogram":        "likewise",
	"sglang:inter_token_latency_seconds":    "the client's own clock has it",
	"sglang:prefill_effective_tokens_total": "tokens of prefill are counted otherwise",
	"sglang:realtime_tokens_total":          "likewise, before a request has ended",
	"sglang:get_loads_duration_seconds":     "how long an answer to hcl took",
	"sglang:cuda_graph_passes_total":        "how steps were run",
	"sglang:is_cuda_graph":                  "likewise",
	"sglang:fwd_occupancy":                  "how busy it was: the GPUs are read",
	"sglang:utilization":                    "likewise",
	"sglang:gen_throughput":                 "of the last steps; hcl has its own",
	"sglang:decode_sum_seq_lens":            "of the last batch",
	"sglang:new_token_ratio":                "a setting that moves",
	"sglang:context_len":                    "it is asked for what it serves with",
	"sglang:page_size":                      "likewise",
	"smg_http_*":                            "requests of HTTP: hcl counts its own",
	"smg_router_*":                          "requests by the router's clock; errors are read",
	"smg_worker_*":                          "workers: they are asked at /workers; retries are read",
	"vllm_router_*":                         "requests and workers by the router; retries and errors are read",
}

// labels are those of the metrics that hcl reads, and what it makes of each.
var labels = map[string]string{
	"engine": "ranks: summed, or averaged", "tp_rank": "likewise", "pp_rank": "likewise", "moe_ep_rank": "likewise", "dp_rank": "likewise",
	"model_name": "one", "engine_type": "one", "is_streaming": "summed", "le": "of histograms",
	"source": "read by", "cache_source": "read by", "finished_reason": "read by", "reason": "read by", "stage": "read by", "error_type": "read by",
	"kv_cache_size_tokens": "read", "kv_cache_memory_bytes": "read",
	"route": "summed", "router_type": "one", "backend_type": "summed", "connection_mode": "summed", "model": "summed", "endpoint": "summed",
}

var (
	sample    = regexp.MustCompile(`^([\w:]+)(?:\{(.*)\})? \S+$`)
	labelName = regexp.MustCompile(`(\w+)="`)
	partOf    = regexp.MustCompile(`_(bucket|sum|count|created)$`)
)

// TestRecordedMetrics: every metric of a real engine or router is read, or knowingly left; so is every label of those that
// are read.
func TestRecordedMetrics(t *testing.T) {
	read := []string{"process_start_time_seconds"}
	for _, q := range slices.Concat(vllmTells, sglangTells, routerTells) {
		for _, under := range q.Under {
			name, _, _ := strings.Cut(under, "{")
			read = append(read, name, partOf.ReplaceAllString(name, ""))
		}
	}
	matched := map[string]bool{}
	for _, name := range recording.Names(t, "*/metrics.txt", "by-hand/*/metrics*.txt") {
		unknown := map[string]bool{}
		for line := range strings.Lines(recording.Text(t, name)) {
			m := sample.FindStringSubmatch(strings.TrimSpace(line))
			if m == nil {
				if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
					t.Errorf("%s: %q is no sample", name, line)
				}
				continue
			}
			family := partOf.ReplaceAllString(m[1], "")
			if slices.Contains(read, m[1]) || slices.Contains(read, family) || slices.Contains(read, family+"_total") {
				for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
					if labels[l[1]] == "" && m[1] != "vllm:cache_config_info" { // whose labels are settings
						unknown[m[1]+"{"+l[1]+"}"] = true
					}
				}
				continue
			}
			left := false
			for pattern := range notRead {
				if ok, _ := path.Match(pattern, family); ok {
					left, matched[pattern] = true, true
				}
			}
			if !left {
				unknown[family] = true
			}
		}
		for what := range unknown {
			t.Errorf("%s: %s is neither read nor left", name, what)
		}
	}
	for pattern := range notRead {
		if !matched[pattern] {
			t.Errorf("no recording has what %s leaves", pattern)
		}
	}
}
