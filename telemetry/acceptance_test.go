package telemetry

import "testing"

// TestForcedAcceptance: every engine's own way to say it, wherever that stands in the identity.
func TestForcedAcceptance(t *testing.T) {
	const length, rates, rate, acc, forced = "synthetic_acceptance_length", "synthetic_acceptance_rates",
		"synthetic_acceptance_rate", "SGLANG_SIMULATE_ACC_LEN", "TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS"
	for name, x := range map[string]struct {
		pair   [2]string
		tokens float64
		by     string
	}{
		"a flag":               {[2]string{"--speculative-config", `'{"method":"mtp","synthetic_acceptance_length":3.12}'`}, 3.12, length},
		"a quoted flag":        {[2]string{"--speculative-config", `"{\"synthetic_acceptance_length\": 2}"`}, 2, length},
		"a dotted flag":        {[2]string{"--speculative-config.synthetic-acceptance-length", "2.5"}, 2.5, length},
		"a configuration":      {[2]string{"config.speculative_config.synthetic_acceptance_length", "2.5"}, 2.5, length},
		"places":               {[2]string{"config.speculative_config.synthetic_acceptance_rates", "[0.8,0.5,0]"}, 2.3, rates},
		"places of a flag":     {[2]string{"--speculative-config", `'{"synthetic_acceptance_rates": [1, 0.5]}'`}, 2.5, rates},
		"no place":             {[2]string{"--speculative-config", `'{"synthetic_acceptance_rates": [0.0]}'`}, 1, rates},
		"places by length":     {[2]string{"--speculative-config", `'{"synthetic_acceptance_rates_by_length":{"2":[1,1]}}'`}, 0, rates + "_by_length"},
		"a variable":           {[2]string{"env SGLANG_SIMULATE_ACC_LEN", "2.32"}, 2.32, acc},
		"a secret":             {[2]string{"env SGLANG_SIMULATE_ACC_LEN", "(sensitive)"}, 0, acc},
		"a command":            {[2]string{"command", "env SGLANG_SIMULATE_ACC_LEN=3 python3 -m sglang.launch_server"}, 3, acc},
		"a setup":              {[2]string{"setup", "export A=1\nexport SGLANG_SIMULATE_ACC_LEN='3.39'"}, 3.39, acc},
		"of decode":            {[2]string{"decode.env SGLANG_SIMULATE_ACC_LEN", "3.61"}, 3.61, acc},
		"drafts alone":         {[2]string{"env TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS", "1.78"}, 2.78, forced},
		"in YAML":              {[2]string{"config.env_overrides.TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS", "2"}, 3, forced},
		"of prefill":           {[2]string{"prefill.env SGLANG_SIMULATE_ACC_LEN", "3.61"}, 0, ""},
		"off":                  {[2]string{"env SGLANG_SIMULATE_ACC_LEN", "-1"}, 0, ""},
		"none":                 {[2]string{"env TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS", "0"}, 0, ""},
		"another variable":     {[2]string{"env MY_SGLANG_SIMULATE_ACC_LEN", "3"}, 0, ""},
		"how it is simulated":  {[2]string{"env SGLANG_SIMULATE_ACC_METHOD", "match-expected"}, 0, ""},
		"an older name":        {[2]string{"env SIMULATE_ACC_LEN", "3"}, 3, "SIMULATE_ACC_LEN"},
		"a rate":               {[2]string{"--speculative-config", `'{"num_speculative_tokens":3,"synthetic_acceptance_rate":0.5}'`}, 2.5, rate},
		"a rate of nothing":    {[2]string{"--speculative-config", `'{"num_speculative_tokens":3,"synthetic_acceptance_rate":0}'`}, 1, rate},
		"a rate of so many":    {[2]string{"config.speculative_config.synthetic_acceptance_rate", "0.5"}, 0, rate},
		"a rate, taken away":   {[2]string{"--speculative-config", `'{"num_speculative_tokens":3,"synthetic_acceptance_rate":null}'`}, 0, ""},
		"members by length":    {[2]string{"config.speculative_config.synthetic_acceptance_rates_by_length.2", "[1,1]"}, 0, rates + "_by_length"},
		"a power":              {[2]string{"env SGLANG_SIMULATE_ACC_LEN", "1e1"}, 10, acc},
		"without end":          {[2]string{"env SGLANG_SIMULATE_ACC_LEN", "inf"}, 0, acc},
		"too many":             {[2]string{"env SGLANG_SIMULATE_ACC_LEN", "1e300"}, 0, acc},
		"null":                 {[2]string{"--speculative-config", `'{"synthetic_acceptance_length": null, "num_speculative_tokens": 3}'`}, 0, ""},
		"null of a file":       {[2]string{"config.speculative_config.synthetic_acceptance_length", "null"}, 0, ""},
		"empty":                {[2]string{"env SGLANG_SIMULATE_ACC_LEN", ""}, 0, ""},
		"empty in a setup":     {[2]string{"setup", "export SGLANG_SIMULATE_ACC_LEN=\nexport A=3"}, 0, ""},
		"quoted and empty":     {[2]string{"setup", "export SGLANG_SIMULATE_ACC_LEN='' A=3"}, 0, ""},
		"unset":                {[2]string{"setup", "unset A SGLANG_SIMULATE_ACC_LEN SGLANG_SIMULATE_ACC_METHOD"}, 0, ""},
		"unset at last":        {[2]string{"setup", "export SGLANG_SIMULATE_ACC_LEN=3\nunset SGLANG_SIMULATE_ACC_LEN"}, 0, ""},
		"unset before":         {[2]string{"setup", "unset SGLANG_SIMULATE_ACC_LEN\nexport SGLANG_SIMULATE_ACC_LEN=3"}, 3, acc},
		"another is unset":     {[2]string{"setup", "unset A\nexport SGLANG_SIMULATE_ACC_LEN=3"}, 3, acc},
		"taken from a command": {[2]string{"command", "env -u SGLANG_SIMULATE_ACC_LEN python3"}, 0, ""},
		"a comment":            {[2]string{"setup", "export A=1\n# export SGLANG_SIMULATE_ACC_LEN=3.2\n  # and SGLANG_SIMULATE_ACC_LEN=4"}, 0, ""},
		"a comment behind":     {[2]string{"command", "bash -c 'set -e\nexport A=1 # not SGLANG_SIMULATE_ACC_LEN=3\nrun'"}, 0, ""},
		"no comment":           {[2]string{"command", `bash -c 'export A=" #1" SGLANG_SIMULATE_ACC_LEN=3'`}, 3, acc},
		"the last of two":      {[2]string{"setup", "export SGLANG_SIMULATE_ACC_LEN=-1\nexport SGLANG_SIMULATE_ACC_LEN=4"}, 4, acc},
		"off at last":          {[2]string{"command", "env SGLANG_SIMULATE_ACC_LEN=4 env SGLANG_SIMULATE_ACC_LEN=-1 python3"}, 0, ""},
		"asked for":            {[2]string{"setup", "export SGLANG_SIMULATE_ACC_LEN=3\necho $SGLANG_SIMULATE_ACC_LEN ${SGLANG_SIMULATE_ACC_LEN:-0}"}, 3, acc},
		"exported":             {[2]string{"setup", "SGLANG_SIMULATE_ACC_LEN=3\nexport SGLANG_SIMULATE_ACC_LEN\nexport A=1"}, 3, acc},
		"in a command's flag":  {[2]string{"command", "bash -c 'vllm serve --speculative-config.synthetic-acceptance-length 2.5e0'"}, 2.5, length},
		"drafts that are real": {[2]string{"--speculative-config", `'{"method":"mtp","num_speculative_tokens":3}'`}, 0, ""},
	} {
		tokens, by := ForcedAcceptance(map[string]string{"kind": "vllm", x.pair[0]: x.pair[1]})
		if diff := tokens - x.tokens; diff*diff > 1e-18 || by != x.by {
			t.Errorf("%s: %g by %q, want %g by %q", name, tokens, by, x.tokens, x.by)
		}
	}
	apart := map[string]string{"--speculative-config.synthetic_acceptance_rate": "0.5", "--speculative-config.num-speculative-tokens": "4"}
	if tokens, by := ForcedAcceptance(apart); tokens != 3 || by != rate {
		t.Errorf("half of 4 drafts: %g by %q", tokens, by)
	}
	if _, by := ForcedAcceptance(nil); by != "" {
		t.Errorf("nothing is forced by %q", by)
	}
}
