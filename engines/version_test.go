package engines

import (
	"strings"
	"testing"
)

func TestBefore(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0123", 16)
	for image, want := range map[string]bool{ // before 0.9.2
		"vllm/vllm-openai:v0.7.3":                         true,
		"vllm/vllm-openai:v0.9.1":                         true,
		"vllm/vllm-openai:v0.9.2":                         false,
		"vllm/vllm-openai:v0.11.0" + digest:               false,
		"lmsysorg/sglang:v0.4.3.post2-cu124":              true,
		"lmsysorg/sglang:v1.0.0":                          false,
		"registry.example.com:5000/vllm:0.9.1":            true,
		"rocm/vllm:rocm6.3.1_instinct_vllm0.7.3_20250311": true,
		"rocm/vllm:rocm7.0.0_vllm_0.11.1_20251103":        false,
		"rocm/sglang-staging:20250212":                    false,
		"vllm/vllm-openai:latest":                         false,
		"rocm/vllm-dev:nightly_main_20250301":             false,
		"registry.example.com:5000/team/engine" + digest:  false,
	} {
		if got := (&Engine{Image: image}).before(0, 9, 2); got != want {
			t.Errorf("%s is before 0.9.2: %v", image, got)
		}
	}
}
