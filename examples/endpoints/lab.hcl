# The other ways to ask a server. The engine is simulated, so
#
#     hcl apply examples/endpoints
#
# runs here in seconds. For a real engine change its block.

lab "endpoints" {
  description = "The Responses API"
}

host "here" {
  address = "local"
  runtime = "process" # without Docker
}

engine "sim" "thinker" {
  description = "Thinks before it answers"
  host        = host.here
  flags       = { ttft = "30ms", itl = "3ms", reasoning = 16 }
}

dataset "random" "short" { input_tokens = 60 }

# Turns of a conversation: each request has all that was said before.
dataset "random-conversation" "chats" {
  turns           = 3
  question_tokens = 40
}

# The same prompts as text of a chat, and as the input of the Responses API: what does the newer
# one cost?
benchmark "newer" {
  engine   = engine.sim.thinker
  dataset  = dataset.random.short
  requests = 48
  matrix { endpoint = ["chat", "responses"] }
  load {
    concurrency   = 6
    output_tokens = 48
    endpoint      = matrix.endpoint
  }
}

benchmark "talks" {
  engine   = engine.sim.thinker
  dataset  = dataset.random-conversation.chats
  requests = 30
  load {
    concurrency   = 4
    output_tokens = 32
    endpoint      = "responses"
  }
}
