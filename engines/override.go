package engines

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"hclbench/provision"
)

// Override is what a variant of an engine says otherwise: flags by whichever of their names, and variables.
type Override struct {
	Flags []Flag             // in the place of those that mean the same
	Env   []provision.EnvVar // in the place of those of the same name

	WithoutFlags []string // flags that it does not have
	WithoutEnv   []string // variables that it does not have
}

// Overridden is the engine with overrides laid over it, one after the other; the engine itself stays as it is. A value that
// its kind knows to be a secret is one. Doubts are about flags that turn off nothing, see [Settle].
func Overridden(e *Engine, all ...Override) (variant *Engine, doubts []FieldError) {
	own := Override{Flags: e.Flags, Env: e.Env}
	o := Joined(e.Kind, slices.Insert(slices.Clone(all), 0, own)...)
	out := *e
	out.Flags, out.Env = o.Flags, o.Env
	for i, f := range out.Flags {
		if f.Value != nil && !f.Value.IsSecret() && IsSecret(&out, f.Name) {
			secret := provision.Secret(f.Value.Reveal())
			out.Flags[i].Value = &secret
		}
	}
	slices.SortStableFunc(out.Env, func(a, b provision.EnvVar) int { return strings.Compare(a.Name, b.Name) })
	doubts = Settle(&out)
	return &out, doubts
}

// Joined are overrides as one: what a later one says, an earlier one does not.
func Joined(kind string, all ...Override) (out Override) {
	for _, o := range all {
		says := func(flags []Flag, without []string, name string) bool {
			key := FlagKey(kind, name)
			return slices.ContainsFunc(flags, func(f Flag) bool { return FlagKey(kind, f.Name) == key }) ||
				slices.ContainsFunc(without, func(name string) bool { return FlagKey(kind, name) == key })
		}
		ofFlag := func(name string) bool { return says(o.Flags, o.WithoutFlags, name) }
		ofEnv := func(name string) bool {
			return slices.ContainsFunc(o.Env, func(v provision.EnvVar) bool { return v.Name == name }) || slices.Contains(o.WithoutEnv, name)
		}
		out.Flags = append(slices.DeleteFunc(out.Flags, func(f Flag) bool { return ofFlag(f.Name) }), o.Flags...)
		out.WithoutFlags = append(slices.DeleteFunc(out.WithoutFlags, ofFlag), o.WithoutFlags...)
		out.Env = append(slices.DeleteFunc(out.Env, func(v provision.EnvVar) bool { return ofEnv(v.Name) }), o.Env...)
		out.WithoutEnv = append(slices.DeleteFunc(out.WithoutEnv, ofEnv), o.WithoutEnv...)
	}
	return out
}

// Empty reports whether it says nothing.
func (o Override) Empty() bool {
	return len(o.Flags)+len(o.Env)+len(o.WithoutFlags)+len(o.WithoutEnv) == 0
}

// String is what it says in one line, "tp=8 enable-dp-attention -trust-remote-code NCCL_DEBUG=INFO"; empty: nothing. What
// is secret is not in it.
func (o Override) String() string {
	var words []string
	for _, f := range o.Flags {
		switch {
		case f.Off:
			words = append(words, f.Name+"=false")
		case f.Value == nil:
			words = append(words, f.Name)
		default:
			words = append(words, fmt.Sprintf("%s=%s", f.Name, f.Value))
		}
	}
	for _, v := range o.Env {
		words = append(words, fmt.Sprintf("%s=%s", v.Name, v.Value))
	}
	for _, name := range slices.Concat(o.WithoutFlags, o.WithoutEnv) {
		words = append(words, "-"+name)
	}
	return strings.Join(words, " ")
}

// notInKeys is what the key of an instance is not made of, and notInNames what names of containers are not.
var notInKeys, notInNames = regexp.MustCompile(`[^\p{L}\p{N}_.:/@+=,-]+`), regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// Variant is the engine under the name of a variant, as an instance of for_each has one: `h200["tp=8"]`. What a key is not
// made of is replaced.
func Variant(e *Engine, key string) *Engine {
	out := *e
	key = strings.Trim(notInKeys.ReplaceAllString(key, ","), ",")
	out.Instance = fmt.Sprintf("%s[%q]", cmp.Or(e.Instance, e.Name), key)
	out.Name = e.Name + "-" + strings.Trim(notInNames.ReplaceAllString(key, "-"), "-")
	return &out
}
