package hcl

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// declared is something that expressions can refer to.
type declared struct {
	typ     *blockType
	address string // "engine.vllm.h200", "var.x", "local.y"
	kind    string // engines and data sets
	name    string
	header  hcl.Range
	body    *hclsyntax.Body
	expr    hclsyntax.Expression // locals only
	wrong   bool                 // reported already: references to it are unknown, silently
	used    bool                 // something else refers to it

	// With for_each a block is a group of instances, and each of them is declared
	// like a block of its own, with the group as its parent.
	expanded bool
	members  []*declared          // of a group, once expanded
	objects  map[string]cty.Value // of a group: what expressions see, by the cell's key
	parent   *declared            // of an instance
	key      string               // of an instance
	each     cty.Value            // of an instance: what each stands for in it

	val       *cty.Value // variables and locals, once known
	instances map[string]*instance
	evaluated []*instance          // the same, in order
	axes      map[string]hcl.Range // what it uses of matrix.*, once known
}

// instance is a declared block, evaluated: once, or for engines that use
// matrix.*, once per distinct set of values.
type instance struct {
	of         *declared
	settings   settings
	value      any       // *provision.Host, *engines.Model, *engines.Engine, load.Dataset
	object     cty.Value // what expressions see
	incomplete bool      // something in it is wrong or unknown: no more is said about it
}

// referenceType carries the identity of a block inside the object that
// expressions see.
var referenceType = cty.Capsule("reference", reflect.TypeOf(declared{}))

// identity is the attribute that holds it; no identifier can name it.
const identity = "(reference)"

// referred returns what an object stands for, if it is a block of the named
// type ("" for any).
func referred(v cty.Value, block string) *declared {
	v, _ = v.Unmark()
	if !v.IsKnown() || v.IsNull() || !v.Type().IsObjectType() || !v.Type().HasAttribute(identity) {
		return nil
	}
	id := v.GetAttr(identity)
	if id.Type() != referenceType || !id.IsKnown() || id.IsNull() {
		return nil
	}
	d := id.EncapsulatedValue().(*declared)
	if block != "" && d.typ.name != block {
		return nil
	}
	return d
}

// references are the references that an expression makes.
type references struct {
	all    []hcl.Traversal
	matrix bool // its value depends on the cell
	each   bool // its value depends on the instance of for_each
}

// eval evaluates an expression in a cell, or outside of any (nil). Its problems
// are reported; a value that is wrong, or depends on something wrong, is
// unknown.
func (l *lab) eval(expr hclsyntax.Expression, c *cell) cty.Value {
	r := l.referencesOf(expr)
	constant := !r.matrix && !r.each
	if constant {
		if v, ok := l.constants[expr]; ok {
			return v
		}
	}
	vars, good := l.variables(r, c)
	v := cty.DynamicVal
	if good {
		ctx := &hcl.EvalContext{Variables: vars, Functions: l.functions}
		value, diags := expr.Value(ctx)
		l.report(diags)
		switch {
		case diags.HasErrors():
		case tooLarge(value):
			l.errOnce(expr.Range(), "Value too large", "The value is larger than %d MiB, or has more than %d parts. It probably grows by itself.", maxText>>20, maxParts)
		default:
			v = value
		}
	}
	if constant {
		l.constants[expr] = v
	}
	return v
}

func (l *lab) referencesOf(expr hclsyntax.Expression) *references {
	if r, ok := l.refs[expr]; ok {
		return r
	}
	r := &references{all: expr.Variables()}
	l.refs[expr] = r
	for _, t := range r.all {
		if t.RootName() == "matrix" {
			r.matrix = true
		}
		r.each = r.each || t.RootName() == "each"
		for _, d := range l.targets(t) {
			if len(l.axesOf(d)) > 0 {
				r.matrix = true
			}
		}
	}
	return r
}

