package engines

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"hclbench/engines/setting"
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

// configFlags are the members of the configuration file as flags, those that are flags by their
// names with dashes. What is null or false is none, and a list is a flag with several values.
func configFlags(e *Engine) []Flag {
	var members map[string]json.RawMessage
	if text := e.Config.Reveal(); text == "" || json.Unmarshal([]byte(text), &members) != nil {
		return nil
	}
	var flags []Flag
	for _, name := range slices.Sorted(maps.Keys(members)) {
		v := members[name]
		if e.Kind == VLLM || e.Kind == SGLang { // see configHasFlags
			name = strings.ReplaceAll(name, "_", "-")
		}
		var list []json.RawMessage
		if json.Unmarshal(v, &list) != nil {
			list = []json.RawMessage{v}
		}
		for _, v := range list {
			switch string(v) {
			case "false", "null":
			case "true":
				flags = append(flags, Flag{Name: name})
			default:
				text := memberText(e, v)
				flags = append(flags, Flag{Name: name, Value: &text})
			}
		}
	}
	return flags
}

// withoutConfig is the engine with the members of its configuration file as flags,
// where those are what the file holds. What its flags say already stands.
func (e *Engine) withoutConfig() *Engine {
	if e.Config.Reveal() == "" {
		return e
	}
	like := *e
	like.Config, like.Flags = provision.Text{}, slices.Clone(e.Flags)
	d := e.dialect()
	for _, f := range configFlags(e) {
		said := func(own Flag) bool { return d.key(own.Name) == d.key(f.Name) }
		if !slices.ContainsFunc(e.Flags, said) {
			like.Flags = append(like.Flags, f)
		}
	}
	slices.SortStableFunc(like.Flags, func(a, b Flag) int { return strings.Compare(a.Name, b.Name) })
	return &like
}

// withSecretsInFile is the engine with its sensitive flags in its configuration file,
// where it reads flags from there: everybody on a host can read a command line.
func (e *Engine) withSecretsInFile() *Engine {
	values := map[string][]provision.Text{}
	for _, f := range e.Flags {
		if f.text().IsSecret() {
			values[f.Name] = nil
		}
	}
	if len(values) == 0 || !HidesFlags(e) {
		return e
	}
	like := *e
	like.Flags = nil
	secrets := e.Config.Secrets()
	for _, f := range e.Flags {
		if _, hidden := values[f.Name]; !hidden {
			like.Flags = append(like.Flags, f)
		} else if f.Value != nil {
			values[f.Name] = append(values[f.Name], *f.Value)
			secrets = append(secrets, f.Value.Secrets()...)
		}
	}
	// file is the text of the file, with values as of says them.
	file := func(of func(provision.Text) string) string {
		members := map[string]any{}
		dec := json.NewDecoder(strings.NewReader(of(e.Config)))
		dec.UseNumber()
		dec.Decode(&members) // it is an object, or nothing
		for name, list := range values {
			var texts []string
			for _, v := range list {
				texts = append(texts, of(v))
			}
			if members[name] = texts; len(texts) == 1 {
				members[name] = texts[0]
			}
		}
		b, _ := json.MarshalIndent(members, "", "  ") // it came from JSON
		return string(b) + "\n"
	}
	slices.Sort(secrets)
	like.Config = provision.Partly(file(provision.Text.Reveal), file(provision.Text.String), slices.Compact(secrets))
	return &like
}

// HidesFlags reports whether sensitive flags of the engine are kept from its command
// line, in its configuration file.
func HidesFlags(e *Engine) bool {
	_, reads := ReadsConfig(e)
	_, _, own := e.meant(setting.ConfigFile)
	return reads && !own && e.Command == nil
}

// memberText is a member's value as a command line has it.
func memberText(e *Engine, v json.RawMessage) provision.Text {
	var s string
	if json.Unmarshal(v, &s) != nil {
		var b bytes.Buffer
		json.Compact(&b, v) // it was valid
		s = b.String()
	}
	holds := func(secret string) bool { return secret != "" && strings.Contains(s, secret) }
	if slices.ContainsFunc(e.Config.Secrets(), holds) {
		return provision.Secret(s)
	}
	return provision.Plain(s)
}
