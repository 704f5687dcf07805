# How many requests in flight each of two simulated engines holds under one SLO. It needs no GPU, no Docker and no SSH:
#
#     hcl apply examples/capacity-under-slo

lab "capacity-under-slo" {
  description = "What a server holds under an SLO, simulated"
}

host "here" {
  address = "local"
  runtime = "process"
}

engine "sim" "steady" {
  description = "Gets slower bit by bit"
  host        = host.here
  flags       = { table = "1:20ms/1ms,8:40ms/1ms,64:400ms/1ms" }
}

engine "sim" "cliff" {
  description = "Fast up to 12 in flight, and no longer with 20"
  host        = host.here
  port        = 8101
  flags       = { table = "12:20ms/1ms,20:900ms/1ms" }
}

dataset "random" "short" {
  input_tokens = 64
}

benchmark "chat" {
  matrix {
    engine = [engine.sim.steady, engine.sim.cliff]
  }
  engine  = matrix.engine
  dataset = dataset.random.short
  capacity {
    of        = "concurrency" # the load, which nothing else may say
    within    = [1, 64]
    precision = 0.25 # how near the two bounds come
    budget    = "2m" # of measuring, for each engine
  }
  slo {
    ttft_p95 = "300ms"
  }
  load { output_tokens = 4 }
}
