package engines

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hclbench/provision"
)

// flagNames are the flags that versions of the engines' servers have, or had, with
// dashes: vLLM from 0.6 to 0.11 (its engine arguments and those of its server), SGLang
// from 0.4 to 0.5 (server_args.py), TensorRT-LLM from 0.17 to 1.2 (trtllm-serve). They
// tell a slip from a flag; one that is not here may be newer than this list.
var flagNames = map[string]string{
	VLLM: `
additional-config all2all-backend allow-credentials allow-deprecated-quantization allowed-headers allowed-local-media-path
allowed-media-domains allowed-methods allowed-origins api-key api-server-count async-engine async-scheduling attention-backend
attention-config block-size calculate-kv-scales chat-template chat-template-content-format chat-template-text-format
code-revision collect-detailed-traces compilation-config config config-format convert cp-kv-cache-interleave-size
cpu-offload-gb cudagraph-capture-sizes data-parallel-address data-parallel-backend data-parallel-external-lb
data-parallel-hybrid-lb data-parallel-rank data-parallel-rpc-port data-parallel-size data-parallel-size-local
data-parallel-start-rank dbo-decode-token-threshold dbo-prefill-token-threshold dcp-kv-cache-interleave-size
decode-context-parallel-size device disable-async-output-proc disable-cascade-attn disable-chunked-mm-input
disable-custom-all-reduce disable-fastapi-docs disable-frontend-multiprocessing disable-hybrid-kv-cache-manager
disable-log-requests disable-log-stats disable-logprobs-during-spec-decoding disable-mm-preprocessor-cache
disable-nccl-for-dp-synchronization disable-sliding-window disable-uvicorn-access-log distributed-executor-backend
download-dir dtype enable-auto-tool-choice enable-chunked-prefill enable-dbo enable-eplb enable-expert-parallel
enable-force-include-usage enable-log-outputs enable-log-requests enable-lora enable-lora-bias enable-mm-embeds
enable-multimodal-encoder-data-parallel enable-prefix-caching enable-prompt-adapter enable-prompt-embeds
enable-prompt-tokens-details enable-reasoning enable-request-id-headers enable-return-routed-experts
enable-server-load-tracking enable-sleep-mode enable-ssl-refresh enable-tokenizer-info-endpoint enforce-eager
eplb-config ep-size exclude-tools-when-tool-choice-none expert-placement-strategy fully-sharded-loras generation-config
gpu-memory-utilization grpc guided-decoding-backend guided-decoding-disable-additional-properties
guided-decoding-disable-any-whitespace guided-decoding-disable-fallback h11-max-header-count
h11-max-incomplete-event-size headless hf-config-path hf-overrides hf-token host ignore-patterns
interleave-mm-strings io-processor-plugin json-logger kv-cache-dtype kv-cache-memory-bytes kv-events-config
kv-offloading-backend kv-offloading-size kv-sharing-fast-prefill kv-transfer-config language-model-only limit-mm-per-prompt
load-format log-config-file log-error-stack logits-processor-pattern logits-processors logprobs-mode long-lora-scaling-factors
long-prefill-token-threshold lora-dtype lora-extra-vocab-size lora-modules mamba-block-size mamba-cache-dtype
mamba-cache-mode mamba-ssm-cache-dtype master-addr master-port max-cpu-loras max-cudagraph-capture-size max-log-len
max-logprobs max-long-partial-prefills max-lora-rank max-loras max-model-len max-num-batched-tokens max-num-partial-prefills
max-num-seqs max-parallel-loading-workers max-prompt-adapter-token max-prompt-adapters max-seq-len-to-capture
media-io-kwargs middleware mm-encoder-attn-backend mm-encoder-only mm-encoder-tp-mode mm-processor-cache-gb
mm-processor-cache-type mm-processor-kwargs mm-shm-cache-max-object-size-mb model model-class-overrides model-impl
model-loader-extra-config multi-step-stream-outputs ngram-prompt-lookup-max ngram-prompt-lookup-min nnodes node-rank
num-gpu-blocks-override num-lookahead-slots num-redundant-experts num-scheduler-steps num-speculative-tokens
observability-config optimization-level otlp-traces-endpoint override-attention-dtype override-generation-config
override-neuron-config override-pooler-config pipeline-parallel-size pooler-config port preemption-mode
prefill-context-parallel-size prefix-caching-hash-algo profiler-config prompt-adapters pt-load-map-location
quantization quantization-param-path ray-workers-use-nsight reasoning-parser reasoning-parser-plugin response-role
return-tokens-as-token-ids revision root-path rope-scaling rope-theta runner runner-type safetensors-load-strategy
scheduler-cls scheduler-delay-factor scheduling-policy seed served-model-name show-hidden-metrics-for-version
skip-mm-profiling skip-tokenizer-init spec-decoding-acceptance-method speculative-config
speculative-disable-by-batch-size speculative-disable-mqa-scorer speculative-draft-tensor-parallel-size
speculative-max-model-len speculative-model speculative-model-quantization ssl-ca-certs ssl-cert-reqs ssl-certfile
ssl-keyfile stream-interval structured-outputs-config swap-space task tensor-parallel-size tokenizer tokenizer-mode
tokenizer-pool-extra-config tokenizer-pool-size tokenizer-pool-type tokenizer-revision tokens-only tool-call-parser
tool-parser-plugin tool-server trust-remote-code typical-acceptance-sampler-posterior-alpha
typical-acceptance-sampler-posterior-threshold uds ubatch-size use-tqdm-on-load use-v2-block-manager uvicorn-log-level
video-pruning-rate worker-cls worker-extension-cls`,
	SGLang: `
abort-on-priority-when-disabled additional-ports allow-auto-truncate api-key attention-backend attn-cp-size attn-tp-size
base-gpu-id bucket-e2e-request-latency bucket-inter-token-latency bucket-time-to-first-token chat-template
chunked-prefill-size collect-tokens-histogram completion-template config constrained-json-disable-any-whitespace
constrained-json-whitespace-pattern context-length cpu-offload-gb crash-dump-folder cuda-graph-bs cuda-graph-max-bs
data-parallel-size debug-cuda-graph debug-tensor-dump-inject debug-tensor-dump-input-file
debug-tensor-dump-output-folder debug-tensor-dump-prefill-only decode-attention-backend decode-log-interval
decrypted-config-file decrypted-draft-config-file deepep-config deepep-mode delete-ckpt-after-loading
deterministic-mode device disable-chunked-prefix-cache disable-cuda-graph disable-cuda-graph-padding
disable-custom-all-reduce disable-disk-cache disable-fast-image-processor disable-flashinfer
disable-flashinfer-autotune disable-flashinfer-cutlass-moe-fp4-allgather disable-flashinfer-sampling
disable-hybrid-swa-memory disable-jump-forward disable-mla disable-mla-fusion disable-nan-detection
disable-outlines-disk-cache disable-overlap-cg-plan disable-overlap-schedule disable-radix-cache disable-regex-jump-forward
disable-shared-experts-fusion disable-tokenizer-batch-decode disaggregation-bootstrap-port disaggregation-decode-dp
disaggregation-decode-enable-offload-kvcache disaggregation-decode-polling-interval disaggregation-decode-tp
disaggregation-ib-device disaggregation-mode disaggregation-prefill-pp disaggregation-transfer-backend dist-init-addr
dist-timeout download-dir dp dp-size draft-attention-backend ds-channel-config-path ds-heavy-channel-num
ds-heavy-channel-type ds-heavy-token-num ds-sparse-decode-threshold dtype dynamic-batch-tokenizer-batch-size
dynamic-batch-tokenizer-batch-timeout elastic-ep-backend elastic-ep-rejoin enable-aiter-allreduce-fusion
enable-ascend-ep-prefill-moe enable-broadcast-mm-inputs-process enable-cache-report enable-custom-logit-processor
enable-cudagraph-gc enable-deepep-moe enable-deterministic-inference enable-double-sparsity enable-dp-attention
enable-dp-lm-head enable-dynamic-batch-tokenizer enable-dynamic-chunking enable-ep-moe enable-eplb
enable-expert-distribution-metrics enable-flashinfer-allreduce-fusion enable-flashinfer-cutlass-moe
enable-flashinfer-mla enable-flashinfer-mxfp4-moe enable-flashinfer-trtllm-moe enable-flashmla enable-fp32-lm-head
enable-hierarchical-cache enable-hip-attention enable-layerwise-nvtx-marker enable-llama4-multimodal enable-lmcache
enable-lora enable-lora-overlap-loading enable-memory-saver enable-metrics enable-metrics-for-all-schedulers enable-mixed-chunk enable-mla
enable-mm-global-cache enable-mscclpp enable-multimodal enable-nan-detection enable-nccl-nvls enable-nsa-prefill-context-parallel
enable-overlap-schedule enable-p2p-check enable-pdmux enable-piecewise-cuda-graph enable-precise-embedding-interpolation
enable-prefill-delayer enable-prefix-mm-cache enable-priority-scheduling enable-profile-cuda-graph
enable-request-time-stats-logging enable-return-hidden-states enable-return-routed-experts enable-single-batch-overlap
enable-symm-mem enable-tf32-matmul enable-tokenizer-batch-encode enable-tokenizer-pools enable-torch-compile
enable-torch-compile-debug-mode enable-torch-symm-mem enable-trace enable-triton-kernel-moe enable-two-batch-overlap
enable-unified-memory enable-weights-cpu-backup encoder-only encoder-transfer-backend encoder-urls ep ep-dispatch-algorithm
ep-num-redundant-experts ep-size eplb-algorithm eplb-min-rebalancing-utilization-threshold eplb-rebalance-layers-per-chunk
eplb-rebalance-num-iterations expert-distribution-recorder-buffer-size expert-distribution-recorder-mode expert-parallel-size
export-metrics-to-file export-metrics-to-file-dir fastapi-root-path file-storage-path file-storage-pth
flashinfer-mla-disable-ragged flashinfer-mxfp4-moe-precision fp4-gemm-backend fp8-gemm-backend gc-threshold gc-warning-threshold-secs gpu-id-step
grammar-backend grpc-mode hf-chat-template-name hicache-io-backend hicache-mem-layout hicache-ratio hicache-size
hicache-storage-backend hicache-storage-backend-extra-config hicache-storage-prefetch-policy hicache-write-policy
hip-attention-config hooks host hybrid-kvcache-ratio init-expert-location is-embedding json-model-override-args
kt-cpuinfer kt-max-deferred-experts-per-token kt-method kt-num-gpu-experts kt-threadpool-count kt-weight-path
kv-cache-dtype kv-events-config language-only limit-mm-data-per-request linear-attn-backend load-balance-method load-format load-watch-interval
log-level log-level-http log-requests log-requests-format log-requests-level log-requests-target lora-backend lora-eviction-policy lora-paths
lora-target-modules mamba-backend mamba-full-memory-ratio mamba-ssm-dtype mamba-track-interval max-loaded-loras max-lora-chunk-size max-lora-rank
max-loras-per-batch max-mamba-cache-size max-micro-batch-size max-prefill-tokens max-queued-requests max-running-requests
max-total-tokens mem-fraction-static min-free-slots-delayer-num mm-attention-backend mm-enable-dp-encoder
mm-max-concurrent-calls mm-per-request-timeout mm-process-config model model-checksum model-config-parser model-impl
model-loader-extra-config model-path modelopt-checkpoint-restore-path modelopt-checkpoint-save-path
modelopt-export-path modelopt-quant moe-a2a-backend moe-data-parallel-size moe-dense-tp-size moe-dp-size moe-runner-backend
multi-item-scoring-delimiter nccl-init-addr nccl-port nnodes node-rank nsa-decode-backend nsa-prefill-backend
nsa-prefill-cp-mode num-continuous-decode-steps num-reserved-decode-tokens numa-node offload-group-size offload-mode
offload-num-in-group offload-prefetch-step oltp-traces-endpoint otlp-traces-endpoint page-size pdmux-config-path
piecewise-cuda-graph-compiler piecewise-cuda-graph-max-tokens piecewise-cuda-graph-tokens pipeline-parallel-size port pp
pp-async-batch-depth pp-max-micro-batch-size pp-size preferred-sampling-params prefill-attention-backend prefill-delayer-max-delay-passes
prefill-max-requests prefill-round-robin-balance priority-scheduling-preemption-threshold quantization
quantization-param-path quantize-and-serve radix-eviction-policy random-seed reasoning-parser
remote-instance-weight-loader-backend remote-instance-weight-loader-seed-instance-ip
remote-instance-weight-loader-seed-instance-service-port remote-instance-weight-loader-send-weights-group-ports
remote-instance-weight-loader-support-transfer-engine return-hidden-states revision rl-on-policy-target sampling-backend
sampling-defaults schedule-conservativeness schedule-low-priority-values-first schedule-policy scheduler-recv-interval
served-model-name show-time-cost skip-server-warmup skip-tokenizer-init sleep-on-idle sm-group-num
speculative-accept-threshold-acc speculative-accept-threshold-single speculative-adaptive speculative-algo speculative-algorithm
speculative-attention-backend speculative-attention-mode speculative-draft-attention-backend speculative-draft-load-format
speculative-draft-model-path speculative-draft-model-quantization speculative-draft-model-revision
speculative-draft-window-size speculative-eagle-topk speculative-moe-a2a-backend speculative-moe-runner-backend speculative-ngram-branch-length
speculative-ngram-capacity speculative-ngram-match-type speculative-ngram-max-bfs-breadth
speculative-ngram-max-match-window-size speculative-ngram-min-bfs-breadth speculative-ngram-min-match-window-size
speculative-num-draft-tokens speculative-num-steps speculative-token-map ssl-ca-certs ssl-certfile ssl-keyfile ssl-keyfile-password stream-interval stream-output
strict-ep-checks swa-full-tokens-ratio tbo-token-distribution-threshold tensor-parallel-size tokenizer-metrics-allowed-custom-labels
tokenizer-metrics-allowed-customer-labels tokenizer-metrics-custom-labels-header tokenizer-mode tokenizer-path
tokenizer-worker-num tool-call-parser tool-server torch-compile-max-bs torchao-config tp tp-size trace-level
triton-attention-num-kv-splits triton-attention-reduce-in-fp32 triton-attention-split-tile-size trust-remote-code
uvicorn-access-log-exclude-prefixes vlm-cache-size-mb warmups watchdog-timeout soft-watchdog-timeout weight-loader-disable-mmap
weight-version`,
	TRTLLM: `
allow-request-chat-template backend chat-template cluster-size config context-parallel-size cp-size custom-module-dirs
custom-tokenizer disagg-cluster-uri enable-chunked-prefill ep-size extra-encoder-options extra-llm-api-options
fail-fast-on-attention-window-too-large free-gpu-memory-fraction gpus-per-node grpc host kv-cache-dtype
kv-cache-free-gpu-memory-fraction log-level max-batch-size max-beam-width max-num-tokens max-seq-len media-io-kwargs
metadata-server-config-file moe-cluster-parallel-size moe-expert-parallel-size num-postprocess-workers
otlp-traces-endpoint pipeline-parallel-size port pp-size reasoning-parser revision server-role served-model-name
tensor-parallel-size telemetry tokenizer tool-parser tp-size trust-remote-code video-pruning-rate`,
}

