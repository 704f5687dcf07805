# Fast and right: three simulated engines are measured, and asked 300 questions of their own beside that.
#
#     hcl plan  examples/accuracy-simulated     what would be asked, and what that can show
#     hcl apply examples/accuracy-simulated     ask it: under a minute
#     hcl tune  examples/accuracy-simulated     which of them is best, if it has to be right
#
# Each engine answers from a table, so that it is known what comes out: "full" has 264 of 300 answers right.
# "close" loses one of them and gains another, which is less than the margin for certain: it holds. "coarse"
# loses 18 and gains 2, and is worse, although it is the fastest.

lab "accuracy-simulated" {
  description = "What is fast beside what is right, simulated"
}

host "here" {
  address = "local"
  runtime = "process" # without Docker
}

engine "sim" "full" {
  host  = host.here
  flags = { ttft = "30ms", itl = "4ms", answers = file("full.jsonl") }
}

engine "sim" "close" {
  host  = host.here
  port  = 8101
  flags = { ttft = "25ms", itl = "3ms", answers = file("close.jsonl") }
}

engine "sim" "coarse" {
  host  = host.here
  port  = 8102
  flags = { ttft = "20ms", itl = "2ms", answers = file("coarse.jsonl") }
}

dataset "random" "short" {
  input_tokens = 128
}

benchmark "online" {
  matrix { engine = [engine.sim.full, engine.sim.close, engine.sim.coarse] }
  engine   = matrix.engine
  dataset  = dataset.random.short
  requests = 64
  load {
    concurrency   = 16
    output_tokens = 64
  }
}

accuracy "books" {
  engine   = [engine.sim.full, engine.sim.close, engine.sim.coarse]
  task     = "jsonl"
  path     = "questions.jsonl" # a line: {"question": "…", "answer": "37"}
  scoring  = "numeric"         # the last number of the answer counts
  baseline = engine.sim.full   # question by question
  margin   = 0.03              # of 300 answers, 9 may be lost
  at       = [16]
}

# Which is fastest, of those that are right? Each start is asked after its loads, and who is worse than the first is out.
tune "precision" {
  objective = benchmark.online
  start     = engine.sim.full
  accuracy  = accuracy.books

  stage "engine" { engines = [engine.sim.close, engine.sim.coarse] }

  keep   = 1
  finals = 2
  budget { starts = 10 }
}
