package engines

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

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
// is secret is not in it. A value that could be taken for something else stands in quotes.
func (o Override) String() string {
	var words []string
	shown := func(t provision.Text) string {
		s := t.String()
		if s == "" || s == "false" || s[0] == '"' || strings.ContainsFunc(s, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }) {
			return strconv.Quote(s)
		}
		return s
	}
	for _, f := range o.Flags {
		switch {
		case f.Off:
			words = append(words, f.Name+"=false")
		case f.Value == nil:
			words = append(words, f.Name)
		default:
			words = append(words, f.Name+"="+shown(*f.Value))
		}
	}
	for _, v := range o.Env {
		words = append(words, v.Name+"="+shown(v.Value))
	}
	for _, name := range slices.Concat(o.WithoutFlags, o.WithoutEnv) {
		words = append(words, "-"+name)
	}
	return strings.Join(words, " ")
}

// notInKeys is what the key of an instance is not made of, and notInNames what names of containers are not.
var notInKeys, notInNames = regexp.MustCompile(`[^\p{L}\p{N}_.:/@+=,-]+`), regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// Variant is the engine under the name of a variant, as an instance of for_each has one: `h200["tp=8"]`. What a key is not
// made of is replaced, and where other settings would have the same name then, it ends with a hash of them.
func Variant(e *Engine, key string) *Engine {
	out := *e
	words := strings.Fields(key)
	text := strings.Trim(notInKeys.ReplaceAllString(key, ","), ",")
	if text != strings.Join(words, ",") || strings.Contains(key, ",") {
		text += fmt.Sprintf(",%.3x", sha256.Sum256([]byte(key)))
	}
	key = text
	out.Instance = fmt.Sprintf("%s[%q]", cmp.Or(e.Instance, e.Name), key)
	out.Name = e.Name + "-" + strings.Trim(notInNames.ReplaceAllString(key, "-"), "-")
	return &out
}
