# Is the faster one still right? One model in bf16, in fp8, and in fp8 with speculation: loads and GSM8K, on the same starts.
#
#     hcl plan examples/accuracy-fp8        what is measured, and what 1,319 questions can show
#     hcl apply examples/accuracy-fp8
#
# GSM8K's files are not shipped. They are two files of JSON lines, test.jsonl and train.jsonl, MIT, from the repository
# openai/grade-school-math; put them beside this lab. `hcl lock` writes down their checksums.

variable "address" {
  type        = string
  description = "The box, host or host:port"
}

variable "user" {
  type    = string
  default = "root"
}

lab "accuracy-fp8" {
  description = "bf16, fp8, and fp8 with speculation: what is fast beside what is right"
}

host "h200" {
  address = var.address
  user    = var.user
  gpus    = "8xH200"
}

model "llama" {
  repo  = "meta-llama/Llama-3.3-70B-Instruct"
  cache = "/data/huggingface"
}

engine "vllm" "bf16" {
  host  = host.h200
  model = model.llama
  image = "vllm/vllm-openai:v0.20.2"
  flags = {
    tensor-parallel-size = 8
    max-model-len        = 8192
  }
}

engine "vllm" "fp8" {
  inherits = engine.vllm.bf16
  flags    = { quantization = "fp8" }
}

# Speculation proposes, and the model decides: its answers ought to be those of fp8 alone.
engine "vllm" "fp8-spec" {
  inherits = engine.vllm.fp8
  flags    = { speculative-config = { model = "meta-llama/Llama-3.2-1B-Instruct", num_speculative_tokens = 4 } }
}

dataset "random" "chat" {
  input_tokens = 1024
}

benchmark "online" {
  matrix {
    engine      = [engine.vllm.bf16, engine.vllm.fp8, engine.vllm.fp8-spec]
    concurrency = [1, 16, 64]
  }
  engine   = matrix.engine
  dataset  = dataset.random.chat
  requests = 10 * matrix.concurrency
  load {
    endpoint      = "chat"
    concurrency   = matrix.concurrency
    output_tokens = 512
  }
}

# At 64, where batches are large and kernels are others, and at 1. Who is worse than bf16 by more than a point is marked, and never leads.
accuracy "gsm8k" {
  engine     = [engine.vllm.bf16, engine.vllm.fp8, engine.vllm.fp8-spec]
  task       = "gsm8k"
  path       = "test.jsonl"
  shots_path = "train.jsonl"
  protocol   = "lm-eval 0.4.13"
  baseline   = engine.vllm.bf16
  margin     = 0.01
}

# What speculation alone changes: the same questions, held against fp8.
accuracy "speculation" {
  engine     = [engine.vllm.fp8, engine.vllm.fp8-spec]
  task       = "gsm8k"
  path       = "test.jsonl"
  shots_path = "train.jsonl"
  protocol   = "lm-eval 0.4.13"
  at         = [64]
  baseline   = engine.vllm.fp8
  margin     = 0.01
}
