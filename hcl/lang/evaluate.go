package lang

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"

	"hclbench/plain"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// scope is what the expressions of a lab can refer to, and what it stands for.
type scope struct {
	*Problems
	*register
	functions map[string]function.Function

	stack     []*Declared // what is being evaluated
	refs      map[hclsyntax.Expression]*references
	constants map[hclsyntax.Expression]cty.Value // those that are the same in every cell
	unknown   hcl.Range                          // where a value is unknown, and no problem says why

	fill func(i *Instance, c *Cell) // reads a block
}

// instances are the block, or with for_each its instances.
func (s *scope) instances(d *Declared) []*Declared {
	if d.isRepeated() {
		return s.expandEach(d)
	}
	return []*Declared{d}
}

// Cell is one point of a matrix while the text is evaluated in it.
type Cell struct {
	of       string   // the block whose cell it is: benchmark "sweep"
	axes     []string // all axes of the matrix block, in order
	values   map[string]cty.Value
	partial  bool   // axes further down have no value yet
	included string // where the include block stands that says the cell; "" in a matrix
	object   cty.Value
}

// anyCell stands for every cell: what uses matrix.* is checked in it, with the axes unknown.
var anyCell = &Cell{}

// key tells apart the cells in which a block that depends on these axes differs.
func (c *Cell) key(axes []string) string {
	key := ""
	for _, name := range axes {
		key += name + "="
		if v, ok := c.values[name]; ok {
			key += fmt.Sprintf("%#v", Scalar(v))
		}
		key += "\n"
	}
	return key
}

// Axes are the values of the cell's axes, in order; nil for what is wrong or not known.
func (c *Cell) Axes() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, name := range c.axes {
			if !yield(name, Scalar(c.values[name])) {
				return
			}
		}
	}
}

// references are the references that an expression makes.
type references struct {
	all    []hcl.Traversal
	matrix bool // its value depends on the cell
	each   bool // its value depends on the instance of for_each
}

func (s *scope) referencesOf(expr hclsyntax.Expression) *references {
	if r, ok := s.refs[expr]; ok {
		return r
	}
	r := &references{all: expr.Variables()}
	s.refs[expr] = r
	for _, t := range r.all {
		r.matrix = r.matrix || t.RootName() == matrixRoot
		r.each = r.each || t.RootName() == eachRoot
		for _, d := range s.targets(t) {
			r.matrix = r.matrix || len(s.axesOf(d)) > 0
		}
	}
	return r
}

// noteUnknown remembers where a value is unknown, for the case that nothing else says why.
func (s *scope) noteUnknown(at hcl.Range) {
	if s.unknown.Filename == "" {
		s.unknown = at
	}
}

// within evaluates something as a part of a declared thing, so that circles show.
func (s *scope) within(d *Declared, do func()) {
	outer := s.reading
	s.stack, s.reading = append(s.stack, d), nil
	if d.parent != nil && !d.parent.Wrong {
		s.reading = []string{fmt.Sprintf("each.key is %q", d.key)}
	}
	do()
	s.stack, s.reading = s.stack[:len(s.stack)-1], outer
}

// top is what is being evaluated; nil: no block.
func (s *scope) top() *Declared {
	if len(s.stack) == 0 {
		return nil
	}
	return s.stack[len(s.stack)-1]
}

