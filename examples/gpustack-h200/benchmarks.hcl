# --- 1. to 4. Every step is measured the same way: 1,000 conversations at once --

dataset "sharegpt" "conversations" {
  description = "First turns of recorded conversations, as vLLM's benchmark picks them"
  path        = var.sharegpt
  sha256      = "35f0e213ce091ed9b9af2a1f0755e9d39f9ccec34ab281cd4ca60d70f6479ba4"
  filter      = "vllm"
}

benchmark "steps" {
  matrix {
    engine = [
      engine.vllm.baseline,
      engine.sglang.baseline,
      engine.trtllm.baseline,
      engine.sglang.dp-attention,
      engine.sglang.torch-compile,
      engine.sglang.mtp,
    ]
  }

  engine   = matrix.engine
  dataset  = dataset.sharegpt.conversations
  requests = 1000

  load {
    rate       = "inf" # all at once
    endpoint   = "chat"
    ignore_eos = false # answers are as long as the recorded ones, or end before

    warmup_requests = 1 # vLLM's benchmark tries one before it begins
  }

  reference "GPUStack" {
    source = local.source
    rows = [
      for r in local.published : merge(r, { engine = local.published_engine[r.serve_command] })
      if r.case == "sharegpt-1000"
    ]
  }
}

# --- The start against the best, under other loads ------------------------------

# What vLLM calls random: lengths in its own convention, a fixed seed.
dataset "random" "very-long" {
  input_tokens = 32000
  range_ratio  = 0
  convention   = "vllm"
  seed         = 42
}

dataset "random" "long" {
  input_tokens = 4000
  range_ratio  = 0
  convention   = "vllm"
  seed         = 42
}

dataset "random" "medium" {
  input_tokens = 2000
  range_ratio  = 0
  convention   = "vllm"
  seed         = 42
}

dataset "random" "short" {
  input_tokens = 128
  range_ratio  = 0
  convention   = "vllm"
  seed         = 42
}

benchmark "cases" {
  matrix {
    engine = [engine.vllm.baseline, engine.sglang.dp-attention]
  }
  zip {
    dataset       = [dataset.random.very-long, dataset.random.long, dataset.random.medium, dataset.random.short]
    output_tokens = [100, 200, 100, 4]
    requests      = [100, 500, 500, 1000]
  }

  engine   = matrix.engine
  dataset  = matrix.dataset
  requests = matrix.requests

  load {
    rate          = "inf"
    endpoint      = "chat"
    output_tokens = matrix.output_tokens
    ignore_eos    = false # the command does not say so: 9,952 of 10,000 tokens were generated

    warmup_requests = 1
  }

  reference "GPUStack" {
    source = local.source
    rows = [
      for r in local.published : merge(r, {
        engine  = local.published_engine[r.serve_command]
        dataset = local.published_dataset[r.case]
      }) if can(local.published_dataset[r.case])
    ]
  }
}

benchmark "four-at-a-time" {
  matrix {
    engine = [engine.vllm.baseline, engine.sglang.dp-attention]
  }

  engine   = matrix.engine
  dataset  = dataset.sharegpt.conversations
  requests = 100

  load {
    concurrency = 4
    endpoint    = "chat"
    ignore_eos  = false

    warmup_requests = 1
  }

  reference "GPUStack" {
    source = local.source
    rows = [
      for r in local.published : merge(r, { engine = local.published_engine[r.serve_command] })
      if r.case == "sharegpt batch size 4"
    ]
  }
}

# --- What was published ---------------------------------------------------------

locals {
  source    = "https://docs.gpustack.ai/latest/performance-lab/deepseek-r1/h200/"
  published = csvdecode(file("published/results.csv"))

  # The published table names servers by their commands.
  published_engine = {
    for command in distinct(local.published[*].serve_command) : command => (
      can(regex("^vllm ", command)) ? "vllm.baseline" :
      can(regex("^trtllm-serve ", command)) ? "trtllm.baseline" :
      can(regex("--speculative-algorithm", command)) ? "sglang.mtp" :
      can(regex("--enable-torch-compile", command)) ? "sglang.torch-compile" :
      can(regex("--enable-dp-attention", command)) ? "sglang.dp-attention" :
      "sglang.baseline"
    )
  }

  published_dataset = {
    "random 32k input" = "random.very-long"
    "random 4k input"  = "random.long"
    "random 2k input"  = "random.medium"
    "random 128 input" = "random.short"
  }
}
