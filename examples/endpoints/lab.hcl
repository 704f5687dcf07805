# The other ways to ask a server. The engine is simulated, so
#
#     hcl apply examples/endpoints
#
# runs here in seconds. For a real engine change its block.

lab "endpoints" {
  description = "The Responses API, embeddings and ranks"
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

# A model that makes vectors of texts, and one that orders documents by a query: vLLM serves them
# with --runner pooling, SGLang with --is-embedding. They generate nothing, so that what counts is
# how long a request takes and how many tokens are read in a second.
engine "sim" "reader" {
  description = "Makes embeddings, and ranks"
  host        = host.here
  flags       = { ttft = "20ms", embeds = "true" }
}

dataset "random-rerank" "search" {
  documents       = 20
  query_tokens    = 12
  document_tokens = 100
}

benchmark "embeddings" {
  engine   = engine.sim.reader
  dataset  = dataset.random.short
  requests = 60
  matrix { batch_size = [1, 32] }
  load {
    concurrency = 6
    endpoint    = "embeddings"
    batch_size  = matrix.batch_size
  }
  slo { e2el_p95 = "1s" }
}

benchmark "rerank" {
  engine   = engine.sim.reader
  dataset  = dataset.random-rerank.search
  requests = 60
  load {
    concurrency = 6
    endpoint    = "rerank"
  }
}
