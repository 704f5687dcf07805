# Prompts are meaningful text, cut to an exact length, so that the experts of the
# model are loaded as unevenly as in real use.

dataset "sharegpt" "isl512" {
  path         = "ShareGPT_V3_unfiltered_cleaned_split.json"
  sha256       = "35f0e213ce091ed9b9af2a1f0755e9d39f9ccec34ab281cd4ca60d70f6479ba4"
  tokenizer    = "tokenizer.json"
  input_tokens = 512
}

dataset "sharegpt" "isl1000" {
  path         = "ShareGPT_V3_unfiltered_cleaned_split.json"
  sha256       = "35f0e213ce091ed9b9af2a1f0755e9d39f9ccec34ab281cd4ca60d70f6479ba4"
  tokenizer    = "tokenizer.json"
  input_tokens = 1000
}

dataset "sharegpt" "isl2000" {
  path         = "ShareGPT_V3_unfiltered_cleaned_split.json"
  sha256       = "35f0e213ce091ed9b9af2a1f0755e9d39f9ccec34ab281cd4ca60d70f6479ba4"
  tokenizer    = "tokenizer.json"
  input_tokens = 2000
}

dataset "text" "isl512" {
  path         = "project_gutenberg"
  tokenizer    = "tokenizer.json"
  input_tokens = 512
}

dataset "text" "isl1000" {
  path         = "project_gutenberg"
  tokenizer    = "tokenizer.json"
  input_tokens = 1000
}

dataset "text" "isl2000" {
  path         = "project_gutenberg"
  tokenizer    = "tokenizer.json"
  input_tokens = 2000
}

# Rate, warm-up and cool-down were found by trial, for each workload.
benchmark "throughput" {
  zip {
    dataset = [
      dataset.sharegpt.isl512, dataset.text.isl512,
      dataset.sharegpt.isl1000, dataset.text.isl1000,
      dataset.sharegpt.isl2000, dataset.text.isl2000,
    ]
    output_tokens = [512, 512, 1000, 1000, 2000, 2000]
    rate          = [140, 140, 80, 80, 48, 60]
    warmup        = [for s in [120, 130, 140, 150, 300, 260] : "${ceil(s * var.share)}s"]
    cooldown      = [for s in [70, 70, 110, 120, 230, 240] : "${ceil(s * var.share)}s"]
  }

  engine      = engine.manifests.mif
  dataset     = matrix.dataset
  requests    = floor(32400 * var.share)
  percentiles = [1, 10, 25, 50, 75, 90]

  load {
    rate          = matrix.rate
    concurrency   = ceil(10800 * var.share)
    output_tokens = matrix.output_tokens
    ignore_eos    = true
    warmup        = matrix.warmup
    cooldown      = matrix.cooldown
  }

  reference "Moreh" {
    source = local.source
    rows = [
      for r in local.published : merge(r, { dataset = local.published_dataset[r.workload] })
      if can(local.published_dataset[r.workload])
    ]
  }
}

locals {
  source    = "https://docs.moreh.io/benchmarking/deepseek_r1_671b_on_amd_mi300x_gpus_maximum_throughput/"
  published = csvdecode(file("published/results.csv"))

  published_dataset = {
    "sharegpt 512/512"    = "sharegpt.isl512"
    "gutenberg 512/512"   = "text.isl512"
    "sharegpt 1000/1000"  = "sharegpt.isl1000"
    "gutenberg 1000/1000" = "text.isl1000"
    "sharegpt 2000/2000"  = "sharegpt.isl2000"
    "gutenberg 2000/2000" = "text.isl2000"
  }
}
