package engines

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
)

// TestOffline holds the command of each tool against its golden file.
func TestOffline(t *testing.T) {
	batch := Batch{Requests: 512, InputTokens: 3200, OutputTokens: 800, Seed: 7}
	trt := []Flag{{"kv_cache_free_gpu_memory_fraction", value("0.9")}, {"tokenizer", value("/root/.cache/DeepSeek-R1")}, {"tp_size", value("8")}, {"trust_remote_code", nil}}
	for name, e := range map[string]*Engine{
		"offline-vllm": {Kind: VLLM, Host: host("8xH200"), Model: r1, Image: "vllm/vllm-openai:v0.11.0",
			Flags: []Flag{{"api-key", value("k")}, {"max-model-len", value("32768")}, {"tensor-parallel-size", value("8")}}},
		"offline-vllm-old": {Kind: VLLM, Host: host("8xH200"), Model: r1, Image: "vllm/vllm-openai:v0.7.3", Setup: []string{"pip install ray"}},
		"offline-vllm-amd": {Kind: VLLM, Host: host("8xMI300X"), Model: r1, Image: "rocm/vllm:rocm6.3.1_instinct_vllm0.7.3_20250311"},
		"offline-sglang": {Kind: SGLang, Host: host("8xH200"), Model: r1, Image: "lmsysorg/sglang:v0.5.2",
			Flags: []Flag{{"context-length", value("32768")}, {"tp", value("8")}}},
		"offline-trtllm":        {Kind: TRTLLM, Host: host("8xH200"), Model: r1, Image: "nvcr.io/nvidia/tensorrt-llm/release:1.0.0", Flags: trt},
		"offline-trtllm-config": {Kind: TRTLLM, Host: host("8xH200"), Model: r1, Image: "nvcr.io/nvidia/tensorrt-llm/release:1.0.0", Config: provision.Plain(`{"backend": "pytorch"}`)},
		"offline-trtllm-built": {Kind: TRTLLM, Host: host("8xH200"), Model: r1, Image: "nvcr.io/nvidia/tensorrt-llm/release:0.17.0", Flags: trt,
			Build: &Build{Commands: []string{"make"}, Output: "/engine"}},
		"offline-sim": {Kind: Sim, Host: &provision.Host{Name: "here", Runtime: provision.Process}, Model: r1,
			Flags: []Flag{{"as", value("sglang")}, {"itl", value("1ms")}}},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := Offline(e, batch)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name, b.Tool+", result in "+b.Result+"\n"+provision.DockerRun(b.Container)+"\n")
		})
	}
	for _, c := range []struct {
		e    *Engine
		want string
	}{
		{&Engine{Kind: VLLM, Model: r1, Command: []provision.Text{provision.Plain("serve")}}, "instead of command"},
		{&Engine{Kind: VLLM, Model: r1, Config: provision.Plain(`{"a": 1}`)}, "say in flags"},
		{&Engine{Kind: OpenAI, Model: r1}, `of kind "openai"`},
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
		got, err := b.ReadResult([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, text := range []string{"", "{}", "Traceback", `{"elapsed_time": 1, "num_requests": 0}`} {
		if got, err := b.ReadResult([]byte(text)); err == nil {
			t.Errorf("ReadResult(%q) = %+v", text, got)
		}
	}
}

func TestWritePrompts(t *testing.T) {
	write := func(seed uint64) string {
		var out bytes.Buffer
		if err := (Batch{Requests: 2, InputTokens: 3, OutputTokens: 4, Seed: seed}).WritePrompts(&out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	first := write(1)
	if first != write(1) || first == write(2) {
		t.Error("the prompts do not follow the seed")
	}
	if n := strings.Count(first, "\n"); n != 2 || !strings.Contains(first, `{"task_id": 1, "input_ids": [`) || !strings.Contains(first, `"output_tokens": 4}`) {
		t.Errorf("the prompts are %s", first)
	}
}