// targets are the declared things that a reference names; all of a type or kind
// when it names only that.
func (l *lab) targets(t hcl.Traversal) []*declared {
	prefix := t.RootName()
	n := referenceLength(prefix)
	if n == 0 {
		return nil
	}
	for _, step := range t[1:min(len(t), n)] {
		name, ok := stepName(step)
		if !ok {
			break
		}
		prefix += "." + name
	}
	if d, ok := l.declared[prefix]; ok {
		return []*declared{d}
	}
	if strings.Count(prefix, ".")+1 >= n {
		return nil
	}
	var all []*declared
	for _, d := range l.order {
		if strings.HasPrefix(d.address, prefix+".") {
			all = append(all, d)
		}
	}
	return all
}

// referenceLength is how many steps an address below this root has.
func referenceLength(root string) int {
	switch root {
	case "engine", "dataset":
		return 3
	case "var", "local", "host", "model", "matrix":
		return 2
	}
	return 0
}

func stepName(s hcl.Traverser) (string, bool) {
	switch s := s.(type) {
	case hcl.TraverseAttr:
		return s.Name, true
	case hcl.TraverseIndex:
		if s.Key.Type() == cty.String && s.Key.IsKnown() && !s.Key.IsNull() && !s.Key.IsMarked() {
			return s.Key.AsString(), true
		}
	}
	return "", false
}

// axesOf are the axes of a matrix that an engine uses, itself or through the
// engines that it refers to, and where.
func (l *lab) axesOf(d *declared) map[string]hcl.Range {
	if d.typ != engineBlock || d.body == nil {
		return nil
	}
	if d.parent != nil {
		return l.axesOf(d.parent)
	}
	if d.axes != nil {
		return d.axes
	}
	d.axes = map[string]hcl.Range{} // also ends a circle
	var walk func(b *hclsyntax.Body)
	walk = func(b *hclsyntax.Body) {
		for _, a := range inOrder(b.Attributes) {
			for _, t := range a.Expr.Variables() {
				if t.RootName() == "matrix" {
					axis := ""
					if len(t) > 1 {
						axis, _ = stepName(t[1])
					}
					if _, known := d.axes[axis]; !known {
						d.axes[axis] = t.SourceRange()
					}
				}
				for _, other := range l.targets(t) {
					for axis, at := range l.axesOf(other) {
						if _, known := d.axes[axis]; !known {
							d.axes[axis] = at
						}
					}
				}
			}
		}
		for _, n := range b.Blocks {
			walk(n.Body)
		}
	}
	walk(d.body)
	return d.axes
}

// variables builds what an expression's references stand for. It reports the
// references that stand for nothing, all of them, and returns false if there
// are any.
func (l *lab) variables(r *references, c *cell) (map[string]cty.Value, bool) {
	if len(r.all) == 0 {
		return nil, true
	}
	good := true
	var found map[string]*declared // most expressions in a cell refer to matrix.* only
	vars := make(map[string]cty.Value, 1)
	for _, t := range r.all {
		root := t.RootName()
		if root == "matrix" {
			v, ok := l.matrixValue(t, c)
			vars[root] = v
			good = good && ok
			continue
		}
		if root == "each" {
			v, ok := l.eachValue(t)
			vars[root] = v
			good = good && ok
			continue
		}
		if !l.known(t) {
			good = false
			continue
		}
		for _, d := range l.targets(t) {
			if !l.enter(d, t.SourceRange()) {
				good = false
				continue
			}
			if !l.knownMember(t, d) {
				good = false
				continue
			}
			if found == nil {
				found = map[string]*declared{}
			}
			found[d.address] = d
		}
	}
	if !good {
		return nil, false
	}
	var tree map[string]map[string]cty.Value
	kinds := map[string]map[string]map[string]cty.Value{}
	for _, t := range r.all {
		root := t.RootName()
		if root != "matrix" && root != "each" && tree[root] == nil {
			if tree == nil {
				tree = map[string]map[string]cty.Value{}
			}
			tree[root] = map[string]cty.Value{}
		}
	}
	for _, address := range slices.Sorted(maps.Keys(found)) {
		d := found[address]
		root, _, _ := strings.Cut(address, ".")
		v := l.value(d, c)
		if referenceLength(root) < 3 {
			tree[root][d.name] = v
			continue
		}
		if kinds[root] == nil {
			kinds[root] = map[string]map[string]cty.Value{}
		}
		if kinds[root][d.kind] == nil {
			kinds[root][d.kind] = map[string]cty.Value{}
		}
		kinds[root][d.kind][d.name] = v
	}
	for root, byKind := range kinds {
		for kind, byName := range byKind {
			tree[root][kind] = cty.ObjectVal(byName)
		}
	}
	for root, values := range tree {
		vars[root] = cty.ObjectVal(values)
	}
	return vars, true
}

