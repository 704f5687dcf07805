package hcl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// settings are the arguments of a block, evaluated; those of a nested block
// under "block.argument". What is null is as if it were not said.
type settings map[string]setting

type setting struct {
	raw   cty.Value // as written, or as merged with what was inherited
	value any       // what the argument's kind made of it; nil: wrong or unknown
	at    hcl.Range // of the value
	body  *hclsyntax.Body
}

// get returns a setting, or the zero value where it was not said or is wrong.
func get[T any](s settings, name string) T {
	v, _ := s[name].value.(T)
	return v
}

// getOr is get with another default.
func getOr[T any](s settings, name string, otherwise T) T {
	if v, ok := s[name].value.(T); ok {
		return v
	}
	return otherwise
}

// whole reports whether every setting but the named ones has a value.
func (s settings) whole(but ...string) bool {
	for name, x := range s {
		if x.value == nil && !slices.Contains(but, name) {
			return false
		}
	}
	return true
}

// read evaluates a block in a cell, or outside of any.
func (l *lab) read(body *hclsyntax.Body, t *blockType, c *cell) settings {
	s := settings{}
	l.readInto(s, body, t, "", c)
	return s
}

// readInto lays what a body says over s. Blocks that may be given several times
// are left to the caller.
func (l *lab) readInto(s settings, body *hclsyntax.Body, t *blockType, prefix string, c *cell) {
	for _, a := range l.inOrder(body) {
		arg, ok := t.argument(a.Name)
		if !ok || arg.kind.convert == nil {
			continue
		}
		name, at := prefix+a.Name, a.Expr.Range()
		if x, ok := l.fixed[a.Expr]; ok {
			s[name] = x
			continue
		}
		raw := l.eval(a.Expr, c)
		if raw.IsKnown() && raw.IsNull() {
			delete(s, name)
			if arg.required {
				l.err(at, "Missing argument", "%s needs the argument %q, and here it is null: %s.", title(inBlock(t)), a.Name, arg.kind.want)
				s[name] = setting{raw: raw, at: at, body: body}
			}
			continue
		}
		if inherited, ok := s[name]; ok && arg.kind.merges {
			raw = overlay(inherited.raw, raw)
		}
		x := setting{raw: raw, value: l.convert(arg, raw, a.Expr, c), at: at, body: body}
		if r := l.referencesOf(a.Expr); !arg.kind.merges && !r.matrix && !r.each {
			l.fixed[a.Expr] = x
		}
		s[name] = x
	}
	seen := map[string]bool{}
	for _, b := range body.Blocks {
		if n, ok := t.nested(b.Type); ok && !n.many && !seen[b.Type] {
			seen[b.Type] = true
			l.readInto(s, b.Body, n.typ, prefix+b.Type+".", c)
		}
	}
}

// overlay merges two objects key by key; what is null in the second is removed.
func overlay(under, over cty.Value) cty.Value {
	if !isObject(under) || !isObject(over) {
		return over
	}
	merged := map[string]cty.Value{}
	maps.Copy(merged, under.AsValueMap())
	for name, v := range over.AsValueMap() {
		if plain, _ := v.Unmark(); plain.IsKnown() && plain.IsNull() {
			delete(merged, name)
			continue
		}
		merged[name] = v
	}
	return cty.ObjectVal(merged)
}

func isObject(v cty.Value) bool {
	return v.IsKnown() && !v.IsMarked() && !v.IsNull() && (v.Type().IsObjectType() || v.Type().IsMapType())
}

