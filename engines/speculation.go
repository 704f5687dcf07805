package engines

import (
	"slices"
	"strings"

	"hclbench/provision"
)

// What has engines accept drafted tokens whatever they are: a member of vLLM's speculative-config,
// and variables of SGLang's and TensorRT-LLM's environment.
const forcingMember = "synthetic_acceptance_length"

var forcingEnv = []string{"SGLANG_SIMULATE_ACC_LEN", "TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS"}

// Speculates is the flag by which an engine drafts tokens and has the model accept them; empty: it
// does not, as far as its flags say.
func Speculates(e *Engine) (flag string) {
	e = e.generates()
	i := slices.IndexFunc(e.Flags, func(f Flag) bool { return strings.HasPrefix(dashed(f.Name), "speculative-") })
	if i < 0 {
		return ""
	}
	return e.Flags[i].Name
}

// ForcesAcceptance is what has an engine accept drafted tokens whatever they are; empty: nothing.
func ForcesAcceptance(e *Engine) string {
	e = e.generates()
	for _, f := range e.Flags {
		said := f.Name
		if f.Value != nil {
			said += f.Value.Reveal()
		}
		if dashed(f.Name) == "speculative-config" && strings.Contains(said, forcingMember) {
			return forcingMember
		}
	}
	i := slices.IndexFunc(e.Env, func(v provision.EnvVar) bool { return slices.Contains(forcingEnv, v.Name) })
	if i < 0 {
		return ""
	}
	return e.Env[i].Name
}
