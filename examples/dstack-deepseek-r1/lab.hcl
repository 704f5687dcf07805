# DeepSeek-R1 on 8xH200 and 8xMI300X, served by SGLang, vLLM and TensorRT-LLM:
# the study that dstack published in March 2025, as a lab. README.md says which
# published command became which line.
#
#     lab.hcl        hosts and the model
#     engines.hcl    what is started on them
#     online.hcl     requests to a server
#     throughput.hcl the engines' own throughput benchmarks, without a server
#     accuracy.hcl   GSM8K, which the study did not ask
#     report.hcl     the charts that the study drew
#     lab.hclvars    your addresses and images

lab "dstack-deepseek-r1" {
  description  = "DeepSeek-R1 on H200 and MI300X (dstack, March 2025)"
  max_duration = "48h"
}

variable "h200_address" {
  type        = string
  description = "The 8xH200 box, host or host:port"
}

variable "mi300x_address" {
  type        = string
  description = "The 8xMI300X box, host or host:port"
}

variable "user" {
  type        = string
  description = "Who to log in as, on both"
  default     = "ubuntu"
}

host "h200" {
  address = var.h200_address
  user    = var.user
  gpus    = "8xH200"
}

host "mi300x" {
  address = var.mi300x_address
  user    = var.user
  gpus    = "8xMI300X"
}

model "r1" {
  repo     = "deepseek-ai/DeepSeek-R1"
  revision = "56d4cbbb4d29f4355bab4b9a39ccb717a14ad5ad" # the study names none
  cache    = "/data/huggingface"                        # on each host
  size     = "689GB"
}

# This trtllm-serve takes no revision, and serves the repository's default branch.
model "r1-main" {
  repo  = model.r1.repo
  cache = model.r1.cache
  size  = model.r1.size
}
