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
	partial   bool // axes further down have no value yet
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
		l.err(at, "Unknown matrix axis", "The axis %q is written further down. An axis can refer to those above it.", axis)
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

// expand calls do with each cell of a matrix block, in declared order; do
// returns false to stop.
func (l *lab) expand(benchmark string, b *hclsyntax.Block, do func(*cell) bool) {
	axes := inOrder(b.Body.Attributes)
	base := &cell{benchmark: benchmark, values: map[string]cty.Value{}, partial: true}
	for _, a := range axes {
		base.axes = append(base.axes, a.Name)
	}
	if len(axes) == 0 {
		l.absent(b.DefRange(), "Empty matrix", "The matrix block has no axis. Each argument in it is one, such as\n\n    concurrency = [1, 4, 16]")
		return
	}
	// An axis that does not refer to others has the same values in all cells.
	fixed := make([][]cty.Value, len(axes))
	product := 1
	for i, a := range axes {
		if !mentionsMatrix(a.Expr) {
			fixed[i] = l.axisValues(a, nil)
			product = min(product*len(fixed[i]), maxCells+1)
		}
	}
	if product > maxCells {
		l.tooManyCells(b)
		return
	}
	var turn func(i int, values map[string]cty.Value) bool
	turn = func(i int, values map[string]cty.Value) bool {
		if i == len(axes) {
			c := &cell{benchmark: benchmark, axes: base.axes, values: maps.Clone(values)}
			l.settle(c)
			return do(c)
		}
		list := fixed[i]
		if list == nil {
			list = l.axisValues(axes[i], &cell{benchmark: benchmark, axes: base.axes, values: values, partial: true, object: cty.ObjectVal(values)})
		}
		for _, v := range list {
			values[axes[i].Name] = v
			if !turn(i+1, values) {
				return false
			}
		}
		delete(values, axes[i].Name)
		return true
	}
	turn(0, base.values)
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
func (l *lab) axisValues(a *hclsyntax.Attribute, c *cell) []cty.Value {
	unknown := []cty.Value{cty.DynamicVal}
	if !identifier.MatchString(a.Name) {
		l.err(a.NameRange, "Invalid name", "%q cannot be the name of an axis. A name is made of letters, digits, - and _, and begins with a letter.", a.Name)
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
			l.err(at, "Wrong value", "The values of an axis are numbers, texts, true, false, or engines and other blocks, because they name the cell in results. Value %d of %q is %s.", n+1, a.Name, describe(v))
			v = cty.DynamicVal
		}
		if v.IsKnown() {
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
