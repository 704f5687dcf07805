# The most output tokens a second that a cluster of five 8xMI300X servers gives
# with DeepSeek-R1, two of them for prefill and three for decode: Moreh's study,
# as a lab. The cluster is brought up over SSH with open parts: vLLM, NIXL and
# vLLM's router. README.md says which published line became which, and what stands
# in for what.
#
# Write your servers into lab.hclvars, and fetch the texts once:
#
#     wget https://huggingface.co/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered/resolve/main/ShareGPT_V3_unfiltered_cleaned_split.json
#     wget https://huggingface.co/deepseek-ai/DeepSeek-R1/resolve/main/tokenizer.json
#     and Project Gutenberg's books as plain text, into the folder project_gutenberg

lab "moreh-mi300x-cluster" {
  description  = "DeepSeek-R1 on 40 MI300X, prefill and decode apart (Moreh)"
  max_duration = "8h"
}

variable "nodes" {
  type        = map(string)
  description = "The five servers: name and address"
}

variable "user" {
  type        = string
  description = "Who to log in as"
  default     = "ubuntu"
}

variable "sharegpt" {
  type        = string
  description = "File of ShareGPT conversations"
  default     = "ShareGPT_V3_unfiltered_cleaned_split.json"
}

variable "gutenberg" {
  type        = string
  description = "Folder of Project Gutenberg's books as plain text"
  default     = "project_gutenberg"
}

variable "tokenizer" {
  type        = string
  description = "The model's tokenizer.json, by which prompts are cut to length"
  default     = "tokenizer.json"
}

variable "share" {
  type        = number
  description = "Of the published load, its length and width: 1 is all, less is for a try"
  default     = 1

  validation {
    condition     = var.share > 0 && var.share <= 1
    error_message = "The share is above 0, and at most 1."
  }
}

host "node" {
  for_each = var.nodes
  address  = each.value
  user     = var.user
  gpus     = "8xMI300X"
  # The network between the servers is found out on them. To choose it:
  # fabric {
  #   interface = "eno1"
  #   rdma      = ["mlx5_0"]
  # }
}

model "r1" {
  repo     = "deepseek-ai/DeepSeek-R1"
  cache    = "/data/huggingface" # on each server
  size     = "689GB"
  download = true # fetched on all five before the first rank starts
}

# What prefill and decode have in common. No host: a group says where.
engine "vllm" "half" {
  model = model.r1
  image = "vllm/vllm-openai-rocm:v0.21.0"
  env = {
    NCCL_IB_PCI_RELAXED_ORDERING    = "1"
    NCCL_MIN_NCHANNELS              = "112"
    NCCL_NET_GDR_LEVEL              = "3"
    UCX_IB_PCI_RELAXED_ORDERING     = "on"
    UCX_TLS                         = "rocm_copy,rocm_ipc,self,sm,rc_x"
    VLLM_ENGINE_READY_TIMEOUT_S     = "3600"
    VLLM_HTTP_TIMEOUT_KEEP_ALIVE    = "1000000000"
    VLLM_LOG_STATS_INTERVAL         = "10"
    VLLM_NIXL_ABORT_REQUEST_TIMEOUT = "1000000000"
    VLLM_RANDOMIZE_DP_DUMMY_INPUTS  = "1"
    VLLM_ROCM_USE_AITER             = "1"
    VLLM_ROCM_USE_AITER_FP8BMM      = "0"
  }
  flags = {
    trust-remote-code          = true
    tensor-parallel-size       = 1
    data-parallel-size         = 8 # on one server, which all its experts share
    enable-expert-parallel     = true
    no-enable-prefix-caching   = true
    no-enable-chunked-prefill  = true
    enforce-eager              = true
    max-model-len              = 8192
    max-num-seqs               = 2048
    kv-cache-dtype             = "fp8_e4m3"
    block-size                 = 16
    gpu-memory-utilization     = 0.92
    disable-uvicorn-access-log = true
    no-enable-log-requests     = true
  }
}

engine "vllm" "prefill" {
  inherits = engine.vllm.half
  env = {
    VLLM_V1_OUTPUT_PROC_CHUNK_SIZE = "128"
  }
  flags = {
    all2all-backend        = "mori_high_throughput"
    max-num-batched-tokens = 64000
  }
}

engine "vllm" "decode" {
  inherits = engine.vllm.half
  env = {
    VLLM_V1_OUTPUT_PROC_CHUNK_SIZE = "512"
  }
  flags = {
    all2all-backend        = "mori_low_latency"
    max-num-batched-tokens = 16384
  }
}

# The fixed set of prompts is measured with the prefix cache on.
engine "vllm" "prefill-cached" {
  inherits = engine.vllm.prefill
  flags    = { no-enable-prefix-caching = null, enable-prefix-caching = true }
}

engine "vllm" "decode-cached" {
  inherits = engine.vllm.decode
  flags    = { no-enable-prefix-caching = null, enable-prefix-caching = true }
}

locals {
  nodes = values(host.node)
}

# Measured as one: two servers read prompts and hand their KV cache to three that
# generate; the router sends each request to one of both.
group "pd" {
  role "prefill" {
    engine = engine.vllm.prefill
    on     = slice(local.nodes, 0, 2)
  }
  role "decode" {
    engine = engine.vllm.decode
    on     = slice(local.nodes, 2, 5)
  }
  router "vllm" {
    host  = local.nodes[0]
    image = "vllm/vllm-router:nightly" # old ones are removed: keep a copy, and hcl lock
    flags = { policy = "power_of_two" }
  }
  transfer = "nixl" # "mori" is AMD's own way
}

group "cached" {
  inherits = group.pd
  role "prefill" { engine = engine.vllm.prefill-cached }
  role "decode" { engine = engine.vllm.decode-cached }
}
