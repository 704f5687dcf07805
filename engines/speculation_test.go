package engines

import (
	"fmt"
	"strings"
	"testing"

	"hclbench/provision"
)

// TestUnforced: an engine that is to be asked lacks what has it accept drafted tokens whatever they are, wherever the lab has written it, and
// nothing else; the lab's engine stays as it is. What cannot be taken away is an error.
func TestUnforced(t *testing.T) {
	flag := func(name, value string) func(*Engine) {
		return func(e *Engine) {
			v := provision.Plain(value)
			e.Flags = append(e.Flags, Flag{Name: name, Value: &v})
		}
	}
	env := func(name, value string) func(*Engine) {
		return func(e *Engine) { e.Env = append(e.Env, provision.EnvVar{Name: name, Value: provision.Plain(value)}) }
	}
	config := func(text string) func(*Engine) { return func(e *Engine) { e.Config = provision.Plain(text) } }
	all := func(sets ...func(*Engine)) func(*Engine) {
		return func(e *Engine) {
			for _, set := range sets {
				set(e)
			}
		}
	}
	for name, x := range map[string]struct {
		forced, unforced func(*Engine)
		without          string
	}{
		"a flag": {flag("speculative-config", `{"method":"mtp", "rejection_sample_method":"synthetic","synthetic_acceptance_length":3.12,"num_speculative_tokens":3}`),
			flag("speculative-config", `{"method":"mtp","num_speculative_tokens":3}`), "synthetic_acceptance_length"},
		"dotted flags": {all(flag("speculative-config.method", "mtp"), flag("speculative-config.rejection-sample-method", "synthetic"), flag("speculative-config.synthetic-acceptance-rate", "0.5")),
			flag("speculative-config.method", "mtp"), "synthetic_acceptance_rate"},
		"drafts as they are sampled": {all(flag("speculative-config.synthetic_acceptance_length", "2"), flag("speculative-config.rejection_sample_method", "block")),
			flag("speculative-config.rejection_sample_method", "block"), "synthetic_acceptance_length"},
		"a variable": {all(env("A", "1"), env("SGLANG_SIMULATE_ACC_LEN", "3")), env("A", "1"), "SGLANG_SIMULATE_ACC_LEN"},
		"a configuration": {config(`{"a": {"b<": 1e400}, "speculative_config": {"synthetic_acceptance_rates": [1, 0.5], "method": "mtp"}}`),
			config(`{"a":{"b<":1e400},"speculative_config":{"method":"mtp"}}`), "synthetic_acceptance_rates"},
		"a text in a configuration": {config(`{"speculative_config": "{\"synthetic_acceptance_length\": 2, \"method\": \"mtp\"}"}`),
			config(`{"speculative_config":"{\"method\":\"mtp\"}"}`), "synthetic_acceptance_length"},
		"variables of a configuration": {config(`{"env_overrides": {"TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS": 2, "B": 1}}`), config(`{"env_overrides":{"B":1}}`),
			"TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS"},
		"nothing":         {all(flag("tp", "8"), config(`{"a": 1}`)), all(flag("tp", "8"), config(`{"a": 1}`)), ""},
		"what is no more": {env("SGLANG_SIMULATE_ACC_LEN", "-1"), env("SGLANG_SIMULATE_ACC_LEN", "-1"), ""},
	} {
		forced, want := fingerprinted()[VLLM], fingerprinted()[VLLM]
		x.forced(forced)
		x.unforced(want)
		before := fmt.Sprint(Fingerprint(forced))
		got, err := Unforced(forced)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if is, want := fmt.Sprint(Fingerprint(got)), fmt.Sprint(Fingerprint(want)); is != want || got.Without != x.without || (got == forced) != (x.without == "") {
			t.Errorf("%s: without %q it is\n%s\nand should be\n%s", name, got.Without, is, want)
		}
		if after := fmt.Sprint(Fingerprint(forced)); after != before {
			t.Errorf("%s: the lab's engine was %s, and is %s", name, before, after)
		}
		if got.Label() != forced.Label() || got.Host() != forced.Host() {
			t.Errorf("%s: it is %s on %v", name, got.Label(), got.Host())
		}
	}
	for name, set := range map[string]func(*Engine){
		"a command": func(e *Engine) { e.Command = commandOf("env", "SGLANG_SIMULATE_ACC_LEN=3", "serve") },
		"a setup":   func(e *Engine) { e.Setup = []string{"export SGLANG_SIMULATE_ACC_LEN=3"} },
	} {
		e := fingerprinted()[SGLang]
		set(e)
		if got, err := Unforced(e); err == nil || !strings.Contains(err.Error(), "has SGLANG_SIMULATE_ACC_LEN where it cannot be taken away") {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestUnforcedGroup: of an engine in roles that which generates is asked without what forces it.
func TestUnforcedGroup(t *testing.T) {
	decode := &Engine{Kind: SGLang, Name: "decode", Env: []provision.EnvVar{{Name: "SGLANG_SIMULATE_ACC_LEN", Value: provision.Plain("3")}}}
	prefill := &Engine{Kind: SGLang, Name: "prefill"}
	host := &provision.Host{Name: "h"}
	group := &Engine{Kind: GroupKind, Name: "pd", Placement: Placement{
		{Role: Prefill, Engine: prefill, Hosts: []*provision.Host{host}}, {Role: Decode, Engine: decode, Hosts: []*provision.Host{host}}}}
	got, err := Unforced(group)
	if err != nil || got.Without != "SGLANG_SIMULATE_ACC_LEN" || ForcesAcceptance(got) != "" || ForcesAcceptance(group) == "" {
		t.Errorf("it is %+v, %v", got, err)
	}
}

// TestUnforcedSecrets: secrets beside what forces acceptance are still known to be secret.
func TestUnforcedSecrets(t *testing.T) {
	e := fingerprinted()[VLLM]
	e.Config = provision.Partly(`{"key": "a<b", "speculative_config": {"synthetic_acceptance_length": 2}}`,
		`{"key": "(sensitive)", "speculative_config": {"synthetic_acceptance_length": 2}}`, []string{"a<b"})
	got, err := Unforced(e)
	if err != nil || got.Config.Reveal() != `{"key":"a<b","speculative_config":{}}` || strings.Contains(got.Config.String(), "a<b") || len(got.Config.Secrets()) != 1 {
		t.Errorf("it is %q, %v", got.Config.Reveal(), err)
	}
}
