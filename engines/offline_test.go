package engines

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
	"hclbench/provision/docker"
	"hclbench/testhost/golden"
)

// TestOffline holds the command of each tool against its golden file.
func TestOffline(t *testing.T) {
	batch := Batch{Requests: 512, Kind: Random, InputTokens: 3200, OutputTokens: 800, Seed: 7}
	trt := flagsOf("kv_cache_free_gpu_memory_fraction=0.9", "tokenizer=/root/.cache/DeepSeek-R1", "tp_size=8", "trust_remote_code")
	for name, e := range map[string]*Engine{
		"offline-vllm": {Kind: VLLM, Placement: On(host("8xH200")), Model: r1, Image: "vllm/vllm-openai:v0.11.0",
			Flags: flagsOf("api-key=k", "max-model-len=32768", "tensor-parallel-size=8")},
		"offline-vllm-config": {Kind: VLLM, Placement: On(host("8xH200")), Model: r1, Image: "vllm/vllm-openai:v0.11.0", Flags: flagsOf("max-model-len=32768"),
			Config: provision.Partly(`{"api-key": "k", "max_model_len": 1, "trust-remote-code": true, "enforce-eager": false, "seed": null,
				"hf-overrides": {"a": [1, 2]}, "lora-modules": ["x"], "new-flag": ["a", "b"], "hf-token": "canary"}`, "", []string{"canary"})},
		"offline-vllm-old":  {Kind: VLLM, Placement: On(host("8xH200")), Model: r1, Image: "vllm/vllm-openai:v0.7.3", Setup: []string{"pip install ray"}},
		"offline-vllm-amd":  {Kind: VLLM, Placement: On(host("8xMI300X")), Model: r1, Image: "rocm/vllm:rocm6.3.1_instinct_vllm0.7.3_20250311"},
		"offline-vllm-said": {Kind: VLLM, Placement: On(host("8xMI300X")), Model: r1, Image: "rocm/vllm-dev:vllm-ds3-staging-0217", Version: "0.7.3"},
		"offline-vllm-command": {Kind: VLLM, Placement: On(host("8xH200")), Model: r1, Image: "vllm/vllm-openai:v0.7.3", Setup: []string{"git clone x /tmp/vllm"},
			OfflineCommand: []string{"python3", "/tmp/vllm/benchmarks/benchmark_throughput.py"}},
		"offline-sglang": {Kind: SGLang, Placement: On(host("8xH200")), Model: r1, Image: "lmsysorg/sglang:v0.5.2",
			Flags: flagsOf("context-length=32768", "tp=8")},
		"offline-trtllm":        {Kind: TRTLLM, Placement: On(host("8xH200")), Model: r1, Image: "nvcr.io/nvidia/tensorrt-llm/release:1.0.0", Flags: trt},
		"offline-trtllm-config": {Kind: TRTLLM, Placement: On(host("8xH200")), Model: r1, Image: "nvcr.io/nvidia/tensorrt-llm/release:1.0.0", Config: provision.Plain(`{"backend": "pytorch"}`)},
		"offline-trtllm-built": {Kind: TRTLLM, Placement: On(host("8xH200")), Model: r1, Image: "nvcr.io/nvidia/tensorrt-llm/release:0.17.0", Flags: trt,
			Build: &Build{Commands: []string{"make"}, Output: "/engine"}},
		"offline-sim": {Kind: Sim, Placement: On(&provision.Host{Name: "here", Runtime: provision.Process}), Model: r1,
			Flags: flagsOf("as=sglang", "itl=1ms")},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := Offline(e, batch)
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name+".golden", b.Tool+", result in "+b.Result+"\n"+docker.Run(b.Container)+"\n")
		})
	}
	for _, c := range []struct {
		e    *Engine
		want string
	}{
		{&Engine{Kind: VLLM, Model: r1, Command: commandOf("serve")}, "instead of command"},
		{&Engine{Kind: OpenAI, Model: r1}, `of kind "openai"`},
		{&Engine{Kind: VLLM, Model: r1, Flags: flagsOf("data-parallel-size=2")}, "no data parallel: remove the flag data-parallel-size"},
	} {
		if _, err := Offline(c.e, batch); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Offline of %s: %v, want an error with %q", c.e, err, c.want)
		}
	}
}

