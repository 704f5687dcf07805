# From long answers to long prompts: 50 requests, 10 a second.

dataset "random" "isl1000" { input_tokens = 1000 }
dataset "random" "isl5000" { input_tokens = 5000 }
dataset "random" "isl10000" { input_tokens = 10000 }
dataset "random" "isl30000" { input_tokens = 30000 }

benchmark "lengths" {
  matrix {
    model  = [model[var.MODEL]]
    engine = local.engines
  }
  zip {
    dataset       = [dataset.random.isl1000, dataset.random.isl5000, dataset.random.isl10000, dataset.random.isl30000]
    output_tokens = [2000, 1000, 500, 100]
  }

  engine   = matrix.engine
  dataset  = matrix.dataset
  requests = 50

  load {
    rate          = 10
    output_tokens = matrix.output_tokens

    # SGLang compiles kernels while it serves, and its first run has half the
    # throughput. The study throws that run away; so does this.
    warmup_requests = matrix.engine.kind == "sglang" ? 50 : 1
  }

  reference "SkyPilot, April 2025" {
    source = local.source
    rows = [
      for r in local.published : merge(r, { dataset = "random.isl${r.input_tokens}" })
      if r.input_tokens != "sharegpt"
    ]
  }
}

dataset "sharegpt" "conversations" {
  path   = var.sharegpt
  sha256 = "35f0e213ce091ed9b9af2a1f0755e9d39f9ccec34ab281cd4ca60d70f6479ba4"
  filter = "vllm"
}

benchmark "sharegpt" {
  matrix {
    model  = [model[var.MODEL]]
    engine = local.engines
  }

  engine   = matrix.engine
  dataset  = dataset.sharegpt.conversations
  requests = 500

  load {
    rate            = 10
    ignore_eos      = true
    warmup_requests = matrix.engine.kind == "sglang" ? 500 : 1
  }

  reference "SkyPilot, April 2025" {
    source = local.source
    rows   = [for r in local.published : r if r.input_tokens == "sharegpt"]
  }
}

# What was published: output tokens per second of DeepSeek-R1, a column for each
# engine.
locals {
  source = "https://github.com/Michaelvll/llm-ie-benchmarks"
  published = flatten([
    for r in csvdecode(file("published/results.csv")) : [
      {
        model             = "deepseek-r1"
        engine            = "vllm.h200"
        input_tokens      = r.input_tokens
        output_tokens     = r.output_tokens
        output_throughput = r.vllm_output_throughput_tok_s
      },
      {
        model             = "deepseek-r1"
        engine            = "sglang.h200"
        input_tokens      = r.input_tokens
        output_tokens     = r.output_tokens
        output_throughput = r.sglang_output_throughput_tok_s
      },
    ]
  ])
}
