# Moreh's own stack as it was measured: Istio's gateway, the Heimdall scheduler and
# Odin's inference services, two for prefill and three for decode, on a Kubernetes
# cluster of five 8xMI300X servers. hcl makes the objects, waits for them, sends the
# load from a pod beside them, and deletes them. README.md maps the study's manifests
# to this lab, and says what is private to Moreh.

lab "moreh-mif" {
  description  = "DeepSeek-R1 on 40 MI300X, as Moreh deploys it"
  max_duration = "8h"
}

variable "context" {
  type        = string
  description = "The context of your kubeconfig"
}

variable "namespace" {
  type        = string
  description = "Namespace of the cluster, with the label mif=enabled and the secret moreh-registry"
  default     = "mif"
}

variable "weights" {
  type        = string
  description = "Directory of every server that holds DeepSeek-R1"
  default     = "/path/to/deepseek-r1"
}

variable "registry" {
  type        = string
  description = "Where Moreh's images are"
  default     = "255250787067.dkr.ecr.ap-northeast-2.amazonaws.com"
}

variable "share" {
  type        = number
  description = "Of the published load, its length and width: 1 is all, less is for a try"
  default     = 1

  validation {
    condition     = var.share > 0 && var.share <= 1
    error_message = "The share is above 0, and at most 1."
  }
}

cluster "moai" {
  context            = var.context
  namespace          = var.namespace
  image              = "debian:12"
  image_pull_secrets = ["moreh-registry"]
  tolerations        = [{ key = "amd.com/gpu", operator = "Exists", effect = "NoSchedule" }]
}

# The pod that the load is sent from, as the study's client was one.
host "client" {
  cluster = cluster.moai
}

model "r1" {
  repo = "deepseek-ai/DeepSeek-R1" # as it is served; the weights are on the servers
}

engine "manifests" "mif" {
  description = "Istio, Heimdall, and Odin with two prefill and three decode instances"
  host        = host.client
  model       = model.r1
  files       = ["gateway.yaml", "heimdall.yaml", "inference-service.yaml"]
  values = {
    prefill  = 2
    decode   = 3
    registry = var.registry
    weights  = var.weights
  }

  wait = [
    { kind = "Gateway", condition = "Programmed" },
    { kind = "Deployment", name = "heimdall", condition = "Available" },
    { kind = "InferenceService", condition = "Ready" },
  ]
  service = "mif-istio:80"
  roles = {
    prefill = { pods = "mif.moreh.io/role=prefill", instances = 2 }
    decode  = { pods = "mif.moreh.io/role=decode", instances = 3 }
  }

  ready {
    stall = "45m" # 689 GB are loaded, and kernels compiled
  }
}
