package hcl

import (
	"reflect"

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

	stack     []*declared // what is being evaluated
	refs      map[hclsyntax.Expression]*references
	constants map[hclsyntax.Expression]cty.Value // those that are the same in every cell
	unknown   hcl.Range                          // where a value is unknown, and no problem says why

	fill func(i *instance, c *cell) // reads a block
}

// instance is a declared block, evaluated: once, or once per values of the axes that it uses.
type instance struct {
	of         *declared
	said       settings
	noun       any       // what the block becomes: *provision.Host, *engines.Model, …
	object     cty.Value // what expressions see
	incomplete bool      // something in it is wrong or unknown: no more is said about it
	lost       bool      // not all that it says is known: what it inherits is not
}

// all are the block, or with for_each its instances.
func (s *scope) all(d *declared) []*declared {
	if d.isRepeated() {
		return s.expandEach(d)
	}
	return []*declared{d}
}

// referenceType carries the identity of a block inside the object that expressions see.
var referenceType = cty.Capsule("reference", reflect.TypeOf(declared{}))

// identity is the attribute that holds it; no identifier can name it.
const identity = "(reference)"

// referred returns the block that an object stands for, if it is of a type ("" for any).
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

// noteUnknown remembers where a value is unknown, for the case that nothing else says why.
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

// instance evaluates a block, or returns what it was evaluated to before.
func (s *scope) instance(d *declared, c *cell) *instance {
	if d.wrong {
		return &instance{of: d, object: cty.DynamicVal, incomplete: true, lost: true}
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
