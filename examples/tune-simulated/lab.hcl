# Which settings of an engine are best? A tune block tries them in stages and
# says which one wins, or that none does:
#
#     hcl plan  examples/tune-simulated     stages, starts, what is tried first
#     hcl apply examples/tune-simulated     try them, about a minute
#     hcl tune  examples/tune-simulated     the answer, again
#
# The engines are simulated, on this machine: their flags say how fast they are.

lab "tune-simulated" {
  description = "Batching, then speculation, of a simulated engine"
}

host "here" {
  address        = "local"
  runtime        = "process" # without Docker
  price_per_hour = 2         # so that the budget can be one of money
}

engine "sim" "baseline" {
  description = "What is there today"
  host        = host.here
  flags = {
    # requests in flight:ttft/itl; between the rows it interpolates
    table = "1:20ms/4ms,16:60ms/12ms"
  }
}

dataset "random" "short" {
  input_tokens = 64
}

benchmark "chat" {
  matrix {
    concurrency = [4, 8]
  }

  engine   = engine.sim.baseline
  dataset  = dataset.random.short
  requests = 6 * matrix.concurrency

  load {
    concurrency   = matrix.concurrency
    output_tokens = 32
  }

  slo {
    ttft_p90 = "150ms"
  }
}

tune "settings" {
  objective = benchmark.chat
  figure    = "output_throughput"
  start     = engine.sim.baseline

  # Every stage is tried on what the stages before have left, which stays an
  # option by itself.
  stage "batching" {
    flags = [
      { table = "1:20ms/4ms,16:60ms/6ms" },   # better
      { table = "1:20ms/4ms,16:60ms/12ms" },  # what the baseline says, so never started
      { table = "1:300ms/2ms,16:900ms/3ms" }, # fast, and never within the SLO
    ]
  }
  stage "memory" {
    flags = [{ fail-start = "torch.OutOfMemoryError: CUDA out of memory" }] # a result, as others
  }

  keep   = 1
  finals = 2

  budget {
    starts = 12
    time   = "30m"
    money  = 1
  }
}
