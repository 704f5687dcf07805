# The most output tokens a second that a cluster of five 8xMI300X servers gives
# with DeepSeek-R1, two of them for prefill and three for decode: Moreh's study,
# as a lab. The cluster is brought up as the study says; this lab sends the load.
# README.md says which published flag became which line.
#
# Write the cluster's address into lab.hclvars, and fetch the texts once:
#
#     wget https://huggingface.co/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered/resolve/main/ShareGPT_V3_unfiltered_cleaned_split.json
#     and Project Gutenberg's books as plain text, into the folder project_gutenberg

lab "moreh-mi300x-cluster" {
  description  = "DeepSeek-R1 on 40 MI300X, prefill and decode apart (Moreh)"
  max_duration = "6h"
}

variable "url" {
  type        = string
  description = "Of the cluster's gateway"
}

variable "sharegpt" {
  type        = string
  description = "File of ShareGPT conversations"
  default     = "ShareGPT_V3_unfiltered_cleaned_split.json"
}

variable "gutenberg" {
  type        = string
  description = "Folder of Project Gutenberg's books as plain text"
  default     = "project_gutenberg"
}

model "r1" {
  repo = "deepseek-ai/DeepSeek-R1" # the name that requests carry
}

# A server that someone else runs: nothing is started or stopped.
engine "external" "moai" {
  url   = var.url
  model = model.r1
}
