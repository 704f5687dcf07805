package engines

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
	"hclbench/testhost/recording"
)

func TestDifferences(t *testing.T) {
	flag := func(name string, value ...string) Flag {
		f := Flag{Name: name}
		for _, v := range value {
			text := provision.Plain(v)
			f.Value = &text
		}
		return f
	}
	secret := provision.Secret("hush")
	vllm, sglang := recording.Text(t, "vllm-0.32.0/server_info.json"), recording.Text(t, "sglang-0.5.23/server_info.json")
	quantized := servedWith(t, vllm, map[string]any{"vllm_config.model_config.quantization": "awq_marlin", "vllm_config.cache_config.cache_dtype": "fp8_e4m3"})
	// with --tp 8 --dp 8 --enable-dp-attention --chunked-prefill-size 8192
	attention := servedWith(t, sglang, map[string]any{"tp_size": 8, "dp_size": 1, "attn_dp_size": 8, "enable_dp_attention": true, "chunked_prefill_size": 1024})
	inFile := &Engine{Kind: VLLM, Config: provision.Plain(`{"max_num_seqs": 64, "dtype": "bfloat16"}`)}
	if got, err := Differences(inFile, []byte(vllm)); err != nil || len(got) != 1 || got[0].String() != "--max-num-seqs asks for 64, the engine serves with 128 (scheduler_config.max_num_seqs)" {
		t.Errorf("with a configuration file: %v, %v", got, err)
	}
	for _, c := range []struct {
		name, kind string
		flags      []Flag
		served     string
		want       []Difference
	}{
		{"vllm agrees", VLLM, []Flag{
			flag("max-model-len", "4K"), flag("dtype", "bf16"), flag("tp", "1"), flag("gpu-memory-utilization", "0.920"), flag("enable-prefix-caching"),
			flag("max-num-seqs", "128"), flag("enforce-eager"), flag("unknown", "1"),
		}, vllm, nil},
		{"vllm says more exactly what it was told", VLLM, []Flag{flag("quantization", "awq"), flag("kv_cache_dtype", "fp8")}, quantized, nil},
		{"vllm leaves things to itself", VLLM, []Flag{flag("dtype", "auto"), flag("max-model-len", "-1")}, vllm, nil},
		{"vllm differs", VLLM, []Flag{flag("max-model-len", "4k"), flag("no-enable-prefix-caching"), flag("dtype", "half")}, vllm, []Difference{
			{"max-model-len", "4k", "model_config.max_model_len", "4096"},
			{"no-enable-prefix-caching", "false", "cache_config.enable_prefix_caching", "true"},
			{"dtype", "half", "model_config.dtype", "bfloat16"},
		}},
		{"vllm lists models only", VLLM, []Flag{flag("max-model-len", "8192"), flag("tp", "8")}, recording.Text(t, "vllm-0.32.0/models.json"), []Difference{
			{"max-model-len", "8192", "data.0.max_model_len", "4096"},
		}},
		{"its configuration is a text", VLLM, []Flag{flag("tp", "8")}, `{"vllm_config": "model='m', tensor_parallel_size=4"}`, nil},
		{"sglang agrees", SGLang, []Flag{flag("tp", "1"), flag("context-length", "4096"), flag("mem-fraction-static", "0.30")}, sglang, nil},
		{"sglang differs", SGLang, []Flag{flag("context-length", "8192"), flag("disable-radix-cache"), flag("chunked-prefill-size", "8192"), flag("max-running-requests", "8")}, sglang, []Difference{
			{"context-length", "8192", "context_length", "4096"},
			{"disable-radix-cache", "true", "disable_radix_cache", "false"},
			{"chunked-prefill-size", "8192", "chunked_prefill_size", "4096"},
			{"max-running-requests", "8", "max_running_requests", "none"},
		}},
		{"sglang divides the chunk", SGLang, []Flag{flag("chunked-prefill-size", "8192"), flag("enable-dp-attention")}, attention, nil},
		{"sglang names its ranks of attention", SGLang, []Flag{flag("tp", "8"), flag("dp", "8"), flag("enable-dp-attention"), flag("chunked-prefill-size", "8192")}, attention, nil},
		{"sglang has fewer of them", SGLang, []Flag{flag("dp", "4"), flag("enable-dp-attention")}, attention, []Difference{{"dp", "4", "attn_dp_size", "8"}}},
		{"sglang is told its ranks of attention", SGLang, []Flag{flag("attn-dp-size", "8"), flag("chunked-prefill-size", "8192")}, attention, nil},
		{"sglang repeats what it was told", SGLang, []Flag{flag("dtype", "half")}, servedWith(t, sglang, map[string]any{"dtype": "half"}), nil},
		{"nothing is nothing", SGLang, []Flag{flag("max-running-requests", "null"), flag("dtype", "AUTO")}, sglang, nil},
		{"sensitive", SGLang, []Flag{{Name: "dtype", Value: &secret}}, sglang, nil},
		{"nothing told", VLLM, []Flag{flag("tp", "8")}, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Differences(&Engine{Kind: c.kind, Flags: c.flags}, json.RawMessage(c.served))
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("Differences (-want +got), %v:\n%s", err, diff)
			}
		})
	}
	if _, err := Differences(&Engine{Kind: VLLM}, json.RawMessage("<html>")); err == nil {
		t.Error("no error of what is no JSON")
	}
}

