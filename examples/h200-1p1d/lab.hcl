# DeepSeek-R1 in FP8 on two 8xH200 servers, one that reads prompts and one that
# generates: a recipe of srt-slurm. README.md says which published line became
# which; one-box.hcl has the same on the two halves of a single server.
#
# Write your servers into lab.hclvars. With one server only:
#
#     hcl apply --only 'benchmark = "one-box"'

lab "h200-1p1d" {
  description  = "Prefill and decode apart on H200, over two servers and in one (srt-slurm)"
  max_duration = "8h"
}

variable "nodes" {
  type        = map(string)
  description = "The two servers: name and address"
}

variable "user" {
  type        = string
  description = "Who to log in as"
  default     = "ubuntu"
}

host "node" {
  for_each = var.nodes
  address  = each.value
  user     = var.user
  gpus     = "8xH200"
}

model "r1" {
  repo     = "deepseek-ai/DeepSeek-R1"
  cache    = "/data/huggingface" # on each server
  size     = "689GB"
  download = true
}

# No host: a group says where.
engine "sglang" "prefill" {
  model = model.r1
  image = "lmsysorg/sglang:v0.5.8.post1-cu130"
  flags = {
    trust-remote-code    = true
    tp-size              = 8
    attention-backend    = "flashinfer"
    disable-radix-cache  = true
    load-balance-method  = "round_robin"
    max-running-requests = 16
    max-prefill-tokens   = 163840
    chunked-prefill-size = 163840
    mem-fraction-static  = 0.75
    enable-metrics       = true # not published: its counters prove that decode only decodes
  }
}

engine "sglang" "decode" {
  model = model.r1
  image = engine.sglang.prefill.image
  flags = {
    trust-remote-code    = true
    tp-size              = 8
    dp-size              = 8
    ep-size              = 8
    enable-dp-attention  = true
    attention-backend    = "flashinfer"
    disable-radix-cache  = true
    stream-interval      = 10
    max-running-requests = 256
    cuda-graph-max-bs    = 256
    mem-fraction-static  = 0.88
    enable-metrics       = true
  }
}

locals {
  nodes = values(host.node)
}

group "two-boxes" {
  role "prefill" {
    engine = engine.sglang.prefill
    on     = [local.nodes[0]]
  }
  role "decode" {
    engine = engine.sglang.decode
    on     = [local.nodes[1]]
  }
  router "sglang" {
    host  = local.nodes[0]
    image = "lmsysorg/sgl-model-gateway:v0.3.2"
    flags = { policy = "random" }
  }
  transfer = "nixl"
}

# Prompts of 6,553 to 8,192 random tokens, and answers that vary as much.
dataset "random" "isl8192" {
  input_tokens = 8192
  range_ratio  = 0.8
}

benchmark "two-boxes" {
  matrix { concurrency = [64, 128, 256] }

  engine   = group.two-boxes
  dataset  = dataset.random.isl8192
  requests = 10 * matrix.concurrency

  load {
    concurrency     = matrix.concurrency
    output_tokens   = 1024
    warmup_requests = 2 * matrix.concurrency
  }
}
