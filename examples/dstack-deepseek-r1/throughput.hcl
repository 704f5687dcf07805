# The engines' own throughput benchmarks, each cell in a one-off container: how
# long a batch of prompts takes that are all there at the start.

# The published commands give --max-model-len 32768 to all of them.
engine "sglang" "h200-offline" {
  inherits = engine.sglang.h200
  flags    = { context-length = 32768 }
}

# vLLM's benchmark became a part of the package with 0.9. Before it was a script of the
# repository, which the image of 0.7.3 does not have.
locals {
  vllm_script = can(regex("^v?0\\.[0-8]\\.", var.vllm_version))
}

engine "vllm" "h200-offline" {
  inherits        = engine.vllm.h200
  flags           = { max-model-len = 32768 }
  offline_command = local.vllm_script ? ["python3", "/tmp/vllm/benchmarks/benchmark_throughput.py"] : null
  setup = concat(engine.vllm.h200.setup, local.vllm_script ? [
    "git clone --depth 1 --branch v0.7.3 https://github.com/vllm-project/vllm.git /tmp/vllm",
  ] : [])
}

engine "sglang" "mi300x-offline" {
  inherits = engine.sglang.mi300x
  version  = "0.4.2.post4" # of the image, as the study says; it decides how the benchmark is started
  flags    = { context-length = 32768 }
}

# TensorRT-LLM runs an engine that is built first. The build takes hours; its
# output stays on the host and is used again while nothing here changes.
variable "trtllm_build_image" {
  type        = string
  description = "TensorRT-LLM, built from its deepseek branch"
}

locals {
  trtllm_build = {
    MODEL_REPO            = "https://huggingface.co/${model.r1.repo}"
    MAX_SEQ_LEN           = 128000
    MAX_INPUT_LEN         = 64000
    MAX_NUM_TOKENS        = 16384
    MAX_BATCH_SIZE        = 2048
    MODEL_DOWNLOAD_DIR    = "/root/.cache/DeepSeek-R1"
    ENGINE_DIR            = "/Deepseek-R1-Engine"
    TOKENIZER_DIR         = "/root/.cache/DeepSeek-R1"
    MODEL_FOLDER          = "/triton_model_repo"
    CHECK_POINT_DIR       = "/workflow/TensorRT-LLM/examples/deepseek_v3/deepseek-ckpt"
    TRITON_MAX_BATCH_SIZE = 1
    INSTANCE_COUNT        = 1
    MAX_QUEUE_DELAY_MS    = 0
    MAX_QUEUE_SIZE        = 0
    FILL_TEMPLATE_SCRIPT  = "/tensorrtllm_backend/tools/fill_template.py"
    DECOUPLED_MODE        = true # for streaming
  }
}

engine "trtllm" "h200-offline" {
  host  = host.h200
  model = model.r1
  image = var.trtllm_build_image
  env   = local.trtllm_build
  flags = {
    tokenizer   = local.trtllm_build.TOKENIZER_DIR
    tp_size     = 8
    max_seq_len = 32768
  }
  container {
    shm_size = "32GiB"
    mounts   = ["/data/DeepSeek-R1:${local.trtllm_build.MODEL_DOWNLOAD_DIR}"]
  }

  build {
    commands = [
      "git clone --branch deepseek --single-branch https://github.com/NVIDIA/TensorRT-LLM.git",
      "test -d $MODEL_DOWNLOAD_DIR/.git || git clone \"$MODEL_REPO\" \"$MODEL_DOWNLOAD_DIR\"",
      "cd TensorRT-LLM/examples/deepseek_v3",
      join(" ", [
        "python3 convert_checkpoint.py",
        "--model_dir $TOKENIZER_DIR",
        "--output_dir $CHECK_POINT_DIR",
        "--dtype bfloat16",
        "--tp_size 8",
      ]),
      join(" ", [
        "trtllm-build",
        "--checkpoint_dir $CHECK_POINT_DIR",
        "--gemm_plugin bfloat16",
        "--output_dir $ENGINE_DIR",
        "--max_seq_len $MAX_SEQ_LEN",
        "--max_input_len $MAX_INPUT_LEN",
        "--max_batch_size $MAX_BATCH_SIZE",
        "--gpt_attention_plugin bfloat16",
        "--use_paged_context_fmha enable",
      ]),
    ]
    output = local.trtllm_build.ENGINE_DIR
  }
}

# 6 + 3 + 3 cells for each engine, and 3 more on MI300X that only the published
# table has.
benchmark "offline" {
  mode = "offline"

  matrix {
    engine        = local.offline
    output_tokens = [800]
    batch         = [32, 64, 128, 256, 512, 1024]
  }
  matrix {
    engine        = local.offline
    output_tokens = [1600, 3200]
    batch         = [256, 512, 1024]
  }
  matrix {
    engine        = [engine.sglang.mi300x-offline, engine.vllm.mi300x]
    output_tokens = [1600]
    batch         = [32, 64, 128]
  }

  engine   = matrix.engine
  dataset  = dataset.random.isl3200
  requests = matrix.batch

  load { output_tokens = matrix.output_tokens }

  reference "dstack, March 2025" {
    source = "https://github.com/dstackai/benchmarks"
    rows = [
      for r in csvdecode(file("published/offline.csv")) : merge(r, {
        engine        = local.published_offline["${r.GPU} ${r.backend}"]
        output_tokens = r.output_len
        batch         = r.num_requests
      })
    ]
  }
}

locals {
  offline = [
    engine.sglang.h200-offline,
    engine.vllm.h200-offline,
    engine.trtllm.h200-offline,
    engine.sglang.mi300x-offline,
    engine.vllm.mi300x,
  ]

  published_offline = {
    "h200 sglang"  = "sglang.h200-offline"
    "h200 vllm"    = "vllm.h200-offline"
    "h200 trt-llm" = "trtllm.h200-offline"
    "mi300 sglang" = "sglang.mi300x-offline"
    "mi300 vllm"   = "vllm.mi300x"
  }
}
