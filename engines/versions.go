package engines

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"hclbench/plain"
	"hclbench/provision"
)

// versionsScript writes a JSON object with the versions of what an engine is made
// of to the file that it is told. It imports none of it, so that it touches no GPU.
//
//go:embed versions.py
var versionsScript string

// VersionsFile is where the command of [Versions] writes, in the container.
const VersionsFile = "/tmp/hcl-versions.json"

// Versions is the command that finds out, inside the engine's container, the
// versions of the engine and of what it is made of; nil: the kind has none to tell.
func Versions(e *Engine) []string {
	if !kinds[e.Kind].needsModel {
		return nil
	}
	return []string{"python3", "-c", versionsScript, VersionsFile}
}

// ReadVersions reads what the command of [Versions] has written: by name, such as
// "vllm", "torch", "cuda", "nccl". What is not installed is not there.
func ReadVersions(text []byte) (map[string]string, error) {
	var versions map[string]string
	if err := json.Unmarshal(text, &versions); err != nil {
		return nil, fmt.Errorf("read versions: %w", err)
	}
	return versions, nil
}

// WithoutSecrets returns what an engine says of itself without the members that
// hold keys and passwords, without what the lab marks sensitive, wherever it is
// repeated, and without what changes from one moment to the next or describes the
// machine, which is known from elsewhere.
func WithoutSecrets(e *Engine, served json.RawMessage) (json.RawMessage, error) {
	var v any
	if err := json.Unmarshal(served, &v); err != nil {
		return nil, fmt.Errorf("read the served configuration: %w", err)
	}
	words := Secrets(e)
	return json.Marshal(cleaned(v, plain.NewSecrets(words...), words))
}

// Secrets are the sensitive texts that an engine is given, in clear: what is to be
// taken out of everything that it says.
func Secrets(e *Engine) (clear []string) {
	texts := append([]provision.Text{e.APIKey, e.Config}, e.Command...)
	for _, v := range e.Env {
		texts = append(texts, v.Value)
	}
	for _, f := range e.Flags {
		texts = append(texts, f.text())
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
