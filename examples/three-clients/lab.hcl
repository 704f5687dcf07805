# Load from three hosts on one engine, beside the same load from one of them.
#
# What one client measures with few requests in flight, three have to measure too: both
# are at 1,024 here. From there on three go where one machine's processors, or its
# network card, end.
#
# Write your machines into lab.hclvars, then, in this folder: hcl validate, hcl rehearse,
# hcl plan, hcl apply. "hcl show CELL" has a line for each client.

lab "three-clients" {
  description  = "One engine under the load of one client, and of three together"
  max_duration = "6h" # nothing of this lab lives longer, whatever happens
}

variable "address" {
  type        = string
  description = "The box with the GPUs"
}

variable "clients" {
  type        = list(string)
  description = "Three machines that send load: they need SSH, and no Docker"
}

variable "inside" {
  type        = string
  description = "The box's address in the network that joins them"
}

variable "user" {
  type        = string
  description = "Who to log in as, everywhere"
  default     = "ubuntu"
}

host "box" {
  address = var.address
  user    = var.user
  gpus    = "8xH200"
}

host "c0" {
  address = var.clients[0]
  user    = var.user
  runtime = "process"
}

host "c1" {
  address = var.clients[1]
  user    = var.user
  runtime = "process"
}

host "c2" {
  address = var.clients[2]
  user    = var.user
  runtime = "process"
}

model "llama" {
  repo  = "meta-llama/Llama-3.1-8B-Instruct"
  cache = "/data/huggingface"
}

engine "vllm" "box" {
  host  = host.box
  model = model.llama
  image = "vllm/vllm-openai:v0.14.0"
  flags = {
    host               = var.inside # clients reach it there, and nobody from elsewhere
    data-parallel-size = 8
    max-num-seqs       = 2048
    api-server-count   = 8 # one server process would be the limit before the GPUs are
  }
}

# New prompts for each cell, and each prompt once, whoever sends it.
dataset "random" "short" {
  input_tokens = 128
}

benchmark "alone" {
  engine   = engine.vllm.box
  dataset  = dataset.random.short
  requests = 8192
  load {
    from          = host.c0
    concurrency   = 1024
    output_tokens = 512
  }
}

benchmark "together" {
  matrix {
    concurrency = [1024, 4096, 10800]
  }
  engine   = engine.vllm.box
  dataset  = dataset.random.short
  requests = 8 * matrix.concurrency
  load {
    from          = [host.c0, host.c1, host.c2]
    concurrency   = matrix.concurrency
    output_tokens = 512
  }
}