// convert turns a value into what the argument's kind makes of it; nil, with a
// problem reported, when it does not fit, and nil when it is unknown.
func (l *lab) convert(a argument, raw cty.Value, expr hclsyntax.Expression, c *cell) any {
	at := expr.Range()
	// A block that is referred to may itself hold sensitive and unknown values.
	known, shown := raw.IsKnown(), raw.IsMarked()
	if a.kind.refers == "" {
		known, shown = raw.IsWhollyKnown(), raw.ContainsMarked()
	}
	switch {
	case !known:
		if c != anyCell {
			l.noteUnknown(at)
		}
		return nil
	case shown && !a.kind.secret:
		l.err(at, "Sensitive value would show", "The value of %q derives from a sensitive one, and it would be shown in plans, results or labels, or decide what is in them. Sensitive values can be given to env, flags, config and command.", a.name)
		return nil
	case raw.IsMarked() && a.kind.merges:
		l.err(at, "Sensitive value would show", "The names in %s are always shown, but here all of it is sensitive, names too. Write the names in the lab and only the values from the sensitive value:\n\n    %s = { NAME = var.secrets.NAME }", a.name, a.name)
		return nil
	}
	v, w := a.kind.convert(raw)
	if w == fits {
		return v
	}
	detail := fmt.Sprintf("%q must be %s", a.name, a.kind.want)
	if got := describe(raw); got != "a list" && got != "an object" || w.hint == "" {
		detail += ", not " + got
	}
	detail += "."
	if w.hint != "" {
		detail += " " + w.hint
	}
	if a.kind.refers != "" && raw.Type() == cty.String && !raw.IsMarked() {
		detail += l.meantReference(a.kind.refers, raw.AsString())
	}
	if g := groupOf(raw); g != nil && a.kind.refers == g.typ.name {
		detail += fmt.Sprintf(" %s has for_each, so it is several: say which, such as %s.", g.address, g.members[0].address)
	}
	l.errIn(expr, c, "Wrong value", detail)
	return nil
}

// errIn is errOnce for the value of an expression, with what its references stand
// for.
func (l *lab) errIn(expr hclsyntax.Expression, c *cell, summary, detail string) {
	before := len(l.problems.list)
	l.errOnce(expr.Range(), summary, "%s", detail)
	if len(l.problems.list) > before {
		l.problems.list[before].Values = l.explain(expr, c)
	}
}

// meantReference is for a text where a reference belongs.
func (l *lab) meantReference(block, text string) string {
	for _, d := range l.order {
		if d.typ.name == block && (d.name == text || d.address == text || d.kind+"."+d.name == text) {
			return fmt.Sprintf(" Did you mean %s, without quotes?", d.address)
		}
	}
	return ""
}

// explain says what the references of an expression stand for, as far as it can
// be shown in a word.
func (l *lab) explain(expr hclsyntax.Expression, c *cell) []string {
	r := l.referencesOf(expr)
	vars, good := l.variables(r, c)
	if !good {
		return nil
	}
	return explain(r.all, &hcl.EvalContext{Variables: vars})
}

func explain(all []hcl.Traversal, ctx *hcl.EvalContext) []string {
	const most = 4
	var out []string
	seen := map[string]bool{}
	for _, t := range all {
		name := traversalText(t)
		if seen[name] || len(out) == most {
			continue
		}
		seen[name] = true
		v, diags := t.TraverseAbs(ctx)
		if diags.HasErrors() || !v.IsKnown() {
			continue
		}
		if plain, _ := v.Unmark(); plain.IsNull() || plain.Type().IsPrimitiveType() || referred(v, "") != nil && t.RootName() == "matrix" {
			out = append(out, name+" is "+describe(v))
		}
	}
	return out
}

// traversalText is a reference as it is written.
func traversalText(t hcl.Traversal) string {
	var b strings.Builder
	for i, step := range t {
		switch s := step.(type) {
		case hcl.TraverseRoot:
			b.WriteString(s.Name)
		case hcl.TraverseAttr:
			b.WriteString("." + s.Name)
		case hcl.TraverseIndex:
			fmt.Fprintf(&b, "[%s]", describe(s.Key))
		default:
			fmt.Fprintf(&b, "[%d]", i)
		}
	}
	return b.String()
}
