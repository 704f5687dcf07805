package telemetry

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// forcing are the settings that have an engine accept drafted tokens whatever they are, with what
// each says of how many, wherever it stands: in a flag, a configuration, the environment, a command.
var forcing = []struct {
	name string // as the engine's makers write it
	says *regexp.Regexp
	more float64 // tokens of a step that the number does not count
	each bool    // the numbers are the shares of steps that accept so many drafts or more
}{
	// vLLM's speculative-config: tokens a step with the model's own, or the probability of each place.
	{"synthetic_acceptance_length", valued(`synthetic[_-]acceptance[_-]length`, number), 0, false},
	{"synthetic_acceptance_rates", valued(`synthetic[_-]acceptance[_-]rates`, `\[[^\]]*\]`), 1, true},
	{"synthetic_acceptance_rates_by_length", valued(`synthetic[_-]acceptance[_-]rates[_-]by[_-]length`, ``), 1, true},
	// SGLang: tokens a step with the model's own; what is not above 0 is off, as -1 by itself.
	{"SGLANG_SIMULATE_ACC_LEN", valued(`SGLANG_SIMULATE_ACC_LEN`, number), 0, false},
	// TensorRT-LLM: drafted tokens alone; 0 is off.
	{"TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS", valued(`TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS`, number), 1, false},
}

const number = `-?[0-9.]+`

// valued finds a setting by its name, and the value that follows it, if one does.
func valued(name, value string) *regexp.Regexp {
	return regexp.MustCompile(`\b` + name + `\b(?:[\s"'\\:=]*(` + value + `))?`)
}

// ForcedAcceptance is how many tokens a step of speculative decoding brings because the engine was told
// to accept so many, whatever was drafted: the model's own one is among them, as in
// [Record.StepTokens]. by is the setting that says it, empty where none does; tokens is 0 where its
// value is not known. identity is that of an engine; of one in roles, those that read prompts do not count.
func ForcedAcceptance(identity map[string]string) (tokens float64, by string) {
	for _, name := range slices.Sorted(maps.Keys(identity)) {
		if strings.HasPrefix(name, "prefill.") {
			continue
		}
		for _, f := range forcing {
			said := f.says.FindStringSubmatch(name + " " + identity[name])
			if said == nil {
				continue
			}
			value, known := total(said[1])
			switch {
			case known && value <= 0 && !f.each: // off
			case by == "" && known:
				tokens, by = value+f.more, f.name
			case by == "":
				by = f.name
			}
		}
	}
	return tokens, by
}

// total adds up the numbers of a text; known is false where there is none.
func total(text string) (sum float64, known bool) {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune("[], ", r) }) {
		v, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return 0, false
		}
		sum, known = sum+v, true
	}
	return sum, known
}
