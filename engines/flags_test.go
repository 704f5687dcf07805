package engines

import (
	"strings"
	"testing"

	"hclbench/engines/setting"
)

// TestElsewhere: a flag of another kind is told by its name here.
func TestElsewhere(t *testing.T) {
	for _, tt := range []struct{ kind, name, version, other, here string }{
		{VLLM, "tp", "", SGLang, "tensor-parallel-size"}, {TRTLLM, "tp", "", SGLang, "tp_size"},
		{SGLang, "gpu_memory_utilization", "", VLLM, "mem-fraction-static"}, {VLLM, "mem-fraction-static", "", SGLang, "gpu-memory-utilization"},
		{VLLM, "whatever", "", "", ""}, {VLLM, "ep-size", "0.11.0", SGLang, "enable-expert-parallel"},
		{VLLM, "ep-size", "0.6.0", "", ""}, // which has none yet
	} {
		if other, here := elsewhere(tt.kind, tt.name, setting.ParseVersion(tt.version)); other != tt.other || here != tt.here {
			t.Errorf("elsewhere(%q, %q) = %q, %q", tt.kind, tt.name, other, here)
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
