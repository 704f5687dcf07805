# A first lab: two simulated engines on this machine, each measured with 1, 4
# and 16 requests in flight. It needs no GPU, no Docker and no SSH:
#
#     hcl plan  examples/quickstart     what would be measured
#     hcl apply examples/quickstart     measure it
#
# Six cells are measured in well under a minute. A second apply measures
# nothing: all is up to date. Change a flag below, and only its cells are stale.

lab "quickstart" {
  description = "Static against batched serving, simulated"
}

# Where engines run. For a real one, write its address, such as "203.0.113.7",
# and what it has, such as gpus = "8xH200"; engines then run in containers.
host "here" {
  address = "local"
  runtime = "process" # without Docker
}

# What is compared: engine KIND NAME. The kind "sim" is the simulated engine in
# the hcl binary; its flags say how fast it is. Real kinds are "vllm", "sglang"
# and "trtllm", with an image, and the engine's own flags.
engine "sim" "steady" {
  description = "Equally fast under any load"
  host        = host.here
  flags = {
    ttft = "30ms" # time to the first token
    itl  = "4ms"  # time between tokens
  }
}

engine "sim" "batching" {
  description = "Fast alone, slower the more requests share a batch"
  host        = host.here
  port        = 8101
  flags = {
    # in flight:ttft/itl; between the rows it interpolates
    table = "1:20ms/2ms,4:40ms/4ms,16:90ms/8ms"
  }
}

# What is sent: prompts of 128 random tokens.
dataset "random" "short" {
  input_tokens = 128
}

benchmark "online" {
  # Every engine at every concurrency: six cells, in this order.
  matrix {
    engine      = [engine.sim.steady, engine.sim.batching]
    concurrency = [1, 4, 16]
  }

  engine  = matrix.engine
  dataset = dataset.random.short

  # Six rounds at any concurrency, so that all cells take about equally long.
  requests = 6 * matrix.concurrency

  load {
    concurrency   = matrix.concurrency
    output_tokens = 64
  }

  # What counts as good; the report shows how many requests per second were.
  slo {
    ttft_p99 = "100ms"
    tpot_p99 = "6ms"
  }
}
