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

func matrixBlock() *blockType {
	return &blockType{name: "matrix", free: freeAxis(axis), blocks: []nested{{typ: zipBlock(), many: true}}}
}

func zipBlock() *blockType { return &blockType{name: "zip", free: freeAxis(axis)} }

func includeBlock() *blockType { return &blockType{name: "include", free: freeAxis(axisPoint)} }

// freeAxis is an axis whose values are of a kind.
func freeAxis(k kind) *argument {
	return &argument{kind: k, named: identifier.form.MatchString, hint: "An axis has a name of " + identifier.rule}
}

func excludeBlock() *blockType {
	return blockOf("exclude",
		arg("when", truth, func(out *bool, on bool) { *out = on }).
			must("True for the cells that are left out, in terms of `matrix.*`."),
	)
}

// factor is one level of a matrix: an axis, or the axes of a zip block, which advance together.
type factor struct {
	attrs []*hclsyntax.Attribute
	zip   *hclsyntax.Block // nil for a single axis
}

// table is a set of factors whose combinations are cells, in the order of
// writing: a matrix block, its own zip blocks, and those beside it.
type table struct {
	block   *hclsyntax.Block // where problems of all of it are shown
	factors []factor
}

// tables are what matrix and zip blocks multiply out to: zip blocks go into each matrix beside them.
func tables(b *hclsyntax.Block) []table {
	zips, matrices := blocksOf(b.Body, "zip"), blocksOf(b.Body, "matrix")
	if len(matrices) == 0 && len(zips) > 0 {
		matrices = []*hclsyntax.Block{{
			Type: "zip", Body: &hclsyntax.Body{}, TypeRange: zips[0].TypeRange, OpenBraceRange: zips[0].OpenBraceRange,
		}}
	}
	var out []table
	for _, m := range matrices {
		var before, behind []factor
		for _, z := range zips {
			f := factor{attrs: inOrder(z.Body.Attributes), zip: z}
			if z.TypeRange.Start.Byte > m.TypeRange.Start.Byte {
				behind = append(behind, f)
			} else {
				before = append(before, f)
			}
		}
		out = append(out, table{block: m, factors: slices.Concat(before, factors(m.Body), behind)})
	}
	return out
}

func blocksOf(body *hclsyntax.Body, name string) []*hclsyntax.Block {
	var found []*hclsyntax.Block
	for _, n := range body.Blocks {
		if n.Type == name {
			found = append(found, n)
		}
	}
	return found
}

// factors are the axes and zip blocks of a matrix block, as written.
func factors(body *hclsyntax.Body) []factor {
	var out []factor
	for _, a := range inOrder(body.Attributes) {
		out = append(out, factor{attrs: []*hclsyntax.Attribute{a}})
	}
	for _, z := range blocksOf(body, "zip") {
		out = append(out, factor{attrs: inOrder(z.Body.Attributes), zip: z})
	}
	slices.SortStableFunc(out, func(a, b factor) int { return a.start() - b.start() })
	return out
}

func (f factor) start() int {
	if f.zip != nil {
		return f.zip.TypeRange.Start.Byte
	}
	return f.attrs[0].NameRange.Start.Byte
}

func mentionsMatrix(expr hclsyntax.Expression) bool {
	return slices.ContainsFunc(expr.Variables(), func(t hcl.Traversal) bool { return t.RootName() == matrixRoot })
}

// elementRange is the range of one element where the list is written out.
func elementRange(expr hclsyntax.Expression, i int) hcl.Range {
	if list, ok := expr.(*hclsyntax.TupleConsExpr); ok && i >= 0 && i < len(list.Exprs) {
		return list.Exprs[i].Range()
	}
	return expr.Range()
}

// cell is one point of a matrix while the text is evaluated in it.
type cell struct {
	benchmark string
	axes      []string // all axes of the matrix block, in order
	values    map[string]cty.Value
	partial   bool   // axes further down have no value yet
	included  string // where the include block stands that says the cell; "" in a matrix
	object    cty.Value
}

// anyCell stands for every cell: what uses matrix.* is checked in it, with the axes unknown.
var anyCell = &cell{}

// key tells apart the cells in which an engine that uses these axes differs.
func (c *cell) key(axes map[string]hcl.Range) string {
	if c == anyCell {
		return "*"
	}
	names := slices.Sorted(maps.Keys(axes))
	if _, all := axes[""]; all {
		names = c.axes
	}
	key := ""
	for _, name := range names {
		key += name + "="
		if v, ok := c.values[name]; ok {
			key += axisKey(v)
		}
		key += "\n"
	}
	return key
}

// matrixValue is what matrix stands for in a cell.
func (s *scope) matrixValue(t hcl.Traversal, c *cell) (cty.Value, bool) {
	at := t.SourceRange()
	switch {
	case c == nil && s.top() != nil && s.top().typ.name == "dataset":
		s.fail(at, "No matrix here", "A dataset is the same in every cell. Write a block for each, and name them in an axis: "+
			"dataset = [%s, …] in matrix, and dataset = matrix.dataset.", s.top().address)
		return cty.DynamicVal, false
	case c == nil:
		s.fail(at, "No matrix here",
			"matrix.* is a cell of a benchmark. Only benchmark blocks and the engines that they name can use it.")
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
	inEngine := s.top() != nil
	if c.partial && inEngine {
		return cty.DynamicVal, true
	}
	const unknown = "Unknown matrix axis"
	hint := didYouMean(axis, c.axes, below(matrixRoot))
	switch {
	case c.partial && slices.Contains(c.axes, axis):
		s.fail(at, unknown,
			"The axis %q has no value here: it refers to those above it, in a zip block to those above the block.", axis)
	case c.included != "":
		s.fail(at, unknown,
			"The include block at %s needs the axis %q too: it names every axis that is used.%s", c.included, axis, hint)
	case len(c.axes) == 0:
		s.fail(at, unknown, "Benchmark %q has no matrix block, so there is no matrix.%[2]s. Write matrix { %[2]s = […] }",
			c.benchmark, axis)
	default:
		if hint == "" {
			hint = fmt.Sprintf(" Its axes are %s.", inWords(quoted(c.axes), "and"))
		}
		what := "The matrix of benchmark %q has no axis %q.%s"
		if inEngine {
			what = "Benchmark %q names this engine, but its matrix has no axis %q.%s"
		}
		s.fail(at, unknown, what, c.benchmark, axis, hint)
	}
	return cty.DynamicVal, false
}

// settle makes what expressions see as matrix: engines among the axes are as in this very cell.
func (s *scope) settle(c *cell) {
	c.object = cty.ObjectVal(c.values)
	settled := maps.Clone(c.values)
	again := false
	for name, v := range c.values {
		if d := referred(v, ""); d != nil && len(s.axesOf(d)) > 0 {
			if object := s.instance(d, c).object; referred(object, "") != nil {
				settled[name] = object
			}
			again = true
		}
	}
	if again {
		c.object = cty.ObjectVal(settled)
	}
}

// cellKey tells the cells of a benchmark apart.
func cellKey(c Cell) string {
	parts := make([]string, 0, len(c.Axes))
	for _, a := range c.Axes {
		parts = append(parts, fmt.Sprintf("%s=%#v", a.Name, a.Value))
	}
	slices.Sort(parts) // the same cell, in whatever order its axes are written
	return strings.Join(parts, "\n")
}