// known reports a reference that names nothing.
func (l *lab) known(t hcl.Traversal) bool {
	root := t.RootName()
	at := t.SourceRange()
	n := referenceLength(root)
	if n == 0 {
		switch {
		case len(t) == 1:
			l.err(at, "Unknown reference", "%q refers to nothing. If it is meant as text, put it in quotes: %q.%s", root, root, didYouMean(root, roots(), nil))
		default:
			l.err(at, "Unknown reference", "No reference begins with %q.%s References begin with %s.", root, didYouMean(root, roots(), nil), inWords(roots(), "or"))
		}
		return false
	}
	targets := l.targets(t)
	if len(targets) > 0 {
		return l.knownAttribute(t, targets)
	}
	if l.broken {
		return false
	}
	var known []string
	for _, d := range l.order {
		if strings.HasPrefix(d.address, root+".") {
			known = append(known, d.address)
		}
	}
	var wanted []string
	for _, step := range t[:min(len(t), n)] {
		if root, ok := step.(hcl.TraverseRoot); ok {
			wanted = append(wanted, root.Name)
		} else if name, ok := stepName(step); ok {
			wanted = append(wanted, name)
		}
	}
	address := strings.Join(wanted, ".")
	block := map[string]string{"var": "variable", "local": "local value"}[root]
	if block == "" {
		block = root
	}
	hint := didYouMean(address, known, plainly)
	switch {
	case hint != "":
	case len(known) == 0:
		hint = fmt.Sprintf(" It has no %s at all.", block)
	case len(known) <= 5:
		hint = fmt.Sprintf(" There is %s.", inWords(known, "and"))
	}
	l.err(at, "Unknown reference", "The lab declares no %s %s.%s", block, address, hint)
	return false
}

