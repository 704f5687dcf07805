# What models are asked today: chats that offer tools and want answers of a form,
# conversations whose users take their time, and requests at the times at which people
# made them. The engine is simulated, so
#
#     hcl apply examples/workloads
#
# runs here in seconds. For a real engine change its block, and the paths to your own files.

lab "workloads" {
  description = "Tools, forms of answers, conversations, agents, images, and a recorded day"
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
    adapters   = "sql,summaries" # vLLM: lora-modules = ["sql=/adapters/sql", …]
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

# An agent at work: the results of its tools come as late as they did when it was recorded, and
# every engine is told of the same answers.
dataset "conversation" "agent" {
  path    = "agent.jsonl"
  history = "recorded"
}

# Calls at a help desk, each when it came.
dataset "conversation" "desk" {
  path     = "desk.jsonl"
  arrivals = "recorded"
}

# Questions about images that lie in a folder.
dataset "jsonl" "looks" {
  path      = "looks.jsonl"
  image_dir = "photos"
}

# Conversations without a file: four turns each, behind instructions that all share.
dataset "random-conversation" "chats" {
  turns           = 4
  prefix_tokens   = 200
  question_tokens = 40
  think_time      = "100ms"
}

# Sessions of agents with sub-agents: how long prompts were, which blocks they shared, and when they
# went. Nobody waits for the coffee break that one of them took.
dataset "weka" "sessions" {
  path      = "sessions.jsonl"
  max_delay = "500ms" # of AgentX: "10s"
}

# Agents without a file: in each turn two sub-agents, and three calls of tools, which take their time.
dataset "random-agents" "agents" {
  turns           = 2
  tool_calls      = 3
  sub_agents      = 2
  prefix_tokens   = 400 # instructions and tools, which all share
  question_tokens = 40
  result_tokens   = 80
  tool_delay      = "50ms"
  think_time      = "100ms"
}

# Questions about images of noise, up to two, each like no other.
dataset "random-images" "photos" {
  input_tokens       = 40
  images             = 1
  images_range_ratio = 1 # from none to two
  image_sizes        = { "640x360" = 3, "256x256" = 1 }
}

dataset "random" "short" { input_tokens = 60 }

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

benchmark "agent" {
  engine   = engine.sim.thinker
  dataset  = dataset.conversation.agent
  requests = 18
  load {
    concurrency   = 3
    output_tokens = 40
    endpoint      = "chat"
    ignore_eos    = false
  }
}

benchmark "chats" {
  engine   = engine.sim.thinker
  dataset  = dataset.random-conversation.chats
  requests = 32
  load {
    concurrency   = 4
    output_tokens = 32
    endpoint      = "chat"
  }
}

benchmark "sessions" {
  engine   = engine.sim.thinker
  dataset  = dataset.weka.sessions
  requests = 28 # of all agents
  load {
    concurrency = 2 # live sessions, each with all its agents
  }
}

benchmark "agents" {
  engine   = engine.sim.thinker
  dataset  = dataset.random-agents.agents
  requests = 104 # of four sessions: 13 in each turn
  load {
    concurrency   = 2 # live sessions, each with all its agents
    output_tokens = 24
  }
}

benchmark "images" {
  engine   = engine.sim.thinker
  dataset  = dataset.random-images.photos
  requests = 24
  load {
    concurrency   = 4
    output_tokens = 24
    endpoint      = "chat"
  }
}

benchmark "desk" {
  engine  = engine.sim.thinker
  dataset = dataset.conversation.desk
  load {
    endpoint = "chat"
  }
}

benchmark "looks" {
  engine   = engine.sim.thinker
  dataset  = dataset.jsonl.looks
  requests = 12
  load {
    concurrency = 3
    endpoint    = "chat"
  }
}

# A tenth of the requests goes to one LoRA adapter, three tenths to another, the rest to the model.
benchmark "adapters" {
  engine   = engine.sim.thinker
  dataset  = dataset.random.short
  requests = 60
  load {
    concurrency   = 6
    output_tokens = 24
    adapters      = { sql = 0.3, summaries = 0.1 }
  }
}

benchmark "day" {
  engine  = engine.sim.thinker
  dataset = dataset.trace.day
  load {
    endpoint = "chat"
  }
}
