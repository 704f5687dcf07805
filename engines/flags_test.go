package engines

import (
	"strings"
	"testing"
)

func TestIsKnownFlag(t *testing.T) {
	for _, tt := range []struct {
		kind, name string
		want       bool
	}{
		{VLLM, "tensor-parallel-size", true}, {VLLM, "tensor_parallel_size", true}, {VLLM, "no-enable-prefix-caching", true},
		{VLLM, "speculative-config.method", true}, {VLLM, "tensor-parallel", true}, {VLLM, "tp", false}, {VLLM, "tensor-paralel-size", false},
		{SGLang, "tp", true}, {SGLang, "max-model-len", false}, {SGLang, "enable-dp-attention", true},
		{TRTLLM, "tp_size", true}, {TRTLLM, "tp", false}, {TRTLLM, "extra_llm_api_options", true},
		{OpenAI, "anything", true}, {Sim, "itl", true},
	} {
		if got := IsKnownFlag(&Engine{Kind: tt.kind}, tt.name); got != tt.want {
			t.Errorf("IsKnownFlag(%q, %q) = %v", tt.kind, tt.name, got)
		}
	}
	for _, tt := range []struct{ kind, name, other, here string }{
		{VLLM, "tp", SGLang, "tensor-parallel-size"}, {TRTLLM, "tp", SGLang, "tp_size"}, {SGLang, "gpu_memory_utilization", VLLM, "mem-fraction-static"},
		{VLLM, "mem-fraction-static", SGLang, "gpu-memory-utilization"}, {VLLM, "whatever", "", ""},
	} {
		if other, here := FlagElsewhere(tt.kind, tt.name); other != tt.other || here != tt.here {
			t.Errorf("FlagElsewhere(%q, %q) = %q, %q", tt.kind, tt.name, other, here)
		}
	}
}

// TestOtherImage: only what the name of an image says, and says of another engine alone.
func TestOtherImage(t *testing.T) {
	for _, tt := range []struct{ kind, image, want string }{
		{VLLM, "lmsysorg/sglang:v0.5.12", SGLang}, {VLLM, "rocm/sgl-dev:v0.5", SGLang}, {SGLang, "vllm/vllm-openai:v0.11.0", VLLM},
		{SGLang, "nvcr.io/nvidia/tensorrt-llm/release:1.0.0", TRTLLM}, {VLLM, "rocm/vllm-dev:x", ""}, {VLLM, "team/serving:1", ""},
		{SGLang, "team/vllm-and-sglang:1", ""}, {OpenAI, "vllm/vllm-openai:v0.11.0", ""},
	} {
		found := ""
		for _, f := range Doubts(&Engine{Kind: tt.kind, Image: tt.image}) {
			if f.Field == "image" {
				found = f.Detail
			}
		}
		if (tt.want == "") != (found == "") || tt.want != "" && !strings.Contains(found, `kind "`+tt.want) {
			t.Errorf("%s with %s: %q, want %q", tt.kind, tt.image, found, tt.want)
		}
	}
}
