package engines

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		"registry.example.com:5000/vllm:0.9.1":            false, // perhaps of its own
		"corp/vllm:0.3.0":                                 false,
		"harbor.example.com/hub/lmsysorg/sglang:v0.4.3":   true,
		"corp/vllm-openai:v0.9.1":                         true,
		"corp/sglang:0.3.0":                               false,
		"rocm/vllm:rocm6.3.1_instinct_vllm0.7.3_20250311": true,
		"rocm/vllm:rocm7.0.0_vllm_0.11.1_20251103":        false,
		"rocm/sglang-staging:20250212":                    false,
		"vllm/vllm-openai:latest":                         false,
		"vllm/vllm-openai-rocm:v0.9.0":                    true,
		"rocm/sgl-dev:v0.5.9-rocm700-mi35x-20260212":      true,
		"ghcr.io/llm-d/llm-d-cuda:v0.3.0":                 false, // a version of llm-d
		"nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.7.0":     false, // of Dynamo
		"registry.example.com/team/serve:0.3.0":           false,
		"registry.example.com/team/serve:vllm-0.9.1-2":    true,
		"rocm/vllm-dev:nightly_main_20250301":             false,
		"registry.example.com:5000/team/engine" + digest:  false,
	} {
		if got := (&Engine{Image: image}).before(0, 9, 2); got != want {
			t.Errorf("%s is before 0.9.2: %v", image, got)
		}
	}
}

// TestVersionSaid: what the lab says is stronger than the tag.
func TestVersionSaid(t *testing.T) {
	for version, want := range map[string]bool{ // before 0.9.0
		"0.7.3": true, "v0.8": true, "0.7.4.dev181+gf35f8e22": true, "0.8.5rc1": true, "0.9.0": false, "0.11": false, "": false,
	} {
		e := &Engine{Kind: VLLM, Image: "rocm/vllm-dev:vllm-ds3-staging-0217", Version: version}
		if got := e.before(0, 9, 0); got != want {
			t.Errorf("version %q is before 0.9: %v", version, got)
		}
		if version != "" && CheckVersion(version) != nil {
			t.Errorf("%q is no version", version)
		}
	}
	for _, wrong := range []string{"nightly", "7", "latest", "0.x", "0.7 3"} {
		if CheckVersion(wrong) == nil {
			t.Errorf("%q is a version", wrong)
		}
	}
}

// TestVersionUnknown: where nothing tells how the offline benchmark is started.
func TestVersionUnknown(t *testing.T) {
	nightly := []string{"pip uninstall -y vllm", "pip install vllm --pre --extra-index-url https://wheels.vllm.ai/nightly"}
	for _, tt := range []struct {
		e    Engine
		want string
	}{
		{Engine{Kind: VLLM, Image: "vllm/vllm-openai:v0.7.3"}, ""},
		{Engine{Kind: VLLM, Image: "vllm/vllm-openai:v0.7.3", Setup: nightly}, "setup puts another version"},
		{Engine{Kind: VLLM, Image: "vllm/vllm-openai:v0.7.3", Setup: nightly, Version: "0.11"}, ""},
		{Engine{Kind: VLLM, Image: "vllm/vllm-openai:v0.7.3", Setup: []string{"pip install ray"}}, ""},
		{Engine{Kind: VLLM, Image: "rocm/vllm-dev:vllm-ds3-staging-0217"}, "does not tell"},
		{Engine{Kind: VLLM, Image: "rocm/vllm-dev:vllm-ds3-staging-0217", OfflineCommand: []string{"x"}}, ""},
		{Engine{Kind: SGLang, Image: "rocm/sglang-staging:20250212"}, "does not tell"},
		{Engine{Kind: TRTLLM, Image: "team/engine:7"}, ""},
	} {
		if got := VersionUnknown(&tt.e); tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("VersionUnknown of %s with %q = %q, want %q", tt.e.Image, tt.e.Setup, got, tt.want)
		}
	}
}

func TestReadVersions(t *testing.T) {
	got, err := ReadVersions([]byte(`{"vllm": "0.7.3", "cuda": "12.4"}`))
	if diff := cmp.Diff(map[string]string{"vllm": "0.7.3", "cuda": "12.4"}, got); diff != "" || err != nil {
		t.Errorf("ReadVersions (-want +got), %v:\n%s", err, diff)
	}
	for _, out := range []string{"", "Traceback\n  no module"} {
		if v, err := ReadVersions([]byte(out)); err == nil {
			t.Errorf("ReadVersions(%q) = %v", out, v)
		}
	}
}
