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
