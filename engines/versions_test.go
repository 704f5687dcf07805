package engines

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
)

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
