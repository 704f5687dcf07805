package engines

import (
	"slices"
	"strings"
	"testing"

	"hclbench/provision"
)

// TestVersionedSettings: what is said of a setting, by what is known of the engine's version. "!" begins what keeps the lab
// from being applied.
func TestVersionedSettings(t *testing.T) {
	for _, tt := range []struct{ kind, image, version, name, want string }{
		// The version is known.
		{VLLM, "vllm/vllm-openai:v0.17.0", "", "swap-space", ""},
		{VLLM, "vllm/vllm-openai:v0.33.0", "", "swap-space", "!vllm 0.33.0 has no flag swap-space any more: 0.17.1 was the last with it."},
		{VLLM, "vllm/vllm-openai:v0.14.0", "", "spec-method", "!vllm 0.14.0 has no flag spec-method yet: it is there since 0.22.0."},
		{VLLM, "vllm/vllm-openai:v0.22.0", "", "spec-method", ""},
		{SGLang, "lmsysorg/sglang:v0.5.23", "", "enable-dp-attention", "calls it deprecated since 0.5.22. Write attn-dp-size <dp-size>."},
		{SGLang, "lmsysorg/sglang:v0.5.12", "", "enable-dp-attention", ""},
		{SGLang, "lmsysorg/sglang:v0.5.23", "", "cuda-graph-bs", "!sglang 0.5.23 has no flag cuda-graph-bs any more: 0.5.19 was the last with it. Write cuda-graph-bs-decode."},
		{SGLang, "lmsysorg/sglang:v0.5.23", "", "enable-piecewise-cuda-graph", "!Write cuda-graph-backend-prefill=tc_piecewise."},
		{SGLang, "lmsysorg/sglang-rocm:v0.5.20-rocm10-mi30x-20260920", "", "cuda-graph-bs", "!was the last"},
		{VLLM, "harbor.example.com/hub/vllm/vllm-openai:v0.33.0", "", "swap-space", "!was the last"}, // a mirror
		{VLLM, "", "0.33.0", "swap-space", "!was the last"},
		{VLLM, "team/engine:7", "0.33.0", "swap-space", "!was the last"}, // the lab says so
		{SGLang, "lmsysorg/sglang:v0.4.9", "", "nccl-port", ""},          // first read in its post6
		// It is newer than the table.
		{VLLM, "vllm/vllm-openai:v0.40.0", "", "max-num-seqs", ""},
		{VLLM, "vllm/vllm-openai:v0.40.0", "", "swap-space", "!0.17.1 was the last with it."},
		{VLLM, "vllm/vllm-openai:v0.40.0", "", "brand-new", ""},
		{VLLM, "vllm/vllm-openai:v0.40.0", "", "tensor-paralel-size", "Did you mean tensor-parallel-size?"},
		{VLLM, "vllm/vllm-openai:v0.40.0", "", "tensor-parallle-size", "Did you mean tensor-parallel-size?"},
		// It is not known.
		{VLLM, "team/engine:7", "", "swap-space", "No vllm after 0.17.1 has the flag swap-space. If this one is newer, it does not know it."},
		{VLLM, "vllm/vllm-openai:nightly", "", "swap-space", "If this one is newer"},
		{VLLM, "vllm/vllm-openai:v0.9.0.dev12", "", "spec-method", ""},
		{VLLM, "team/engine:7", "", "spec-method", ""},
		{VLLM, "team/engine:7", "", "brand-new", ""},
		{SGLang, "team/engine:7", "", "enable-dp-attention", ""},
		{SGLang, "team/engine:7", "", "pp", "sglang refuses the flag pp, which is the beginning of several: pp-async-batch-depth, pp-max-micro-batch-size, pp-size."},
		// A build of others.
		{VLLM, "rocm/vllm:rocm10.0.0_vllm_0.27.0", "", "swap-space", ""},
		{VLLM, "rocm/vllm:rocm10.0.0_vllm_0.27.0", "", "amds-own", ""},
		{VLLM, "rocm/vllm:rocm10.0.0_vllm_0.27.0", "", "max-num-seq5", ""},
		{VLLM, "rocm/vllm:rocm10.0.0_vllm_0.27.0", "", "tensor-paralel-size", "Did you mean tensor-parallel-size?"},
		{VLLM, "registry.example.com:5000/vllm:0.9.1", "", "spec-method", ""},
		// An image of somebody's own, with a number as its tag.
		{VLLM, "corp/vllm:0.3.0", "", "enable-expert-parallel", ""},
		{VLLM, "corp/vllm:0.3.0", "", "swap-space", "If this one is newer"},
		{SGLang, "corp/sglang:0.4.0", "", "pp", "sglang refuses the flag pp"},
		// What packages do not tell.
		{SGLang, "lmsysorg/sglang:v0.5.23", "", "metrics-port", ""},
		{SGLang, "lmsysorg/sglang:v0.5.23", "", "nsa-decode", "!0.5.3.post3 was the last with it. Write dsa-decode-backend."},
		{VLLM, "vllm/vllm-openai:v0.33.0", "", "guided-decoding-backend", "!Write structured-outputs-config.backend."},
		{VLLM, "vllm/vllm-openai:v0.33.0", "", "speculative-model", "!Write speculative-config.model."},
		// Beginnings.
		{SGLang, "lmsysorg/sglang:v0.5.12", "", "tp", ""},
		{SGLang, "lmsysorg/sglang:v0.5.3", "", "pp", ""},
		{SGLang, "lmsysorg/sglang:v0.5.12", "", "pp", "!sglang 0.5.12 refuses the flag pp, which is the beginning of several: pp-async-batch-depth, pp-max-micro-batch-size, pp-size."},
		{SGLang, "lmsysorg/sglang:v0.4.8.post1", "", "ep", "!is the beginning of several"},
		{VLLM, "vllm/vllm-openai:v0.11.0", "", "kv-cache", "!is the beginning of several"},
		{VLLM, "vllm/vllm-openai:v0.11.0", "", "max_num", "!is the beginning of several"},
		{VLLM, "vllm/vllm-openai:v0.20.0", "", "device", "!0.9.2 was the last with it."},
		{VLLM, "vllm/vllm-openai:v0.27.0", "", "device", "vllm 0.27.0 has no flag device any more: 0.9.2 was the last with it. It takes it for device-ids."},
		{SGLang, "lmsysorg/sglang:v0.5.14", "", "nsa-decode", "was the last with it. It takes it for nsa-decode-backend. Write nsa-decode-backend."},
		// Opposites.
		{VLLM, "vllm/vllm-openai:v0.11.0", "", "no-enable-prefix-caching", ""},
		{VLLM, "vllm/vllm-openai:v0.6.0", "", "no-enable-prefix-caching", "!there since 0.6.5"},
		{VLLM, "vllm/vllm-openai:v0.33.0", "", "disable-prefix-caching", ""},
		{VLLM, "vllm/vllm-openai:v0.20.0", "", "disable-prefix-caching", "!there since 0.33.0"},
		{VLLM, "vllm/vllm-openai:v0.20.0", "", "disable-log-requests", "!0.16.0 was the last with it."},
		{VLLM, "vllm/vllm-openai:v0.33.0", "", "disable-log-requests", ""},
		{SGLang, "lmsysorg/sglang:v0.5.12", "", "no-enable-metrics", "hcl knows of no version of \"sglang\" with the flag no-enable-metrics."},
		// Slips, and what only looks like one.
		{VLLM, "vllm/vllm-openai:v0.11.0", "", "tp", "Here it is called tensor-parallel-size."},
		{VLLM, "vllm/vllm-openai:v0.11.0", "", "dpl", "Did you mean data-parallel-size-local?"},
		{VLLM, "vllm/vllm-openai:v0.11.0", "", "no-enable-prefix-cachng", "Did you mean no-enable-prefix-caching?"},
		{VLLM, "vllm/vllm-openai:v0.14.0", "", "ec-transfer-config", ""},
		{SGLang, "lmsysorg/sglang:v0.5.9", "", "attn-dp-size", "!there since 0.5.22."},
		{SGLang, "lmsysorg/sglang:v0.5.9", "", "dcp-size", "!there since 0.5.15."},
		{SGLang, "lmsysorg/sglang:v0.5.9", "", "xdp-size", "the flag xdp-size."},
		{SGLang, "lmsysorg/sglang:v0.5.23", "", "enable-mia", "the flag enable-mia."},
		{SGLang, "team/engine:7", "", "enable-mia", ""},
		// Routers, as engines.
		{VLLMRouter, "vllm/vllm-router:v0.1.17", "", "tokenizer-path", "!vllm-router 0.1.17 has no flag tokenizer-path any more: 0.1.14 was the last with it."},
		{VLLMRouter, "vllm/vllm-router:nightly", "", "tokenizer-path", "If this one is newer"},
		{SGLangRouter, "lmsysorg/sgl-model-gateway:v0.1.9", "", "assignment-mode", "!since 0.3.2"},
		{SGLangRouter, "lmsysorg/sgl-model-gateway:v0.3.2", "", "polcy", "Did you mean policy?"},
		{TRTLLM, "nvcr.io/nvidia/tensorrt-llm/release:1.0.0", "", "served_model_name", ""},
		{TRTLLM, "nvcr.io/nvidia/tensorrt-llm/release:1.0.0", "", "max_batch_sise", "Did you mean max_batch_size?"},
	} {
		e := &Engine{Kind: tt.kind, Image: tt.image, Version: tt.version, Placement: On(host("8xH200")), Model: r1,
			Router: strings.HasSuffix(tt.kind, "router"), Flags: []Flag{{Name: tt.name}}}
		wrong, doubts := checkVersion(e, e.trust())
		got := ""
		for _, f := range wrong {
			got += "!" + f.Detail
		}
		for _, f := range doubts {
			got += f.Detail
		}
		want, isWrong := strings.CutPrefix(tt.want, "!")
		if (want == "") != (got == "") || strings.HasPrefix(got, "!") != isWrong || !strings.Contains(got, want) {
			t.Errorf("%s %s%s --%s: %q, want %q", tt.kind, tt.image, tt.version, tt.name, got, tt.want)
		}
	}
}