// TestReadResult reads what the tools write, the first and the later versions.
func TestReadResult(t *testing.T) {
	b := Batch{Requests: 32, InputTokens: 3200, OutputTokens: 800}
	want := BenchResult{Requests: 32, Seconds: 16, InputTokens: 102400, OutputTokens: 25600}
	for name, text := range map[string]string{
		"vllm": `{"elapsed_time": 16.0, "num_requests": 32, "total_num_tokens": 128000, "requests_per_second": 2.0, "tokens_per_second": 8000.0}`,
		"sglang": `{"backend": "engine", "successful_requests": 16, "total_latency": 9, "total_input_tokens": 1, "total_output_tokens": 1}
{"backend": "engine", "successful_requests": 32, "total_latency": 16.0, "total_input_tokens": 102400, "total_output_tokens": 25600, "request_throughput": 2.0}
`,
		"sglang, at first": `{"total_input_tokens": 102400, "total_latency": 16.0, "total_output_tokens": 25600, "throughput": 8000.0}`,
		"trtllm": `{
    "engine": {"model": "m", "version": "1.0.0"},
    "request_info": {"num_requests": 32, "avg_num_concurrent_requests": 31.0, "avg_input_length": 3200.0, "avg_output_length": 800.0},
    "performance": {"total_latency_ms": 16000.0, "request_throughput_req_s": 2.0}
}`,
	} {
		got, err := b.ReadResult([]byte(text), 0)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, text := range []string{"", "{}", "Traceback", `{"elapsed_time": 1, "num_requests": 0}`} {
		if got, err := b.ReadResult([]byte(text), 0); err == nil {
			t.Errorf("ReadResult(%q) = %+v", text, got)
		}
	}
}

// TestPromptFile: prompts of hcl's as each tool reads them.
func TestPromptFile(t *testing.T) {
	for kind, want := range map[string]string{
		TRTLLM: `{"task_id": 0, "input_ids": [7,8,151936], "output_tokens": 4}
{"task_id": 1, "prompt": "Once upon a time", "output_tokens": 4}
`,
		SGLang: `[
{"conversations":[{"value":"di do nebame"},{"value":"-"}]},
{"conversations":[{"value":"Once upon a time"},{"value":"-"}]}
]
`,
	} {
		b, err := Offline(&Engine{Kind: kind, Model: r1, Image: "a:1"}, Batch{Requests: 2, Kind: Random, InputTokens: 3, OutputTokens: 4})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		write, end := b.PromptFile(&out)
		for i, prompt := range []string{"[7,8,151936]", `"Once upon a time"`} {
			if err := write(i, []byte(prompt), 4); err != nil {
				t.Fatal(err)
			}
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("prompts of %s (-want +got):\n%s", kind, diff)
		}
	}
	words := map[string]int{}
	for n := range 20000 {
		if other, twice := words[wordOf(n)]; twice {
			t.Fatalf("%d and %d are both %s", other, n, wordOf(n))
		}
		words[wordOf(n)] = n
	}
}

// TestOfflineData: each tool gets the data set in its own words, or the author is told
// why it cannot.
func TestOfflineData(t *testing.T) {
	random := Batch{Requests: 16, Kind: Random, InputTokens: 32, OutputTokens: 8}
	ranged := func(of string, ratio float64) Batch { b := random; b.RangeOf, b.Ratio = of, ratio; return b }
	chats := func(filter string, input, output int) Batch {
		return Batch{Requests: 16, Kind: ShareGPT, Filter: filter, InputTokens: input, OutputTokens: output}
	}
	shared := Batch{Requests: 16, Kind: SharedPrefix, Groups: 4, PromptsPerGroup: 4, PrefixTokens: 64, QuestionTokens: 16, OutputTokens: 8}
	fewer := shared
	fewer.Requests = 15
	const vllm, sglang = "vllm/vllm-openai:v0.13.0", "lmsysorg/sglang:v0.5.2"
	for _, c := range []struct {
		name, kind, image string
		batch             Batch
		want              string // in the command, or in the error
		dataset           bool
	}{
		{"vllm, a range", VLLM, vllm, ranged(VLLM, 0.25), "--dataset-name random --input-len 32 --output-len 8 --random-range-ratio 0.25 --seed", false},
		{"vllm, another's range", VLLM, vllm, ranged(SGLang, 0.25), `convention = "vllm"`, false},
		{"vllm, all of the range", VLLM, vllm, ranged(VLLM, 1), "range_ratio below 1", false},
		{"older vllm, a range", VLLM, "vllm/vllm-openai:v0.8.5", ranged(VLLM, 0.25), "before 0.9", false},
		{"vllm, conversations", VLLM, vllm, chats(VLLM, 0, 0), "--dataset-name sharegpt --dataset-path /tmp/hcl-dataset.json --seed", true},
		{"vllm, conversations and an output", VLLM, vllm, chats(VLLM, 0, 8), "--dataset-path /tmp/hcl-dataset.json --output-len 8 --seed", true},
		{"older vllm, conversations", VLLM, "vllm/vllm-openai:v0.7.3", chats(VLLM, 0, 8), "--dataset /tmp/hcl-dataset.json --output-len 8 --seed", true},
		{"older vllm, outputs as recorded", VLLM, "vllm/vllm-openai:v0.7.3", chats(VLLM, 0, 0), "say output_tokens", false},
		{"vllm, another's filter", VLLM, vllm, chats(SGLang, 0, 8), `filter = "vllm"`, false},
		{"vllm, conversations cut", VLLM, vllm, chats(VLLM, 32, 8), "remove input_tokens", false},
		{"vllm, prefixes", VLLM, vllm, shared, "--dataset-name prefix_repetition --prefix-repetition-num-prefixes 4 --prefix-repetition-prefix-len 64 --prefix-repetition-suffix-len 16 --prefix-repetition-output-len 8 --seed", false},
		{"vllm that takes random prompts instead", VLLM, "vllm/vllm-openai:v0.11.0", shared, "before 0.13", false},
		{"vllm, not all of the groups", VLLM, vllm, fewer, "4 groups of 4 are 16 requests, and the benchmark says 15", false},
		{"vllm, texts", VLLM, vllm, Batch{Requests: 16, Kind: "text", InputTokens: 32, OutputTokens: 8}, `of kind "text"`, false},
		{"sglang, a range", SGLang, sglang, ranged(SGLang, 0.5), "--random-input-len 32 --random-output-len 8 --random-range-ratio 0.5 --seed", false},
		{"sglang, another's range", SGLang, sglang, ranged(VLLM, 0.5), `convention = "sglang"`, false},
		{"sglang, conversations", SGLang, sglang, chats(SGLang, 0, 0), "--dataset-name sharegpt --num-prompts 16 --dataset-path /tmp/hcl-dataset.json --seed", true},
		{"sglang, conversations and an output", SGLang, sglang, chats(SGLang, 0, 8), "--sharegpt-output-len 8", true},
		{"sglang, another's filter", SGLang, sglang, chats(VLLM, 0, 8), `filter = "sglang"`, false},
		{"sglang, prefixes", SGLang, sglang, shared, "--dataset-name generated-shared-prefix --num-prompts 16 --gsp-num-groups 4 --gsp-prompts-per-group 4 --gsp-system-prompt-len 64 --gsp-question-len 16 --gsp-output-len 8 --seed", false},
		{"older sglang, prefixes", SGLang, "lmsysorg/sglang:v0.4.3.post2-cu124", shared, "from 0.4.4 on", false},
		{"sglang, not all of the groups", SGLang, sglang, fewer, "the benchmark says 15", false},
		{"trtllm, whatever hcl can write", TRTLLM, "nvcr.io/nvidia/tensorrt-llm/release:1.0.0", shared, "--dataset /tmp/hcl-prompts.jsonl --num_requests 16", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Offline(&Engine{Kind: c.kind, Placement: On(host("8xH200")), Model: r1, Image: c.image}, c.batch)
			said := strings.Join(words(got.Container), " ")
			if err != nil {
				said = err.Error()
			}
			if !strings.Contains(said, c.want) || got.Dataset != "" != c.dataset {
				t.Errorf("want %q, and a file: %v; got %s, file %q", c.want, c.dataset, said, got.Dataset)
			}
		})
	}
}

