package engines

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hclbench/telemetry"
	"hclbench/testhost/recording"
)

// TestRealExports: what real engines and routers tell is read, each quantity under its real name. Of vLLM, SGLang and
// vllm-router alone, and of prefill and decode of vLLM over NIXL.
func TestRealExports(t *testing.T) {
	router := &telemetry.Exports{Quantities: routerTells}
	for file, c := range map[string]struct {
		of   *telemetry.Exports
		want map[string]float64
	}{
		"by-hand/vllm-0.32.0/metrics.txt": {Exports(&Engine{Kind: VLLM}), map[string]float64{
			telemetry.Running: 0, telemetry.Waiting: 0, telemetry.KVCache: 0, telemetry.Preemptions: 0, telemetry.Preempted: 0,
			telemetry.HitTokens: 1024, telemetry.QueriedTokens: 31939, telemetry.PromptTokens: 31939, telemetry.Computed: 30915, telemetry.CachedOnGPU: 1024,
			telemetry.CachedOnHost: 0, telemetry.CachedOnDisk: 0, telemetry.Fetched: 0, telemetry.CachedOutside: 0, telemetry.Generated: 6861,
			telemetry.QueueTime: 0.007919, telemetry.PrefillTime: 141.36, telemetry.DecodeTime: 1602.86,
			telemetry.EngineTTFT: 202.177, telemetry.EngineTPOT: 82.82, telemetry.EngineE2EL: 1800.43,
			"times of queue_time": 335, "times of prefill_time": 335, "times of decode_time": 335, "times of ttft": 340, "times of tpot": 335, "times of e2el": 335,
			"ended:stop": 66, "ended:length": 269, "ended:abort": 0, "ended:error": 0, "ended:repetition": 0,
			"refused:max_num_queued_reqs": 0, "refused:max_num_queued_tokens": 0,
			telemetry.CacheTokens: 1048576, telemetry.CacheBytes: 1 << 30}},
		"by-hand/sglang-0.5.23/metrics.txt": {Exports(&Engine{Kind: SGLang, Flags: flagsOf("enable-metrics")}), map[string]float64{
			telemetry.Running: 0, telemetry.Waiting: 0, telemetry.KVCache: 0, telemetry.HitTokens: 4262, telemetry.QueriedTokens: 31567,
			telemetry.PromptTokens: 31567, telemetry.Computed: 27305, telemetry.CachedOnGPU: 4262, telemetry.Generated: 11107,
			telemetry.QueueTime: 0.39097, telemetry.PrefillTime: 30.174, telemetry.EngineTTFT: 44.674, telemetry.EngineTPOT: 7.5231, telemetry.EngineE2EL: 227.76,
			"times of queue_time": 439, "times of prefill_time": 439, "times of ttft": 436, "times of tpot": 435, "times of e2el": 436, telemetry.Aborted: 1,
			telemetry.CacheTokens: 65536, telemetry.CacheBytes: 0.0625009536743164 * (1 << 30)}},
		"by-hand/vllm-router-0.1.17/metrics.txt": {router, map[string]float64{"errors:backend_error": 1, "errors:non_retryable_error": 3}},
		"by-hand/vllm-0.32.0/metrics-decode.txt": {Exports(&Engine{Kind: VLLM}), map[string]float64{
			telemetry.Computed: 2, telemetry.CachedOnGPU: 256, telemetry.Fetched: 4872, telemetry.CachedOutside: 0, telemetry.Failures: 0, telemetry.LetGo: 0,
			telemetry.Transferred: 5636096, telemetry.TransferTime: 4.114, telemetry.TransferBlocks: 60, "times of kv_transferred": 22}},
	} {
		got := c.of.Values(recording.Text(t, file))
		for name := range got {
			if _, asked := c.want[name]; !asked && file == "by-hand/vllm-0.32.0/metrics-decode.txt" {
				delete(got, name)
			}
		}
		if diff := cmp.Diff(c.want, got, cmpopts.EquateApprox(1e-3, 0)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// TestExportsOfSources: names that no recording has, as the sources of SGLang and its router write them. What its decode
// tells of prompts is prefill's.
func TestExportsOfSources(t *testing.T) {
	const page = `sglang:cached_tokens_total{cache_source="device"} 10
sglang:cached_tokens_total{cache_source="storage_HiCacheFile"} 600
sglang:uncached_prompt_tokens_histogram_sum 40
sglang:generation_tokens_total 7
smg_worker_retries_total{worker_type="prefill"} 3
smg_worker_retries_total{worker_type="decode"} 3
`
	decode := exportsOf(SGLang, "")
	OfRole(decode, Decode)
	for name, c := range map[string]struct {
		of   *telemetry.Exports
		want map[string]float64
	}{
		"alone": {exportsOf(SGLang, ""), map[string]float64{telemetry.HitTokens: 610, telemetry.CachedOnGPU: 10, telemetry.CachedOnDisk: 600,
			telemetry.Computed: 40, telemetry.Generated: 7}},
		"decode": {decode, map[string]float64{telemetry.Generated: 7}},
		"router": {&telemetry.Exports{Quantities: routerTells}, map[string]float64{telemetry.Retried: 3}},
	} {
		if diff := cmp.Diff(c.want, c.of.Values(page)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