// synonyms are flags that mean the same to several engines, each by its own name.
var synonyms = []map[string]string{
	{VLLM: "tensor-parallel-size", SGLang: "tp", TRTLLM: "tp_size"},
	{VLLM: "pipeline-parallel-size", SGLang: "pp", TRTLLM: "pp_size"},
	{VLLM: "data-parallel-size", SGLang: "dp"},
	{VLLM: "enable-expert-parallel", SGLang: "ep", TRTLLM: "ep_size"},
	{VLLM: "max-model-len", SGLang: "context-length", TRTLLM: "max_seq_len"},
	{VLLM: "max-num-seqs", SGLang: "max-running-requests", TRTLLM: "max_batch_size"},
	{VLLM: "max-num-batched-tokens", SGLang: "chunked-prefill-size", TRTLLM: "max_num_tokens"},
	{VLLM: "gpu-memory-utilization", SGLang: "mem-fraction-static", TRTLLM: "kv_cache_free_gpu_memory_fraction"},
	{VLLM: "no-enable-prefix-caching", SGLang: "disable-radix-cache"},
	{VLLM: "enforce-eager", SGLang: "disable-cuda-graph"},
	{VLLM: "seed", SGLang: "random-seed"},
}

// KnownFlags are the flags that some version of an engine kind has, with dashes; nil: hcl
// knows none of them.
func KnownFlags(kind string) []string { return strings.Fields(flagNames[kind]) }

