# Prefill and decode apart as llm-d deploys them on Kubernetes: a gateway, an endpoint
# picker, and vLLM in two deployments. How many pods each has is an axis: every split of
# eight GPUs is deployed, measured and deleted. README.md says what has to be there.

lab "llm-d-pd" {
  description  = "llm-d: which split of eight GPUs between prefill and decode is best?"
  max_duration = "4h"
}

variable "context" {
  type        = string
  description = "The context of your kubeconfig"
}

variable "namespace" {
  type        = string
  description = "Namespace of the cluster, with the secret llm-d-hf-token"
  default     = "llm-d"
}

cluster "gpus" {
  context   = var.context
  namespace = var.namespace
  image     = "debian:12"
}

# The pod that the load is sent from.
host "client" {
  cluster = cluster.gpus
}

model "llama" {
  repo = "meta-llama/Llama-3.3-70B-Instruct"
}

engine "manifests" "pd" {
  host  = host.client
  model = model.llama
  files = ["gateway.yaml", "scheduler.yaml", "modelservers.yaml"]
  values = {
    model     = model.llama.repo
    vllm      = "v0.3.1"
    scheduler = "v0.3.2"
    sidecar   = "v0.3.0"
    servers = {
      prefill = { replicas = (8 - matrix.decode_gpus) / 2, gpus = 2, port = 8000 }
      decode  = { replicas = 1, gpus = matrix.decode_gpus, port = 8200 }
    }
  }

  wait = [
    { kind = "Gateway", condition = "Programmed" },
    { kind = "Deployment", condition = "Available" },
  ]
  service = "llm-d-istio:80"
  roles = {
    prefill = { pods = "llm-d.ai/role=prefill", port = 8000, engine = "vllm" }
    decode  = { pods = "llm-d.ai/role=decode", instances = 1, port = 8200, engine = "vllm" }
  }
}

dataset "random" "summaries" {
  input_tokens = 8000
}

benchmark "split" {
  matrix {
    decode_gpus = [2, 4]
    concurrency = [8, 32, 128]
  }

  engine   = engine.manifests.pd
  dataset  = dataset.random.summaries
  requests = 8 * matrix.concurrency

  load {
    concurrency   = matrix.concurrency
    output_tokens = 500
    ignore_eos    = true
  }

  slo {
    ttft = "4s"
    tpot = "40ms"
  }
}