// TestVersionedConfig: members of a configuration file that are flags are held against the version as flags are.
func TestVersionedConfig(t *testing.T) {
	for image, want := range map[string]string{"vllm/vllm-openai:v0.20.0": "vllm 0.20.0 has no member swap-space any more", "vllm/vllm-openai:v0.17.0": ""} {
		e := &Engine{Kind: VLLM, Image: image, Model: r1, Config: provision.Plain(`{"swap_space": 4, "max_num_seqs": 8}`)}
		wrong, _ := checkVersion(e, e.trust())
		if got := len(wrong) > 0; got != (want != "") || got && (wrong[0].Field != "config" || !strings.Contains(wrong[0].Detail, want)) {
			t.Errorf("%s: %v, want %q", image, wrong, want)
		}
	}
	e := &Engine{Kind: TRTLLM, Image: "nvcr.io/nvidia/tensorrt-llm/release:1.2.0", Config: provision.Plain(`{"cuda_graph_config": {}}`)}
	if wrong, doubts := checkVersion(e, e.trust()); wrong != nil || doubts != nil { // whose members are no flags
		t.Errorf("trtllm: %v, %v", wrong, doubts)
	}
}

// TestVersionedVariables: those of vLLM that a version does not read are told, of SGLang slips alone.
func TestVersionedVariables(t *testing.T) {
	for _, tt := range []struct{ kind, image, name, want string }{
		{VLLM, "vllm/vllm-openai:v0.11.0", "VLLM_USE_V1", ""},
		{VLLM, "vllm/vllm-openai:v0.11.0", "VLLM_LOGING_LEVEL", "Did you mean VLLM_LOGGING_LEVEL?"},
		{VLLM, "vllm/vllm-openai:v0.11.0", "VLLM_USE_V7", ""},
		{VLLM, "vllm/vllm-openai:v0.11.0", "VLLM_OF_A_PLUGIN", ""},
		{VLLM, "vllm/vllm-openai:v0.11.0", "NCCL_DEBUGS", ""},
		{VLLM, "vllm/vllm-openai:v0.21.0", "VLLM_MOE_DP_CHUNK_SIZE", "vllm 0.21.0 has no variable VLLM_MOE_DP_CHUNK_SIZE any more"},
		{VLLM, "team/engine:7", "VLLM_MOE_DP_CHUNK_SIZE", "If this one is newer"},
		{SGLang, "lmsysorg/sglang:v0.5.23", "SGLANG_OF_A_PLUGIN", ""},
		{SGLang, "lmsysorg/sglang:v0.5.23", "SGLANG_CUTLASS_MOE", ""}, // which it may read elsewhere
		{SGLang, "lmsysorg/sglang:v0.5.23", "VLLM_LOGING_LEVEL", ""},
	} {
		e := &Engine{Kind: tt.kind, Image: tt.image, Model: r1, Env: []provision.EnvVar{{Name: tt.name, Value: provision.Plain("1")}}}
		wrong, doubts := checkVersion(e, e.trust())
		got := ""
		for _, f := range doubts {
			got += f.Detail
		}
		if wrong != nil || (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s %s %s: %q, %v, want %q", tt.kind, tt.image, tt.name, got, wrong, tt.want)
		}
	}
}