// dashed is a flag as the tables have it: vLLM's may say a member after a dot.
func dashed(name string) string {
	name, _, _ = strings.Cut(strings.ReplaceAll(strings.ToLower(name), "_", "-"), ".")
	return name
}

// IsKnownFlag reports whether some version of an engine kind may have a flag. Python's
// tools take what begins only one of them for that one, and "no-" before a flag turns it
// off.
func IsKnownFlag(kind, name string) bool {
	name = dashed(name)
	known := KnownFlags(kind)
	if len(known) == 0 || slices.Contains(known, name) || slices.Contains(known, strings.TrimPrefix(name, "no-")) {
		return true
	}
	begun := 0
	for _, k := range known {
		if strings.HasPrefix(k, name) && len(name) > 3 {
			begun++
		}
	}
	return kind != TRTLLM && begun > 0
}

// FlagElsewhere says whose a flag is that an engine kind does not have, and what this
// kind calls it; empty: nobody's that hcl knows, or without a name here.
func FlagElsewhere(kind, name string) (other, here string) {
	name = dashed(name)
	for _, other := range []string{VLLM, SGLang, TRTLLM} {
		for _, meaning := range synonyms {
			same := dashed(meaning[other]) == name || other != VLLM && len(name) > 1 && dashed(meaning[other]) == name+"-size"
			if other != kind && same && meaning[kind] != "" {
				return other, meaning[kind]
			}
		}
	}
	return "", ""
}

