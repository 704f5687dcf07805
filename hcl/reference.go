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

// eval evaluates an expression in a cell, or outside of any (nil). Its problems
// are reported; a value that is wrong, or depends on something wrong, is
// unknown.
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
			s.errOnce(expr.Range(), "Value too large",
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

// literal evaluates an expression that may refer to nothing; NilVal when it is
// wrong.
func (s *scope) literal(expr hclsyntax.Expression) cty.Value {
	for _, t := range expr.Variables() {
		s.err(t.SourceRange(), "Reference in a literal",
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

// variables builds what an expression's references stand for. It reports the
// references that stand for nothing, all of them, and returns false if there
// are any.
func (s *scope) variables(r *references, c *cell) (map[string]cty.Value, bool) {
	if len(r.all) == 0 {
		return nil, true
	}
	good := true
	vars := make(map[string]cty.Value, 1) // most expressions in a cell refer to matrix.* only
	var found map[string]*declared
	for _, t := range r.all {
		ok := true
		switch root := t.RootName(); root {
		case matrixRoot:
			vars[root], ok = s.matrixValue(t, c)
		case eachRoot:
			vars[root], ok = s.eachValue(t)
		default:
			if found == nil {
				found = map[string]*declared{}
			}
			ok = s.find(t, found)
		}
		good = good && ok
	}
	if !good {
		return nil, false
	}
	var values tree
	for _, t := range r.all {
		if root := t.RootName(); root != matrixRoot && root != eachRoot {
			values.at(root) // there is something, if only an empty object
		}
	}
	for _, address := range slices.Sorted(maps.Keys(found)) {
		d := found[address]
		root, _, _ := strings.Cut(address, ".")
		at := values.at(root)
		if d.kind != "" {
			at = at.at(d.kind)
		}
		at.at(d.name).value = s.value(d, c)
	}
	for root, v := range values.below {
		vars[root] = v.object()
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

// tree is an object of objects while it grows.
type tree struct {
	below map[string]*tree
	value cty.Value // of a leaf
}

func (t *tree) at(name string) *tree {
	if t.below == nil {
		t.below = map[string]*tree{}
	}
	if t.below[name] == nil {
		t.below[name] = &tree{}
	}
	return t.below[name]
}

func (t *tree) object() cty.Value {
	if t.value != cty.NilVal {
		return t.value
	}
	values := make(map[string]cty.Value, len(t.below))
	for name, b := range t.below {
		values[name] = b.object()
	}
	return cty.ObjectVal(values)
}

// known reports a reference that names nothing.
func (s *scope) known(t hcl.Traversal) bool {
	root, at := t.RootName(), t.SourceRange()
	n := s.referenceLength(root)
	if n == 0 {
		hint := didYouMean(root, s.roots(), nil)
		if len(t) == 1 {
			s.err(at, "Unknown reference", "%q refers to nothing. If it is text, put it in quotes: %[1]q.%[2]s", root, hint)
		} else {
			s.err(at, "Unknown reference", "No reference begins with %q.%s References begin with %s.",
				root, hint, inWords(s.roots(), "or"))
		}
		return false
	}
	if targets := s.targets(t); len(targets) > 0 {
		return s.knownAttribute(t, targets)
	}
	wanted := []string{root}
	for _, step := range t[1:min(len(t), n)] {
		if name, ok := stepName(step); ok {
			wanted = append(wanted, name)
		}
	}
	block := root
	if words := map[string]string{"var": "variable", "local": "local value"}; words[root] != "" {
		block = words[root]
	}
	address, known := strings.Join(wanted, "."), s.under(root)
	hint := didYouMean(address, known, plainly)
	switch {
	case hint != "":
	case len(known) == 0:
		hint = fmt.Sprintf(" It has no %s at all.", block)
	case len(known) <= 5:
		hint = fmt.Sprintf(" There is %s.", inWords(known, "and"))
	}
	s.absent(at, "Unknown reference", "The lab declares no %s %s.%s", block, address, hint)
	return false
}

// knownAttribute reports a reference to an argument that the block's type does
// not have.
func (s *scope) knownAttribute(t hcl.Traversal, targets []*declared) bool {
	n := s.referenceLength(t.RootName())
	d := targets[0]
	if len(targets) != 1 || d.typ.make == nil {
		return true
	}
	if d.isGroup() {
		n++ // the key
	}
	if len(t) <= n {
		return true
	}
	attr, ok := t[n].(hcl.TraverseAttr)
	if !ok {
		return true
	}
	names := append(d.typ.argumentNames(true), "name")
	if d.isGroup() {
		names = append(names, "key")
	}
	if d.typ.ownKinds() {
		names = append(names, "kind")
	}
	if slices.Contains(names, attr.Name) {
		return true
	}
	s.err(attr.SrcRange, "Unknown attribute", "%s has no attribute %q.%s",
		title(d.typ.title()), attr.Name, didYouMean(attr.Name, names, nil))
	return false
}

const (
	circleInGroup = "An instance of %[1]s refers to %[1]s, all of which is evaluated at once. Put what they share into locals."
	circle        = "These refer to each other in a circle, so none of them has a value:\n\n    %s"
)

// enter reports a circle: a reference to something that is being evaluated just
// now.
func (s *scope) enter(d *declared, at hcl.Range) bool {
	if s.top() != d {
		d.used = true
	}
	i := slices.IndexFunc(s.stack, func(on *declared) bool { return on == d || on.parent == d })
	if i < 0 {
		return true
	}
	var names []string
	for _, on := range s.stack[i:] {
		names = append(names, on.address)
	}
	switch {
	case len(names) > 1:
		s.err(at, "Circular reference", circle, strings.Join(append(names, d.address), " → "))
	case s.stack[i].parent != nil:
		s.err(at, "Circular reference", circleInGroup, d.address)
	default:
		s.err(at, "Circular reference", "%s refers to itself, so it has no value.", d.address)
	}
	return false
}

// value is what a reference to d stands for.
func (s *scope) value(d *declared, c *cell) cty.Value {
	switch {
	case d.wrong:
		return cty.DynamicVal
	case d.typ.make != nil && d.isGroup():
		return s.group(d, c)
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

// explain says what the references of an expression stand for, as far as it can
// be shown in a word.
func (s *scope) explain(expr hclsyntax.Expression, c *cell) []string {
	r := s.referencesOf(expr)
	vars, good := s.variables(r, c)
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
		plain, _ := v.Unmark()
		if plain.IsNull() || plain.Type().IsPrimitiveType() || referred(v, "") != nil && t.RootName() == matrixRoot {
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
