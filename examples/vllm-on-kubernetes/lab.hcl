# Mistral 7B on one GPU of a Kubernetes cluster: the manifest of vLLM's own guide,
# measured. README.md says which line of it became which.

lab "vllm-on-kubernetes" {
  description  = "vLLM on a pod, as its guide for Kubernetes deploys it"
  max_duration = "2h" # the cluster ends the run then, whatever happens to us
}

variable "context" {
  type        = string
  description = "Which context of the kubeconfig; null is the current one"
  default     = null
}

variable "namespace" {
  type        = string
  description = "Where pods are made"
  default     = "default"
}

variable "hf_token" {
  type      = string
  sensitive = true
  default   = ""
}

cluster "gpus" {
  context       = var.context
  namespace     = var.namespace
  image         = "debian:12" # of the pod that holds the lease
  mounts        = ["claim/mistral-7b:/root/.cache/huggingface"]
  wait_for_node = "10m" # some clusters add a node when one is asked for
}

# A pod, for one start of an engine.
host "pod" {
  cluster  = cluster.gpus
  gpus     = "1xH100" # which the pod asks for, and has to get
  requests = { cpu = "2", memory = "6G" }
  limits   = { cpu = "10", memory = "20G" }
}

model "mistral" {
  repo  = "mistralai/Mistral-7B-Instruct-v0.3"
  cache = "/root/.cache/huggingface" # in the pod, where the claim is mounted
}

engine "vllm" "mistral" {
  host  = host.pod
  model = model.mistral
  image = "vllm/vllm-openai:v0.9.1"
  env   = { HF_TOKEN = var.hf_token }
  flags = {
    trust-remote-code      = true
    enable-chunked-prefill = true
    max-num-batched-tokens = matrix.batched
  }
  container {
    shm_size = "2GiB"
  }
}

dataset "random" "short" {
  input_tokens = 512
}

benchmark "online" {
  matrix {
    batched     = [1024, 8192] # as published, and larger
    concurrency = [1, 8, 32, 128]
  }
  engine   = engine.vllm.mistral
  dataset  = dataset.random.short
  requests = max(32, 8 * matrix.concurrency)
  load {
    concurrency   = matrix.concurrency
    output_tokens = 128
  }
}