// TestToldVersion: what an engine tells of its version decides what was a doubt, and what was known is not told twice. Of
// somebody's own build it decides nothing.
func TestToldVersion(t *testing.T) {
	for _, tt := range []struct{ kind, image, labs, told, want string }{
		{VLLM, "", "", "0.20.0", "no flag swap-space any more: 0.17.1 was the last with it. This one serves with it, so it is not quite that version.|no variable VLLM_MOE_DP_CHUNK_SIZE any more"},
		{VLLM, "vllm/vllm-openai:latest", "", "0.33.0", "no flag swap-space any more|no variable VLLM_MOE_DP_CHUNK_SIZE any more"},
		{VLLM, "", "", "0.17.0", ""},
		{VLLM, "", "", "0.17.0.dev3+gabc", ""},
		{VLLM, "", "", "nonsense", ""},
		{VLLM, "", "", "", ""},
		{VLLM, "", "0.20.0", "0.20.0", ""},
		{VLLM, "vllm/vllm-openai:v0.32.0", "", "0.32.0", ""},
		{VLLM, "team/engine:7", "", "0.20.0", ""},
		{VLLM, "corp/vllm:0.3.0", "", "0.20.0", ""},
		{VLLM, "rocm/vllm:rocm10.0.0_vllm_0.27.0", "", "0.27.0", ""},
		{VLLM, "lmsysorg/sglang:v0.5.23", "", "0.20.0", ""},
		{SGLang, "", "", "0.5.23", "the flag enable-dp-attention, and calls it deprecated since 0.5.22"},
		{TRTLLM, "", "", "1.2.0", ""},
		{OpenAI, "team/server:1", "", "0.20.0", ""},
	} {
		flags := map[string][]string{VLLM: {"swap-space=4", "max-num-seqs=8"}, SGLang: {"enable-dp-attention"}}[tt.kind]
		e := &Engine{Kind: tt.kind, Image: tt.image, Version: tt.labs, Model: r1, Flags: flagsOf(flags...),
			Env: []provision.EnvVar{{Name: "VLLM_MOE_DP_CHUNK_SIZE", Value: provision.Plain("1")}}}
		name, _ := OwnVersion(e)
		said := ServedSettings(e, map[string]string{name: tt.told, "torch": "2.9"})
		want := strings.Split(tt.want, "|")
		if tt.want == "" {
			want = nil
		}
		if !slices.EqualFunc(said, want, strings.Contains) {
			t.Errorf("%s %s that tells %q: it says %q, want %q", tt.kind, tt.image, tt.told, said, want)
		}
	}
}

// TestLeastDriver: images with CUDA 13 need a newer driver than those before.
func TestLeastDriver(t *testing.T) {
	for _, tt := range []struct {
		kind, image string
		want        int
	}{
		{VLLM, "vllm/vllm-openai:v0.26.0", 0}, {VLLM, "vllm/vllm-openai:v0.32.0", 580}, {VLLM, "vllm/vllm-openai:v0.32.0-cu129", 0},
		{VLLM, "vllm/vllm-openai-rocm:v0.32.0", 0}, {VLLM, "vllm/vllm-openai-cpu:v0.30.0", 0}, {VLLM, "team/engine:v0.32.0", 0},
		{SGLang, "lmsysorg/sglang:v0.5.19", 0}, {SGLang, "lmsysorg/sglang:v0.5.23", 580}, {SGLang, "lmsysorg/sglang:latest", 0},
		{TRTLLM, "nvcr.io/nvidia/tensorrt-llm/release:1.4.0rc1", 0},
	} {
		if got := LeastDriver(&Engine{Kind: tt.kind, Image: tt.image}); got != tt.want {
			t.Errorf("%s needs %d, want %d", tt.image, got, tt.want)
		}
	}
}