// gpuCounts and memoryShares are flags whose values every version reads alike: a whole number of
// at least 1, and a share of one.
var (
	gpuCounts    = []string{"tensor-parallel-size", "tp", "tp-size", "pipeline-parallel-size", "pp", "pp-size", "data-parallel-size", "dp", "dp-size", "ep", "ep-size", "expert-parallel-size"}
	memoryShares = []string{"gpu-memory-utilization", "mem-fraction-static", "kv-cache-free-gpu-memory-fraction", "free-gpu-memory-fraction"}
)

// checkFlags holds the values of well-known flags against what they can be.
func checkFlags(e *Engine, errs *[]FieldError) {
	if len(KnownFlags(e.Kind)) == 0 || e.Command != nil {
		return
	}
	add := func(f Flag, format string, args ...any) {
		*errs = append(*errs, FieldError{Field: "flags", Key: f.Name, Detail: fmt.Sprintf(format, args...)})
	}
	for _, f := range e.Flags {
		if f.Value != nil && f.Value.IsSecret() {
			continue
		}
		value := provision.Text{}
		if f.Value != nil {
			value = *f.Value
		}
		name := dashed(f.Name)
		switch {
		case slices.Contains(gpuCounts, name):
			if n, err := strconv.Atoi(value.Reveal()); err != nil || n < 1 {
				add(f, "The flag %s is a number of GPUs, a whole number of at least 1, and not %q.", f.Name, value)
			}
		case slices.Contains(memoryShares, name):
			if x, err := strconv.ParseFloat(value.Reveal(), 64); err != nil || !(x > 0 && x <= 1) {
				add(f, "The flag %s is a share of the GPUs' memory, above 0 and at most 1, such as 0.9, and not %q.", f.Name, value)
			}
		}
	}
}

