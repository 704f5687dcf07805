# One box with 8 MI300X GPUs: SGLang and vLLM serve the same model, one after the
# other, and each is measured under the same loads.
#
# Write your box into lab.hclvars, then, in this folder:
#
#     hcl validate     is the text right?
#     hcl rehearse     the whole run on this machine, simulated: no GPU, no cost
#     hcl plan         what would be started and measured, in which order
#     hcl apply        do it; whatever is already measured is not measured again
#     hcl report       what came out
#     hcl destroy      leave nothing behind on the box
#
# Change anything below and apply again: only what the change touches is stale.

lab "skeleton-8xmi300x" {
  description  = "SGLang and vLLM on one 8xMI300X box"
  max_duration = "8h" # nothing of this lab lives longer, whatever happens
}

variable "address" {
  type        = string
  description = "The box, host or host:port"
}

variable "user" {
  type        = string
  description = "Who to log in as"
  default     = "ubuntu"
}

# For models that ask for one. Give it in the environment, not in a file:
# export HCL_VAR_hf_token=hf_…
variable "hf_token" {
  type        = string
  description = "Hugging Face token"
  sensitive   = true # never printed, stored or logged
  default     = ""
}

host "box" {
  address = var.address
  user    = var.user
  gpus    = "8xMI300X" # what must be there; apply checks it
  # identity_file  = "~/.ssh/id_ed25519" # without it: the SSH agent and ~/.ssh
  # price_per_hour = 16.0                # USD; the plan then says what it costs
}

model "r1" {
  repo     = "deepseek-ai/DeepSeek-R1-0528"
  revision = "4236a6af538feda4548eca9ab308586007567f52"
  cache    = "/data/huggingface" # on the box; a disk with room for the weights
  size     = "689GB"
  # download = true # fetched and checked before an engine starts, not by it
}

# engine KIND NAME. The flags are the engine's own, without the dashes. The
# images must be built for ROCm. Devices, groups and shared memory that AMD's
# GPUs need in a container are filled in.

engine "sglang" "box" {
  host  = host.box
  model = model.r1
  image = "lmsysorg/sglang:v0.5.12-rocm700-mi30x"
  env = {
    HF_TOKEN         = var.hf_token
    SGLANG_USE_AITER = "1" # AMD's own kernels
    # With MEC firmware older than 177 (rocm-smi --showfw), RCCL needs this:
    # HSA_NO_SCRATCH_RECLAIM = "1"
  }
  flags = {
    tp                = 8
    attention-backend = "aiter"
  }
  # compile_cache = "~/.cache/hcl/compiled" # kernels, kept for the next start
}

engine "vllm" "box" {
  host  = host.box
  model = model.r1
  image = "vllm/vllm-openai-rocm:v0.14.0"
  env = {
    HF_TOKEN            = var.hf_token
    VLLM_ROCM_USE_AITER = "1"
  }
  flags = {
    tensor-parallel-size = 8
    max-model-len        = 16384
  }
}

# To try a flag, inherit and say only what differs; then add the engine to the
# matrix below. true is a bare flag; false or null leaves one out.
#
# engine "vllm" "expert-parallel" {
#   inherits = engine.vllm.box
#   flags    = { enable-expert-parallel = true }
# }

# What is sent: prompts of 1,024 random tokens, new ones for every cell.
dataset "random" "isl1024" {
  input_tokens = 1024
}

benchmark "online" {
  # Every engine at every concurrency: 10 cells. Each engine loads the model once.
  matrix {
    engine      = [engine.sglang.box, engine.vllm.box]
    concurrency = [1, 4, 16, 64, 256]
  }

  engine   = matrix.engine
  dataset  = dataset.random.isl1024
  requests = 10 * matrix.concurrency # so that all cells run about equally long

  load {
    concurrency     = matrix.concurrency
    output_tokens   = 1024
    warmup_requests = 2 * matrix.concurrency
  }

  # What counts as good; the report shows how many requests per second were.
  slo {
    ttft_p99 = "5s"
    tpot_p99 = "50ms"
  }
}
