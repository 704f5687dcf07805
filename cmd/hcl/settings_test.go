package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestSettings: what the verb prints, and what it refuses.
func TestSettings(t *testing.T) {
	for _, tt := range []struct{ args, version, want string }{
		{"", "", "vllm 320 318 60, 0.6.0 to 0.33.0"},
		{"vllm", "", "tensor-parallel-size number 1"},
		{"vllm", "0.6.0", "swap-space number 4"},
		{"vllm swap-space", "", "there until 0.17.1"},
		{"vllm swap-space", "0.20.0", "0.20.0 has it no more: 0.17.1 was the last"},
		{"vllm --spec_method", "0.14.0", "0.14.0 has it not yet: 0.22.0 is the first"},
		{"vllm no-enable-prefix-caching", "v0.11.0", "asked for no-enable-prefix-caching, its opposite"},
		{"sglang tp", "0.5.12", "asked for tp, its beginning"},
		{"sglang cuda-graph-bs", "", "instead cuda-graph-bs-decode"},
		{"sglang disagg*mode", "", "disaggregation-mode 0.4.4.post4 text null"},
		{"vllm VLLM_MOE_DP_CHUNK_SIZE", "", "there until 0.19.1"},
		{"vllm VLLM_ROCM_USE*", "", "VLLM_ROCM_USE_AITER"},
		{"vllm-router kv-connector", "", "there since 0.1.14"},
		{"trtllm tp_size", "", "tensor parallel"},
		{"vllm max-num-seqs", "0.99.0", "0.99.0 is newer than any version read, and 0.33.0 has it"},
		{"vllm max-num-seqs", "0.1.0", "0.1.0 is older than any version read"},
		{"vllm swap-space", "0.99.0", "0.99.0 has it no more: 0.17.1 was the last"},
		{"vllm spec-method", "0.1.0", "0.1.0 has it not yet: 0.22.0 is the first"},
		{"vllm max-num-seqs", "", "before 0.6.5 without it 256"},
		{"vllm enable-prefix-caching", "", "before 0.6.5 it took nothing, without it false"},
		{"vllm device", "0.27.0", "0.27.0 has it no more: 0.9.2 was the last; it takes the name for device-ids"},
		{"sglang enable-dp-att*", "", "enable-dp-attention nothing deprecated since 0.5.22"},
		{"sglang pp", "0.5.12", "error: pp is the beginning of several: pp-async-batch-depth,"},
		{"sglang tp_size", "", "error: hcl knows no tp_size of sglang. Did you mean tp-size?"},
		{"vllm what-is-this", "", "error: hcl knows no what-is-this of vllm."},
		{"vllm zz*", "", "error: no setting has a name like zz*"},
		{"vllm a[*", "", "error: \"a[*\" is no pattern"},
		{"atom", "", "error: hcl has no settings of \"atom\". It has those of vllm, sglang,"},
		{"vllm tp", "seven", "error: --version \"seven\" is not a version"},
		{"trtllm tp_size", "1.0.0", "error: --version 1.0.0: of trtllm hcl does not know"},
	} {
		var b bytes.Buffer
		if err := runSettings(&b, strings.Fields(tt.args), tt.version); err != nil {
			b.WriteString("error: " + err.Error())
		}
		if got := strings.Join(strings.Fields(b.String()), " "); !strings.Contains(got, strings.Join(strings.Fields(tt.want), " ")) {
			t.Errorf("settings %s --version %q says %.400s, want %q", tt.args, tt.version, got, tt.want)
		}
	}
}

// TestSettingsComplete: kinds and names are completed.
func TestSettingsComplete(t *testing.T) {
	c := settingsVerb(&console{})
	if kinds, _ := c.ValidArgsFunction(c, nil, ""); !slices.Contains(kinds, "vllm-router") {
		t.Errorf("kinds are %v", kinds)
	}
	if names, _ := c.ValidArgsFunction(c, []string{"sglang"}, "tp"); !slices.Contains(names, "tp-size") {
		t.Errorf("%d names have no tp-size", len(names))
	}
	if names, _ := c.ValidArgsFunction(c, []string{"vllm"}, "VLLM_"); !slices.Contains(names, "VLLM_USE_V1") && !slices.Contains(names, "VLLM_LOGGING_LEVEL") {
		t.Errorf("%d variables", len(names))
	}
}
