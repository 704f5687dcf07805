package hcl

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// maxCells bounds a benchmark: more is a slip in an axis, and would fill the
// memory.
const maxCells = 100_000

// cell is one point of a matrix while the text is evaluated in it.
type cell struct {
	benchmark string
	axes      []string // all axes of the matrix block, in order
	values    map[string]cty.Value
	partial   bool   // axes further down have no value yet
	included  string // where the include block stands that says the cell; "" in a matrix
	object    cty.Value
}

// anyCell stands for every cell: an engine that uses matrix.* is checked in it
// by itself, with the axes unknown.
var anyCell = &cell{}

// matrixValue is what matrix stands for in a cell.
func (l *lab) matrixValue(t hcl.Traversal, c *cell) (cty.Value, bool) {
	at := t.SourceRange()
	switch {
	case c == nil:
		l.err(at, "No matrix here", "matrix.* stands for a cell of a benchmark's matrix. It can be used in benchmark blocks, where each cell has values of its own, and in the engines that a benchmark names; not here.")
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
	inEngine := len(l.stack) > 0
	switch {
	case c.partial && inEngine:
		return cty.DynamicVal, true
	case c.partial && slices.Contains(c.axes, axis):
		l.err(at, "Unknown matrix axis", "The axis %q has no value here. An axis can refer to those above it, and in a zip block to those above the block.", axis)
	case c.included != "":
		l.err(at, "Unknown matrix axis", "The include block at %s gives the axis %q no value, and it is used here. An include block says a whole cell: every axis that the benchmark and its engine use.%s", c.included, axis, didYouMean(axis, c.axes, func(s string) string { return "matrix." + s }))
	case len(c.axes) == 0:
		l.err(at, "Unknown matrix axis", "Benchmark %q has no matrix block, so there is no matrix.%s. Write one:\n\n    matrix {\n      %s = […]\n    }", c.benchmark, axis, axis)
	default:
		hint := didYouMean(axis, c.axes, func(s string) string { return "matrix." + s })
		if hint == "" {
			hint = fmt.Sprintf(" Its axes are %s.", inWords(quoted(c.axes), "and"))
		}
		what := fmt.Sprintf("The matrix of benchmark %q has no axis %q.", c.benchmark, axis)
		if inEngine {
			what = fmt.Sprintf("Benchmark %q names this engine, but its matrix has no axis %q.", c.benchmark, axis)
		}
		l.err(at, "Unknown matrix axis", "%s%s", what, hint)
	}
	return cty.DynamicVal, false
}

// key tells apart the cells in which an engine that uses these axes differs.
func (c *cell) key(axes map[string]hcl.Range) string {
	if c == anyCell {
		return "*"
	}
	names := slices.Sorted(maps.Keys(axes))
	if _, all := axes[""]; all {
		names = c.axes
	}
	var b strings.Builder
	for _, name := range names {
		b.WriteString(name)
		b.WriteByte('=')
		if v, ok := c.values[name]; ok {
			b.WriteString(axisKey(v))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// axisKey tells apart the values of an axis, whose kinds axisValue limits.
func axisKey(v cty.Value) string {
	switch x := axisValue(v).(type) {
	case string:
		return strconv.Quote(x)
	default:
		return fmt.Sprint(x)
	}
}

// axisValue is a value of an axis as a Config holds it; nil for what cannot be
// one.
func axisValue(v cty.Value) any {
	if d := referred(v, ""); d != nil {
		_, name, _ := strings.Cut(d.address, ".")
		return name
	}
	if !v.IsKnown() || v.IsNull() {
		return nil
	}
	switch v.Type() {
	case cty.String:
		return v.AsString()
	case cty.Bool:
		return v.True()
	case cty.Number:
		f := v.AsBigFloat()
		if i, exact := f.Int64(); exact == big.Exact {
			return i
		}
		x, _ := f.Float64()
		return x
	}
	return nil
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
	var zips, matrices []*hclsyntax.Block
	for _, n := range b.Body.Blocks {
		switch n.Type {
		case "zip":
			zips = append(zips, n)
		case "matrix":
			matrices = append(matrices, n)
		}
	}
	if len(matrices) == 0 && len(zips) > 0 {
		matrices = []*hclsyntax.Block{{Type: "zip", Body: &hclsyntax.Body{}, TypeRange: zips[0].TypeRange, OpenBraceRange: zips[0].OpenBraceRange}}
	}
	var out []table
	for _, m := range matrices {
		t := table{block: m}
		before := true
		for _, z := range zips {
			if before && z.TypeRange.Start.Byte > m.TypeRange.Start.Byte {
				t.factors = append(t.factors, factors(m.Body)...)
				before = false
			}
			t.factors = append(t.factors, factor{attrs: inOrder(z.Body.Attributes), zip: z})
		}
		if before {
			t.factors = append(t.factors, factors(m.Body)...)
		}
		out = append(out, t)
	}
	return out
}

// factors are the axes and zip blocks of a matrix block, as written.
func factors(body *hclsyntax.Body) []factor {
	var out []factor
	for _, a := range inOrder(body.Attributes) {
		out = append(out, factor{attrs: []*hclsyntax.Attribute{a}})
	}
	for _, z := range body.Blocks {
		if z.Type == "zip" {
			out = append(out, factor{attrs: inOrder(z.Body.Attributes), zip: z})
		}
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

// expand calls do with each cell of a table, in declared order; do returns false
// to stop.
func (l *lab) expand(benchmark string, t table, do func(*cell) bool) {
	base := &cell{benchmark: benchmark, values: map[string]cty.Value{}, partial: true}
	if !l.nameAxes(t, base) {
		return
	}
	// An axis that does not refer to others has the same values in all cells.
	fixed := make([][][]cty.Value, len(t.factors))
	product := 1
	for i, f := range t.factors {
		if !slices.ContainsFunc(f.attrs, func(a *hclsyntax.Attribute) bool { return mentionsMatrix(a.Expr) }) {
			fixed[i] = l.rows(f, nil)
			product = min(product*len(fixed[i]), maxCells+1)
		}
	}
	if product > maxCells {
		l.tooManyCells(t.block)
		return
	}
	var turn func(i int, values map[string]cty.Value) bool
	turn = func(i int, values map[string]cty.Value) bool {
		if i == len(t.factors) {
			c := &cell{benchmark: benchmark, axes: base.axes, values: maps.Clone(values)}
			l.settle(c)
			return do(c)
		}
		f, rows := t.factors[i], fixed[i]
		if rows == nil {
			rows = l.rows(f, &cell{benchmark: benchmark, axes: base.axes, values: values, partial: true, object: cty.ObjectVal(values)})
		}
		for _, row := range rows {
			for n, a := range f.attrs {
				values[a.Name] = row[n]
			}
			if !turn(i+1, values) {
				return false
			}
		}
		for _, a := range f.attrs {
			delete(values, a.Name)
		}
		return true
	}
	turn(0, base.values)
}

// nameAxes sets the axes of a table's cells. It reports what keeps it from having
// cells at all.
func (l *lab) nameAxes(t table, c *cell) bool {
	good := true
	at := map[string]hcl.Range{}
	for _, f := range t.factors {
		if f.zip != nil && len(f.attrs) == 0 {
			l.absent(f.zip.DefRange(), "Empty zip", "The zip block has no axis. Each argument in it is one, and they advance together, such as\n\n    input_tokens  = [1000, 4000]\n    output_tokens = [2000, 200]")
			good = false
		}
		for _, a := range f.attrs {
			if first, twice := at[a.Name]; twice {
				l.err(a.NameRange, "Axis given twice", "The axis %q is at %s already, and in a cell it has one value. Give this one another name, or remove it.", a.Name, pos(first))
				good = false
			}
			at[a.Name] = a.NameRange
			c.axes = append(c.axes, a.Name)
		}
	}
	if len(t.factors) == 0 {
		l.absent(t.block.DefRange(), "Empty matrix", "The matrix block has no axis. Each argument in it is one, such as\n\n    concurrency = [1, 4, 16]")
		good = false
	}
	return good
}

// rows are the values that a factor's axes take, one after the other.
func (l *lab) rows(f factor, c *cell) [][]cty.Value {
	lists := make([][]cty.Value, len(f.attrs))
	unknown := false
	for i, a := range f.attrs {
		lists[i] = l.axisValues(a, f.zip != nil, c)
		unknown = unknown || len(lists[i]) == 1 && !lists[i][0].IsKnown()
	}
	n := len(lists[0])
	if f.zip != nil && !unknown && slices.ContainsFunc(lists, func(list []cty.Value) bool { return len(list) != n }) {
		var have []string
		for i, a := range f.attrs {
			have = append(have, fmt.Sprintf("%s has %d", a.Name, len(lists[i])))
		}
		l.errOnce(f.zip.DefRange(), "Axes of different length", "The axes of a zip block advance together, the first values of all, then the second, so each must have as many as the others: %s. Axes that are to be multiplied belong in a matrix block.", inWords(have, "and"))
		unknown = true
	}
	if unknown && f.zip != nil {
		row := make([]cty.Value, len(lists))
		for i := range row {
			row[i] = cty.DynamicVal
		}
		return [][]cty.Value{row}
	}
	rows := make([][]cty.Value, n)
	for r := range rows {
		for i := range lists {
			rows[r] = append(rows[r], lists[i][r])
		}
	}
	return rows
}

// included is the one cell of an include block; nil, with problems reported, when
// there is none.
func (l *lab) included(benchmark string, b *hclsyntax.Block) *cell {
	attrs := inOrder(b.Body.Attributes)
	c := &cell{benchmark: benchmark, values: map[string]cty.Value{}, partial: true, included: pos(b.DefRange())}
	for _, a := range attrs {
		c.axes = append(c.axes, a.Name)
	}
	if len(attrs) == 0 {
		l.absent(b.DefRange(), "Empty include", "The include block names no cell. Each argument in it is the value of an axis, such as\n\n    concurrency = 4")
		return nil
	}
	for _, a := range attrs {
		c.object = cty.ObjectVal(c.values)
		v := l.eval(a.Expr, c)
		at := a.Expr.Range()
		switch {
		case !identifier.MatchString(a.Name):
			l.badAxisName(a)
			v = cty.DynamicVal
		case v.IsMarked():
			l.sensitiveAxis(a.Name, at)
			v = cty.DynamicVal
		case !v.IsKnown():
			l.noteUnknown(at)
		case axisValue(v) == nil:
			hint := ""
			if !v.IsNull() && (v.Type().IsTupleType() || v.Type().IsListType() || v.Type().IsSetType()) {
				hint = " An include block is one cell: write one for each, or a matrix block."
			}
			l.err(at, "Wrong value", "The value of an axis is a number, a text, true, false, or an engine or other block, because it names the cell in results, and %q is %s.%s", a.Name, describe(v), hint)
			v = cty.DynamicVal
		}
		c.values[a.Name] = v
	}
	c.partial = false
	l.settle(c)
	return c
}

func (l *lab) badAxisName(a *hclsyntax.Attribute) {
	l.err(a.NameRange, "Invalid name", "%q cannot be the name of an axis. A name is made of letters, digits, - and _, and begins with a letter.", a.Name)
}

func (l *lab) tooManyCells(matrix *hclsyntax.Block) {
	l.err(matrix.DefRange(), "Too many cells", "The matrix has more than %d cells. An axis is probably longer than was meant.", maxCells)
}

func mentionsMatrix(expr hclsyntax.Expression) bool {
	return slices.ContainsFunc(expr.Variables(), func(t hcl.Traversal) bool { return t.RootName() == "matrix" })
}

// settle makes what the cell's expressions see as matrix: engines among the axes
// are as they are in this very cell.
func (l *lab) settle(c *cell) {
	c.object = cty.ObjectVal(c.values)
	settled := maps.Clone(c.values)
	again := false
	for name, v := range c.values {
		if d := referred(v, "engine"); d != nil && len(l.axesOf(d)) > 0 {
			settled[name] = l.instance(d, c).object
			if referred(settled[name], "engine") == nil {
				settled[name] = v
			}
			again = true
		}
	}
	if again {
		c.object = cty.ObjectVal(settled)
	}
}

// axisValues evaluates an axis. A value that is wrong is reported, and stands as
// an unknown one, so that the rest of the benchmark is still checked.
func (l *lab) axisValues(a *hclsyntax.Attribute, zipped bool, c *cell) []cty.Value {
	unknown := []cty.Value{cty.DynamicVal}
	if !identifier.MatchString(a.Name) {
		l.badAxisName(a)
		return unknown
	}
	at := a.Expr.Range()
	list := l.eval(a.Expr, c)
	if list.IsMarked() {
		l.sensitiveAxis(a.Name, at)
		return unknown
	}
	if !list.IsKnown() {
		l.noteUnknown(at)
		return unknown
	}
	if t := list.Type(); list.IsNull() || !t.IsTupleType() && !t.IsListType() && !t.IsSetType() {
		hint := ""
		if axisValue(list) != nil {
			hint = fmt.Sprintf(" For a single value, write %s = [%s].", a.Name, describe(list))
		} else if g := groupOf(list); g != nil {
			hint = fmt.Sprintf(" For all instances of %s, write %s = values(%s).", g.address, a.Name, g.address)
		}
		l.err(at, "Wrong value", "The axis %q must be %s, not %s.%s", a.Name, axis.want, describe(list), hint)
		return unknown
	}
	values := []cty.Value{}
	seen := map[string]bool{}
	n := 0
	for it := list.ElementIterator(); it.Next(); n++ {
		_, v := it.Element()
		at := elementRange(a.Expr, n)
		switch {
		case v.IsMarked():
			l.sensitiveAxis(a.Name, at)
			v = cty.DynamicVal
		case !v.IsKnown():
			l.noteUnknown(at)
		case axisValue(v) == nil:
			hint := ""
			if g := groupOf(v); g != nil {
				hint = fmt.Sprintf(" %s has for_each, so it is several: write values(%s) for all of them, and concat(…) to join lists.", g.address, g.address)
			}
			l.err(at, "Wrong value", "The values of an axis are numbers, texts, true, false, or engines and other blocks, because they name the cell in results. Value %d of %q is %s.%s", n+1, a.Name, describe(v), hint)
			v = cty.DynamicVal
		}
		if v.IsKnown() && !zipped { // in a zip, other axes tell the cells apart
			if key := axisKey(v); seen[key] {
				l.warn(at, "Value given twice", "The axis %q holds %s more than once. A cell is measured once; to measure it several times, write repeat = … in the benchmark.", a.Name, describe(v))
				continue
			} else {
				seen[key] = true
			}
		}
		values = append(values, v)
	}
	if len(values) == 0 {
		l.err(at, "Empty axis", "The axis %q has no values, so the matrix has no cells. Give it at least one, or remove it.", a.Name)
		return unknown
	}
	return values
}

func (l *lab) sensitiveAxis(name string, at hcl.Range) {
	l.err(at, "Sensitive value would show", "The values of the axis %q name cells in plans and results, so they cannot be sensitive.", name)
}

// noteUnknown remembers where a value turned out to be unknown, for the case
// that nothing else says why.
func (l *lab) noteUnknown(at hcl.Range) {
	if l.unknown.Filename == "" {
		l.unknown = at
	}
}

// elementRange is the range of one element where the list is written out.
func elementRange(expr hclsyntax.Expression, i int) hcl.Range {
	if list, ok := expr.(*hclsyntax.TupleConsExpr); ok && i < len(list.Exprs) {
		return list.Exprs[i].Range()
	}
	return expr.Range()
}
