package engines

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hclbench/engines/setting"
	"hclbench/plain"
	"hclbench/provision"
)

// Difference is a flag that an engine was given and does not run with.
type Difference struct {
	Flag   string // as the lab spells it: "max-model-len"
	Asked  string
	Field  string // where the engine says otherwise: "model_config.max_model_len"
	Served string
}

func (d Difference) String() string {
	return fmt.Sprintf("--%s asks for %s, the engine serves with %s (%s)", d.Flag, d.Asked, d.Served, d.Field)
}

// Differences compares what an engine says it runs with, as [WithoutSecrets]
// returns it, with the flags it was given, in the order of the flags, those of its
// configuration file among them where it reads flags from there. What it does not
// tell is no difference, nor is a flag that leaves the choice to the engine ("auto",
// a number below zero), that is sensitive, or that stands beside a command of the
// lab's own.
func Differences(e *Engine, config json.RawMessage) ([]Difference, error) {
	if len(config) == 0 || e.Command != nil {
		return nil, nil
	}
	var said any
	if err := json.Unmarshal(config, &said); err != nil {
		return nil, fmt.Errorf("read the served configuration: %w", err)
	}
	if _, reads := ReadsConfig(e); reads {
		e = e.withoutConfig()
	}
	var out []Difference
	d := e.dialect()
	for _, f := range e.Flags {
		for _, field := range d.means(f.Name).Told(e.Kind) {
			if _, newer := member(said, ranksOfAttention); newer && field == "dp_size" && e.isOn(setting.DPAttention) {
				field = ranksOfAttention // SGLang from 0.5.22 on
			}
			if rewrites(e, field) || f.text().IsSecret() {
				continue
			}
			asked := cmp.Or(d.value(f), "true")
			is, told := member(said, field)
			if !told || freeChoice(asked) || agree(asked, is) {
				continue
			}
			out = append(out, Difference{f.Name, asked, strings.TrimPrefix(field, "vllm_config."), is})
		}
	}
	return out, nil
}

// rewrites reports whether the engine, as it is started, computes a field anew:
// with attention in data parallel SGLang divides the prefill chunk among the ranks.
func rewrites(e *Engine, field string) bool {
	return field == "chunked_prefill_size" && (e.isOn(setting.DPAttention) || e.wholeNumber(1, setting.AttentionRanks) > 1)
}

const ranksOfAttention = "attn_dp_size"

// member is the scalar at a path of members and of indices into lists; null is
// "none".
func member(v any, path string) (text string, ok bool) {
	for name := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			if v, ok = in[name]; !ok {
				return "", false
			}
		case []any:
			n, err := strconv.Atoi(name)
			if err != nil || n >= len(in) {
				return "", false
			}
			v = in[n]
		default:
			return "", false
		}
	}
	switch v := v.(type) {
	case string:
		return strings.TrimPrefix(v, "torch."), true
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	case nil:
		return "none", true
	}
	return "", false
}

func freeChoice(asked string) bool {
	n, isNumber := number(asked)
	return strings.EqualFold(asked, "auto") || isNumber && n < 0
}

// agree reports whether two spellings mean the same. The engines make a name more
// exact, "fp8" to "fp8_e4m3" or "awq" to "awq_marlin", which is what was asked for.
func agree(asked, is string) bool {
	a, isNumber := number(asked)
	b, alsoNumber := number(is)
	if isNumber && alsoNumber {
		return a == b
	}
	asked, is = strings.ToLower(asked), strings.ToLower(is)
	if is == "none" && (asked == "null" || asked == "") {
		return true
	}
	asked, is = cmp.Or(dtypes[asked], asked), cmp.Or(dtypes[is], is)
	return asked == is || strings.HasPrefix(is, asked+"_")
}

// dtypes are the short names of torch's types.
var dtypes = map[string]string{"half": "float16", "float": "float32", "bf16": "bfloat16", "fp16": "float16"}

// number reads a number as the engines' flags have it: vLLM takes "32k" for 32000
// and "32K" for 32768.
func number(s string) (n float64, ok bool) {
	factor := 1.0
	if s != "" {
		if by, suffixed := suffixes[s[len(s)-1]]; suffixed {
			s, factor = s[:len(s)-1], by
		}
	}
	n, err := strconv.ParseFloat(s, 64)
	return n * factor, err == nil
}

var suffixes = map[byte]float64{'k': 1e3, 'K': 1 << 10, 'm': 1e6, 'M': 1 << 20, 'g': 1e9, 'G': 1 << 30}

// WithoutSecrets returns what an engine says of itself without the members that
// hold keys and passwords, without what the lab marks sensitive, wherever it is
// repeated, and without what changes from one moment to the next or describes the
// machine, which is known from elsewhere.
func WithoutSecrets(e *Engine, served json.RawMessage) (json.RawMessage, error) {
	var v any
	if err := json.Unmarshal(served, &v); err != nil {
		return nil, fmt.Errorf("read the served configuration: %w", err)
	}
	words := append(Secrets(e), secretsIn(v)...) // which its whole command line repeats
	return json.Marshal(cleaned(v, plain.NewSecrets(words...), words))
}

// Secrets are the sensitive texts that an engine, or those that it is made of, are given,
// in clear: what is to be taken out of everything that they say.
func Secrets(e *Engine) (clear []string) {
	var texts []provision.Text
	for _, e := range e.Engines() {
		texts = append(append(texts, e.APIKey, e.Config), e.Command...)
		for _, v := range e.Env {
			texts = append(texts, v.Value)
		}
		for _, f := range e.Flags {
			texts = append(texts, f.text())
		}
	}
	if e.Manifests != nil {
		for _, o := range e.Manifests.Objects {
			texts = append(texts, o.Text)
		}
	}
	for _, t := range texts {
		clear = append(clear, t.Secrets()...)
	}
	return slices.DeleteFunc(clear, func(s string) bool { return s == "" })
}

var (
	// passing are members that change from one moment to the next, or describe the machine.
	passing      = regexp.MustCompile(`(?i)^(internal_states|system_env|created|permission)$`)
	secretMember = regexp.MustCompile(`(?i)(key|hf_token)$|password|secret`)
)

// secretsIn are the texts of members that hold keys and passwords.
func secretsIn(v any) (clear []string) {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			text, isText := inner.(string)
			if isText && text != "" && text != provision.Redacted && secretMember.MatchString(name) && !passing.MatchString(name) {
				clear = append(clear, text)
			} else {
				clear = append(clear, secretsIn(inner)...)
			}
		}
	case []any:
		for _, inner := range v {
			clear = append(clear, secretsIn(inner)...)
		}
	}
	return clear
}

// cleaned is a part of a served configuration without secrets, and without each of the
// words where it is the whole value, however short.
func cleaned(v any, secrets plain.Secrets, words []string) any {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			switch {
			case passing.MatchString(name):
				delete(v, name)
			case secretMember.MatchString(name):
				if inner != nil && inner != "" {
					v[name] = provision.Redacted
				}
			default:
				v[name] = cleaned(inner, secrets, words)
			}
		}
	case []any:
		for i := range v {
			v[i] = cleaned(v[i], secrets, words)
		}
	case string:
		if slices.Contains(words, v) {
			return provision.Redacted
		}
		return secrets.Text(v)
	case float64:
		if slices.Contains(words, strconv.FormatFloat(v, 'f', -1, 64)) {
			return provision.Redacted
		}
	}
	return v
}