// instance evaluates a block, or returns what it was evaluated to before.
func (s *scope) instance(d *Declared, c *Cell) *Instance {
	if d.Wrong {
		return &Instance{of: d, object: cty.DynamicVal, Incomplete: true, lost: true}
	}
	c, key := s.cellOf(d, c)
	if i, ok := d.instances[key]; ok {
		return i
	}
	i := &Instance{of: d}
	s.within(d, func() { s.fill(i, c) })
	// Expressions see its arguments as written, null where it does not say them, and its name and kind.
	attrs := map[string]cty.Value{identityName: cty.CapsuleVal(identityType, &d.Identity), "name": cty.StringVal(d.Name)}
	if d.Type.ownKinds() {
		attrs["kind"] = cty.StringVal(d.Kind)
	}
	if d.parent != nil {
		attrs["key"] = d.each.GetAttr("key")
	}
	for _, a := range d.Type.Args {
		if a.kind.convert == nil {
			continue
		}
		attrs[a.Name] = cty.NullVal(cty.DynamicPseudoType)
		if x, ok := i.settings[a.Name]; ok {
			attrs[a.Name] = x.Raw
		}
	}
	i.object = cty.ObjectVal(attrs)
	if d.instances == nil {
		d.instances = map[string]*Instance{}
	}
	d.instances[key] = i
	d.Evaluated = append(d.Evaluated, i)
	return i
}

// cellOf is the cell in which a block is evaluated, and what tells such cells apart.
func (s *scope) cellOf(d *Declared, c *Cell) (*Cell, string) {
	switch {
	case len(s.axesOf(d)) == 0:
		return nil, ""
	case c == nil || c == anyCell:
		return anyCell, "*"
	}
	return c, c.key(s.axesIn(d, c))
}

// axesIn are the axes on which a block depends in a cell: those that it uses, and those that blocks use which stand in these.
func (s *scope) axesIn(d *Declared, c *Cell) []string {
	names := map[string]bool{}
	var add func(d *Declared)
	add = func(d *Declared) {
		axes := slices.Collect(maps.Keys(s.axesOf(d)))
		if slices.Contains(axes, "") {
			axes = c.axes
		}
		for _, name := range axes {
			if names[name] {
				continue
			}
			names[name] = true
			if v, has := c.values[name]; has {
				if in := referred(v, ""); in != nil {
					add(in)
				}
			}
		}
	}
	add(d)
	return slices.Sorted(maps.Keys(names))
}

