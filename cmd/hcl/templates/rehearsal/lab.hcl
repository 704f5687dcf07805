# Two simulated engines on this machine, measured under the same loads. It needs
# no GPU, no Docker and no SSH; everything else is as with real engines:
#
#     hcl plan       what would be started and measured, in which order
#     hcl apply      do it; whatever is already measured is not measured again
#     hcl report     what came out
#
# Change anything below and apply again: only what the change touches is stale.

lab "rehearsal" {
  description = "Two simulated engines on this machine"
}

# Where engines run. A box that you rent has an address, such as "203.0.113.10",
# and gpus = "8xH200"; engines then run in containers.
host "here" {
  address = "local"
  runtime = "process" # without Docker
}

# engine KIND NAME. The kind "sim" is part of hcl, and its flags say how fast it
# is. Real kinds are "vllm", "sglang" and "trtllm": they have an image, a model and
# the engine's own flags.

engine "sim" "slow" {
  host  = host.here
  flags = { ttft = "40ms", itl = "6ms" } # to the first token, and between tokens
}

engine "sim" "fast" {
  inherits = engine.sim.slow # whatever is not said here
  port     = 8101
  flags    = { itl = "3ms" }
}

# What is sent: prompts of 128 random tokens, new ones for every cell.
dataset "random" "short" {
  input_tokens = 128
}

benchmark "online" {
  # Every engine at every concurrency: 6 cells.
  matrix {
    engine      = [engine.sim.slow, engine.sim.fast]
    concurrency = [1, 4, 16]
  }

  engine   = matrix.engine
  dataset  = dataset.random.short
  requests = 6 * matrix.concurrency # so that all cells run about equally long

  load {
    concurrency   = matrix.concurrency
    output_tokens = 64
  }

  # What counts as good; the report shows how many requests per second were.
  slo {
    ttft_p99 = "100ms"
    tpot_p99 = "5ms"
  }
}
