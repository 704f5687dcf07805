package hcl

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// eval evaluates an expression in a cell, or outside of any (nil). Its problems are
// reported; a value that is wrong, or depends on something wrong, is unknown.
func (s *scope) eval(expr hclsyntax.Expression, c *cell) cty.Value {
	r := s.referencesOf(expr)
	constant := !r.matrix && !r.each
	if constant {
		if v, ok := s.constants[expr]; ok {
			return v
		}
	}
	vars, good := s.variables(r, c)
	v := cty.DynamicVal
	if good {
		value, diags := expr.Value(&hcl.EvalContext{Variables: vars, Functions: s.functions})
		s.report(diags)
		switch {
		case diags.HasErrors():
		case tooLarge(value):
			s.fail(expr.Range(), "Value too large",
				"The value has more than %d MiB, or %d parts. It probably grows by itself.", maxText>>20, maxParts)
		default:
			v = value
		}
	}
	if constant {
		s.constants[expr] = v
	}
	return v
}

// literal evaluates an expression that may refer to nothing; NilVal when it is wrong.
func (s *scope) literal(expr hclsyntax.Expression) cty.Value {
	for _, t := range expr.Variables() {
		s.fail(t.SourceRange(), "Reference in a literal",
			"A variable has its value before all else, so it cannot refer to %s. Use locals instead.", t.RootName())
		return cty.NilVal
	}
	v, diags := expr.Value(&hcl.EvalContext{Functions: s.functions})
	s.report(diags)
	if diags.HasErrors() {
		return cty.NilVal
	}
	return v
}

// variables builds what an expression's references stand for; false: some, which are all
// reported, stand for nothing.
func (s *scope) variables(r *references, c *cell) (map[string]cty.Value, bool) {
	if len(r.all) == 0 {
		return nil, true
	}
	good := true
	vars := make(map[string]cty.Value, 1) // most expressions in a cell refer to matrix.* only
	found := map[string]*declared{}
	for _, t := range r.all {
		ok := true
		switch root := t.RootName(); root {
		case matrixRoot:
			vars[root], ok = s.matrixValue(t, c)
		case eachRoot:
			vars[root], ok = s.eachValue(t)
		default:
			ok = s.find(t, found)
		}
		good = good && ok
	}
	if !good {
		return nil, false
	}
	values := tree{}
	for _, address := range slices.Sorted(maps.Keys(found)) {
		d := found[address]
		root, _, _ := strings.Cut(address, ".")
		at := values.at(root)
		if d.kind != "" {
			at = at.at(d.kind)
		}
		at[d.name] = s.value(d, c)
	}
	for root := range values {
		vars[root] = values.at(root).object()
	}
	return vars, true
}

// find adds what a reference names. It reports what there is not.
func (s *scope) find(t hcl.Traversal, found map[string]*declared) bool {
	if !s.known(t) {
		return false
	}
	good := true
	for _, d := range s.targets(t) {
		if s.enter(d, t.SourceRange()) && s.knownMember(t, d) {
			found[d.address] = d
		} else {
			good = false
		}
	}
	return good
}

// tree is an object of objects while it grows: of trees and values.
type tree map[string]any

func (t tree) at(name string) tree {
	if t[name] == nil {
		t[name] = tree{}
	}
	return t[name].(tree)
}

func (t tree) object() cty.Value {
	values := make(map[string]cty.Value, len(t))
	for name, x := range t {
		if below, ok := x.(tree); ok {
			x = below.object()
		}
		values[name] = x.(cty.Value)
	}
	return cty.ObjectVal(values)
}

// known reports a reference that names nothing.
func (s *scope) known(t hcl.Traversal) bool {
	root, at := t.RootName(), t.SourceRange()
	if s.referenceLength(root) == 0 {
		hint := didYouMean(root, s.roots(), nil)
		if len(t) == 1 {
			s.fail(at, "Unknown reference", "%q refers to nothing. If it is text, put it in quotes: %[1]q.%[2]s", root, hint)
		} else {
			s.fail(at, "Unknown reference", "No reference begins with %q.%s References begin with %s.",
				root, hint, inWords(s.roots(), "or"))
		}
		return false
	}
	if targets := s.targets(t); len(targets) > 0 {
		return s.knownAttribute(t, targets)
	}
	block := cmp.Or(map[string]string{"var": "variable", "local": "local value"}[root], root)
	address, _ := s.addressOf(t)
	known := mapped(s.below(root), func(d *declared) string { return d.address })
	hint := didYouMean(address, known, plainly)
	switch {
	case hint != "":
	case len(known) == 0:
		hint = fmt.Sprintf(" It has no %s at all.", block)
	case len(known) <= 5:
		hint = fmt.Sprintf(" There is %s.", inWords(known, "and"))
	}
	s.missing(at, "", "Unknown reference", "The lab declares no %s %s.%s", block, address, hint)
	return false
}

