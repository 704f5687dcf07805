package hcl

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// scope is what the expressions of a lab can refer to, and what it stands for.
type scope struct {
	*Problems
	types     []*blockType
	functions map[string]function.Function
	declared  map[string]*declared // by address: everything that can be referred to
	order     []*declared          // as written
	blocks    map[string][]*hclsyntax.Block

	stack     []*declared // what is being evaluated
	refs      map[hclsyntax.Expression]*references
	constants map[hclsyntax.Expression]cty.Value // those that are the same in every cell
	unknown   hcl.Range                          // where a value is unknown, and no problem says why

	fill func(i *instance, c *cell) // reads a block
}

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

// instance is a declared block, evaluated: once, or for what uses matrix.*, once per
// distinct set of values.
type instance struct {
	of         *declared
	said       settings
	noun       any       // what the block becomes: *provision.Host, *engines.Model, …
	object     cty.Value // what expressions see
	incomplete bool      // something in it is wrong or unknown: no more is said about it
}

func newDeclared(b *hclsyntax.Block, t *blockType) *declared {
	root := t.root
	if root == "" {
		root = t.name
	}
	d := &declared{typ: t, name: b.Labels[len(b.Labels)-1], body: b.Body, header: b.DefRange()}
	d.address = root + "." + strings.Join(b.Labels, ".")
	if t.ownKinds() {
		d.kind = b.Labels[0]
	}
	return d
}

// typeOf is the type of a block that may stand by itself.
func (s *scope) typeOf(name string) *blockType {
	i := slices.IndexFunc(s.types, func(t *blockType) bool { return t.name == name })
	return s.types[i]
}

