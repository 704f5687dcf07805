package hcl

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// register is what the blocks of a lab declare.
type register struct {
	types    []*blockType                  // of the language
	declared map[string]*declared          // by address: everything that can be referred to
	order    []*declared                   // the same, as written
	blocks   map[string][]*hclsyntax.Block // those that nothing refers to, by type
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

	inherits *declared // what it begins with; nil: with nothing

	// With for_each a block is repeated: several instances, each of which is declared like
	// a block of its own, with the repeated one as its parent.
	expanded bool
	members  []*declared          // of a repeated block, once expanded
	objects  map[string]cty.Value // of a repeated block: what expressions see, by the cell's key
	parent   *declared            // of an instance
	key      string               // of an instance
	each     cty.Value            // of an instance: what each stands for in it

	val       *cty.Value // variables and locals, once known
	instances map[string]*instance
	evaluated []*instance          // the same, in order
	axes      map[string]hcl.Range // what it uses of matrix.*, once known
}

func newDeclared(b *hclsyntax.Block, t *blockType) *declared {
	d := &declared{typ: t, name: b.Labels[len(b.Labels)-1], body: b.Body, header: b.DefRange()}
	d.address = cmp.Or(t.root, t.name) + "." + strings.Join(b.Labels, ".")
	if t.ownKinds() {
		d.kind = b.Labels[0]
	}
	return d
}

// The roots of references that are no block.
const (
	matrixRoot = "matrix"
	eachRoot   = "each"
)

// typeOf is the type of a block that may stand by itself.
func (g *register) typeOf(name string) *blockType {
	i := slices.IndexFunc(g.types, func(t *blockType) bool { return t.name == name })
	return g.types[i]
}

// eachBlock calls do with the types of all blocks, also of those inside others.
func (g *register) eachBlock(do func(t *blockType)) {
	var walk func(t *blockType)
	walk = func(t *blockType) {
		do(t)
		for _, n := range t.blocks {
			walk(n.typ)
		}
	}
	for _, t := range g.types {
		walk(t)
	}
}

// maySecret are the arguments whose values may be sensitive, in the order of the language; without keys, which always are.
func (g *register) maySecret() (names []string) {
	g.eachBlock(func(t *blockType) {
		for _, a := range t.args {
			if a.kind.secret && !a.kind.key && !slices.Contains(names, a.name) {
				names = append(names, a.name)
			}
		}
	})
	return names
}

// keyNames are the arguments that are keys wherever they stand.
func (g *register) keyNames() map[string]bool {
	keys := map[string]bool{}
	for _, key := range []bool{true, false} {
		g.eachBlock(func(t *blockType) {
			for _, a := range t.args {
				if a.kind.key == key && (key || keys[a.name]) {
					keys[a.name] = key
				}
			}
		})
	}
	return keys
}

// roots are what references begin with.
func (g *register) roots() []string {
	var roots []string
	for _, t := range g.types {
		if t.root != "" {
			roots = append(roots, t.root)
		}
	}
	return append(roots, matrixRoot, eachRoot)
}

// referenceLength is how many steps an address below this root has; 0: there are none.
func (g *register) referenceLength(root string) int {
	if root == matrixRoot {
		return 2
	}
	for _, t := range g.types {
		if t.root == root {
			return 1 + max(1, len(t.labels))
		}
	}
	return 0
}

// addressOf is the address that a reference names; not whole where it is a type or a kind.
func (g *register) addressOf(t hcl.Traversal) (address string, whole bool) {
	parts := []string{t.RootName()}
	n := g.referenceLength(parts[0])
	for _, step := range t[1:max(1, min(len(t), n))] {
		name, ok := stepName(step)
		if !ok {
			break
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, "."), len(parts) >= n
}

// targets are the declared things that a reference names; of a type or kind, all.
func (g *register) targets(t hcl.Traversal) []*declared {
	address, whole := g.addressOf(t)
	if d, ok := g.declared[address]; ok {
		return []*declared{d}
	}
	if whole {
		return nil
	}
	return g.below(address)
}

// below is what is declared under a root, or under a kind.
func (g *register) below(address string) []*declared {
	var all []*declared
	for _, d := range g.order {
		if strings.HasPrefix(d.address, address+".") {
			all = append(all, d)
		}
	}
	return all
}

// axesOf are the axes that a block uses, itself or through what it refers to, and where.
func (g *register) axesOf(d *declared) map[string]hcl.Range {
	switch {
	case !d.typ.perCell || d.body == nil:
		return nil
	case d.parent != nil:
		return g.axesOf(d.parent)
	case d.axes != nil:
		return d.axes
	}
	d.axes = map[string]hcl.Range{} // also ends a circle
	eachReference(d.body, func(t hcl.Traversal) { g.noteAxes(t, d.axes) })
	return d.axes
}

// noteAxes adds the axes that a reference uses.
func (g *register) noteAxes(t hcl.Traversal, axes map[string]hcl.Range) {
	note := func(axis string, at hcl.Range) {
		if _, known := axes[axis]; !known {
			axes[axis] = at
		}
	}
	if t.RootName() == matrixRoot {
		note(axisOf(t), t.SourceRange())
	}
	for _, other := range g.targets(t) {
		for axis, at := range g.axesOf(other) {
			note(axis, at)
		}
	}
}

// eachReference calls do with the references of a body, in order.
func eachReference(b *hclsyntax.Body, do func(t hcl.Traversal)) {
	for _, a := range inOrder(b.Attributes) {
		for _, t := range a.Expr.Variables() {
			do(t)
		}
	}
	for _, n := range b.Blocks {
		eachReference(n.Body, do)
	}
}

// axisNames are the axes of all benchmarks, as written.
func (g *register) axisNames() []string {
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
	for _, b := range g.blocks[g.matrixType().name] {
		walk(b.Body)
	}
	return names
}

func stepName(s hcl.Traverser) (string, bool) {
	switch s := s.(type) {
	case hcl.TraverseAttr:
		return s.Name, true
	case hcl.TraverseIndex:
		if s.Key.IsKnown() {
			return asString(s.Key)
		}
	}
	return "", false
}

// axisOf is the axis that a reference names, or what else is below a root; "": all of it.
func axisOf(t hcl.Traversal) string {
	if len(t) < 2 {
		return ""
	}
	axis, _ := stepName(t[1])
	return axis
}