// eval evaluates an expression in a cell, or outside of any (nil). Its problems are
// reported; a value that is wrong, or depends on something wrong, is unknown.
func (s *scope) eval(expr hclsyntax.Expression, c *Cell) cty.Value {
	r := s.referencesOf(expr)
	constant := !r.matrix && !r.each
	if s.silent[expr] {
		return cty.DynamicVal
	}
	if constant {
		if v, ok := s.constants[expr]; ok {
			return v
		}
	}
	vars, good := s.variables(r, c)
	v := cty.DynamicVal
	if good {
		value, diags := expr.Value(&hcl.EvalContext{Variables: vars, Functions: s.functions})
		s.report(diags, expr)
		switch {
		case diags.HasErrors():
		case tooLarge(value):
			s.Fail(place(expr.Range()), "Value too large",
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
		s.Fail(place(t.SourceRange()), "Reference in a literal",
			"A variable has its value before all else, so it cannot refer to %s. Use locals instead.", t.RootName())
		return cty.NilVal
	}
	v, diags := expr.Value(&hcl.EvalContext{Functions: s.functions})
	s.report(diags, expr)
	if diags.HasErrors() {
		return cty.NilVal
	}
	return v
}

// convert turns a value into what the argument's kind makes of it; nil: wrong, or unknown.
func (s *scope) convert(a Argument, raw cty.Value, expr hclsyntax.Expression, c *Cell) any {
	at := expr.Range()
	raw = s.veil(a.kind, raw, expr)
	// A block that is referred to may itself hold sensitive and unknown values.
	known, shown := raw.IsKnown(), raw.IsMarked()
	if a.kind.refers == nil {
		known, shown = raw.IsWhollyKnown(), raw.ContainsMarked()
	}
	switch {
	case !known:
		if c != anyCell {
			s.noteUnknown(at)
		}
		return nil
	case shown && !a.kind.secret:
		s.Fail(place(at), "Sensitive value would show",
			"%q comes from a sensitive value, and would show. Only %s can be sensitive.", a.Name, plain.List(s.maySecret(), "and"))
		return nil
	case raw.IsMarked() && a.kind.merges:
		s.Fail(place(at), "Sensitive value would show",
			"All of %[1]s is sensitive here, names too. Write the names: %[1]s = { NAME = var.secrets.NAME }", a.Name)
		return nil
	}
	v, err := a.kind.convert(raw)
	if v == nil && err == nil && c != anyCell {
		s.noteUnknown(at) // something in a list of blocks
	}
	if err == nil {
		return v
	}
	why, _ := errors.AsType[misfit](err)
	s.Fail(s.explained(expr, c), "Wrong value", "%s", s.unfit(a, raw, string(why)))
	return nil
}

// unfit says why a value does not fit an argument.
func (s *scope) unfit(a Argument, raw cty.Value, hint string) string {
	detail := fmt.Sprintf("%q must be %s", a.Name, a.kind.want)
	if got := Describe(raw); got != "a list" && got != "an object" || hint == "" {
		detail += ", not " + got
	}
	detail += "."
	if hint != "" {
		detail += " " + hint
	}
	if a.kind.refers != nil && raw.Type() == cty.String && !raw.IsMarked() {
		text := raw.AsString()
		for _, d := range s.order {
			if slices.Contains(a.kind.refers, d.Type.Name) && (d.Name == text || d.Address == text || d.Kind+"."+d.Name == text) {
				detail += fmt.Sprintf(" Did you mean %s, without quotes?", d.Address)
				break
			}
		}
	}
	if g := repeatedOf(raw); g != nil && slices.Contains(a.kind.refers, g.Type.Name) {
		if strings.HasPrefix(a.kind.noun, "list") {
			detail += fmt.Sprintf(" For all of them, write values(%s).", g.Address)
		} else {
			detail += fmt.Sprintf(" %s has for_each: say which one, such as %s.", g.Address, g.members[0].Address)
		}
	}
	return detail
}

// explained is the place of an expression, with what its references stand for.
func (s *scope) explained(expr hclsyntax.Expression, c *Cell) Place {
	return Place{Range: expr.Range(), values: func() []string {
		r := s.referencesOf(expr)
		vars, good := s.variables(r, c)
		if !good {
			return nil
		}
		return s.explainAll(r.all, &hcl.EvalContext{Variables: vars})
	}}
}

// variables builds what an expression's references stand for; false: some, which are all
// reported, stand for nothing.
func (s *scope) variables(r *references, c *Cell) (map[string]cty.Value, bool) {
	if len(r.all) == 0 {
		return nil, true
	}
	good := true
	vars := make(map[string]cty.Value, 1) // most expressions in a cell refer to matrix.* only
	found := map[string]*Declared{}
	for _, t := range r.all {
		ok := true
		switch root := t.RootName(); root {
		case matrixRoot:
			vars[root], ok = s.matrixValue(t, c)
		case eachRoot:
			vars[root], ok = s.eachValue(t)
		default:
			ok = s.known(t)
			for _, d := range s.targets(t) {
				if ok && s.enter(d, place(t.SourceRange())) && s.knownMember(t, d) {
					found[d.Address] = d
				} else {
					good = false
				}
			}
		}
		good = good && ok
	}
	if !good {
		return nil, false
	}
	values := map[string]map[string]map[string]cty.Value{} // by root, kind and name
	for _, address := range slices.Sorted(maps.Keys(found)) {
		d := found[address]
		root, _, _ := strings.Cut(address, ".")
		if values[root] == nil {
			values[root] = map[string]map[string]cty.Value{}
		}
		if values[root][d.Kind] == nil {
			values[root][d.Kind] = map[string]cty.Value{}
		}
		values[root][d.Kind][d.Name] = s.value(d, c)
	}
	for root, kinds := range values {
		members := map[string]cty.Value{}
		for kind, named := range kinds {
			if kind == "" {
				maps.Copy(members, named)
			} else {
				members[kind] = cty.ObjectVal(named)
			}
		}
		vars[root] = cty.ObjectVal(members)
	}
	return vars, true
}

// known reports a reference that names nothing.
func (s *scope) known(t hcl.Traversal) bool {
	root, at := t.RootName(), place(t.SourceRange())
	if s.referenceLength(root) == 0 {
		hint := DidYouMean(root, s.roots(), nil)
		if len(t) == 1 {
			s.Fail(at, "Unknown reference", "%q refers to nothing. If it is text, put it in quotes: %[1]q.%[2]s", root, hint)
		} else {
			s.Fail(at, "Unknown reference", "No reference begins with %q.%s References begin with %s.",
				root, hint, plain.List(s.roots(), "or"))
		}
		return false
	}
	if targets := s.targets(t); len(targets) > 0 {
		return s.knownAttribute(t, targets)
	}
	block := cmp.Or(map[string]string{"var": "variable", "local": "local value"}[root], root)
	address, _ := s.addressOf(t)
	known := mapped(s.below(root), func(d *Declared) string { return d.Address })
	hint := DidYouMean(address, known, Plainly)
	switch {
	case hint != "":
	case len(known) == 0:
		hint = fmt.Sprintf(" It has no %s at all.", block)
	case len(known) <= 5:
		hint = fmt.Sprintf(" There is %s.", plain.List(known, "and"))
	}
	s.Fail(at.Lacking(""), "Unknown reference", "The lab declares no %s %s.%s", block, address, hint)
	return false
}

// knownAttribute reports a reference to an argument that the block's type does not have.
func (s *scope) knownAttribute(t hcl.Traversal, targets []*Declared) bool {
	d, n := targets[0], s.referenceLength(t.RootName())
	if len(targets) != 1 || d.Type.Make == nil {
		return true
	}
	names := append(d.Type.argumentNames(true), "name")
	if d.isRepeated() {
		names = append(names, "key")
		n++
	}
	if d.Type.ownKinds() {
		names = append(names, "kind")
	}
	if len(t) <= n {
		return true
	}
	name, ok := stepName(t[n])
	if !ok || slices.Contains(names, name) {
		return true
	}
	s.Fail(place(t[n].SourceRange()), "Unknown attribute", "%s has no attribute %q.%s",
		Title(d.Type.title()), name, DidYouMean(name, names, nil))
	return false
}

// enter reports a circle: a reference to what is being evaluated just now.
func (s *scope) enter(d *Declared, at Place) bool {
	if s.top() != d {
		d.used = true
	}
	i := slices.IndexFunc(s.stack, func(on *Declared) bool { return on == d || on.parent == d })
	if i < 0 {
		return true
	}
	names := mapped(s.stack[i:], func(on *Declared) string { return on.Address })
	switch {
	case len(names) > 1:
		s.Fail(at, "Circular reference", "These refer to each other in a circle, so none of them has a value:\n\n    %s",
			strings.Join(append(names, d.Address), " → "))
	case s.stack[i].parent != nil:
		s.Fail(at, "Circular reference", "An instance of %[1]s refers to %[1]s, all of which is evaluated at once. "+
			"Put what they share into locals.", d.Address)
	default:
		s.Fail(at, "Circular reference", "%s refers to itself, so it has no value.", d.Address)
	}
	return false
}

// value is what a reference to d stands for.
func (s *scope) value(d *Declared, c *Cell) cty.Value {
	switch {
	case d.Wrong:
		return cty.DynamicVal
	case d.Type.Make != nil && d.isRepeated():
		return s.repeated(d, c)
	case d.Type.Make != nil:
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

// report turns the HCL library's diagnostics about the evaluation of an expression into problems, without what is secret.
func (s *scope) report(diags hcl.Diagnostics, in hclsyntax.Node) {
	for _, d := range diags {
		var values func() []string
		detail := d.Detail
		call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallUnknownDiagExtra](d)
		switch {
		case ok && call.CalledFunctionName() != "":
			known := slices.Sorted(maps.Keys(s.functions))
			d.Summary = "Unknown function"
			detail = fmt.Sprintf("There is no function %q.%s", call.CalledFunctionName(), DidYouMean(call.CalledFunctionName(), known, Plainly))
		case d.Expression == nil || d.EvalContext == nil:
		case secretsInvolved(d, in):
			// The library and the functions quote what they were given, and what they
			// computed from it.
			detail = "A sensitive value takes part, so what is wrong cannot be said. Try a value that is not sensitive."
		default:
			values = func() []string { return s.explainAll(d.Expression.Variables(), d.EvalContext) }
		}
		s.keep(d, detail, values)
	}
}

// explainAll says what references stand for, where a word can.
func (s *scope) explainAll(all []hcl.Traversal, ctx *hcl.EvalContext) []string {
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
			said := string(at.SliceBytes(s.files[at.Filename])) + " is " + Describe(v)
			if !slices.Contains(out, said) {
				out = append(out, said)
			}
		}
	}
	return out
}

// FillIn is the text that a template becomes with the members of an object; false where it is wrong. That is
// reported unless quiet is true: with values that are secret, what is wrong cannot be said.
func (s *scope) FillIn(path string, text []byte, values cty.Value, quiet bool) (string, bool) {
	expr, diags := hclsyntax.ParseTemplate(text, path, hcl.InitialPos)
	var v cty.Value
	if !diags.HasErrors() {
		v, diags = expr.Value(&hcl.EvalContext{Variables: values.AsValueMap(), Functions: s.functions})
	}
	if diags.HasErrors() {
		if !quiet {
			s.report(diags, expr)
		}
		return "", false
	}
	out, err := AsText(v) // a file that is one ${…} has the type of that
	good := err == nil && v.IsKnown() && !tooLarge(v)
	if !good && !quiet {
		s.Fail(place(expr.Range()), "Wrong template", "This template makes no text.")
	}
	return out.Reveal(), good
}

// maxInstances bounds for_each: more is a slip.
const maxInstances = 10_000

// isRepeated reports whether the block has for_each, so that a reference to it is a map of instances.
func (d *Declared) isRepeated() bool {
	if d.parent != nil || d.body == nil || !d.Type.takesForEach() {
		return false
	}
	_, ok := d.body.Attributes["for_each"]
	return ok
}

// FullName is unique among the blocks of a type and kind: "h200", or "all-a" for all["a"].
func (d *Declared) FullName() string {
	if d.parent == nil {
		return d.Name
	}
	return d.Name + "-" + strings.Trim(notInNames.ReplaceAllString(d.key, "-"), "-")
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// InstanceName is how an instance is referred to below its kind, `all["a"]`; "" without for_each.
func (d *Declared) InstanceName() string {
	if d.parent == nil {
		return ""
	}
	return fmt.Sprintf("%s[%q]", d.Name, d.key)
}

// instanceKey is what keys are made of: they are shown in quotes, and appear in results and exports.
var instanceKey = regexp.MustCompile(`^[\p{L}\p{N}_.:/@+=,-]{1,100}$`)

// expandEach returns the instances of a repeated block: as written for a list, by key for a map.
// Where for_each is wrong, which is reported, there is one whose key is not known, so that
// the rest of the block is still checked.
func (s *scope) expandEach(d *Declared) []*Declared {
	if d.expanded {
		return d.members
	}
	d.expanded = true
	expr := d.body.Attributes["for_each"].Expr
	at := place(expr.Range())
	var v cty.Value
	s.within(d, func() { v = s.eval(expr, nil) })
	switch {
	case v.IsMarked():
		s.Fail(at, "Sensitive value would show",
			"The keys of for_each, and their number, show in plans and results. Only values in it can be sensitive.")
		d.Wrong = true
	case !v.IsKnown():
		s.noteUnknown(at.Range)
		d.Wrong = true
	case v.IsNull() || !v.CanIterateElements():
		s.Fail(at, "Wrong value", "%q must be %s, not %s.", "for_each", instances.want, Describe(v))
		d.Wrong = true
	case v.LengthInt() > maxInstances:
		s.Fail(at, "Too many instances", "for_each has %d entries; at most %d are made. "+
			"It is probably longer than was meant.", v.LengthInt(), maxInstances)
		d.Wrong = true
	default:
		seen := map[string]bool{}
		for it := v.ElementIterator(); it.Next(); {
			k, value := it.Element()
			if IsList(v) {
				k, at = value, place(elementRange(expr, len(d.members)))
			}
			key, good := s.instanceKey(d, k, seen, at)
			d.Wrong = d.Wrong || !good
			seen[key] = true
			d.members = append(d.members, d.member(key, cty.StringVal(key), value))
		}
	}
	if d.Wrong {
		d.members = []*Declared{d.member("?", cty.UnknownVal(cty.String), cty.DynamicVal)}
	}
	return d.members
}

func (d *Declared) member(key string, keyValue, value cty.Value) *Declared {
	one := &Declared{
		Type: d.Type, Kind: d.Kind, Name: d.Name, Header: d.Header, body: d.body, parent: d, key: key,
		each: cty.ObjectVal(map[string]cty.Value{"key": keyValue, "value": value}),
	}
	return one.identified(fmt.Sprintf("%s[%q]", d.Address, key))
}

// instanceKey is the key that an entry of for_each has. It reports one that cannot be.
func (s *scope) instanceKey(d *Declared, k cty.Value, before map[string]bool, at Place) (key string, good bool) {
	text := false
	if k.IsKnown() {
		key, text = AsString(k)
	}
	switch {
	case k.IsMarked():
		s.Fail(at, "Sensitive value would show",
			"The keys of for_each name the instances in plans and results, so they cannot be sensitive.")
	case !k.IsKnown():
		s.noteUnknown(at.Range)
	case !text:
		s.Fail(at, "Wrong value", "Keys are texts or numbers, and number %d of the list is %s. Write a map, { KEY = … }.",
			len(d.members)+1, Describe(k))
	case !instanceKey.MatchString(key):
		s.Fail(at, "Invalid key", "%s cannot be a key: keys are part of names, "+
			"and are made of letters, digits and _ . : / @ + = , -", Describe(k))
	case before[key]:
		s.Fail(at, "Key given twice",
			"for_each has the key %s more than once. Remove one, or write a map, { KEY = … }.", Describe(k))
	default:
		good = true
	}
	return key, good
}

// eachValue is what each stands for in the block that is being evaluated.
func (s *scope) eachValue(t hcl.Traversal) (cty.Value, bool) {
	at, in := place(t.SourceRange()), s.top()
	if in == nil || in.parent == nil {
		var may []string
		for _, t := range s.types {
			if t.takesForEach() {
				may = append(may, t.Name)
			}
		}
		if in != nil && !in.Type.takesForEach() {
			s.Fail(at, "No for_each here", "%s has no for_each. Write a block for each, and name them in an axis: "+
				"%[2]s = [%[3]s, …] in matrix, and %[2]s = matrix.%[2]s.", Title(withArticle(in.Type.Name)), in.Type.Name, in.Address)
			return cty.DynamicVal, false
		}
		s.Fail(at, "No for_each here",
			"each.key and each.value are for %s blocks that have for_each, and not for for_each itself.", plain.List(may, "and"))
		return cty.DynamicVal, false
	}
	if len(t) > 1 {
		if name, ok := stepName(t[1]); ok && name != "key" && name != "value" {
			hint := DidYouMean(name, []string{"key", "value"}, below(eachRoot))
			if hint == "" {
				hint = fmt.Sprintf(" Did you mean each.value.%s?", name)
			}
			s.Fail(at, "Unknown attribute", "An entry of for_each has a key and a value, and no %q.%s", name, hint)
			return cty.DynamicVal, false
		}
	}
	return in.each, true
}

// repeated is what a reference to a block with for_each stands for: an object of its instances.
func (s *scope) repeated(d *Declared, c *Cell) cty.Value {
	members := s.expandEach(d)
	if d.Wrong {
		return cty.DynamicVal
	}
	c, key := s.cellOf(d, c)
	if v, ok := d.objects[key]; ok {
		return v
	}
	objects := map[string]cty.Value{}
	for _, m := range members {
		objects[m.key] = s.instance(m, c).object
	}
	if d.objects == nil {
		d.objects = map[string]cty.Value{}
	}
	d.objects[key] = cty.ObjectVal(objects)
	return d.objects[key]
}

// knownMember reports a reference to an instance that there is not.
func (s *scope) knownMember(t hcl.Traversal, d *Declared) bool {
	n := s.referenceLength(t.RootName())
	if !d.isRepeated() || len(t) <= n {
		return true
	}
	key, ok := stepName(t[n])
	keys := mapped(s.expandEach(d), func(m *Declared) string { return m.key })
	if !ok || d.Wrong || slices.Contains(keys, key) {
		return true
	}
	at := place(t[n].SourceRange())
	_, bare := t[n].(hcl.TraverseAttr)
	switch {
	case len(keys) == 0:
		s.Fail(at, "Unknown instance", "The for_each of %s is empty, so it has no instances.", d.Address)
	case bare && slices.Contains(d.Type.argumentNames(true), key):
		s.Fail(at, "Unknown instance", "%s has for_each, so it is one %s for each key. Say which: %[1]s[%[3]q].%[4]s",
			d.Address, d.Type.Name, keys[0], key)
	default:
		hint := DidYouMean(key, keys, nil)
		if hint == "" && len(keys) <= 5 {
			hint = fmt.Sprintf(" Its keys are %s.", plain.List(quoted(keys), "and"))
		}
		s.Fail(at, "Unknown instance", "The for_each of %s has no key %q.%s", d.Address, key, hint)
	}
	return false
}

// repeatedOf returns the block with for_each whose instances an object holds.
func repeatedOf(v cty.Value) *Declared {
	v, _ = v.Unmark()
	if !v.IsKnown() || v.IsNull() || !v.Type().IsObjectType() {
		return nil
	}
	it := v.ElementIterator()
	if !it.Next() {
		return nil
	}
	_, first := it.Element()
	if d := referred(first, ""); d != nil {
		return d.parent
	}
	return nil
}

// splatRepeated lets a splat run over a map of blocks: engine.vllm[*], and engine.vllm.all[*]
// with for_each. HCL's own splat would take the map for a single value.
func (s *scope) splatRepeated(body *hclsyntax.Body) {
	hclsyntax.VisitAll(body, func(n hclsyntax.Node) hcl.Diagnostics {
		splat, ok := n.(*hclsyntax.SplatExpr)
		if !ok {
			return nil
		}
		source, ok := splat.Source.(*hclsyntax.ScopeTraversalExpr)
		if !ok {
			return nil
		}
		t := source.Traversal
		steps, targets := s.referenceLength(t.RootName()), s.targets(t)
		if len(targets) == 0 || targets[0].Type.Make == nil {
			return nil
		}
		if len(t) == steps-1 || len(t) == steps && len(targets) == 1 && targets[0].isRepeated() {
			at := source.Range()
			splat.Source = &hclsyntax.FunctionCallExpr{
				Name: "values", Args: []hclsyntax.Expression{source},
				NameRange: at, OpenParenRange: at, CloseParenRange: at,
			}
		}
		return nil
	})
}

// checkNames finds instances named like another block: all["a"] is all-a in results and containers.
func (s *scope) checkNames() {
	taken := map[string]*Declared{}
	for _, d := range s.order {
		if !d.Type.takesForEach() {
			continue
		}
		for _, m := range s.instances(d) {
			name := d.Type.Name + "." + m.Kind + "." + m.FullName()
			if other, ok := taken[name]; ok {
				s.Fail(d.Header, "Name given twice", "%s and %s would both be named %q in results, labels and containers. "+
					"Rename one.", other.Address, m.Address, m.FullName())
			}
			taken[name] = m
		}
	}
}

// matrixValue is what matrix stands for in a cell.
func (s *scope) matrixValue(t hcl.Traversal, c *Cell) (cty.Value, bool) {
	at := place(t.SourceRange())
	switch {
	case c == nil:
		outer := s.matrixType()
		if in := s.top(); in != nil && !in.Type.PerCell {
			if _, named := outer.Argument(in.Type.Name); named {
				s.Fail(at, "No matrix here", "%s is the same in every cell. Write a block for each, and name them in an axis: "+
					"%[2]s = [%[3]s, …] in matrix, and %[2]s = matrix.%[2]s.", Title(withArticle(in.Type.Name)), in.Type.Name, in.Address)
				return cty.DynamicVal, false
			}
		}
		s.Fail(at, "No matrix here", "matrix.* is a cell of %s. Only %s blocks and the %ss that they name can use it.",
			withArticle(outer.Name), outer.Name, s.perCellType())
		return cty.DynamicVal, false
	case c == anyCell:
		return cty.DynamicVal, true
	case len(t) == 1:
		return c.object, true
	}
	axis, ok := stepName(t[1])
	if _, known := c.values[axis]; !ok || known {
		return c.object, true
	}
	inside := s.top() != nil
	if c.partial && inside {
		return cty.DynamicVal, true
	}
	const unknown = "Unknown matrix axis"
	hint := DidYouMean(axis, c.axes, below(matrixRoot))
	switch {
	case c.partial && slices.Contains(c.axes, axis):
		s.Fail(at, unknown,
			"The axis %q has no value here: it refers to those above it, in a zip block to those above the block.", axis)
	case c.included != "":
		s.Fail(at, unknown,
			"The include block at %s needs the axis %q too: it names every axis that is used.%s", c.included, axis, hint)
	case len(c.axes) == 0:
		s.Fail(at, unknown, "%s has no matrix block, so there is no matrix.%[2]s. Write matrix { %[2]s = […] }",
			Title(c.of), axis)
	default:
		if hint == "" {
			hint = fmt.Sprintf(" Its axes are %s.", plain.List(quoted(c.axes), "and"))
		}
		if inside {
			s.Fail(at, unknown, "%s names this %s, but its matrix has no axis %q.%s", Title(c.of), s.top().Type.Name, axis, hint)
		} else {
			s.Fail(at, unknown, "The matrix of %s has no axis %q.%s", c.of, axis, hint)
		}
	}
	return cty.DynamicVal, false
}

// settle makes what expressions see as matrix: blocks among the axes are as in this very cell.
func (s *scope) settle(c *Cell) {
	settled := maps.Clone(c.values)
	c.object = cty.ObjectVal(settled)
	seen := map[string]bool{}
	var settle func(axis string)
	settle = func(axis string) {
		v, has := c.values[axis]
		if !has || seen[axis] {
			return
		}
		seen[axis] = true
		d := referred(v, "")
		if d == nil || len(s.axesOf(d)) == 0 {
			return
		}
		for _, other := range s.axesIn(d, c) { // which it may look at
			settle(other)
		}
		if object := s.instance(d, c).object; referred(object, "") != nil {
			settled[axis] = object
			c.object = cty.ObjectVal(settled)
		}
	}
	for _, axis := range c.axes {
		settle(axis)
	}
}
