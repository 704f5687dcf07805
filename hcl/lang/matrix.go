package lang

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"hclbench/plain"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// MatrixBlocks are the blocks that make the cells of the block in which they stand.
func MatrixBlocks() []Nested {
	axes := func(name string, k kind, blocks ...Nested) Nested {
		free := &Argument{kind: k, Named: Identifier.Allows, Hint: "An axis has a name of " + Identifier.rule}
		return Nested{Type: &BlockType{Name: name, Free: free, Blocks: blocks}, Many: true}
	}
	zip := axes("zip", axisKind.kind)
	exclude := BlockOf("exclude", Arg("when", Bool, func(out *bool, on bool) { *out = on }).
		Required("True for the cells that are left out, in terms of `matrix.*`."))
	return []Nested{axes("matrix", axisKind.kind, zip), zip, axes("include", pointKind.kind), {Type: exclude, Many: true}}
}

// factor is one level of a matrix: an axis, or the axes of a zip block, which advance together.
type factor struct {
	at    int // where it is written
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
func tables(b *hclsyntax.Body) []table {
	zips, matrices := blocksOf(b, "zip"), blocksOf(b, "matrix")
	if len(matrices) == 0 && len(zips) > 0 {
		matrices = []*hclsyntax.Block{{
			Type: "zip", Body: &hclsyntax.Body{}, TypeRange: zips[0].TypeRange, OpenBraceRange: zips[0].OpenBraceRange,
		}}
	}
	var out []table
	for _, m := range matrices {
		t := table{block: m}
		for _, a := range inOrder(m.Body.Attributes) {
			t.factors = append(t.factors, factor{at: a.NameRange.Start.Byte, attrs: []*hclsyntax.Attribute{a}})
		}
		for _, z := range append(blocksOf(m.Body, "zip"), zips...) {
			t.factors = append(t.factors, factor{at: z.TypeRange.Start.Byte, attrs: inOrder(z.Body.Attributes), zip: z})
		}
		slices.SortFunc(t.factors, func(a, b factor) int { return a.at - b.at })
		out = append(out, t)
	}
	return out
}

// MaxCells bounds a matrix: more is a slip in an axis, and would fill the memory.
const MaxCells = 100_000

// expansion turns a block with a matrix into its cells.
type expansion struct {
	*Block
	add      func(c *Cell) bool
	excludes []*Block
	held     map[*Block]bool // those that left something out
	seen     map[string]bool // the cells, by id
	count    int             // of cells in the matrix
	left     int             // how many of them are excluded
}

// Expand calls add for the cells that the block's matrix, zip and include blocks make, in the order in
// which they are written, and once where it has none. Add is false for a cell in which something is wrong.
func (b *Block) Expand(add func(c *Cell) bool) {
	x := &expansion{Block: b, add: add, excludes: b.Inner("exclude"), held: map[*Block]bool{}, seen: map[string]bool{}}
	next := tables(b.body)
	one := len(next) == 0
	for _, n := range b.body.Blocks {
		switch {
		case n.Type == "include":
			one = false
			if c := x.included(n); c != nil {
				x.keep(c, n.DefRange())
			}
		case n.Type == "matrix" || n.Type == "zip" && len(next) > 0 && next[0].block.Type == "zip":
			x.multiply(next[0])
			next = next[1:]
		}
	}
	if one {
		c := x.newCell()
		c.object, x.count = cty.EmptyObjectVal, 1
		if x.excluded(c) {
			x.left++
		} else {
			x.keep(c, b.Header.Range)
		}
	}
	if x.left > 0 && x.left == x.count && len(x.seen) == 0 {
		cells := fmt.Sprintf("all %d cells", x.count)
		if x.count == 1 {
			cells = "the only cell"
		}
		x.Warn(x.excludes[0].Header, "Every cell is excluded",
			"The exclude blocks leave out %s of %s, so it measures nothing. Exclude fewer.", cells, x.newCell().of)
		eachReference(x.body, func(t hcl.Traversal) { // which no cell has come to
			for _, d := range x.targets(t) {
				d.used = true
			}
		})
	}
	if !x.Settled() {
		return
	}
	variable := func(t hcl.Traversal) bool { return t.RootName() == "var" || t.RootName() == "local" }
	for _, e := range x.excludes { // that leave nothing out, whatever the variables are
		a, ok := e.body.Attributes["when"]
		if x.count > 0 && ok && !x.held[e] && !slices.ContainsFunc(x.referencesOf(a.Expr).all, variable) {
			x.Warn(place(a.Expr.Range()), "Exclude without effect",
				`This holds for no cell that is not left out already. Numbers and texts are never equal: 4 is not "4".`)
		}
	}
	x.warnOfAxes()
}

func (x *expansion) newCell() *Cell {
	return &Cell{of: x.Type.Name + " " + quote(x.Label), values: map[string]cty.Value{}}
}

// keep adds a cell that is not there yet.
func (x *expansion) keep(c *Cell, from hcl.Range) {
	var point []string
	for name, v := range c.Axes() {
		point = append(point, fmt.Sprintf("%s=%#v", name, v))
	}
	slices.Sort(point) // the same cell, in whatever order its axes are written
	switch id := strings.Join(point, "\n"); {
	case x.seen[id]:
		x.Warn(place(from), "Cell given twice",
			"Some of these cells are in the %s already. Each is measured once, where it is written first.", x.Type.Name)
	case x.add(c):
		x.seen[id] = true
	default:
		x.Reader.lost = append(x.Reader.lost, x.Header.Range)
	}
}

// excluded reports whether an exclude block leaves the cell out, and notes which.
func (x *expansion) excluded(c *Cell) bool {
	for _, e := range x.excludes {
		var out bool
		if e.Read(&out, c); out {
			x.held[e] = true
			return true
		}
	}
	return false
}

// multiply adds each cell of a table.
func (x *expansion) multiply(t table) {
	base := x.newCell()
	base.partial = true
	if !x.nameAxes(t, base) {
		return
	}
	// An axis that does not refer to others has the same values in all cells.
	fixed := make([][][]cty.Value, len(t.factors))
	product := 1
	for i, f := range t.factors {
		if !slices.ContainsFunc(f.attrs, func(a *hclsyntax.Attribute) bool { return mentionsMatrix(a.Expr) }) {
			fixed[i] = x.rows(f, nil)
			product = min(product*len(fixed[i]), MaxCells+1)
		}
	}
	if product > MaxCells || !x.turn(t, base, fixed, 0) {
		x.Fail(place(t.block.DefRange()), "Too many cells",
			"The matrix has more than %d cells. An axis is probably longer than was meant.", MaxCells)
	}
}

// turn goes through the values of the factors from the i-th on; false: there are too many cells.
func (x *expansion) turn(t table, base *Cell, fixed [][][]cty.Value, i int) bool {
	if i == len(t.factors) {
		c := &Cell{of: base.of, axes: base.axes, values: maps.Clone(base.values)}
		x.settle(c)
		switch x.count++; {
		case x.count > MaxCells:
			return false
		case x.excluded(c):
			x.left++
		default:
			x.keep(c, t.block.DefRange())
		}
		return true
	}
	f, rows := t.factors[i], fixed[i]
	if rows == nil {
		base.object = cty.ObjectVal(base.values)
		rows = x.rows(f, base)
	}
	for _, row := range rows {
		for n, a := range f.attrs {
			base.values[a.Name] = row[n]
		}
		if !x.turn(t, base, fixed, i+1) {
			return false
		}
	}
	for _, a := range f.attrs {
		delete(base.values, a.Name)
	}
	return true
}

// nameAxes sets the axes of a table's cells; false: it can have none.
func (x *expansion) nameAxes(t table, c *Cell) bool {
	good := len(t.factors) > 0
	at := map[string]hcl.Range{}
	for _, f := range t.factors {
		if f.zip != nil && len(f.attrs) == 0 {
			good = x.empty(f.zip, "an axis", "two such as concurrency = [1, 4]")
		}
		for _, a := range f.attrs {
			if first, twice := at[a.Name]; twice {
				x.Fail(place(a.NameRange), "Axis given twice",
					"The axis %q is at %s already. Rename this one, or remove it.", a.Name, lineOf(first))
				good = false
			}
			at[a.Name] = a.NameRange
			c.axes = append(c.axes, a.Name)
		}
	}
	if len(t.factors) == 0 {
		x.empty(t.block, "an axis", "concurrency = [1, 4, 16]")
	}
	return good
}

// empty reports a block without the axes that it is for.
func (x *expansion) empty(b *hclsyntax.Block, each, write string) (good bool) {
	x.Fail(place(b.DefRange()).Lacking(""), "Empty "+b.Type,
		"Each argument of %s block is %s, and this one has none. Write %s.", withArticle(b.Type), each, write)
	return false
}

// rows are the values that a factor's axes take, one after the other.
func (x *expansion) rows(f factor, c *Cell) [][]cty.Value {
	var lists [][]cty.Value
	var have []string
	unknown, uneven := false, false
	for _, a := range f.attrs {
		list := x.axisValues(a, f.zip != nil, c)
		lists, have = append(lists, list), append(have, fmt.Sprintf("%s has %d", a.Name, len(list)))
		unknown = unknown || len(list) == 1 && !list[0].IsKnown()
		uneven = uneven || len(list) != len(lists[0])
	}
	if uneven && !unknown {
		x.Fail(place(f.zip.DefRange()), "Axes of different length", "The axes of a zip block have as many values each: %s. "+
			"To multiply axes, put them into a matrix block.", plain.List(have, "and"))
	}
	if f.zip != nil && (unknown || uneven) {
		return [][]cty.Value{slices.Repeat([]cty.Value{cty.DynamicVal}, len(lists))}
	}
	rows := make([][]cty.Value, len(lists[0]))
	for r := range rows {
		for _, list := range lists {
			rows[r] = append(rows[r], list[r])
		}
	}
	return rows
}

// included is the one cell of an include block; nil: it says none.
func (x *expansion) included(b *hclsyntax.Block) *Cell {
	attrs := inOrder(b.Body.Attributes)
	c := x.newCell()
	c.partial, c.included = true, lineOf(b.DefRange())
	c.axes = mapped(attrs, func(a *hclsyntax.Attribute) string { return a.Name })
	if len(attrs) == 0 {
		x.empty(b, "the value of an axis", "concurrency = 4")
		return nil
	}
	for _, a := range attrs {
		c.object = cty.ObjectVal(c.values)
		c.values[a.Name] = x.axisPoint(a, 0, x.eval(a.Expr, c))
	}
	c.partial = false
	x.settle(c)
	return c
}

const (
	notAPoint  = "Axis values name cells: numbers, texts, true, false, %ss or other blocks. %s is %s.%s"
	secretAxis = "The values of the axis %q name cells in plans and results, so they cannot be sensitive."
	severalOf  = " %[1]s has for_each, so it is several: write values(%[1]s), and join lists by concat(…)."
)

// axisPoint is the n-th value of an axis; 0: its only one. One that is wrong is reported,
// and stands as an unknown one, so that the rest of the block is still checked.
func (x *expansion) axisPoint(a *hclsyntax.Attribute, n int, v cty.Value) cty.Value {
	at := elementRange(a.Expr, n-1)
	switch {
	case v.IsMarked():
		x.Fail(place(at), "Sensitive value would show", secretAxis, a.Name)
	case !v.IsKnown():
		x.noteUnknown(at)
	case Scalar(v) == nil:
		what, hint := quote(a.Name), ""
		if n > 0 {
			what = fmt.Sprintf("Value %d of %q", n, a.Name)
		} else if IsList(v) {
			hint = " An include block is one cell: write one for each, or a matrix block."
		}
		if g := repeatedOf(v); g != nil && n > 0 {
			hint = fmt.Sprintf(severalOf, g.Address)
		}
		x.Fail(place(at), "Wrong value", notAPoint, x.perCellType(), what, Describe(v), hint)
	default:
		return v
	}
	return cty.DynamicVal
}

// axisValues evaluates an axis.
func (x *expansion) axisValues(a *hclsyntax.Attribute, zipped bool, c *Cell) []cty.Value {
	at, list := a.Expr.Range(), x.eval(a.Expr, c)
	switch {
	case list.IsMarked():
		x.Fail(place(at), "Sensitive value would show", secretAxis, a.Name)
	case !list.IsKnown():
		x.noteUnknown(at)
	case !IsList(list):
		hint := ""
		if Scalar(list) != nil {
			hint = fmt.Sprintf(" For a single value, write %s = [%s].", a.Name, Describe(list))
		} else if g := repeatedOf(list); g != nil {
			hint = fmt.Sprintf(" For all instances of %[2]s, write %[1]s = values(%[2]s).", a.Name, g.Address)
		}
		x.Fail(place(at), "Wrong value", "The axis %q must be %s, not %s.%s", a.Name, axisKind.want, Describe(list), hint)
	case list.LengthInt() == 0 && c != nil:
		x.Fail(x.explained(a.Expr, c), "Empty axis", "The axis %q has no values here. Give it one in every cell, and leave cells out by exclude.", a.Name)
	case list.LengthInt() == 0:
		x.Fail(place(at), "Empty axis",
			"The axis %q has no values, so the matrix has no cells. Give it one, or remove it.", a.Name)
	default:
		var values []cty.Value
		seen := map[string]bool{}
		n := 0
		for it := list.ElementIterator(); it.Next(); {
			_, v := it.Element()
			n++
			v = x.axisPoint(a, n, v)
			key := fmt.Sprint(Scalar(v))             // 4 and "4" look alike wherever cells are named
			if v.IsKnown() && !zipped && seen[key] { // in a zip, other axes tell the cells of equal values apart
				x.Warn(place(elementRange(a.Expr, n-1)), "Value given twice", "The axis %q has %s more than once, "+
					"and a cell is measured once. To measure it again, write repeat = ….", a.Name, Describe(v))
				continue
			}
			seen[key] = v.IsKnown()
			values = append(values, v)
		}
		return values
	}
	return []cty.Value{cty.DynamicVal}
}

// warnOfAxes points at axes that nothing uses: their cells would all be the same.
func (x *expansion) warnOfAxes() {
	used := map[string]hcl.Range{}
	eachReference(x.body, func(t hcl.Traversal) { x.noteAxes(t, used) })
	for _, d := range x.order {
		maps.Copy(used, x.axesOf(d))
	}
	if _, all := used[""]; all {
		return
	}
	multiplied := map[string]bool{}
	for _, t := range tables(x.body) {
		for _, f := range t.factors {
			for _, a := range f.attrs {
				multiplied[a.Name] = true
			}
		}
	}
	for _, m := range x.body.Blocks {
		for _, a := range inOrder(m.Body.Attributes) {
			// What advances with other axes, in a zip, may be there as a name.
			alone := m.Type == "include" && len(multiplied) > 0 && !multiplied[a.Name]
			if _, ok := used[a.Name]; !ok && (m.Type == "matrix" || alone) {
				x.Warn(place(a.NameRange), "Axis without effect",
					"Nothing uses matrix.%s, so all its values would give the same cell. Use it, or remove it.", a.Name)
			}
		}
	}
}

// MatrixAxes are the axes of the block's matrix blocks, and where they are written.
func (b *Block) MatrixAxes() iter.Seq2[string, Place] {
	return func(yield func(string, Place) bool) {
		for _, m := range blocksOf(b.body, "matrix") {
			for _, a := range inOrder(m.Body.Attributes) {
				if !yield(a.Name, place(a.NameRange)) {
					return
				}
			}
		}
	}
}
