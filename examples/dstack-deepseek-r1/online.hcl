# Requests to a server: 54 cells, as many as the study published.

locals {
  servers = [
    engine.sglang.h200,
    engine.vllm.h200,
    engine.trtllm.h200,
    engine.sglang.mi300x,
    engine.vllm.mi300x,
  ]

  # The names of the published table.
  published_engines = {
    "h200 sglang"   = "sglang.h200"
    "h200 vllm"     = "vllm.h200"
    "h200 trt-llm"  = "trtllm.h200"
    "mi300x sglang" = "sglang.mi300x"
    "mi300x vllm"   = "vllm.mi300x"
  }
  published_online = csvdecode(file("published/online.csv"))
}

dataset "random" "isl3200" {
  description  = "--dataset-name random --random-input 3200 --random-range-ratio 1"
  input_tokens = 3200
  range_ratio  = 1 # in SGLang's sense: every prompt and answer is this long
  convention   = "sglang"
  seed         = 1
}

# 6 + 3 cells for each engine.
benchmark "online" {
  matrix {
    engine        = local.servers
    concurrency   = [4, 8, 16, 32, 64, 128]
    output_tokens = [800]
  }
  matrix {
    engine        = local.servers
    concurrency   = [128]
    output_tokens = [1600, 3200, 6400]
  }

  engine   = matrix.engine
  dataset  = dataset.random.isl3200
  requests = 500

  load {
    concurrency     = matrix.concurrency
    output_tokens   = matrix.output_tokens
    endpoint        = matrix.engine.kind == "sglang" ? "generate" : "completions"
    warmup_requests = 1
  }

  reference "dstack, March 2025" {
    source = "https://github.com/dstackai/benchmarks"
    rows = [
      for r in local.published_online : merge(r, {
        engine           = local.published_engines["${r.GPU} ${r.backend}"]
        concurrency      = r.max_concurrency
        mean_concurrency = r.concurrency
        output_tokens    = r.random_output_len
      }) if r.dataset_name == "random"
    ]
  }
}

# Ten system prompts of 2,000 tokens, fifty questions of 1,200 to each.
dataset "shared-prefix" "gsp" {
  description       = "--dataset-name generated-shared-prefix"
  groups            = 10
  prompts_per_group = 50
  prefix_tokens     = 2000
  question_tokens   = 1200
  seed              = 1
}

# 3 cells for each engine that the study measured with shared prefixes. SGLang
# caches prefixes anyway; vLLM gets the flags for it.
benchmark "prefix-cached" {
  matrix {
    engine      = [engine.sglang.h200, engine.vllm.h200-prefix, engine.sglang.mi300x]
    concurrency = [32, 64, 128]
  }

  engine   = matrix.engine
  dataset  = dataset.shared-prefix.gsp
  requests = 500

  load {
    concurrency     = matrix.concurrency
    output_tokens   = 800
    endpoint        = matrix.engine.kind == "sglang" ? "generate" : "completions"
    warmup_requests = 1
  }

  reference "dstack, March 2025" {
    source = "https://github.com/dstackai/benchmarks"
    rows = [
      for r in local.published_online : merge(r, {
        engine           = r.backend == "vllm" ? "vllm.h200-prefix" : local.published_engines["${r.GPU} ${r.backend}"]
        concurrency      = r.max_concurrency
        mean_concurrency = r.concurrency
      }) if r.dataset_name == "generated-shared-prefix"
    ]
  }
}
