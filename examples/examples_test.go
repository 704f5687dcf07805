// Package examples_test holds the labs in this folder to what they say of
// themselves: they are right without a warning, they plan to the counts that the
// studies describe, and every published flag is in the commands that they run.
package examples_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/hcl/lang"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/docker"
	"hclbench/results"
	"hclbench/testhost/golden"
	"hclbench/tune"
)

// example is what a lab plans to.
type example struct {
	vars      []string            // as --var
	hosts     int                 // where something is started
	loads     map[string]int      // deployments by host
	starts    int                 // of an engine, offline cells included; 0: as many as loads
	cells     map[string]int      // by benchmark and engine: "online vllm.h200"
	published map[string]int      // rows of published numbers by benchmark
	words     map[string][]string // by engine, or engine and role: what the published task says, and so the command must
}

// eachOf has the same count for several engines of a benchmark.
func eachOf(benchmark string, n int, names ...string) map[string]int {
	m := map[string]int{}
	for _, name := range names {
		m[benchmark+" "+name] = n
	}
	return m
}

// join merges counts.
func join(all ...map[string]int) map[string]int {
	m := map[string]int{}
	for _, some := range all {
		for k, v := range some {
			m[k] += v
		}
	}
	return m
}

// examples are the labs of this folder, by folder; behind a space, a variation
// of it.
var examples = map[string]example{
	"moreh-mif": {
		hosts:     1,
		loads:     map[string]int{"client": 1},
		cells:     eachOf("throughput", 6, "manifests.mif"),
		published: map[string]int{"throughput": 6},
	},
	"llm-d-pd": {
		hosts: 1,
		loads: map[string]int{"client": 2},
		cells: eachOf("split", 6, "manifests.pd"),
	},
	"quickstart": {
		hosts: 1,
		loads: map[string]int{"here": 2},
		cells: eachOf("online", 3, "sim.steady", "sim.batching"),
	},
	"capacity-under-slo": {
		hosts: 1,
		loads: map[string]int{"here": 2},
		cells: eachOf("chat", 1, "sim.steady", "sim.cliff"),
	},
	"accuracy-simulated": {
		hosts: 1,
		loads: map[string]int{"here": 3},
		cells: join(eachOf("online", 1, "sim.full", "sim.close", "sim.coarse"), eachOf("books", 1, "sim.full", "sim.close", "sim.coarse")),
	},
	"tool-calls-simulated": {
		hosts: 1,
		loads: map[string]int{"here": 2},
		cells: join(eachOf("online", 1, "sim.careful", "sim.hasty"), eachOf("journeys", 1, "sim.careful", "sim.hasty")),
	},
	"accuracy-fp8": {
		hosts: 1,
		loads: map[string]int{"h200": 3},
		cells: join(eachOf("online", 3, "vllm.bf16", "vllm.fp8", "vllm.fp8-spec"), eachOf("gsm8k", 2, "vllm.bf16", "vllm.fp8", "vllm.fp8-spec"), eachOf("speculation", 1, "vllm.fp8", "vllm.fp8-spec")),
	},
	"tune-simulated": {
		hosts: 1,
		loads: map[string]int{"here": 1},
		cells: eachOf("chat", 2, "sim.baseline"),
	},
	"vllm-cpu": {
		vars:  []string{"directory=/home/user/vllm"},
		hosts: 1,
		loads: map[string]int{"here": 1},
		cells: eachOf("online", 3, "vllm.here"),
	},
	"workloads": {
		hosts: 1,
		loads: map[string]int{"here": 1},
		cells: join(eachOf("tools", 1, "sim.thinker"), eachOf("talks", 1, "sim.thinker"), eachOf("agent", 1, "sim.thinker"), eachOf("chats", 1, "sim.thinker"), eachOf("sessions", 1, "sim.thinker"), eachOf("agents", 1, "sim.thinker"), eachOf("desk", 1, "sim.thinker"), eachOf("images", 1, "sim.thinker"), eachOf("looks", 1, "sim.thinker"), eachOf("adapters", 1, "sim.thinker"), eachOf("day", 1, "sim.thinker")),
	},
	"endpoints": {
		hosts: 1,
		loads: map[string]int{"here": 2},
		cells: join(eachOf("newer", 2, "sim.thinker"), eachOf("talks", 1, "sim.thinker"), eachOf("embeddings", 2, "sim.reader"), eachOf("rerank", 1, "sim.reader")),
	},
	"three-clients": {
		hosts: 4,
		loads: map[string]int{"box": 1},
		cells: join(eachOf("alone", 1, "vllm.box"), eachOf("together", 3, "vllm.box")),
	},
	"skeleton-8xh200": {
		hosts: 1,
		loads: map[string]int{"box": 2},
		cells: eachOf("online", 5, "sglang.box", "vllm.box"),
	},
	"skeleton-8xmi300x": {
		hosts: 1,
		loads: map[string]int{"box": 2},
		cells: eachOf("online", 5, "sglang.box", "vllm.box"),
	},
	"dstack-deepseek-r1": {
		hosts:  2,
		loads:  map[string]int{"h200": 7, "mi300x": 3},
		starts: 5 + 1 + 66, // online, one more for the prefix cache, and each offline cell
		cells: join(
			eachOf("online", 6+3, "sglang.h200", "vllm.h200", "trtllm.h200", "sglang.mi300x", "vllm.mi300x"),
			eachOf("prefix-cached", 3, "sglang.h200", "vllm.h200-prefix", "sglang.mi300x"),
			eachOf("offline", 6+3+3, "sglang.h200-offline", "vllm.h200-offline", "trtllm.h200-offline", "sglang.mi300x-offline", "vllm.mi300x"),
			eachOf("offline", 3, "sglang.mi300x-offline", "vllm.mi300x"),
			eachOf("gsm8k", 1, "sglang.h200", "vllm.h200", "trtllm.h200", "sglang.mi300x", "vllm.mi300x"),
		),
		published: map[string]int{"online": 45, "prefix-cached": 9, "offline": 63},
		words: map[string][]string{
			"sglang.h200": {
				"lmsysorg/sglang:", "python3", "-m sglang.launch_server", "--model-path deepseek-ai/DeepSeek-R1",
				"--tp 8", "--trust-remote-code", "--enable-dp-attention", "--shm-size 34359738368b", "--gpus all",
			},
			"sglang.mi300x": {
				"rocm/sglang-staging:20250212", "MODEL_ID=deepseek-ai/DeepSeek-R1", "HSA_NO_SCRATCH_RECLAIM=1",
				"-m sglang.launch_server", "--model-path deepseek-ai/DeepSeek-R1", "--tp 8", "--trust-remote-code",
				"--device /dev/kfd", "--device /dev/dri", "!--enable-dp-attention", "!--shm-size",
			},
			"trtllm.h200": {
				"MAX_BATCH_SIZE=512", "MAX_NUM_TOKENS=16384", "MAX_SEQ_LENGTH=16384", "trtllm-serve",
				"--backend pytorch", "--max_batch_size 512", "--max_num_tokens 16384", "--max_seq_len 16384",
				"--tp_size 8", "--ep_size 4", "--pp_size 1",
			},
			"trtllm.h200-offline": {
				"MODEL_REPO=https://huggingface.co/deepseek-ai/DeepSeek-R1", "MAX_SEQ_LEN=128000", "MAX_INPUT_LEN=64000",
				"MAX_NUM_TOKENS=16384", "MAX_BATCH_SIZE=2048", "MODEL_DOWNLOAD_DIR=/root/.cache/DeepSeek-R1",
				"ENGINE_DIR=/Deepseek-R1-Engine", "TOKENIZER_DIR=/root/.cache/DeepSeek-R1", "MODEL_FOLDER=/triton_model_repo",
				"CHECK_POINT_DIR=/workflow/TensorRT-LLM/examples/deepseek_v3/deepseek-ckpt", "TRITON_MAX_BATCH_SIZE=1",
				"INSTANCE_COUNT=1", "MAX_QUEUE_DELAY_MS=0", "MAX_QUEUE_SIZE=0",
				"FILL_TEMPLATE_SCRIPT=/tensorrtllm_backend/tools/fill_template.py", "DECOUPLED_MODE=true",
				"git clone --branch deepseek --single-branch https://github.com/NVIDIA/TensorRT-LLM.git",
				`git clone "$MODEL_REPO" "$MODEL_DOWNLOAD_DIR"`, "cd TensorRT-LLM/examples/deepseek_v3",
				"python3 convert_checkpoint.py", "--model_dir $TOKENIZER_DIR", "--output_dir $CHECK_POINT_DIR",
				"--dtype bfloat16", "--tp_size 8", "trtllm-build", "--checkpoint_dir $CHECK_POINT_DIR",
				"--gemm_plugin bfloat16", "--output_dir $ENGINE_DIR", "--max_seq_len $MAX_SEQ_LEN",
				"--max_input_len $MAX_INPUT_LEN", "--max_batch_size $MAX_BATCH_SIZE", "--gpt_attention_plugin bfloat16",
				"--use_paged_context_fmha enable", "--shm-size 34359738368b",
				"--tokenizer /root/.cache/DeepSeek-R1", "--max_seq_len 32768",
			},
			"vllm.h200": {
				"vllm/vllm-openai:v0.7.3", "VLLM_ATTENTION_BACKEND=FLASHMLA", "pip uninstall -y vllm",
				"pip install vllm --pre --extra-index-url https://wheels.vllm.ai/nightly",
				"'vllm' 'serve' 'deepseek-ai/DeepSeek-R1'", "'--trust-remote-code'", "'--tensor-parallel-size' '8'",
				"--shm-size 34359738368b", "!--enable-prefix-caching",
			},
			"vllm.h200-prefix": {
				"vllm/vllm-openai:v0.7.3", "'--enable-prefix-caching'", "'--enable-chunked-prefill'",
				"'--trust-remote-code'", "'--tensor-parallel-size' '8'",
			},
			"vllm.h200-offline":     {"'--tensor-parallel-size' '8'", "'--max-model-len' '32768'"},
			"sglang.h200-offline":   {"--tp 8", "--context-length 32768"},
			"sglang.mi300x-offline": {"--tp 8", "--context-length 32768", "!--enable-dp-attention"},
			"vllm.mi300x": {
				"rocm/vllm-dev:vllm-ds3-staging-0217", "VLLM_FP8_PADDING=0", "VLLM_USE_TRITON_FLASH_ATTN=0",
				"serve deepseek-ai/DeepSeek-R1", "--tensor-parallel-size 8", "--trust-remote-code", "--max-model-len 32768",
			},
		},
	},
	"gpustack-h200": {
		hosts: 1,
		loads: map[string]int{"h200": 6},
		cells: join(
			eachOf("steps", 1, "vllm.baseline", "sglang.baseline", "trtllm.baseline", "sglang.dp-attention", "sglang.torch-compile", "sglang.mtp"),
			eachOf("cases", 4, "vllm.baseline", "sglang.dp-attention"),
			eachOf("four-at-a-time", 1, "vllm.baseline", "sglang.dp-attention"),
		),
		published: map[string]int{"steps": 6, "cases": 8, "four-at-a-time": 1},
		words: map[string][]string{
			"vllm.baseline": {"vllm/vllm-openai:v0.11.0", "serve deepseek-ai/DeepSeek-R1-0528", "--tensor-parallel-size 8"},
			"sglang.baseline": {
				"lmsysorg/sglang:v0.5.3", "-m sglang.launch_server", "--model-path deepseek-ai/DeepSeek-R1-0528",
				"--host 0.0.0.0", "--port 8000", "--tp-size 8", "!--enable",
			},
			"trtllm.baseline":      {"nvcr.io/nvidia/tensorrt-llm/release:1.0.0", "trtllm-serve", "--tp_size 8", "--ep_size 8"},
			"sglang.dp-attention":  {"--tp-size 8", "--enable-dp-attention", "!--enable-torch-compile"},
			"sglang.torch-compile": {"--tp-size 8", "--enable-dp-attention", "--enable-torch-compile", "!--speculative"},
			"sglang.mtp": {
				"--tp-size 8", "--enable-dp-attention", "--enable-torch-compile", "--speculative-algorithm EAGLE",
				"--speculative-num-steps 1", "--speculative-eagle-topk 1", "--speculative-num-draft-tokens 2",
			},
		},
	},
	"skypilot-vllm-benchmark": {
		hosts: 1,
		loads: map[string]int{"h200": 2},
		cells: join(
			eachOf("lengths", 4, "vllm.h200", "sglang.h200"),
			eachOf("sharegpt", 1, "vllm.h200", "sglang.h200"),
		),
		published: map[string]int{"lengths": 8, "sharegpt": 2},
		words: map[string][]string{
			"vllm.h200": {
				"VLLM_USE_FLASHINFER_SAMPLER=1", "HF_TOKEN=", "serve deepseek-ai/DeepSeek-R1", "--tensor-parallel-size 8",
				"--trust-remote-code", "--no-enable-prefix-caching", "--disable-log-requests",
			},
			"sglang.h200": {
				"SGL_ENABLE_JIT_DEEPGEMM=1", "HF_TOKEN=", "--model-path deepseek-ai/DeepSeek-R1", "--tp 8",
				"--trust-remote-code", "--enable-flashinfer-mla", "--disable-radix-cache",
				"--enable-torch-compile", "--torch-compile-max-bs 8",
			},
		},
	},
	"skypilot-vllm-benchmark ENGINE=vllm": {
		vars:      []string{"ENGINE=vllm"},
		hosts:     1,
		loads:     map[string]int{"h200": 1},
		cells:     join(eachOf("lengths", 4, "vllm.h200"), eachOf("sharegpt", 1, "vllm.h200")),
		published: map[string]int{"lengths": 8, "sharegpt": 2},
	},
	"skypilot-vllm-benchmark ENGINE=sgl MODEL=llama-8b": {
		vars:      []string{"ENGINE=sgl", "MODEL=llama-8b"},
		hosts:     1,
		loads:     map[string]int{"h200": 1},
		cells:     join(eachOf("lengths", 4, "sglang.h200"), eachOf("sharegpt", 1, "sglang.h200")),
		published: map[string]int{"lengths": 8, "sharegpt": 2},
		words: map[string][]string{
			"sglang.h200": {"neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8", "--tp 1", "!--enable-torch-compile"},
		},
	},
	"moreh-mi300x-cluster": {
		hosts:     5,
		loads:     map[string]int{"node-n0": 2},
		cells:     join(eachOf("throughput", 6, "group.pd"), eachOf("shared-prompts", 1, "group.cached")),
		published: map[string]int{"throughput": 6, "shared-prompts": 1},
		words: map[string][]string{
			"group.pd prefill": append(morehWords, "--max-num-batched-tokens 64000", "--no-enable-prefix-caching",
				"VLLM_V1_OUTPUT_PROC_CHUNK_SIZE=128"),
			"group.pd decode": append(morehWords, "--max-num-batched-tokens 16384", "--no-enable-prefix-caching",
				"VLLM_V1_OUTPUT_PROC_CHUNK_SIZE=512"),
			"group.pd router": {
				"--entrypoint vllm-router vllm/vllm-router:nightly --vllm-pd-disaggregation", "--kv-connector nixl", "--prefill http://203.0.113.20:", "--prefill http://203.0.113.21:",
				"--decode http://203.0.113.22:", "--decode http://203.0.113.23:", "--decode http://203.0.113.24:", "--disable-retries",
			},
			"group.cached prefill": append(morehWords, "--enable-prefix-caching", "!--no-enable-prefix-caching"),
			"group.cached decode":  append(morehWords, "--enable-prefix-caching", "!--no-enable-prefix-caching"),
			"group.cached router":  {"--kv-connector nixl"},
		},
	},
	"inferencex-mi355x-disagg": {
		hosts: 3,
		loads: map[string]int{"node-n0": 2},
		cells: join(eachOf("curve", 2, "group.top"), eachOf("curve", 7, "group.bottom")),
		words: map[string][]string{
			"group.top prefill": append(append(inferencexWords, inferencexSpread...), "--disaggregation-mode prefill", "--mem-fraction-static 0.8 ",
				"--disable-radix-cache", "--chunked-prefill-size 65536", "--cuda-graph-bs 1 2 3 ", "SGLANG_MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK=8192"),
			"group.top decode": append(append(inferencexWords, inferencexSpread...), "--disaggregation-mode decode", "--mem-fraction-static 0.85",
				"--prefill-round-robin-balance", "!--disable-radix-cache", "SGLANG_MORI_MOE_MAX_INPUT_TOKENS=2703", " 159 160 "),
			"group.bottom prefill": append(inferencexWords, "--disaggregation-mode prefill", "--mem-fraction-static 0.8 ", "--disable-radix-cache",
				"--chunked-prefill-size 262144", "--max-running-requests 128", "!--dp-size", "!--ep-size", "!--moe-a2a-backend"),
			"group.bottom decode": append(inferencexWords, "--disaggregation-mode decode", "--mem-fraction-static 0.85",
				"--prefill-round-robin-balance", "--max-running-requests 128", "!--enable-dp-attention", "!--disable-radix-cache"),
			"group.top router": {
				"lmsysorg/sgl-model-gateway:v0.3.2", "-m sglang_router.launch_router", "--pd-disaggregation", "--port 30000", "--policy random",
				"--prefill-policy random", "--decode-policy random", "--cb-timeout-duration-secs 15", "--retry-max-retries 3",
				"--prefill http://203.0.113.30:", "--prefill http://203.0.113.31:", "--decode http://203.0.113.32:",
			},
			"group.bottom router": {"--prefill http://203.0.113.30:", "--decode http://203.0.113.31:", "--decode http://203.0.113.32:"},
		},
	},
	"vllm-on-kubernetes": {
		hosts: 1,
		loads: map[string]int{"pod": 2},
		cells: eachOf("online", 8, "vllm.mistral"),
		words: map[string][]string{
			"vllm.mistral": {
				"--entrypoint vllm vllm/vllm-openai:v0.9.1 serve mistralai/Mistral-7B-Instruct-v0.3", "--trust-remote-code", "--enable-chunked-prefill",
				"--max-num-batched-tokens 1024", "--shm-size 2147483648b",
			},
		},
	},
	"h200-1p1d": {
		hosts: 2,
		loads: map[string]int{"node-n0": 3},
		cells: join(eachOf("two-boxes", 3, "group.two-boxes"), eachOf("one-box", 3, "group.split", "group.whole")),
		words: map[string][]string{
			"group.two-boxes prefill": {
				"lmsysorg/sglang:v0.5.8.post1-cu130", "--tp-size 8", "--disaggregation-mode prefill", "--disaggregation-transfer-backend nixl",
				"--disaggregation-bootstrap-port", "--mem-fraction-static 0.75", "--chunked-prefill-size 163840", "--max-prefill-tokens 163840",
				"--max-running-requests 16", "--attention-backend flashinfer", "--disable-radix-cache", "--load-balance-method round_robin",
				"--trust-remote-code", "!--dp-size", "--device /dev/infiniband", "--cap-add IPC_LOCK",
			},
			"group.two-boxes decode": {
				"--tp-size 8", "--dp-size 8", "--ep-size 8", "--enable-dp-attention", "--mem-fraction-static 0.88", "--max-running-requests 256",
				"--cuda-graph-max-bs 256", "--stream-interval 10", "--disaggregation-mode decode", "--disaggregation-transfer-backend nixl",
				"--attention-backend flashinfer", "--disable-radix-cache", "--trust-remote-code",
			},
			"group.two-boxes router": {"--pd-disaggregation", "--prefill http://203.0.113.40:", "--decode http://203.0.113.41:"},
			"group.split prefill":    {`--gpus '"device=0,1,2,3"'`, "--tp-size 4", "--disaggregation-mode prefill"},
			"group.split decode":     {`--gpus '"device=4,5,6,7"'`, "--tp-size 4", "--disaggregation-mode decode"},
			"group.split router":     {"--pd-disaggregation"},
			"group.whole serve":      {`--gpus '"device=0,1,2,3"'`, `--gpus '"device=4,5,6,7"'`, "!--disaggregation"},
			"group.whole router":     {"--worker-urls http://127.0.0.1:", "!--pd-disaggregation"},
		},
	},
	"hopper-wide-ep": {
		hosts: 4,
		loads: map[string]int{"node-n0": 1},
		cells: eachOf("throughput", 4, "group.pd"),
		words: map[string][]string{
			"group.pd prefill": append(hopperWords, "--all2all-backend deepep_high_throughput",
				"--data-parallel-address 203.0.113.50", "!--compilation-config"),
			"group.pd decode": append(hopperWords, "--all2all-backend deepep_low_latency", "--data-parallel-address 203.0.113.52",
				`"cudagraph_mode":"FULL_DECODE_ONLY"`, `"fuse_norm_quant":true`, "VLLM_MOE_DP_CHUNK_SIZE=384"),
			"group.pd router": {
				"--prefill http://203.0.113.50:", "--prefill http://203.0.113.51:", "--decode http://203.0.113.52:", "--decode http://203.0.113.53:",
			},
		},
	},
}

