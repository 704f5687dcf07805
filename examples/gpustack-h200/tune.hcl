# --- The study as a tuning --------------------------------------------------------
#
# The same question, asked of hcl: it starts what the steps above have written down
# by hand, keeps the two best of each stage, and says what is certain. Start with
# "hcl rehearse": the stand-ins are as fast as the study has published, beside
# vLLM's; what it did not measure is taken for the product of what it did.

tune "throughput" {
  objective = benchmark.steps
  figure    = "total_throughput"
  start     = engine.vllm.baseline

  stage "engine" {
    engines = [engine.sglang.baseline, engine.trtllm.baseline]
    pace    = [local.total["sglang.baseline"] / local.total["vllm.baseline"], local.total["trtllm.baseline"] / local.total["vllm.baseline"]]
  }
  stage "parallelism" {
    flags = [{ enable-dp-attention = true }]
    pace  = [local.total["sglang.dp-attention"] / local.total["sglang.baseline"]]
  }
  stage "compile" {
    flags = [{ enable-torch-compile = true }]
    pace  = [local.total["sglang.torch-compile"] / local.total["sglang.dp-attention"]]
  }
  stage "speculation" {
    flags = [{
      speculative-algorithm        = "EAGLE"
      speculative-num-steps        = 1
      speculative-eagle-topk       = 1
      speculative-num-draft-tokens = 2
    }]
    pace = [local.total["sglang.mtp"] / local.total["sglang.torch-compile"]]
  }

  keep   = 2
  finals = 3
  budget {
    starts = 20
    time   = "12h"
  }
}

locals {
  # Tokens a second that the study has published, input and output, by engine.
  total = {
    for r in local.published : local.published_engine[r.serve_command] => tonumber(r.total_token_throughput)
    if r.case == "sharegpt-1000"
  }
}
