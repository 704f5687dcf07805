package engines

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/testhost/recording"
)

// TestServedIn holds what the tools say they run with against the flags.
func TestServedIn(t *testing.T) {
	const (
		v0     = "INFO 03-01 12:00:00 llm_engine.py:234] Initializing a V0 LLM engine (v0.7.3) with config: model='org/model', tensor_parallel_size=4, max_seq_len=32768, use_cached_outputs=False, "
		sglang = "server_args=ServerArgs(model_path='org/model', context_length=None, tp_size=8, mem_fraction_static=0.88, disable_radix_cache=True, kv_cache_dtype='fp8_e5m2', api_key='hush')"
	)
	lines := recording.Lines(t, "vllm-0.32.0/log.txt")
	v1 := lines[slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "Initializing a V1 LLM engine") })]
	newer := recording.Lines(t, "by-hand/sglang-0.5.23/log-offline.txt")[0] // of 0.5.23
	for _, c := range []struct {
		name, kind, line string
		flags            []Flag
		want             []string
	}{
		{"vllm agrees", VLLM, v1, flagsOf("tensor-parallel-size=1", "max-model-len=4K", "dtype=bf16", "enforce-eager", "enable-prefix-caching"), nil},
		{"vllm differs", VLLM, v1, flagsOf("kv-cache-dtype=fp8", "no-enable-chunked-prefill", "tensor-parallel-size=2"),
			[]string{"kv_cache_dtype: auto", "enable_chunked_prefill: true", "tensor_parallel_size: 1"}},
		{"older vllm differs", VLLM, v0, flagsOf("tensor-parallel-size=8", "dtype=half"), []string{"tensor_parallel_size: 4"}},
		{"sglang agrees", SGLang, sglang, flagsOf("tp=8", "mem-fraction-static=0.88", "disable-radix-cache"), nil},
		{"sglang differs", SGLang, sglang, flagsOf("context-length=32768", "kv-cache-dtype=fp8_e4m3"), []string{"context_length: none", "kv_cache_dtype: fp8_e5m2"}},
		{"newer sglang agrees", SGLang, newer, flagsOf("tp=1", "chunked-prefill-size=4096", "mem-fraction-static=0.2"), nil},
		{"newer sglang differs", SGLang, newer, flagsOf("context-length=32768", "schedule-policy=lpm", "page-size=16", "max-running-requests=8"),
			[]string{"context_length: none", "max_running_requests: none"}},
		{"another line", SGLang, "Benchmark...", flagsOf("tp=4"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &Engine{Kind: c.kind, Placement: On(host("8xH200")), Model: r1, Image: "image:v0.11.0", Flags: c.flags}
			b, err := Offline(e, Batch{Requests: 1, Kind: Random, InputTokens: 1, OutputTokens: 1})
			if err != nil {
				t.Fatal(err)
			}
			said := b.ServedIn(c.line)
			if (said == nil) != (c.line == "Benchmark...") {
				t.Fatalf("the line says %s", said)
			}
			if said != nil {
				if said, err = WithoutSecrets(e, said); err != nil || strings.Contains(string(said), "hush") {
					t.Errorf("without secrets: %s, %v", said, err)
				}
			}
			checkDifferences(t, e, said, c.want)
		})
	}
}

// TestServedWith does that with the report of trtllm-bench.
func TestServedWith(t *testing.T) {
	e := &Engine{Kind: TRTLLM, Flags: flagsOf("tp_size=8", "max_batch_size=256", "kv_cache_free_gpu_memory_fraction=0.9")}
	said := (&Bench{}).ServedWith([]byte(`{"engine": {"model": "m"}, "world_info": {"tp_size": 8, "max_batch_size": 128, "kv_cache_percentage": 0.90}, "performance": {"total_latency_ms": 1}}`))
	if strings.Contains(string(said), "performance") {
		t.Errorf("figures are no configuration: %s", said)
	}
	checkDifferences(t, e, said, []string{"world_info.max_batch_size: 128"})
	if said := (&Bench{}).ServedWith([]byte(`{"elapsed_time": 1}`)); said != nil {
		t.Errorf("vLLM's figures say nothing of it, and here is %s", said)
	}
}

func checkDifferences(t *testing.T, e *Engine, said []byte, want []string) {
	t.Helper()
	differences, err := Differences(e, said)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range differences {
		got = append(got, d.Field+": "+d.Served)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
}
