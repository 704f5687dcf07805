# Is who is fast also right? GSM8K beside the loads: the study did not ask.
#
# Its two files are not shipped: put test.jsonl and train.jsonl of the repository openai/grade-school-math (MIT) into the folder gsm8k. Without
# them, leave these cells out: --only 'benchmark != gsm8k'

# All 1,319 questions to each server, on the start whose loads are measured. vLLM's own test of DeepSeek-R1 asks so, and expects 95 %.
accuracy "gsm8k" {
  engine       = local.servers
  task         = "gsm8k"
  protocol     = "vllm" # by completions, which all of them serve
  path         = "gsm8k/test.jsonl"
  sha256       = "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14"
  shots_path   = "gsm8k/train.jsonl"
  shots_sha256 = "17f347dc51477c50d4efb83959dbb7c56297aba886e5544ee2aaed3024813465"
  baseline     = engine.sglang.h200
  margin       = 0.01
  at           = [128]
}
