package engines

import (
	"encoding/json"
	"path"
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