func words(c provision.Container) []string {
	var all []string
	for _, w := range c.Command {
		all = append(all, w.String())
	}
	return all
}

// TestReadOutputs: what vLLM says it has generated goes before what was asked for.
func TestReadOutputs(t *testing.T) {
	text := []byte(`{"elapsed_time": 2, "num_requests": 4, "total_num_tokens": 100}`)
	for _, c := range []struct {
		name    string
		batch   Batch
		said    int64
		outputs int64
	}{
		{"the batch says", Batch{Kind: Random, OutputTokens: 10}, 0, 40},
		{"the log says", Batch{Kind: Random, OutputTokens: 10}, 32, 32},
		{"a range, and the log", Batch{Kind: Random, OutputTokens: 10, RangeOf: VLLM, Ratio: 0.5}, 37, 37},
		{"a range alone", Batch{Kind: Random, OutputTokens: 10, RangeOf: VLLM, Ratio: 0.5}, 0, 0},
		{"as recorded", Batch{Kind: ShareGPT}, 0, 0},
	} {
		got, err := c.batch.ReadResult(text, c.said)
		if got.OutputTokens != c.outputs || err == nil && got.InputTokens != 100-c.outputs || (err != nil) != (c.outputs == 0) {
			t.Errorf("%s: %+v, %v; want %d output tokens", c.name, got, err, c.outputs)
		}
	}
}