// What the published commands of prefill and decode have in common.
var (
	morehWords = []string{
		"serve deepseek-ai/DeepSeek-R1", "--trust-remote-code", "--tensor-parallel-size 1", "--data-parallel-size 8",
		"--enable-expert-parallel", "--no-enable-chunked-prefill", "--enforce-eager", "--max-model-len 8192", "--max-num-seqs 2048",
		"--kv-cache-dtype fp8_e4m3", "--block-size 16", `"kv_connector":"NixlConnector","kv_role":"kv_both"`, "--disable-uvicorn-access-log",
		"--no-enable-log-requests", "--gpu-memory-utilization 0.92", "UCX_TLS=rocm_copy,rocm_ipc,self,sm,rc_x", "NCCL_NET_GDR_LEVEL=3",
		"NCCL_MIN_NCHANNELS=112", "VLLM_NIXL_SIDE_CHANNEL_HOST=203.0.113.2", "!--disable-log-stats", "--device /dev/infiniband",
	}
	inferencexWords = []string{
		"rocm/sgl-dev:sglang-0.5.9-rocm720-mi35x-mori-0227-2", "--model-path deepseek-ai/DeepSeek-R1-0528", "--host 0.0.0.0",
		"--trust-remote-code", "--disaggregation-transfer-backend mori", "--tp-size 8", "--kv-cache-dtype fp8_e4m3",
		"--attention-backend aiter", "--load-balance-method round_robin", "--watchdog-timeout 3600", "--log-level warning",
		"--decode-log-interval 1000", "SGLANG_USE_AITER=1", "MORI_IO_QP_MAX_SEND_WR=16384", "--device /dev/infiniband", "--device /dev/kfd",
	}
	inferencexSpread = []string{
		"--ep-size 8", "--dp-size 8", "--enable-dp-attention", "--moe-dense-tp-size 1", "--enable-dp-lm-head", "--moe-a2a-backend mori",
		"--deepep-mode normal", "--ep-dispatch-algorithm fake", "--max-running-requests 2048",
	}
	hopperWords = []string{
		"--tensor-parallel-size 1", "--data-parallel-size 16", "--data-parallel-hybrid-lb", "--enable-expert-parallel", "--max-model-len 16384",
		"--enable-dbo", "--dbo-decode-token-threshold 32", "--async-scheduling", "--enable-eplb", `"num_redundant_experts":32`,
		"--max-num-seqs 512",
		`"kv_connector":"NixlConnector","kv_role":"kv_both"`, "--data-parallel-size-local 8", "--data-parallel-start-rank 8",
		"VLLM_USE_DEEP_GEMM=1", "VLLM_SKIP_P2P_CHECK=1", "VLLM_RANDOMIZE_DP_DUMMY_INPUTS=1", "NVIDIA_GDRCOPY=enabled", "--device /dev/infiniband",
	}
)

