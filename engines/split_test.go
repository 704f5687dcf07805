package engines

import (
	"strings"
	"testing"

	"hclbench/provision"
)

// TestTransferByVersion: what prefill and decode are told of their part differs between versions.
func TestTransferByVersion(t *testing.T) {
	for _, tt := range []struct{ group, image, transfer, prefill, decode string }{
		{"recipe-c", "vllm/vllm-openai:v0.31.0", "", `"kv_role":"kv_both"`, `"kv_role":"kv_both"`},
		{"recipe-c", "vllm/vllm-openai:v0.32.0", "", `"kv_role":"kv_producer"`, `"kv_role":"kv_consumer"`},
		{"recipe-c", "vllm/vllm-openai:nightly", "", `"kv_role":"kv_both"`, `"kv_role":"kv_both"`},
		{"trtllm", "nvcr.io/nvidia/tensorrt-llm/release:1.2.0", "none", `"backend":"UCX"`, `"backend":"UCX"`},
		{"trtllm", "nvcr.io/nvidia/tensorrt-llm/release:1.4.0rc1", "none", `{"backend":"NIXL","kv_transfer_timeout_ms":14400000}`, `{"backend":"NIXL","kv_transfer_timeout_ms":14400000}`},
		{"trtllm", "nvcr.io/nvidia/tensorrt-llm/release:1.2.0", "ucx", `{"backend":"UCX"}`, `{"backend":"UCX"}`},
		{"trtllm", "nvcr.io/nvidia/tensorrt-llm/release:1.3.0", "mooncake", `"transceiver_runtime":"CPP"`, `"backend":"MOONCAKE"`},
		{"trtllm", "nvcr.io/nvidia/tensorrt-llm/release:1.4.0rc1", "ucx", `"transceiver_runtime":"CPP"`, `"transceiver_runtime":"CPP"`},
	} {
		e := groups()[tt.group]
		if tt.transfer != "" {
			e.Transfer = strings.TrimPrefix(tt.transfer, "none")
		}
		for _, r := range e.workers() {
			r.engine.Image = tt.image
		}
		for _, m := range Members(e) {
			want, written := map[string]string{Prefill: tt.prefill, Decode: tt.decode}[m.Role], strings.Join(wordsOf(Container(m.Engine)), " ")
			for _, f := range Container(m.Engine).Files {
				written += f.Text.Reveal()
			}
			if want != "" && !strings.Contains(written, want) {
				t.Errorf("%s of %s has not %s: %s", m.Role, tt.image, want, written)
			}
		}
	}
}

// TestNIXLOnOneHost: without GPUs and RDMA, members on one host meet on its loopback and take no other interface.
func TestNIXLOnOneHost(t *testing.T) {
	for gpus, want := range map[string]string{"": "lo", "8xH200": ""} {
		h := host("8xH200")
		h.Fabric = provision.Fabric{}
		if gpus == "" {
			h.GPUs = provision.GPUs{}
		}
		e := groups()["recipe-c"]
		for i := range e.Placement {
			e.Placement[i].Hosts = []*provision.Host{h}
		}
		e.recipe(Route).Placement = On(h)
		got := ""
		for _, v := range Members(e)[0].Engine.Env {
			if v.Name == "UCX_NET_DEVICES" {
				got = v.Value.Reveal()
			}
		}
		if got != want {
			t.Errorf("with GPUs %q UCX_NET_DEVICES is %q, want %q", gpus, got, want)
		}
	}
}

// TestDraft: the model of drafts is found in every spelling, where hcl fetches models.
func TestDraft(t *testing.T) {
	fetched := *r1
	fetched.Download = true
	for _, tt := range []struct {
		kind  string
		flags []string
		want  string
	}{
		{VLLM, []string{`speculative-config={"method":"eagle3","model":"org/draft","revision":"abc"}`}, "org/draft@abc"},
		{VLLM, []string{"speculative-config.model=org/draft"}, "org/draft@"},
		{VLLM, []string{"spec-model=org/draft"}, "org/draft@"},
		{VLLM, []string{"speculative-model=[ngram]"}, ""},
		{VLLM, []string{`speculative-config={"method":"mtp","num_speculative_tokens":2}`}, ""},
		{SGLang, []string{"speculative-draft-model-path=org/draft", "speculative-draft-model-revision=abc"}, "org/draft@abc"},
		{SGLang, []string{"speculative-draft-model=org/draft"}, "org/draft@"},
		{SGLang, []string{"speculative-draft-model-path=/data/draft"}, ""},
		{SGLang, []string{"speculative-draft-model-path=" + r1.Repo}, ""},
	} {
		got := ""
		e := &Engine{Kind: tt.kind, Model: &fetched, Flags: flagsOf(tt.flags...)}
		if m := Draft(e); m != nil {
			got = m.Repo + "@" + m.Revision
		}
		if got != tt.want {
			t.Errorf("%s %v drafts with %q, want %q", tt.kind, tt.flags, got, tt.want)
		}
		if e.Model = r1; Draft(e) != nil {
			t.Errorf("%v: it is fetched where the model is not", tt.flags)
		}
	}
}

// TestPatience: vLLM waits for its processes as long as hcl waits for it, where its version can be told so.
func TestPatience(t *testing.T) {
	for _, tt := range []struct {
		image   string
		timeout string
		want    string
	}{
		{"vllm/vllm-openai:v0.13.0", "", ""},
		{"vllm/vllm-openai:v0.32.0", "", "14400"},
		{"vllm/vllm-openai:v0.32.0", "900", "900"},
	} {
		e := &Engine{Kind: VLLM, Image: tt.image, Model: r1, Placement: On(host("8xH200"))}
		if tt.timeout != "" {
			e.Ready.Timeout = 900e9
		}
		got := ""
		for _, v := range Container(e).Env {
			if v.Name == "VLLM_ENGINE_READY_TIMEOUT_S" {
				got = v.Value.Reveal()
			}
		}
		if got != tt.want {
			t.Errorf("%s after %q waits %q, want %q", tt.image, tt.timeout, got, tt.want)
		}
	}
}

// TestSecretsRepeated: a key in a member of its own is taken out of the command line that another member repeats.
func TestSecretsRepeated(t *testing.T) {
	got, err := WithoutSecrets(&Engine{Kind: SGLang}, []byte(`{"admin_api_key": "sesame-open", "launch_command": "sglang serve --admin-api-key sesame-open --tp 8", "tp_size": 8}`))
	if err != nil || strings.Contains(string(got), "sesame") || !strings.Contains(string(got), "--tp 8") {
		t.Errorf("it tells %s, %v", got, err)
	}
}
