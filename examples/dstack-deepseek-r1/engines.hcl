# One block for each published task. Flags are the engine's own, without dashes.

# --- 8xH200 -------------------------------------------------------------------

engine "sglang" "h200" {
  host  = host.h200
  model = model.r1
  image = "lmsysorg/sglang:v0.4.3.post2-cu124" # what :latest was
  flags = {
    tp                  = 8
    trust-remote-code   = true
    enable-dp-attention = true
  }
  container { shm_size = "32GiB" }
}

# The release in the image is replaced by a build of the main branch before the
# server starts. "nightly" is another build every night: to measure the
# published one, name its commit, --var vllm_wheels=https://wheels.vllm.ai/COMMIT
# (the study had 0.7.4.dev181+gf35f8e22).
variable "vllm_wheels" {
  type        = string
  description = "Where pip finds vLLM's wheels"
  default     = "https://wheels.vllm.ai/nightly"
}

# The image's tag does not tell it any more, and it decides which offline benchmark
# there is: --var vllm_version=0.7.4 goes with the published commit.
variable "vllm_version" {
  type        = string
  description = "What those wheels are"
  default     = "0.11"
}

engine "vllm" "h200" {
  host  = host.h200
  model = model.r1
  image = "vllm/vllm-openai:v0.7.3"
  env   = { VLLM_ATTENTION_BACKEND = "FLASHMLA" }

  version = var.vllm_version
  setup = [
    "pip uninstall -y vllm",
    "pip install vllm --pre --extra-index-url ${var.vllm_wheels}",
  ]
  flags = {
    tensor-parallel-size = 8
    trust-remote-code    = true
  }
  container { shm_size = "32GiB" }
}

engine "vllm" "h200-prefix" {
  inherits = engine.vllm.h200
  flags = {
    enable-prefix-caching  = true
    enable-chunked-prefill = true
  }
}

variable "trtllm_image" {
  type        = string
  description = "TensorRT-LLM, built from commit 9b931c0f6305aefa3660e6fb84a76a42c0eef167"
}

locals {
  # The published task sets these in the environment and repeats them as flags.
  trtllm = {
    MAX_BATCH_SIZE = 512
    MAX_NUM_TOKENS = 16384
    MAX_SEQ_LENGTH = 16384
  }
}

engine "trtllm" "h200" {
  host  = host.h200
  model = model.r1-main
  image = var.trtllm_image
  env   = local.trtllm
  flags = {
    backend        = "pytorch"
    max_batch_size = local.trtllm.MAX_BATCH_SIZE
    max_num_tokens = local.trtllm.MAX_NUM_TOKENS
    max_seq_len    = local.trtllm.MAX_SEQ_LENGTH
    tp_size        = 8
    ep_size        = 4
    pp_size        = 1
  }
}

# --- 8xMI300X -----------------------------------------------------------------

engine "sglang" "mi300x" {
  inherits = engine.sglang.h200
  host     = host.mi300x
  image    = "rocm/sglang-staging:20250212"
  env = {
    MODEL_ID               = model.r1.repo
    HSA_NO_SCRATCH_RECLAIM = "1"
  }
  flags = { enable-dp-attention = null } # without this one
  container { shm_size = null }
}

engine "vllm" "mi300x" {
  host    = host.mi300x
  model   = model.r1
  image   = "rocm/vllm-dev:vllm-ds3-staging-0217"
  version = "0.7.3" # 0.7.3.dev138+g21f6ca217 by the study's table
  env = {
    VLLM_FP8_PADDING           = "0"
    VLLM_USE_TRITON_FLASH_ATTN = "0"
  }
  flags = {
    tensor-parallel-size = 8
    trust-remote-code    = true
    max-model-len        = 32768
  }
}
