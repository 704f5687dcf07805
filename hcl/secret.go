package hcl

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"hclbench/plain"
	"hclbench/provision"
)

// sensitiveMark is on values that must not be shown, through every function and template.
type sensitiveMark struct{}

// sensitive marks a value, and notes the texts in it: they are hidden wherever the lab is shown or kept.
func (t *labText) sensitive(v cty.Value) cty.Value {
	t.note(v)
	return v.Mark(sensitiveMark{})
}

// noteSecret remembers a text as a secret.
func (t *labText) noteSecret(text string) { t.note(cty.StringVal(text)) }

// note remembers the texts in a value as secrets.
func (t *labText) note(v cty.Value) {
	clear, _ := v.UnmarkDeep()
	_ = cty.Walk(clear, func(_ cty.Path, v cty.Value) (bool, error) {
		if !v.IsKnown() || v.IsNull() || referred(v, "") != nil {
			return false, nil
		}
		if text, err := asText(v); err == nil && len(text.Reveal()) >= minQuoted {
			if _, number := strconv.ParseFloat(text.Reveal(), 64); number != nil { // a number is one of many things
				t.secrets[text.Reveal()] = true
			}
		}
		return true, nil
	})
}

var (
	// secretName is the name of something that is kept from others.
	secretName = regexp.MustCompile(
		`(?i)^((.*[_-])?(api[_-]?key|token|secret|password)|authorization)$`)
	// secretForm is how well-known tokens begin.
	secretForm = regexp.MustCompile(`^(hf_|sk-|nvapi-|gh[pousr]_|glpat-|xox[abp]-|AKIA|Bearer )[A-Za-z0-9._-]{6,}`)
	// secretLine is a line that says a secret, whatever is wrong with it.
	secretLine = regexp.MustCompile(`(?i)(\b(?:[a-z0-9_-]*[_-])?(?:api[_-]?key|token|secret|password|authorization)"?[ \t]*[=:][ \t]*["'])[^"'\n]{6,}`)
	// tokenForm is a well-known token in a line.
	tokenForm = regexp.MustCompile(`\b(hf_|sk-|nvapi-|gh[pousr]_|glpat-|xox[abp]-|AKIA)[A-Za-z0-9._-]{6,}`)
)

// isSecret reports whether a text is one that hardly should be shown.
func isSecret(name, text string) bool {
	named := len(text) > 7 && secretName.MatchString(name) && !strings.HasPrefix(text, "/")
	return named || secretForm.MatchString(text)
}

const clearSecret = "The value of %s looks like a secret. hcl hides it, but whoever has this text has it. " +
	"Write %s = sensitive(env(%q))."

// veil marks what of an argument's value is secret: all of a key; else what has the name or the
// form of one, { HF_TOKEN = "…" } and ["--api-key", "…"].
func (r *reader) veil(a argument, v cty.Value, expr hclsyntax.Expression) cty.Value {
	switch {
	case a.kind.key && v.IsKnown() && !v.IsMarked():
		return r.sensitive(v)
	case a.kind.named:
		return r.veilNamed("", v, expr)
	}
	return v
}

func (r *reader) veilNamed(name string, v cty.Value, expr hclsyntax.Expression) cty.Value {
	switch {
	case v.IsMarked() || !v.IsKnown() || v.IsNull():
	case isObject(v) && v.LengthInt() > 0 && referred(v, "") == nil:
		members := v.AsValueMap()
		for key, m := range members {
			members[key] = r.veilNamed(key, m, expr)
		}
		return cty.ObjectVal(members)
	case isList(v) && v.LengthInt() > 0:
		list := v.AsValueSlice()
		for i, e := range list {
			of := name
			if i > 0 {
				if flag, ok := asString(list[i-1]); ok && strings.HasPrefix(flag, "--") {
					of = strings.TrimLeft(flag, "-")
				}
			}
			list[i] = r.veilNamed(of, e, expr)
		}
		return cty.TupleVal(list)
	case v.Type() == cty.String:
		word := v.AsString()
		of, text := name, word
		if flag, value, ok := strings.Cut(strings.TrimLeft(word, "-"), "="); ok && strings.HasPrefix(word, "--") {
			of, text = flag, value
		}
		if isSecret(of, text) {
			r.noteSecret(text)
			r.warnOfClear(of, text, expr)
			return r.sensitive(v)
		}
	}
	return v
}

// warnOfClear is about a secret that is written down as any other text.
func (r *reader) warnOfClear(name, text string, expr hclsyntax.Expression) {
	at := expr.Range()
	if !strings.Contains(string(at.SliceBytes(r.files[at.Filename])), text) {
		return // it comes from elsewhere, or is told where it is inherited from
	}
	if object, ok := expr.(*hclsyntax.ObjectConsExpr); ok {
		for _, item := range object.Items {
			if key, ok := writtenKey(item); ok && key == name {
				at = item.KeyExpr.Range()
			}
		}
	}
	r.warnOfClearSecret(at, name)
}

// warnOfClearSecret says that the value of a name is a secret which the text shows.
func (p *Problems) warnOfClearSecret(at hcl.Range, name string) {
	p.warnOnce(at, "Secret in clear", clearSecret, name, name, strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
}

// shown is a part of the lab's text as a message may show it.
func (t *labText) shown(line string) string {
	line = plain.NewSecrets(slices.Collect(maps.Keys(t.secrets))...).Hide(line)
	line = tokenForm.ReplaceAllString(line, provision.Redacted)
	return secretLine.ReplaceAllString(line, "${1}"+provision.Redacted)
}

// hideIn takes the secrets out of what the problems say.
func (p *Problems) hideIn() {
	secrets := plain.NewSecrets(slices.Collect(maps.Keys(p.secrets))...)
	for i := range p.list {
		x := &p.list[i]
		x.Detail = secrets.Hide(x.Detail)
		x.Values = slices.Clone(x.Values)
		for n, v := range x.Values {
			x.Values[n] = secrets.Hide(v)
		}
	}
}
