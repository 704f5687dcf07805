package sim

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBatch plays each tool: it takes as long as the engine would, and its file
// has the tool's members.
func TestBatch(t *testing.T) {
	dir := t.TempDir()
	prompts := filepath.Join(dir, "prompts.jsonl")
	if err := os.WriteFile(prompts, []byte(`{"task_id": 0, "input_ids": [1, 2, 3], "output_tokens": 5}
{"task_id": 1, "input_ids": [4, 5, 6], "output_tokens": 5}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	chats := filepath.Join(dir, "chats.json")
	if err := os.WriteFile(chats, []byte(`[{"conversations": [{"value": "one two three"}, {"value": "four five six seven eight"}]}, {"conversations": []}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		"vllm bench throughput --dataset-name sharegpt --dataset-path CHATS --model m --num-prompts 2 --output-json RESULT":                                                                                                                                        `"total_num_tokens":16`,
		"python3 benchmarks/benchmark_throughput.py --dataset CHATS --output-len 5 --model m --num-prompts 2 --output-json RESULT":                                                                                                                                 `"total_num_tokens":16`,
		"vllm bench throughput --dataset-name prefix_repetition --prefix-repetition-num-prefixes 2 --prefix-repetition-prefix-len 7 --prefix-repetition-suffix-len 1 --prefix-repetition-output-len 5 --model m --num-prompts 5 --output-json RESULT":              `"total_num_tokens":52`,
		"python3 -m sglang.bench_offline_throughput --dataset-name generated-shared-prefix --model-path m --num-prompts 4 --gsp-num-groups 2 --gsp-prompts-per-group 2 --gsp-system-prompt-len 7 --gsp-question-len 1 --gsp-output-len 5 --result-filename RESULT": `"total_input_tokens":32`,
		"vllm bench throughput --dataset-name random --model m --num-prompts 2 --input-len 3 --output-len 5 --output-json RESULT":                                                                                                                                  `"total_num_tokens":16`,
		"python3 benchmarks/benchmark_throughput.py --model m --num-prompts 2 --input-len 3 --output-len 5 --output-json RESULT":                                                                                                                                   `"num_requests":2`,
		"python3 -m sglang.benchmark.offline_throughput --model-path m --num-prompts 2 --dataset-name random --dataset-path x --random-input-len 3 --random-output-len 5 --result-filename RESULT --tp 8":                                                          `"total_output_tokens":10`,
		"trtllm-bench --model m --model_path /m throughput --dataset PROMPTS --num_requests 2 --report_json RESULT --tp 8 --extra_llm_api_options /c.yml --backend pytorch":                                                                                        `"avg_input_length":3`,
	} {
		result := filepath.Join(t.TempDir(), "result.json")
		args := strings.Fields(strings.NewReplacer("RESULT", result, "PROMPTS", prompts, "CHATS", chats).Replace(command + " --ttft 20ms --itl 5ms"))
		b, ok, err := BatchCommand(args)
		if !ok || err != nil {
			t.Fatalf("BatchCommand(%s) = %v, %v", command, ok, err)
		}
		started := time.Now()
		if err := b.Run(t.Context(), io.Discard); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		if took, least := time.Since(started), 40*time.Millisecond; took < least {
			t.Errorf("%s took %v, want at least %v", command, took, least)
		}
		text, err := os.ReadFile(result)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(text) || !strings.Contains(string(text), want) {
			t.Errorf("%s wrote %s, want %s in it", command, text, want)
		}
	}
	if _, ok, err := BatchCommand([]string{"vllm", "serve", "m"}); ok || err != nil {
		t.Errorf("a server's command is taken for a benchmark's: %v", err)
	}
	if _, _, err := BatchCommand([]string{"vllm", "bench", "throughput", "--model", "m"}); err == nil {
		t.Error("a benchmark without requests is no mistake")
	}
}
