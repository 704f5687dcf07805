package hcl

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

func matrixBlock() *blockType {
	return &blockType{
		name:   "matrix",
		free:   &argument{kind: axis},
		blocks: []nested{{typ: zipBlock(), many: true}},
	}
}

func zipBlock() *blockType {
	return &blockType{
		name: "zip",
		free: &argument{kind: axis},
	}
}

func includeBlock() *blockType {
	return &blockType{
		name: "include",
		free: &argument{kind: axisPoint},
	}
}

// exclusion is what an exclude block says of a cell.
type exclusion struct{ when bool }

func excludeBlock() *blockType {
	return &blockType{
		name: "exclude",
		args: []argument{
			arg("when", truth, func(x *exclusion, on bool) { x.when = on }).
				must("True for the cells that are left out, in terms of `matrix.*`."),
		},
	}
}

// factor is what one level of a matrix turns over: an axis, or the axes of a zip
// block, which advance together.
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

// tables are what a benchmark's matrix and zip blocks multiply out to. zip blocks
// beside matrix blocks are factors of each of them; without any, they are
// multiplied with each other.
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
	if list, ok := expr.(*hclsyntax.TupleConsExpr); ok && i < len(list.Exprs) {
		return list.Exprs[i].Range()
	}
	return expr.Range()
}