// checkKeys finds a server that asks for a key which nobody sends it: it would refuse
// every request, also those that find out whether it is ready.
func checkKeys(e *Engine, errs *[]FieldError) {
	if e.Kind != VLLM && e.Kind != SGLang || e.Command != nil || e.APIKey.Reveal() != "" {
		return
	}
	const detail = "The server asks for this key, and hcl sends none: it would refuse every request. Say it for the requests as well, for example:\n\n    api_key = var.key"
	if _, asks := e.Flag("api-key", "api_key"); asks {
		field, key := "flags", "api-key"
		if _, set := e.configured([]string{"api-key", "api_key"}); set {
			field, key = "config", ""
		}
		*errs = append(*errs, FieldError{Field: field, Key: key, Detail: detail})
	} else if i := slices.IndexFunc(e.Env, func(v provision.EnvVar) bool { return v.Name == "VLLM_API_KEY" }); i >= 0 && e.Kind == VLLM && e.Env[i].Value.Reveal() != "" {
		*errs = append(*errs, FieldError{Field: "env", Key: "VLLM_API_KEY", Detail: detail})
	}
}

// Doubts are what hardly works, or does not do what it seems to; none of it is certain.
func Doubts(e *Engine) []FieldError {
	var found []FieldError
	add := func(field, format string, args ...any) {
		found = append(found, FieldError{Field: field, Detail: fmt.Sprintf(format, args...)})
	}
	if e.Command != nil && e.Kind != External && len(e.Flags) > 0 {
		add("flags", "The lab gives the whole command of the server, so its flags are in it: those in flags are not passed on. Put them into command, or remove one of the two.")
	}
	if other := imageOf(e); other != "" && e.Command == nil {
		add("image", "The image %s is of kind %q by its name, and this engine is of kind %q: its command would not be there.", e.Image, other, e.Kind)
	}
	if e.Kind == TRTLLM && e.Build == nil && e.Model != nil && e.Model.Revision != "" && e.Command == nil {
		if _, said := e.Flag("revision"); !said {
			add("model", "TensorRT-LLM takes the repository's default branch: not all of its versions have a flag for a revision, so hcl gives none. Where yours has it, say it in flags = { revision = %q }; else serve a directory of the host that holds that revision.", e.Model.Revision)
		}
	}
	if e.Host != nil && e.Host.GPUs.Count > 0 && e.Command == nil && len(KnownFlags(e.Kind)) > 0 {
		there := e.Host.GPUs.Count
		if n := len(e.Container.GPUIDs); n > 0 {
			there = n
		}
		if need := GPUs(e); need > 0 && need < there && there%need != 0 {
			add("flags", "The flags ask for %d of %d GPUs (tensor × pipeline × data parallel), which do not divide them evenly. Models are rarely made for such a number.", need, there)
		}
	}
	if e.Port > 0 && e.Port < 1024 && e.Kind != External {
		add("port", "Ports below 1024 are for root, and often taken: 22 is SSH's. Write one above, such as 8000.")
	}
	return found
}

// families are words in the names of images that tell the engine in them.
var families = map[string][]string{VLLM: {"vllm"}, SGLang: {"sglang", "sgl-"}, TRTLLM: {"tensorrt-llm", "tensorrt_llm", "trtllm", "tritonserver"}}

// imageOf is the kind that an engine's image is of by its name, where that is another
// than the engine's.
func imageOf(e *Engine) string {
	if families[e.Kind] == nil {
		return ""
	}
	image := strings.ToLower(e.Image)
	named := func(kind string) bool {
		return slices.ContainsFunc(families[kind], func(word string) bool { return strings.Contains(image, word) })
	}
	if named(e.Kind) {
		return ""
	}
	for _, kind := range []string{VLLM, SGLang, TRTLLM} {
		if named(kind) {
			return kind
		}
	}
	return ""
}
