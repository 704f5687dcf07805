# The study's own charts, in its order. Its throughput counts all tokens, of
# prompts and of answers. What else can be told from the results is in the summary
# and in the table.

report {
  title  = "DeepSeek-R1 on 8xH200 and 8xMI300X"
  output = "report.html"

  columns = [
    "total_throughput", "output_throughput", "output_throughput_per_gpu", "duration_s",
    "mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "p99_tpot_ms", "mean_e2el_ms",
  ]
  automatic = ["prefix-cache", "time-lines"]

  chart "Online: throughput against latency" {
    x     = "mean_e2el_ms"
    y     = "total_throughput"
    label = "concurrency"
    where = "dataset = random and benchmark = online and output_tokens = 800"
  }
  chart "Offline: throughput against duration" {
    x     = "duration_s"
    y     = "total_throughput"
    label = "batch"
    where = "benchmark = offline and output_tokens = 800"
  }
  chart "Online: throughput and latency against output length" {
    x     = "output_tokens"
    y     = ["total_throughput", "mean_e2el_ms"]
    where = "dataset = random and concurrency = 128"
  }
  chart "Offline: throughput and duration against output length" {
    x     = "output_tokens"
    y     = ["total_throughput", "duration_s"]
    where = "benchmark = offline and batch = 256"
  }
  chart "First and next tokens against concurrency" {
    x     = "concurrency"
    y     = ["mean_ttft_ms", "mean_tpot_ms"]
    where = "dataset = random and benchmark = online and output_tokens = 800"
  }
  chart "First and next tokens against output length" {
    x     = "output_tokens"
    y     = ["mean_ttft_ms", "mean_tpot_ms"]
    where = "dataset = random and concurrency = 128"
  }
}
