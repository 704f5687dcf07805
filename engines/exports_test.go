package engines

import (
	"os"
	"testing"

	"hclbench/telemetry"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestRealExports: what real engines and routers tell is read, each quantity under its real name. Of vLLM, SGLang and
// vllm-router alone, and of prefill and decode of vLLM over NIXL.
func TestRealExports(t *testing.T) {
	router := &telemetry.Exports{Quantities: routerTells}
	for file, c := range map[string]struct {
		of   *telemetry.Exports
		want map[string]float64
	}{
		"../testdata/real/vllm-0.32.0/metrics.txt": {Exports(&Engine{Kind: VLLM}), map[string]float64{
			telemetry.Running: 0, telemetry.Waiting: 0, telemetry.KVCache: 0, telemetry.Preemptions: 0, telemetry.Preempted: 0,
			telemetry.HitTokens: 0, telemetry.QueriedTokens: 75, telemetry.PromptTokens: 75, telemetry.Computed: 75, telemetry.CachedOnGPU: 0,
			telemetry.CachedOnHost: 0, telemetry.CachedOnDisk: 0, telemetry.Fetched: 0, telemetry.CachedOutside: 0, telemetry.Generated: 48,
			telemetry.QueueTime: 0.0001104, telemetry.PrefillTime: 0.04802, telemetry.DecodeTime: 0.2602,
			telemetry.EngineTTFT: 0.08975, telemetry.EngineTPOT: 0.03717, telemetry.EngineE2EL: 0.3423,
			"times of queue_time": 6, "times of prefill_time": 6, "times of decode_time": 6, "times of ttft": 6, "times of tpot": 6, "times of e2el": 6,
			"ended:stop": 0, "ended:length": 6, "ended:abort": 0, "ended:error": 0, "ended:repetition": 0,
			"refused:max_num_queued_reqs": 0, "refused:max_num_queued_tokens": 0,
			telemetry.CacheTokens: 1048576, telemetry.CacheBytes: 1 << 30}},
		"../testdata/real/sglang-0.5.23/metrics.txt": {Exports(&Engine{Kind: SGLang, Flags: flagsOf("enable-metrics")}), map[string]float64{
			telemetry.Running: 0, telemetry.Waiting: 0, telemetry.KVCache: 0, telemetry.HitTokens: 62, telemetry.QueriedTokens: 101,
			telemetry.PromptTokens: 101, telemetry.Computed: 39, telemetry.CachedOnGPU: 62, telemetry.Generated: 70,
			telemetry.QueueTime: 0.005583, telemetry.PrefillTime: 0.2165, telemetry.EngineTTFT: 0.2438, telemetry.EngineTPOT: 0.07746, telemetry.EngineE2EL: 0.7699,
			"times of queue_time": 10, "times of prefill_time": 10, "times of ttft": 9, "times of tpot": 9, "times of e2el": 9,
			telemetry.CacheTokens: 65536, telemetry.CacheBytes: 0.0625009536743164 * (1 << 30)}},
		"../testdata/real/vllm-router-0.1.17/metrics.txt": {router, map[string]float64{"errors:backend_error": 1, "errors:non_retryable_error": 3}},
		"../apply/testdata/metrics/vllm-decode.txt": {Exports(&Engine{Kind: VLLM}), map[string]float64{
			telemetry.Computed: 2, telemetry.CachedOnGPU: 256, telemetry.Fetched: 4872, telemetry.CachedOutside: 0, telemetry.Failures: 0,
			telemetry.Transferred: 5636096, telemetry.TransferTime: 4.114, telemetry.TransferBlocks: 60, "times of kv_transferred": 22}},
	} {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got := c.of.Values(string(page))
		for name := range got {
			if _, asked := c.want[name]; !asked && file == "../apply/testdata/metrics/vllm-decode.txt" {
				delete(got, name)
			}
		}
		if diff := cmp.Diff(c.want, got, cmpopts.EquateApprox(1e-3, 0)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}
