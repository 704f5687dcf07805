# How fast can one 8xH200 box serve DeepSeek-R1-0528? Choose the fastest engine,
# then tune it one flag at a time, and hold the result against the start under
# other loads: the study of GPUStack's performance lab, as a lab. README.md says
# which published command became which line.
#
# Write your box into lab.hclvars, and fetch the conversations once:
#
#     wget https://huggingface.co/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered/resolve/main/ShareGPT_V3_unfiltered_cleaned_split.json

lab "gpustack-h200" {
  description  = "DeepSeek-R1-0528 on 8xH200, tuned for throughput (GPUStack)"
  max_duration = "24h"
}

variable "address" {
  type        = string
  description = "The 8xH200 box, host or host:port"
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

host "h200" {
  address = var.address
  user    = var.user
  gpus    = "8xH200"
}

model "r1" {
  repo     = "deepseek-ai/DeepSeek-R1-0528"
  revision = "4236a6af538feda4548eca9ab308586007567f52" # the study names none
  cache    = "/data/huggingface"
  size     = "689GB"
}

# This trtllm-serve takes no revision, and serves the repository's default branch.
model "r1-main" {
  repo  = model.r1.repo
  cache = model.r1.cache
  size  = model.r1.size
}

# --- 1. Choosing the engine ---------------------------------------------------

engine "vllm" "baseline" {
  host  = host.h200
  model = model.r1
  image = "vllm/vllm-openai:v0.11.0"
  flags = { tensor-parallel-size = 8 } # -tp
}

engine "sglang" "baseline" {
  host  = host.h200
  model = model.r1
  image = "lmsysorg/sglang:v0.5.3"
  port  = 8000
  flags = {
    host    = "0.0.0.0"
    tp-size = 8
  }
}

engine "trtllm" "baseline" {
  host  = host.h200
  model = model.r1-main
  image = "nvcr.io/nvidia/tensorrt-llm/release:1.0.0"
  flags = {
    tp_size = 8
    ep_size = 8
  }
}

# --- 2. to 4. SGLang was fastest; one thing more at a time ----------------------

engine "sglang" "dp-attention" {
  inherits = engine.sglang.baseline
  flags    = { enable-dp-attention = true }
}

engine "sglang" "torch-compile" {
  inherits = engine.sglang.dp-attention
  flags    = { enable-torch-compile = true }
}

engine "sglang" "mtp" {
  inherits = engine.sglang.torch-compile
  flags = {
    speculative-algorithm        = "EAGLE"
    speculative-num-steps        = 1
    speculative-eagle-topk       = 1
    speculative-num-draft-tokens = 2
  }
}
