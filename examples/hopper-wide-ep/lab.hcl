# DeepSeek-R1 on four 8xH200 servers, its experts spread over the 16 GPUs of two
# servers for prefill, and over those of two others for decode: a recipe of
# NVIDIA's Dynamo, with vLLM's own server and router. README.md says which
# published line became which. Write your servers into lab.hclvars.

lab "hopper-wide-ep" {
  description  = "DeepSeek-R1 on 32 H200, wide expert parallelism, prefill and decode apart (Dynamo)"
  max_duration = "8h"
}

variable "nodes" {
  type        = map(string)
  description = "The four servers: name and address"
}

variable "user" {
  type        = string
  description = "Who to log in as"
  default     = "ubuntu"
}

host "node" {
  for_each = var.nodes
  address  = each.value
  user     = var.user
  gpus     = "8xH200"
}

model "r1" {
  repo     = "deepseek-ai/DeepSeek-R1"
  cache    = "/data/huggingface" # on each server
  size     = "689GB"
  download = true
}

# What prefill and decode have in common. No host: a group says where.
engine "vllm" "wide" {
  model = model.r1
  image = "vllm/vllm-openai:v0.14.0"
  env = {
    NVIDIA_GDRCOPY                 = "enabled"
    VLLM_ENGINE_READY_TIMEOUT_S    = "3600"
    VLLM_RANDOMIZE_DP_DUMMY_INPUTS = "1"
    VLLM_SKIP_P2P_CHECK            = "1"
    VLLM_USE_DEEP_GEMM             = "1"
  }
  flags = {
    tensor-parallel-size       = 1
    data-parallel-size         = 16   # one rank on each GPU of an instance
    data-parallel-hybrid-lb    = true # each server answers for its own eight
    enable-expert-parallel     = true
    max-model-len              = 16384
    max-num-seqs               = 512
    async-scheduling           = true
    enable-dbo                 = true
    dbo-decode-token-threshold = 32
    enable-eplb                = true
    eplb-config = {
      window_size           = 1000
      step_interval         = 3000
      num_redundant_experts = 32
      log_balancedness      = false
    }
  }
}

engine "vllm" "prefill" {
  inherits = engine.vllm.wide
  flags    = { all2all-backend = "deepep_high_throughput" }
}

engine "vllm" "decode" {
  inherits = engine.vllm.wide
  env      = { VLLM_MOE_DP_CHUNK_SIZE = "384" }
  flags = {
    all2all-backend = "deepep_low_latency"
    compilation-config = {
      pass_config    = { fuse_norm_quant = true, eliminate_noops = true }
      cudagraph_mode = "FULL_DECODE_ONLY"
    }
  }
}

locals {
  nodes = values(host.node)
}

group "pd" {
  role "prefill" {
    engine = engine.vllm.prefill
    on     = slice(local.nodes, 0, 2)
    span   = 2 # one instance over two servers
  }
  role "decode" {
    engine = engine.vllm.decode
    on     = slice(local.nodes, 2, 4)
    span   = 2
  }
  router "vllm" {
    host  = local.nodes[0]
    image = "vllm/vllm-router:nightly" # old ones are removed: keep a copy, and hcl lock
    flags = { policy = "power_of_two" }
  }
  transfer = "nixl"
}

dataset "random" "isl8192" {
  input_tokens = 8192
}

benchmark "throughput" {
  matrix { concurrency = [256, 512, 1024, 2048] }

  engine   = group.pd
  dataset  = dataset.random.isl8192
  requests = 10 * matrix.concurrency

  load {
    concurrency     = matrix.concurrency
    output_tokens   = 1024
    warmup_requests = 2 * matrix.concurrency
  }
}
