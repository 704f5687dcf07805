package engines

import (
	"bytes"
	"encoding/json"
	"fmt"
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
// engines of its kind do; "" for a kind whose file has other things in it, or that has none.
func ReadsConfig(e *Engine) (since string, ok bool) {
	k := kinds[e.Kind]
	if !k.configHasFlags() {
		return "", false
	}
	v := k.configSince
	return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]), !e.before(v[0], v[1], v[2])
}

// configHasFlags reports whether the configuration file holds the server's own flags.
func (k kind) configHasFlags() bool { return k.configSince != [3]int{} }

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

// withSecretsInFile is the engine with its sensitive flags in its configuration file,
// where it reads flags from there: everybody on a host can read a command line.
func (e *Engine) withSecretsInFile() *Engine {
	sensitive := map[string]bool{}
	for _, f := range e.Flags {
		if f.Value != nil && f.Value.IsSecret() {
			sensitive[f.Name] = true
		}
	}
	if len(sensitive) == 0 || !HidesFlags(e) {
		return e
	}
	like := *e
	like.Flags = nil
	values := map[string][]provision.Text{}
	for _, f := range e.Flags {
		if !sensitive[f.Name] {
			like.Flags = append(like.Flags, f)
		} else if f.Value != nil {
			values[f.Name] = append(values[f.Name], *f.Value)
		}
	}
	secrets := e.Config.Secrets()
	// file is the text of the file, with values as of says them.
	file := func(config string, of func(provision.Text) string) string {
		members := map[string]json.RawMessage{}
		json.Unmarshal([]byte(config), &members) // it is an object, or nothing
		for name, list := range values {
			var texts []string
			for _, v := range list {
				texts = append(texts, of(v))
			}
			if members[name], _ = json.Marshal(texts); len(texts) == 1 {
				members[name], _ = json.Marshal(texts[0])
			}
		}
		b, _ := json.MarshalIndent(members, "", "  ") // it came from JSON
		return string(b) + "\n"
	}
	for _, list := range values {
		for _, v := range list {
			secrets = append(secrets, v.Secrets()...)
		}
	}
	slices.Sort(secrets)
	like.Config = provision.Partly(file(e.Config.Reveal(), provision.Text.Reveal), file(e.Config.String(), provision.Text.String), slices.Compact(secrets))
	return &like
}

// HidesFlags reports whether sensitive flags of the engine are kept from its command
// line, in its configuration file.
func HidesFlags(e *Engine) bool {
	_, reads := ReadsConfig(e)
	own := slices.ContainsFunc(e.Flags, func(f Flag) bool { return f.Name == "config" })
	return reads && !own && e.Command == nil
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