func folder(name string) string {
	dir, _, _ := strings.Cut(name, " ")
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestNoneForgotten holds the table against the folder.
func TestNoneForgotten(t *testing.T) {
	var want, got []string
	entries, err := os.ReadDir(".")
	must(t, err)
	for _, e := range entries {
		if e.IsDir() && e.Name() != "testdata" {
			want = append(want, e.Name())
		}
	}
	for name := range examples {
		got = append(got, folder(name))
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Errorf("folders, and those that are tested (-want +got):\n%s", diff)
	}
}

// read loads a lab as a user does who runs hcl in its folder.
func read(t *testing.T, dir string, vars ...string) *hcl.Config {
	t.Helper()
	src, err := lang.Read(dir)
	must(t, err)
	cfg, problems := hcl.Load(src, lang.Vars{Values: vars})
	var b strings.Builder
	must(t, problems.Write(&b, 100, false))
	if b.Len() > 0 {
		t.Errorf("problems:\n%s", &b)
	}
	if cfg == nil {
		t.FailNow()
	}
	return cfg
}

func TestPlans(t *testing.T) {
	for name, want := range examples {
		t.Run(name, func(t *testing.T) {
			p := plan.New(read(t, folder(name), want.vars...), plan.Options{})
			loads, cells := map[string]int{}, map[string]int{}
			starts, total := 0, 0
			for _, d := range p.Deployments {
				if len(d.Members) > 0 || d.Engine.Manifests != nil {
					loads[d.Host.Name]++
					starts++
				}
				for _, c := range d.Cells {
					cells[c.Benchmark+" "+strings.TrimPrefix(d.Engine.Address(), "engine.")]++
					total++
				}
			}
			if diff := cmp.Diff(join(want.loads), loads); diff != "" {
				t.Errorf("deployments by host (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want.cells, cells); diff != "" {
				t.Errorf("cells by benchmark and engine (-want +got):\n%s", diff)
			}
			if want.starts > 0 {
				starts = want.starts
			}
			counts := p.Count()
			got := [3]int{counts.Hosts, counts.Starts, counts.Measure}
			if want := [3]int{want.hosts, starts, total}; got != want {
				t.Errorf("hosts, starts, cells to measure: %v, want %v", got, want)
			}
		})
	}
}

// commands are what a plan starts, by engine, and by role where an engine has several.
func commands(p *plan.Plan) (names []string, by map[string]string) {
	by = map[string]string{}
	for _, d := range p.Deployments {
		name := strings.TrimPrefix(d.Engine.Address(), "engine.")
		if len(d.Members) == 0 {
			names, by[name] = append(names, name), "served at "+engines.BaseURL(d.Engine)
			for _, o := range d.Engine.Manifests.Objects {
				by[name] += "\n" + o.String()
			}
		}
		for _, m := range d.Members {
			ct := m.Container
			ct.Name, ct.Labels = "", nil // what the lab does not say
			text, at := docker.Run(ct), name
			if m.Runtime == provision.Process {
				text = "process " + text
			}
			if b := d.Engine.Build; b != nil {
				text = strings.Join(b.Commands, "\n") + "\n-> " + b.Output + "\n" + text
			}
			if len(d.Members) > 1 {
				at, text = name+" "+m.Role, "on "+m.Host.Name+": "+text
			}
			if by[at] == "" {
				names = append(names, at)
			} else {
				text = by[at] + "\n" + text
			}
			by[at] = text
		}
	}
	return names, by
}

// TestCommands compares the commands behind every engine with the golden files,
// and looks in them for what the published tasks say.
func TestCommands(t *testing.T) {
	for name, want := range examples {
		t.Run(name, func(t *testing.T) {
			names, by := commands(plan.New(read(t, folder(name), want.vars...), plan.Options{}))
			var b strings.Builder
			for _, n := range names {
				if !strings.HasPrefix(n, "group.") {
					b.WriteString("engine.")
				}
				fmt.Fprintf(&b, "%s\n%s\n\n", n, by[n])
			}
			golden.Check(t, strings.ReplaceAll(name, " ", "-")+".golden", b.String())
			for engine, words := range want.words {
				// A command behind setup is quoted twice; who reads it sees through.
				by[engine] = strings.ReplaceAll(by[engine], `'\''`, `'`)
				for _, w := range words {
					absent := strings.HasPrefix(w, "!")
					w = strings.TrimPrefix(w, "!")
					if strings.Contains(by[engine], w) == absent {
						t.Errorf("engine.%s: %q is there: %v\n%s", engine, w, !absent, by[engine])
					}
				}
			}
			for engine := range by {
				if len(want.words) > 0 && want.words[engine] == nil {
					t.Errorf("engine.%s: nothing is said of the published task", engine)
				}
			}
		})
	}
}

// TestReferences holds published rows against the cells: each has one beside
// which it is printed.
func TestReferences(t *testing.T) {
	for name, want := range examples {
		t.Run(name, func(t *testing.T) {
			got := map[string]int{}
			for _, b := range read(t, folder(name), want.vars...).Benchmarks {
				for _, r := range b.References {
					if len(r.Rows) > 0 {
						got[b.Name] += len(r.Rows)
					}
					if !strings.HasPrefix(r.Source, "https://") {
						t.Errorf("%s: source %q is no address", b.Name, r.Source)
					}
					for i, row := range r.Rows {
						n := 0
						for _, c := range b.Cells {
							if belongs(row, c) {
								n++
							}
						}
						if left := len(want.vars) > 0 && n == 0; n != 1 && !left {
							t.Errorf("%s: row %d belongs to %d cells: %v", b.Name, i+1, n, row)
						}
					}
				}
			}
			if diff := cmp.Diff(join(want.published), got); diff != "" {
				t.Errorf("published rows by benchmark (-want +got):\n%s", diff)
			}
		})
	}
}

// belongs reports whether a row has the values of the cell in all columns that
// are named like axes.
func belongs(row map[string]any, c hcl.Cell) bool {
	for _, a := range c.Axes {
		if v, ok := row[a.Name]; ok && fmt.Sprint(v) != fmt.Sprint(a.Value) {
			return false
		}
	}
	return true
}

// named is how a README names a block of the lab beside it.
var named = regexp.MustCompile("`((?:lab|variable|host|model|engine|group|dataset|benchmark)(?: \"[^\"]+\")+)")

// TestReadmes looks for the blocks that a README names in the lab beside it.
func TestReadmes(t *testing.T) {
	for name := range examples {
		dir := folder(name)
		readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
		must(t, err)
		src, err := lang.Read(dir)
		must(t, err)
		lab := bytes.Join(slices.Collect(maps.Values(src.Files)), nil)
		for _, m := range named.FindAllStringSubmatch(string(readme), -1) {
			if !bytes.Contains(lab, []byte("\n"+m[1]+" ")) {
				t.Errorf("%s/README.md names %s, which the lab has not", dir, m[1])
			}
		}
	}
}

// TestPublished counts the published figures and looks for those that the studies
// put into words.
func TestPublished(t *testing.T) {
	tests := []struct {
		file    string
		rows    int
		columns int
		figures []string
	}{
		{"dstack-deepseek-r1/published/online.csv", 54, 34, []string{"3658.953291", "914.7383228", "3340.798888", "835.199722"}},
		{"dstack-deepseek-r1/published/offline.csv", 63, 11, []string{"6311.04026", "5459.50064"}},
		{"gpustack-h200/published/results.csv", 15, 22, []string{"5482.59", "6635.73", "3385.88", "7143.30", "20448.42", "2217.12"}},
		{"skypilot-vllm-benchmark/published/results.csv", 5, 4, []string{"1124.66", "971.49", "1323.74", "836.45"}},
		{"moreh-mi300x-cluster/published/results.csv", 7, 28, []string{"66194.80", "50892.65", "53776.62"}},
		{"moreh-mif/published/results.csv", 7, 28, []string{"66194.80", "50892.65", "53776.62"}},
	}
	files, err := filepath.Glob("*/published/*")
	if err != nil || len(files) != len(tests) {
		t.Errorf("%d published files are tested, and there are %q (%v)", len(tests), files, err)
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			text, err := os.ReadFile(tt.file)
			must(t, err)
			if strings.HasPrefix(string(text), "\ufeff") {
				t.Error("the file begins with a byte order mark")
			}
			rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll() // which refuses rows of other lengths
			must(t, err)
			if got := [2]int{len(rows) - 1, len(rows[0])}; got != [2]int{tt.rows, tt.columns} {
				t.Errorf("%v rows and columns, want %v", got, [2]int{tt.rows, tt.columns})
			}
			if slices.Contains(rows[0], "") {
				t.Errorf("a column has no name: %q", rows[0])
			}
			for _, f := range tt.figures {
				if !slices.ContainsFunc(rows, func(row []string) bool { return slices.Contains(row, f) }) {
					t.Errorf("the figure %s is not there", f)
				}
			}
		})
	}
}

