# The study's question: how many tokens a second come out in all, and what a user
# then waits for the next one.

report {
  title  = "DeepSeek-R1-0528 on 8xH200, step by step"
  output = "report.html"
  notes = [
    "First the fastest engine out of the box, then one flag at a time. The start and the best are held against each other under four other loads and with four requests in flight.",
  ]
  series   = ["engine"]
  baseline = engine.vllm.baseline
  columns  = ["total_throughput", "output_throughput", "mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "p99_tpot_ms"]

  chart "Every step, under the same load" {
    x     = "engine"
    y     = ["total_throughput", "mean_tpot_ms"]
    where = "benchmark = steps"
  }
  chart "The start against the best, under other loads" {
    x     = "engine"
    y     = ["total_throughput", "mean_tpot_ms"]
    where = "benchmark = cases"
  }
}
