# What models are asked today: chats that offer tools and want answers of a form,
# conversations whose users take their time, and requests at the times at which people
# made them. The engine is simulated, so
#
#     hcl apply examples/workloads
#
# runs here in seconds. For a real engine change its block, and the paths to your own files.

lab "workloads" {
  description = "Tools, forms of answers, conversations, and a recorded day"
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

# Conversations whose users think before they ask again. The salt keeps those of one cell out of
# the cache of the next.
dataset "conversation" "talks" {
  path       = "talks.jsonl"
  think_time = "300ms"
  salt       = true
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

benchmark "talks" {
  engine   = engine.sim.thinker
  dataset  = dataset.conversation.talks
  requests = 28
  load {
    concurrency   = 4 # live conversations, with those whose user thinks
    output_tokens = 48
    endpoint      = "chat"
    ignore_eos    = false
  }
}

benchmark "day" {
  engine  = engine.sim.thinker
  dataset = dataset.trace.day
  load {
    endpoint = "chat"
  }
}
