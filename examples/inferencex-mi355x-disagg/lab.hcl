# DeepSeek-R1 in FP8 on three 8xMI355X servers, prefill and decode apart: the two
# ends of InferenceX's curve for SGLang with MoRI. README.md says which published
# line became which. Write your servers into lab.hclvars.

lab "inferencex-mi355x-disagg" {
  description  = "DeepSeek-R1 on 24 MI355X, prefill and decode apart (InferenceX)"
  max_duration = "12h"
}

variable "nodes" {
  type        = map(string)
  description = "The three servers: name and address"
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
  gpus     = "8xMI355X"
}

model "r1" {
  repo     = "deepseek-ai/DeepSeek-R1-0528"
  cache    = "/data/huggingface" # on each server
  size     = "689GB"
  download = true
}

# What all have in common. No host: a group says where.
engine "sglang" "half" {
  model = model.r1
  image = "rocm/sgl-dev:sglang-0.5.9-rocm720-mi35x-mori-0227-2"
  env = {
    AITER_LOG_LEVEL                             = "ERROR"
    MORI_APP_LOG_LEVEL                          = "WARNING"
    MORI_EP_LAUNCH_CONFIG_MODE                  = "AUTO"
    MORI_IO_QP_MAX_CQE                          = "32768"
    MORI_IO_QP_MAX_SEND_WR                      = "16384"
    MORI_IO_QP_MAX_SGE                          = "2"
    MORI_IO_SQ_BACKOFF_TIMEOUT_US               = "50000"
    MORI_IO_TC_DISABLE                          = "0"
    MORI_SHMEM_MODE                             = "ISOLATION"
    NCCL_BLOCKING_WAIT                          = "1"
    SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT     = "3600"
    SGLANG_DISAGGREGATION_NUM_PRE_ALLOCATE_REQS = "32"
    SGLANG_DISAGGREGATION_WAITING_TIMEOUT       = "3600"
    SGLANG_ENABLE_OVERLAP_PLAN_STREAM           = "0"
    SGLANG_ENABLE_SPEC_V2                       = "1"
    SGLANG_HEALTH_CHECK_TIMEOUT                 = "600"
    SGLANG_LOG_MS                               = "true"
    SGLANG_MORI_DISPATCH_DTYPE                  = "auto"
    SGLANG_MORI_NUM_WORKERS                     = "4"
    SGLANG_MORI_QP_PER_TRANSFER                 = "4"
    SGLANG_USE_AITER                            = "1"
    TORCH_NCCL_BLOCKING_WAIT                    = "1"
    # Traffic class and service level of your network, where it has them:
    # MORI_RDMA_TC = "104", MORI_RDMA_SL = "3", MORI_IO_TC = "104", MORI_IO_SL = "3"
  }
  flags = {
    trust-remote-code   = true
    tp-size             = 8
    kv-cache-dtype      = "fp8_e4m3"
    attention-backend   = "aiter"
    load-balance-method = "round_robin"
    watchdog-timeout    = 3600
    log-level           = "warning"
    decode-log-interval = 1000
    enable-metrics      = true # not published: its counters prove that decode only decodes
  }
}

# The top of the curve: attention in data parallel, experts spread over the GPUs.

locals {
  spread = {
    dp-size               = 8
    ep-size               = 8
    enable-dp-attention   = true
    enable-dp-lm-head     = true
    moe-dense-tp-size     = 1
    moe-a2a-backend       = "mori"
    deepep-mode           = "normal"
    ep-dispatch-algorithm = "fake"
    max-running-requests  = 2048 # the most that is in flight
  }
}

engine "sglang" "prefill-spread" {
  inherits = engine.sglang.half
  env = {
    SGLANG_MORI_MOE_MAX_INPUT_TOKENS             = "32768"
    SGLANG_MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK = "8192"
  }
  flags = merge(local.spread, {
    mem-fraction-static  = 0.8
    chunked-prefill-size = 8192 * 8
    cuda-graph-bs        = [1, 2, 3]
    disable-radix-cache  = true
  })
}

engine "sglang" "decode-spread" {
  inherits = engine.sglang.half
  env = {
    SGLANG_MORI_DISPATCH_INTER_KERNEL_SWITCH_THRESHOLD = "512"
    SGLANG_MORI_MOE_MAX_INPUT_TOKENS                   = "2703"
    SGLANG_MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK       = "256"
  }
  flags = merge(local.spread, {
    mem-fraction-static         = 0.85
    cuda-graph-bs               = range(1, 161)
    prefill-round-robin-balance = true
  })
}

# The bottom of the curve: one model over eight GPUs.

engine "sglang" "prefill-tp" {
  inherits = engine.sglang.half
  flags = {
    mem-fraction-static  = 0.8
    max-running-requests = 128
    chunked-prefill-size = 262144
    cuda-graph-bs        = range(1, 129)
    disable-radix-cache  = true
  }
}

engine "sglang" "decode-tp" {
  inherits = engine.sglang.half
  flags = {
    mem-fraction-static         = 0.85
    max-running-requests        = 128
    cuda-graph-bs               = range(1, 129)
    prefill-round-robin-balance = true
  }
}

locals {
  nodes = values(host.node)
}

group "top" {
  role "prefill" {
    engine = engine.sglang.prefill-spread
    on     = slice(local.nodes, 0, 2)
  }
  role "decode" {
    engine = engine.sglang.decode-spread
    on     = slice(local.nodes, 2, 3)
  }
  router "sglang" {
    host  = local.nodes[0]
    image = "lmsysorg/sgl-model-gateway:v0.3.2"
    flags = {
      policy                   = "random"
      prefill-policy           = "random"
      decode-policy            = "random"
      cb-timeout-duration-secs = 15
      retry-max-retries        = 3 # a cell in which one happens is void
    }
  }
  transfer = "mori"
}

group "bottom" {
  inherits = group.top
  role "prefill" {
    engine = engine.sglang.prefill-tp
    on     = slice(local.nodes, 0, 1)
  }
  role "decode" {
    engine = engine.sglang.decode-tp
    on     = slice(local.nodes, 1, 3)
  }
}

# Prompts of 6,553 to 8,192 random tokens, and answers that vary as much.
dataset "random" "isl8192" {
  input_tokens = 8192
  range_ratio  = 0.8
}

benchmark "curve" {
  matrix {
    engine      = [group.top]
    concurrency = [1024, 2048]
  }
  matrix {
    engine      = [group.bottom]
    concurrency = [4, 8, 16, 32, 64, 128, 256]
  }

  engine   = matrix.engine
  dataset  = dataset.random.isl8192
  requests = max(16, 10 * matrix.concurrency)

  load {
    concurrency     = matrix.concurrency
    output_tokens   = 1024
    warmup_requests = 2 * matrix.concurrency
  }
}
