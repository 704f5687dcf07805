package engines

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"hclbench/provision"
)

// configName is the engine's configuration file. The engines want YAML, and look
// at the name's ending; JSON is YAML.
const configName = "config.yaml"

// ConfigFile is where the engine finds its configuration file: in its container, or
// relative to the directory that its process starts in.
func ConfigFile(e *Engine) string {
	if Runtime(e) == provision.Docker {
		return path.Join(provision.FilesDir, configName)
	}
	return configName
}

// ReadsConfig reports whether the engine reads each of its flags from a
// configuration file as well, as far as its image tells, and since which version the
// engines of its kind do (vllm-project/vllm#7737, sgl-project/sglang#10534); "" for a
// kind whose file has other things in it, or that has none.
func ReadsConfig(e *Engine) (since string, ok bool) {
	switch e.Kind {
	case VLLM:
		return "0.6.0", !e.before(0, 6, 0)
	case SGLang:
		return "0.5.3", !e.before(0, 5, 3)
	}
	return "", false
}

// configured is [Engine.Flag] for the configuration file, whose members are called
// like the flags, with dashes or underscores.
func (e *Engine) configured(names []string) (string, bool) {
	var members map[string]json.RawMessage
	if text := e.Config.Reveal(); text == "" || json.Unmarshal([]byte(text), &members) != nil {
		return "", false
	}
	for _, name := range names {
		for _, spelt := range []string{strings.ReplaceAll(name, "-", "_"), strings.ReplaceAll(name, "_", "-")} {
			v, said := members[spelt]
			var s string
			switch {
			case !said || string(v) == "false" || string(v) == "null":
				continue
			case string(v) == "true":
				return "", true
			case json.Unmarshal(v, &s) == nil:
				return s, true
			}
			return string(v), true
		}
	}
	return "", false
}

// withoutConfig is the engine with the members of its configuration file as flags,
// where those are what the file holds. What its flags say already stands.
func (e *Engine) withoutConfig() *Engine {
	var members map[string]json.RawMessage
	if text := e.Config.Reveal(); text == "" || json.Unmarshal([]byte(text), &members) != nil {
		return e
	}
	like := *e
	like.Config, like.Flags = provision.Text{}, slices.Clone(e.Flags)
	for member, v := range members {
		name := strings.ReplaceAll(member, "_", "-")
		if slices.ContainsFunc(e.Flags, func(f Flag) bool { return strings.ReplaceAll(f.Name, "_", "-") == name }) {
			continue
		}
		var list []json.RawMessage
		if json.Unmarshal(v, &list) != nil {
			list = []json.RawMessage{v}
		}
		for _, v := range list {
			switch string(v) {
			case "false", "null":
			case "true":
				like.Flags = append(like.Flags, Flag{Name: name})
			default:
				text := e.memberText(v)
				like.Flags = append(like.Flags, Flag{Name: name, Value: &text})
			}
		}
	}
	slices.SortStableFunc(like.Flags, func(a, b Flag) int { return strings.Compare(a.Name, b.Name) })
	return &like
}

// memberText is a member's value as a command line has it.
func (e *Engine) memberText(v json.RawMessage) provision.Text {
	var s string
	if json.Unmarshal(v, &s) != nil {
		var b bytes.Buffer
		json.Compact(&b, v) // it was valid
		s = b.String()
	}
	if slices.ContainsFunc(e.Config.Secrets(), func(secret string) bool { return secret != "" && strings.Contains(s, secret) }) {
		return provision.Secret(s)
	}
	return provision.Plain(s)
}