// knownAttribute reports a reference to an argument that the block's type does
// not have.
func (l *lab) knownAttribute(t hcl.Traversal, targets []*declared) bool {
	n := referenceLength(t.RootName())
	d := targets[0]
	if len(targets) != 1 || d.typ == variableBlock || d.typ == localsBlock {
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
	names := append(d.typ.attributeNames(), "name")
	if d.isGroup() {
		names = append(names, "key")
	}
	if len(d.typ.labels) == 2 {
		names = append(names, "kind")
	}
	if slices.Contains(names, attr.Name) {
		return true
	}
	l.err(attr.SrcRange, "Unknown attribute", "%s has no attribute %q.%s", title(inBlock(d.typ)), attr.Name, didYouMean(attr.Name, names, nil))
	return false
}

func roots() []string {
	return []string{"var", "local", "host", "model", "engine", "dataset", "matrix", "each"}
}

func plainly(s string) string { return s }

// enter reports a circle: a reference to something that is being evaluated just
// now.
func (l *lab) enter(d *declared, at hcl.Range) bool {
	if len(l.stack) == 0 || l.stack[len(l.stack)-1] != d {
		d.used = true
	}
	i := slices.IndexFunc(l.stack, func(s *declared) bool { return s == d || s.parent == d })
	if i < 0 {
		return true
	}
	var names []string
	for _, s := range l.stack[i:] {
		names = append(names, s.address)
	}
	names = append(names, d.address)
	if len(names) == 2 && l.stack[i].parent != nil {
		l.err(at, "Circular reference", "An instance of %s refers to %s itself, all of whose instances are evaluated together. Put what they share into locals.", d.address, d.address)
	} else if len(names) == 2 {
		l.err(at, "Circular reference", "%s refers to itself, so it has no value.", d.address)
	} else {
		l.err(at, "Circular reference", "These refer to each other in a circle, so none of them has a value:\n\n    %s", strings.Join(names, " → "))
	}
	return false
}

// value is what a reference to d stands for.
func (l *lab) value(d *declared, c *cell) cty.Value {
	if d.wrong {
		return cty.DynamicVal
	}
	switch d.typ {
	case variableBlock:
		if d.val == nil { // refused, and reported, when values were given
			return cty.DynamicVal
		}
		return *d.val
	case localsBlock:
		if d.val == nil {
			l.stack = append(l.stack, d)
			v := l.eval(d.expr, nil)
			l.stack = l.stack[:len(l.stack)-1]
			d.val = &v
		}
		return *d.val
	}
	if d.isGroup() {
		return l.group(d, c)
	}
	return l.instance(d, c).object
}

// instance evaluates a block, or returns what it was evaluated to before.
func (l *lab) instance(d *declared, c *cell) *instance {
	if d.wrong {
		return &instance{of: d, object: cty.DynamicVal, incomplete: true}
	}
	key := ""
	if axes := l.axesOf(d); len(axes) == 0 {
		c = nil
	} else {
		if c == nil {
			c = anyCell
		}
		key = c.key(axes)
	}
	if i, ok := d.instances[key]; ok {
		return i
	}
	l.stack = append(l.stack, d)
	i := &instance{of: d}
	switch d.typ {
	case hostBlock:
		l.host(i)
	case modelBlock:
		l.model(i)
	case datasetBlock:
		l.dataset(i)
	case engineBlock:
		l.engine(i, c)
	default:
		panic("block without instances: " + d.address + ". This is a bug in hcl.")
	}
	l.stack = l.stack[:len(l.stack)-1]
	i.object = i.asObject()
	if d.instances == nil {
		d.instances = map[string]*instance{}
	}
	d.instances[key] = i
	d.evaluated = append(d.evaluated, i)
	return i
}

// asObject is what expressions see of a block: its arguments as written, null
// where it does not say them, and its name and kind.
func (i *instance) asObject() cty.Value {
	attrs := make(map[string]cty.Value, len(i.of.typ.args)+4)
	attrs[identity] = cty.CapsuleVal(referenceType, i.of)
	attrs["name"] = cty.StringVal(i.of.name)
	if len(i.of.typ.labels) == 2 {
		attrs["kind"] = cty.StringVal(i.of.kind)
	}
	if i.of.parent != nil {
		attrs["key"] = i.of.each.GetAttr("key")
	}
	for _, a := range i.of.typ.args {
		if a.kind.convert == nil {
			continue
		}
		attrs[a.name] = cty.NullVal(cty.DynamicPseudoType)
		if s, ok := i.settings[a.name]; ok {
			attrs[a.name] = s.raw
		}
	}
	return cty.ObjectVal(attrs)
}

// A value is bounded, so that a lab that doubles a text forty times cannot take all of
// the machine's memory.
const (
	maxText  = 64 << 20
	maxParts = 1_000_000
)

// tooLarge walks a value no further than it takes to know.
func tooLarge(v cty.Value) bool {
	text, parts := 0, 0
	var walk func(v cty.Value) bool
	walk = func(v cty.Value) bool {
		v, _ = v.Unmark()
		if parts++; parts > maxParts {
			return true
		}
		if !v.IsKnown() || v.IsNull() {
			return false
		}
		switch t := v.Type(); {
		case t == cty.String:
			text += len(v.AsString())
			return text > maxText
		case t.IsObjectType() && t.HasAttribute(identity):
			return false // a block: each of its arguments was looked at
		case v.CanIterateElements():
			for it := v.ElementIterator(); it.Next(); {
				if _, e := it.Element(); walk(e) {
					return true
				}
			}
		}
		return false
	}
	return walk(v)
}
