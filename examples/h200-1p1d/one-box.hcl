# The cheapest real test of prefill and decode apart: four GPUs of one server for
# each, beside the same eight GPUs as two servers that do both. The model has to
# fit into four GPUs.

model "qwen3" {
  repo     = "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8"
  cache    = "/data/huggingface"
  size     = "237GB"
  download = true
}

engine "sglang" "half" {
  model = model.qwen3
  image = engine.sglang.prefill.image
  flags = {
    tp-size             = 4
    disable-radix-cache = true
    enable-metrics      = true
  }
}

group "split" {
  role "prefill" {
    engine  = engine.sglang.half
    on      = [local.nodes[0]]
    gpu_ids = [["0", "1", "2", "3"]]
  }
  role "decode" {
    engine  = engine.sglang.half
    on      = [local.nodes[0]]
    gpu_ids = [["4", "5", "6", "7"]]
  }
  router "sglang" {
    host  = local.nodes[0]
    image = "lmsysorg/sgl-model-gateway:v0.3.2"
    flags = { policy = "random" }
  }
  transfer = "nixl"
}

group "whole" {
  role "serve" {
    engine  = engine.sglang.half
    on      = [local.nodes[0], local.nodes[0]]
    gpu_ids = [["0", "1", "2", "3"], ["4", "5", "6", "7"]]
  }
  router "sglang" {
    host  = local.nodes[0]
    image = "lmsysorg/sgl-model-gateway:v0.3.2"
    flags = { policy = "round_robin" }
  }
}

benchmark "one-box" {
  matrix {
    engine      = [group.split, group.whole]
    concurrency = [8, 32, 128]
  }

  engine   = matrix.engine
  dataset  = dataset.random.isl8192
  requests = 10 * matrix.concurrency

  load {
    concurrency     = matrix.concurrency
    output_tokens   = 1024
    warmup_requests = 2 * matrix.concurrency
  }
}