// servedWith is a recorded configuration with other values, by their paths.
func servedWith(t *testing.T, recorded string, values map[string]any) string {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal([]byte(recorded), &all); err != nil {
		t.Fatal(err)
	}
	for at, value := range values {
		in, path := all, strings.Split(at, ".")
		for _, part := range path[:len(path)-1] {
			in = in[part].(map[string]any)
		}
		if _, has := in[path[len(path)-1]]; !has {
			t.Errorf("the real one says nothing of %s", at)
		}
		in[path[len(path)-1]] = value
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWithoutSecrets(t *testing.T) {
	token, pin := provision.Secret("canary"), provision.Secret("4711")
	e := &Engine{
		Kind:  SGLang,
		Env:   []provision.EnvVar{{Name: "VLLM_TOKEN", Value: token}},
		Flags: []Flag{{Name: "pin", Value: &pin}},
	}
	got, err := WithoutSecrets(e, json.RawMessage(`{"vllm_env": {"VLLM_TOKEN": "canary"}, "argv": ["--x=canary"], "pin": 4711, "system_env": "8 GPUs", "api_key": "k", "admin_api_key": null, "tp_size": 8, "max_total_num_tokens": 7,
		"internal_states": [{"load": 3}], "nested": {"ssl_keyfile_password": "p", "hf_token": "t", "model": "m"}, "data": [{"created": 1, "id": "m", "max_model_len": 9}]}`))
	want := `{"admin_api_key":null,"api_key":"(sensitive)","argv":["--x=(sensitive)"],"data":[{"id":"m","max_model_len":9}],"max_total_num_tokens":7,"nested":{"hf_token":"(sensitive)","model":"m","ssl_keyfile_password":"(sensitive)"},"pin":"(sensitive)","tp_size":8,"vllm_env":{"VLLM_TOKEN":"(sensitive)"}}`
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Errorf("WithoutSecrets (-want +got), %v:\n%s", err, diff)
	}
	if _, err := WithoutSecrets(e, json.RawMessage(`<html>`)); err == nil {
		t.Error("no error of what is no JSON")
	}
}

// TestGroupSecrets: what the recipes of a group are given is taken out of what they say.
func TestGroupSecrets(t *testing.T) {
	of := func(kind, secret string) *Engine {
		return &Engine{Kind: kind, Env: []provision.EnvVar{{Name: "TOKEN", Value: provision.Secret(secret)}}}
	}
	g := &Engine{Kind: GroupKind, Placement: Placement{
		{Role: Prefill, Engine: of(VLLM, "of prefill")}, {Role: Decode, Engine: of(VLLM, "of decode")},
		{Role: Route, Engine: of(VLLMRouter, "of the router")},
	}}
	if diff := cmp.Diff([]string{"of prefill", "of decode", "of the router"}, Secrets(g)); diff != "" {
		t.Errorf("Secrets (-want +got):\n%s", diff)
	}
}
