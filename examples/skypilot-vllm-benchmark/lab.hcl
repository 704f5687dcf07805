# vLLM against SGLang on one 8xH200 box, from long answers to long prompts: the
# benchmark of the vLLM team that SkyPilot published, as a lab. README.md says
# which published setting became which line.
#
# Write your box into lab.hclvars, and fetch the conversations once:
#
#     wget https://huggingface.co/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered/resolve/main/ShareGPT_V3_unfiltered_cleaned_split.json
#
# Both engines are measured unless you say which: --var ENGINE=vllm, or
# export HCL_VAR_ENGINE=sgl.

lab "skypilot-vllm-benchmark" {
  description  = "vLLM against SGLang on 8xH200 (vLLM team, SkyPilot, April 2025)"
  max_duration = "12h"
}

variable "MODEL" {
  type        = string
  description = "deepseek-r1 or llama-8b"
  default     = "deepseek-r1"

  validation {
    condition     = contains(keys(model), var.MODEL)
    error_message = "MODEL is one of ${join(", ", keys(model))}."
  }
}

variable "ENGINE" {
  type        = string
  description = "vllm, sgl, or both"
  default     = "both"

  validation {
    condition     = contains(["vllm", "sgl", "both"], var.ENGINE)
    error_message = "ENGINE is vllm, sgl or both."
  }
}

variable "HF_TOKEN" {
  type        = string
  description = "Hugging Face token"
  sensitive   = true # never printed, stored or logged
  default     = ""
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

model "deepseek-r1" {
  repo     = "deepseek-ai/DeepSeek-R1"
  revision = "56d4cbbb4d29f4355bab4b9a39ccb717a14ad5ad" # the study names none
  cache    = "/data/huggingface"
  size     = "689GB"
}

model "llama-8b" {
  repo  = "neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8"
  cache = "/data/huggingface"
  size  = "9GB"
}

locals {
  # Over how many GPUs a model is spread.
  tp = {
    deepseek-r1 = 8
    llama-8b    = 1
  }
}

# The model is an axis of the benchmarks, so these engines are whatever it asks
# for.

engine "vllm" "h200" {
  host  = host.h200
  model = matrix.model
  image = "vllm/vllm-openai:v0.8.4"
  env = {
    HF_TOKEN                    = var.HF_TOKEN
    VLLM_USE_FLASHINFER_SAMPLER = "1"
  }
  flags = {
    tensor-parallel-size     = local.tp[matrix.model.name]
    trust-remote-code        = true
    no-enable-prefix-caching = true
    disable-log-requests     = true
  }
}

engine "sglang" "h200" {
  host  = host.h200
  model = matrix.model
  image = "lmsysorg/sglang:v0.4.5.post1-cu124"
  env = {
    HF_TOKEN                = var.HF_TOKEN
    SGL_ENABLE_JIT_DEEPGEMM = "1"
  }
  flags = {
    tp                    = local.tp[matrix.model.name]
    trust-remote-code     = true
    enable-flashinfer-mla = true
    disable-radix-cache   = true
    enable-torch-compile  = matrix.model.name == "deepseek-r1"
    torch-compile-max-bs  = matrix.model.name == "deepseek-r1" ? 8 : null
  }
}

locals {
  engines = [
    for e in [engine.vllm.h200, engine.sglang.h200] : e
    if contains(["both", e.kind == "sglang" ? "sgl" : e.kind], var.ENGINE)
  ]
}
