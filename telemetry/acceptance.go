package telemetry

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// forcing is a setting that has an engine accept drafted tokens whatever they are, with what it says
// of how many, wherever it stands: in a flag, a configuration, the environment, a command.
type forcing struct {
	name string  // as the engine's makers write it
	more float64 // tokens of a step that the number does not count
	none bool    // 0 is a number as any other; else what is not above it is off
	each bool    // the number is a share of the tokens that are drafted
}

var forcings = []forcing{
	// vLLM's speculative-config: tokens a step with the model's own, or the shares of steps that accept
	// so many drafts or more, or the share of drafts.
	{"synthetic_acceptance_length", 0, false, false},
	{"synthetic_acceptance_rates", 1, true, false},
	{"synthetic_acceptance_rates_by_length", 1, true, false},
	{"synthetic_acceptance_rate", 1, true, true},
	// SGLang, by its name of today and an older one: tokens a step with the model's own; -1 by itself.
	{"SGLANG_SIMULATE_ACC_LEN", 0, false, false},
	{"SIMULATE_ACC_LEN", 0, false, false},
	// TensorRT-LLM: drafted tokens alone; 0 is off.
	{"TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS", 1, false, false},
}

// drafting is the setting that says how many tokens are drafted at a time.
const drafting = "num_speculative_tokens"

// sampling is vLLM's member that has it accept by what the forcings say, by its value synthetic. Without them the server refuses that.
const sampling = "rejection_sample_method"

// Forces reports whether a member or a variable of that name and value is there to force acceptance, and for nothing else.
func Forces(name, value string) bool {
	name = strings.ReplaceAll(name, "-", "_")
	return name == sampling && value == "synthetic" || slices.ContainsFunc(forcings, func(f forcing) bool { return f.name == name })
}

// comments are those of a shell, as far as no quote stands before them in their line.
var comments = regexp.MustCompile(`(?m)^([^"'\n]*[\s;])?#.*$`)

// settings find each setting by its name: what takes it away or asks for it, and the value it is given.
var settings = func() map[string]*regexp.Regexp {
	all := map[string]*regexp.Regexp{}
	for _, f := range append([]forcing{{name: drafting}}, forcings...) {
		all[f.name] = regexp.MustCompile(`(\bunset[ \t][\w \t-]*?|\s-u ?|\$\{?)?\b` + strings.ReplaceAll(f.name, "_", "[_-]") + `\b` +
			`(?:(["'\\]*\s*:\s*["'\\]*|["'\\]*=["'\\]*|\.\b)(\[[^\]]*\]|[^\s"'\\,;&|)}]*)|[ \t]+["'\\]*(\[[^\]]*\]|-?[0-9.][0-9.e+-]*))?`)
	}
	return all
}()

// ForcedAcceptance is how many tokens a step of speculative decoding brings because the engine was told
// to accept so many, whatever was drafted: the model's own one is among them, as in
// [Record.StepTokens]. by is the setting that says it, empty where none does; tokens is 0 where its
// value is not known. identity is that of an engine; of one in roles, those that read prompts do not count.
func ForcedAcceptance(identity map[string]string) (tokens float64, by string) {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(identity)), func(name string) bool { return strings.HasPrefix(name, "prefill.") })
	drafted, drafts := 0.0, false
	for _, name := range names {
		if value, ok := setting(drafting, name, identity[name]); ok && !drafts {
			drafted, drafts = total(value)
		}
	}
	for _, name := range names {
		for _, f := range forcings {
			text, on := setting(f.name, name, identity[name])
			value, known := total(text)
			if !on || by != "" || known && value <= 0 && !f.none {
				continue
			}
			by = f.name
			if f.each {
				value, known = value*drafted, known && drafts
			}
			if known {
				tokens = value + f.more
			}
		}
	}
	return tokens, by
}

// setting is the value that a pair of an identity gives a setting last; ok is false where it gives none, or
// takes it away.
func setting(of, name, text string) (value string, ok bool) {
	if !strings.Contains(strings.ReplaceAll(name+" "+text, "-", "_"), of) {
		return "", false // as nearly all: the expressions take their time
	}
	text = name + "=" + strings.TrimSpace(comments.ReplaceAllString(text, "$1"))
	for _, m := range settings[of].FindAllStringSubmatch(text, -1) {
		switch {
		case strings.HasPrefix(m[1], "$"), m[1] == "" && m[2]+m[4] == "": // it is only spoken of
		case m[1] != "":
			ok = false
		default:
			value = m[3] + m[4]
			ok = value != "" && value != "null" && value != "None"
		}
	}
	return value, ok
}

// total adds up the numbers of a text; known is false where there is none, or one that no engine could mean.
func total(text string) (sum float64, known bool) {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune("[], \n\t", r) }) {
		v, err := strconv.ParseFloat(word, 64)
		if err != nil || !(math.Abs(v) <= 1e6) {
			return 0, false
		}
		sum, known = sum+v, true
	}
	return sum, known
}