// knownAttribute reports a reference to an argument that the block's type does not have.
func (s *scope) knownAttribute(t hcl.Traversal, targets []*declared) bool {
	d, n := targets[0], s.referenceLength(t.RootName())
	if len(targets) != 1 || d.typ.make == nil {
		return true
	}
	names := append(d.typ.argumentNames(true), "name")
	if d.isRepeated() {
		names = append(names, "key")
		n++
	}
	if d.typ.ownKinds() {
		names = append(names, "kind")
	}
	if len(t) <= n {
		return true
	}
	attr, ok := t[n].(hcl.TraverseAttr)
	if !ok || slices.Contains(names, attr.Name) {
		return true
	}
	s.fail(attr.SrcRange, "Unknown attribute", "%s has no attribute %q.%s",
		title(d.typ.title()), attr.Name, didYouMean(attr.Name, names, nil))
	return false
}

// enter reports a circle: a reference to what is being evaluated just now.
func (s *scope) enter(d *declared, at hcl.Range) bool {
	if s.top() != d {
		d.used = true
	}
	i := slices.IndexFunc(s.stack, func(on *declared) bool { return on == d || on.parent == d })
	if i < 0 {
		return true
	}
	names := mapped(s.stack[i:], func(on *declared) string { return on.address })
	switch {
	case len(names) > 1:
		s.fail(at, "Circular reference", "These refer to each other in a circle, so none of them has a value:\n\n    %s",
			strings.Join(append(names, d.address), " → "))
	case s.stack[i].parent != nil:
		s.fail(at, "Circular reference", "An instance of %[1]s refers to %[1]s, all of which is evaluated at once. "+
			"Put what they share into locals.", d.address)
	default:
		s.fail(at, "Circular reference", "%s refers to itself, so it has no value.", d.address)
	}
	return false
}

// value is what a reference to d stands for.
func (s *scope) value(d *declared, c *cell) cty.Value {
	switch {
	case d.wrong:
		return cty.DynamicVal
	case d.typ.make != nil && d.isRepeated():
		return s.repeated(d, c)
	case d.typ.make != nil:
		return s.instance(d, c).object
	}
	if d.val == nil && d.expr != nil {
		var v cty.Value
		s.within(d, func() { v = s.eval(d.expr, nil) })
		d.val = &v
	}
	if d.val == nil { // a variable that was refused, and reported, when values were given
		return cty.DynamicVal
	}
	return *d.val
}

// explain says what the references of an expression stand for, where a word can.
func (s *scope) explain(expr hclsyntax.Expression, c *cell) []string {
	r := s.referencesOf(expr)
	vars, good := s.variables(r, c)
	if !good {
		return nil
	}
	return s.explainAll(r.all, &hcl.EvalContext{Variables: vars})
}

func (p *Problems) explainAll(all []hcl.Traversal, ctx *hcl.EvalContext) []string {
	const most = 4
	var out []string
	for _, t := range all {
		v, diags := t.TraverseAbs(ctx)
		if diags.HasErrors() || !v.IsKnown() || len(out) == most {
			continue
		}
		plain, _ := v.Unmark()
		if plain.IsNull() || plain.Type().IsPrimitiveType() || referred(v, "") != nil && t.RootName() == matrixRoot {
			at := t.SourceRange()
			said := string(at.SliceBytes(p.files[at.Filename])) + " is " + describe(v)
			if !slices.Contains(out, said) {
				out = append(out, said)
			}
		}
	}
	return out
}

// fillIn is the text that a template becomes with these values.
func (s *scope) fillIn(path string, text []byte, values cty.Value) (string, hcl.Diagnostics) {
	expr, diags := hclsyntax.ParseTemplate(text, path, hcl.InitialPos)
	if diags.HasErrors() {
		return "", diags
	}
	v, diags := expr.Value(&hcl.EvalContext{Variables: values.AsValueMap(), Functions: s.functions})
	if diags.HasErrors() {
		return "", diags
	}
	out, err := asText(v) // a file that is one ${…} has the type of that
	if err != nil || !v.IsKnown() || tooLarge(v) {
		at := expr.Range()
		return "", hcl.Diagnostics{{
			Severity: hcl.DiagError, Summary: "Wrong template", Detail: "This template makes no text.", Subject: &at,
		}}
	}
	return out.Reveal(), nil
}