// TestGPUStackTuned: where the candidates of the study are as fast as its stand-ins are, which play what it has published, the tuning goes the
// study's way and ends at its answer.
func TestGPUStackTuned(t *testing.T) {
	cfg := read(t, "gpustack-h200")
	p, err := plan.Rehearse(cfg, 1, plan.Here{Free: func(int) bool { return true }, There: func(string) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	x := p.Tunes[0]
	x.Begin(func() uint64 { return 7 })
	var path []string
	for range 50 {
		search, err := x.Search()
		if err != nil {
			t.Fatal(err)
		}
		start, more := search.Next()
		if !more {
			break
		}
		d, err := x.Deployment(start)
		if err != nil {
			t.Fatal(err)
		}
		pace := 1.0
		if text, ok := d.Engine.Flag("speed"); ok {
			if pace, err = strconv.ParseFloat(text, 64); err != nil {
				t.Fatal(err)
			}
		}
		path = append(path, start.Candidate.Settings())
		x.Ledger.Starts = append(x.Ledger.Starts, results.Tried{Start: start, Deployment: d.ID,
			Result: &tune.Result{Outcome: tune.Measured, Score: tune.Score{Value: 5482.59 * pace * (1 + 0.004*float64(start.Number%3))}}})
	}
	want := []string{"as it is", "as it is", "sglang.baseline", "trtllm.baseline", "sglang.baseline, enable-dp-attention",
		"sglang.baseline, enable-dp-attention, enable-torch-compile", "sglang.baseline, enable-torch-compile"}
	if diff := cmp.Diff(want, path[:min(len(want), len(path))]); diff != "" {
		t.Errorf("the way (-want +got):\n%s", diff)
	}
	search, err := x.Search()
	if err != nil {
		t.Fatal(err)
	}
	a := search.Answer()
	if a.Winner == nil || a.Winner.Candidate.Settings() != "sglang.baseline, enable-dp-attention" {
		t.Fatalf("after %v the answer is %+v", path, a)
	}
	if g := search.Gain(a.Winner); math.Abs(g.Value-7143.30/5482.59) > 0.02 {
		t.Errorf("its gain is %+v", g)
	}
}
