# What models are asked today: chats that offer tools and want answers of a form, and
# requests at the times at which people made them. The engine is simulated, so
#
#     hcl apply examples/workloads
#
# runs here in seconds. For a real engine change its block, and the paths to your own files.

lab "workloads" {
  description = "Tools, forms of answers, and a recorded day"
}

host "here" {
  address = "local"
  runtime = "process" # without Docker
}

engine "sim" "thinker" {
  description = "Thinks before it answers, and calls a tool every other time that it may"
  host        = host.here
  flags = {
    ttft       = "30ms"
    itl        = "3ms"
    reasoning  = 16
    call-every = 2
  }
}

# Each line asks as it says: with tools, with a schema, with neither.
dataset "jsonl" "tools" {
  path = "tools.jsonl"
}

# A table as BurstGPT publishes it: when each request came, and how long it and its answer were.
dataset "trace" "day" {
  path     = "day.csv"
  of_model = "ChatGPT" # the trace has GPT-4, too
  slowdown = 0.5       # twice as fast as it was
}

benchmark "tools" {
  engine   = engine.sim.thinker
  dataset  = dataset.jsonl.tools
  requests = 24
  load {
    concurrency = 4
    endpoint    = "chat"
    ignore_eos  = false
  }
}

benchmark "day" {
  engine  = engine.sim.thinker
  dataset = dataset.trace.day
  load {
    endpoint = "chat"
  }
}
