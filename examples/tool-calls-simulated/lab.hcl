# Tool calls of two deployments: two simulated engines are measured, and sent 60 requests with tools beside that.
#
#     hcl plan  examples/tool-calls-simulated     what would be asked, and what that can show
#     hcl apply examples/tool-calls-simulated     ask it: half a minute
#
# Each engine answers from a table, so that it is known what comes out. "hasty" is faster. It writes numbers as texts in 6 requests, breaks off the
# second of two calls in 4, and in 5 it answers with a text where "careful" calls a tool. It is worse, by its marks and by F1.

lab "tool-calls-simulated" {
  description = "Tool calls of two deployments beside their speed, simulated"
}

host "here" {
  address = "local"
  runtime = "process" # without Docker
}

engine "sim" "careful" {
  host  = host.here
  flags = { ttft = "30ms", itl = "4ms", answers = file("careful.jsonl") }
}

engine "sim" "hasty" {
  host  = host.here
  port  = 8101
  flags = { ttft = "20ms", itl = "2ms", answers = file("hasty.jsonl") }
}

dataset "random" "short" {
  input_tokens = 128
}

benchmark "online" {
  matrix { engine = [engine.sim.careful, engine.sim.hasty] }
  engine   = matrix.engine
  dataset  = dataset.random.short
  requests = 64
  load {
    endpoint      = "chat"
    concurrency   = 16
    output_tokens = 64
  }
}

accuracy "journeys" {
  engine   = [engine.sim.careful, engine.sim.hasty]
  task     = "tool-calls"
  path     = "requests.jsonl" # a line: the body of a request to chat completions
  baseline = engine.sim.careful
  margin   = 0.05
  at       = [16]
}