// all are the block, or with for_each its instances.
func (s *scope) all(d *declared) []*declared {
	if d.isGroup() {
		return s.expandEach(d)
	}
	return []*declared{d}
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

// The roots of references that are no block.
const (
	matrixRoot = "matrix"
	eachRoot   = "each"
)

// roots are what references begin with.
func (s *scope) roots() []string {
	var roots []string
	for _, t := range s.types {
		if t.root != "" {
			roots = append(roots, t.root)
		}
	}
	return append(roots, matrixRoot, eachRoot)
}

// referenceLength is how many steps an address below this root has; 0: it is none of a
// block's or of an axis.
func (s *scope) referenceLength(root string) int {
	if root == matrixRoot {
		return 2
	}
	for _, t := range s.types {
		if t.root == root {
			return 1 + max(1, len(t.labels))
		}
	}
	return 0
}

// targets are the declared things that a reference names; all of a type or kind
// when it names only that.
func (s *scope) targets(t hcl.Traversal) []*declared {
	prefix := t.RootName()
	n := s.referenceLength(prefix)
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
	if d, ok := s.declared[prefix]; ok {
		return []*declared{d}
	}
	if strings.Count(prefix, ".")+1 >= n {
		return nil
	}
	var all []*declared
	for _, d := range s.order {
		if strings.HasPrefix(d.address, prefix+".") {
			all = append(all, d)
		}
	}
	return all
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

// axisOf is the axis that a reference to the matrix names; "": all of it.
func axisOf(t hcl.Traversal) string {
	if len(t) < 2 {
		return ""
	}
	axis, _ := stepName(t[1])
	return axis
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

// silence takes an expression for one of which nothing is known.
func (s *scope) silence(expr hclsyntax.Expression) {
	s.constants[expr] = cty.DynamicVal
	s.refs[expr] = &references{}
}

// axesOf are the axes of a matrix that a block uses, itself or through what it refers
// to, and where.
func (s *scope) axesOf(d *declared) map[string]hcl.Range {
	switch {
	case !d.typ.perCell || d.body == nil:
		return nil
	case d.parent != nil:
		return s.axesOf(d.parent)
	case d.axes != nil:
		return d.axes
	}
	d.axes = map[string]hcl.Range{} // also ends a circle
	s.eachReference(d.body, func(t hcl.Traversal) { s.noteAxes(t, d.axes) })
	return d.axes
}

// noteAxes adds the axes that a reference uses.
func (s *scope) noteAxes(t hcl.Traversal, axes map[string]hcl.Range) {
	note := func(axis string, at hcl.Range) {
		if _, known := axes[axis]; !known {
			axes[axis] = at
		}
	}
	if t.RootName() == matrixRoot {
		note(axisOf(t), t.SourceRange())
	}
	for _, other := range s.targets(t) {
		for axis, at := range s.axesOf(other) {
			note(axis, at)
		}
	}
}

// eachReference calls do with the references of a body, in order.
func (s *scope) eachReference(b *hclsyntax.Body, do func(t hcl.Traversal)) {
	for _, a := range inOrder(b.Attributes) {
		for _, t := range a.Expr.Variables() {
			do(t)
		}
	}
	for _, n := range b.Blocks {
		s.eachReference(n.Body, do)
	}
}

// noteUnknown remembers where a value turned out to be unknown, for the case
// that nothing else says why.
func (s *scope) noteUnknown(at hcl.Range) {
	if s.unknown.Filename == "" {
		s.unknown = at
	}
}

// within evaluates something as a part of a declared thing, so that circles show.
func (s *scope) within(d *declared, do func()) {
	outer := s.Problems.each
	s.stack, s.Problems.each = append(s.stack, d), nil
	if d.parent != nil {
		s.Problems.each = d
	}
	do()
	s.stack, s.Problems.each = s.stack[:len(s.stack)-1], outer
}

// top is what is being evaluated; nil: no block.
func (s *scope) top() *declared {
	if len(s.stack) == 0 {
		return nil
	}
	return s.stack[len(s.stack)-1]
}

// namesIn are what results of this lab can have in a column; nil: anything.
func (s *scope) namesIn(column string) []string {
	var names []string
	for _, d := range s.order {
		for _, m := range s.all(d) {
			_, label, _ := strings.Cut(m.address, ".")
			switch {
			case column == "engine" && d.typ.name == "engine":
				names = append(names, label, d.kind, d.name, m.address, m.fullName())
			case column == "kind" && d.typ.name == "engine":
				names = append(names, d.kind)
			case column == "host" && d.typ.name == "host":
				names = append(names, m.fullName(), label, m.address)
			}
		}
	}
	if column == "benchmark" {
		for _, b := range s.blocks["benchmark"] {
			names = append(names, b.Labels[0])
		}
	}
	return names
}

// axisNames are the axes of all benchmarks, as written.
func (s *scope) axisNames() []string {
	var names []string
	var walk func(body *hclsyntax.Body)
	walk = func(body *hclsyntax.Body) {
		for _, b := range body.Blocks {
			if b.Type != "matrix" && b.Type != "zip" && b.Type != "include" {
				continue
			}
			for _, a := range inOrder(b.Body.Attributes) {
				if !slices.Contains(names, a.Name) {
					names = append(names, a.Name)
				}
			}
			walk(b.Body)
		}
	}
	for _, b := range s.blocks["benchmark"] {
		walk(b.Body)
	}
	return names
}

// instance evaluates a block, or returns what it was evaluated to before.
func (s *scope) instance(d *declared, c *cell) *instance {
	if d.wrong {
		return &instance{of: d, object: cty.DynamicVal, incomplete: true}
	}
	c, key := s.cellOf(d, c)
	if i, ok := d.instances[key]; ok {
		return i
	}
	i := &instance{of: d}
	s.within(d, func() { s.fill(i, c) })
	i.object = i.asObject()
	if d.instances == nil {
		d.instances = map[string]*instance{}
	}
	d.instances[key] = i
	d.evaluated = append(d.evaluated, i)
	return i
}

// cellOf is the cell in which a block is evaluated, and what tells such cells apart.
func (s *scope) cellOf(d *declared, c *cell) (*cell, string) {
	axes := s.axesOf(d)
	if len(axes) == 0 {
		return nil, ""
	}
	if c == nil {
		c = anyCell
	}
	return c, c.key(axes)
}

// asObject is what expressions see of a block: its arguments as written, null
// where it does not say them, and its name and kind.
func (i *instance) asObject() cty.Value {
	attrs := make(map[string]cty.Value, len(i.of.typ.args)+4)
	attrs[identity] = cty.CapsuleVal(referenceType, i.of)
	attrs["name"] = cty.StringVal(i.of.name)
	if i.of.typ.ownKinds() {
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
		if x, ok := i.said[a.name]; ok {
			attrs[a.name] = x.raw
		}
	}
	return cty.ObjectVal(attrs)
}

// under are the addresses of what is declared below a root.
func (s *scope) under(root string) []string {
	var known []string
	for _, d := range s.order {
		if strings.HasPrefix(d.address, root+".") {
			known = append(known, d.address)
		}
	}
	return known
}

// sortedAddresses are the addresses of things, in order.
func sortedAddresses(found map[string]*declared) []string { return slices.Sorted(maps.Keys(found)) }
