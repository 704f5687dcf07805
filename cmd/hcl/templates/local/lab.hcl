# vLLM on this machine, which has one GPU and Docker, measured under rising load.
#
# Write your GPU into lab.hclvars, then, in this folder:
#
#     hcl validate   is the text right?
#     hcl rehearse   the whole run with a simulated engine: no GPU
#     hcl plan       what would be started and measured, in which order
#     hcl apply      do it; whatever is already measured is not measured again
#     hcl report     what came out
#
# Change anything below and apply again: only what the change touches is stale.

lab "local" {
  description  = "vLLM on one GPU of this machine"
  max_duration = "2h" # nothing of this lab lives longer, whatever happens
}

variable "gpus" {
  type        = string
  description = "What is there, count and model, as nvidia-smi says: 1xH100, 1xL40S"
}

# For models that ask for one. Give it in the environment, not in a file:
# export HCL_VAR_hf_token=hf_…
variable "hf_token" {
  type        = string
  description = "Hugging Face token"
  sensitive   = true # never printed, stored or logged
  default     = ""
}

host "here" {
  address = "local"  # this machine; of another: "203.0.113.10"
  gpus    = var.gpus # apply checks it
}

model "qwen" {
  repo  = "Qwen/Qwen2.5-7B-Instruct"          # hcl lock writes its commit down
  cache = "${env("HOME")}/.cache/huggingface" # mounted into the engine
  size  = "15GB"
}

# engine KIND NAME. The flags are the engine's own, without the dashes.
engine "vllm" "here" {
  host  = host.here
  model = model.qwen
  image = "vllm/vllm-openai:v0.14.0"
  env   = { HF_TOKEN = var.hf_token }
  flags = { max-model-len = 8192 }
}

# To try a flag, inherit and say only what differs; then add the engine to the
# matrix below. true is a bare flag; false or null leaves one out.
#
# engine "vllm" "eager" {
#   inherits = engine.vllm.here
#   flags    = { enforce-eager = true }
# }

# What is sent: prompts of 1,024 random tokens, new ones for every cell.
dataset "random" "isl1024" {
  input_tokens = 1024
}

benchmark "online" {
  # Every engine at every concurrency: 4 cells.
  matrix {
    engine      = [engine.vllm.here]
    concurrency = [1, 4, 16, 64]
  }

  engine   = matrix.engine
  dataset  = dataset.random.isl1024
  requests = 10 * matrix.concurrency # so that all cells run about equally long

  load {
    concurrency     = matrix.concurrency
    output_tokens   = 256
    warmup_requests = matrix.concurrency
  }

  # What counts as good; the report shows how many requests per second were.
  slo {
    ttft_p99 = "2s"
    tpot_p99 = "50ms"
  }
}
