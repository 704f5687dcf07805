package hcl

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"hclbench/load"
	"hclbench/plain"
)

// maxCells bounds a benchmark: more is a slip in an axis, and would fill the memory.
const maxCells = 100_000

// expansion turns a benchmark block into its cells.
type expansion struct {
	*reader
	typ      *blockType
	block    *hclsyntax.Block
	out      *Benchmark
	excludes []*hclsyntax.Block
	held     map[*hclsyntax.Block]bool // those that left something out
	seen     map[string]bool           // the cells, by key
	count    int                       // of cells in the matrix
	left     int                       // how many of them are excluded
}

// benchmark expands a benchmark block into its cells.
func (r *reader) benchmark(written *hclsyntax.Block, t *blockType) Benchmark {
	out := Benchmark{
		Name: written.Labels[0], Repeat: 1, Percentiles: load.DefaultPercentiles(), Pos: pos(written.DefRange()),
	}
	b := r.block(written, t, nil)
	b.evaluate(b.body, t, "", true)
	b.bind(t, "", &draft{Benchmark: &out})
	x := &expansion{
		reader: r, typ: t, block: written, out: &out, excludes: blocksOf(written.Body, "exclude"),
		held: map[*hclsyntax.Block]bool{}, seen: map[string]bool{},
	}
	out.References = x.references()
	x.expand()
	if x.left > 0 && x.left == x.count && len(out.Cells) == 0 {
		r.warn(x.excludes[0].DefRange(), "Every cell is excluded",
			"The exclude blocks leave out all %d cells of benchmark %q, so it measures nothing. Exclude fewer.",
			x.count, out.Name)
	}
	if out.Repeat*len(out.Cells) > maxCells {
		r.fail(written.DefRange(), "Too many cells",
			"%d cells, %d times each, are more than %d measurements. Repeat less.", len(out.Cells), out.Repeat, maxCells)
	}
	if r.settled() {
		x.warnOfTwins()
		x.warnOfExcludes()
		x.warnOfAxes()
		x.warnOfReferences()
	}
	return out
}

// expand makes the cells, in the order in which their blocks are written.
func (x *expansion) expand() {
	next := tables(x.block)
	one := len(next) == 0
	for _, n := range x.block.Body.Blocks {
		switch {
		case n.Type == "include":
			one = false
			if c := x.included(n); c != nil {
				x.add(c, n)
			}
		case n.Type == "matrix" || n.Type == "zip" && len(next) > 0 && next[0].block.Type == "zip":
			x.multiply(next[0])
			next = next[1:]
		}
	}
	if one {
		c := &cell{benchmark: x.out.Name, values: map[string]cty.Value{}, object: cty.EmptyObjectVal}
		if !x.excluded(c) {
			x.add(c, x.block)
		}
	}
}

// add reads a cell of a block.
func (x *expansion) add(c *cell, from *hclsyntax.Block) {
	read, ok := x.cell(c)
	if !ok {
		x.lost = append(x.lost, x.block.DefRange())
		return
	}
	key := cellKey(read)
	if x.seen[key] {
		x.warn(from.DefRange(), "Cell given twice",
			"Some of these cells are in the benchmark already. Each is measured once, where it is written first.")
		return
	}
	x.seen[key] = true
	x.out.Cells = append(x.out.Cells, read)
}

// excluded reports whether an exclude block leaves the cell out, and notes which.
func (x *expansion) excluded(c *cell) bool {
	for _, e := range x.excludes {
		var out bool
		if x.read(e, x.typ.inner("exclude"), &out, c); out {
			x.held[e] = true
			return true
		}
	}
	return false
}

// multiply adds each cell of a table.
func (x *expansion) multiply(t table) {
	base := &cell{benchmark: x.out.Name, values: map[string]cty.Value{}, partial: true}
	if !x.nameAxes(t, base) {
		return
	}
	// An axis that does not refer to others has the same values in all cells.
	fixed := make([][][]cty.Value, len(t.factors))
	product := 1
	for i, f := range t.factors {
		if !slices.ContainsFunc(f.attrs, func(a *hclsyntax.Attribute) bool { return mentionsMatrix(a.Expr) }) {
			fixed[i] = x.rows(f, nil)
			product = min(product*len(fixed[i]), maxCells+1)
		}
	}
	if product > maxCells {
		x.tooManyCells(t.block)
		return
	}
	x.turn(t, base, fixed, 0)
}

// turn goes through the values of the factors from the i-th on; false: there are too many cells.
func (x *expansion) turn(t table, base *cell, fixed [][][]cty.Value, i int) bool {
	if i == len(t.factors) {
		return x.point(t, &cell{benchmark: base.benchmark, axes: base.axes, values: maps.Clone(base.values)})
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

// point adds a cell that is not excluded.
func (x *expansion) point(t table, c *cell) bool {
	x.settle(c)
	if x.count++; x.count > maxCells {
		x.tooManyCells(t.block)
		return false
	}
	if x.excluded(c) {
		x.left++
	} else {
		x.add(c, t.block)
	}
	return true
}

func (x *expansion) tooManyCells(matrix *hclsyntax.Block) {
	x.fail(matrix.DefRange(), "Too many cells",
		"The matrix has more than %d cells. An axis is probably longer than was meant.", maxCells)
}

// nameAxes sets the axes of a table's cells; false: it can have none.
func (x *expansion) nameAxes(t table, c *cell) bool {
	good := len(t.factors) > 0
	at := map[string]hcl.Range{}
	for _, f := range t.factors {
		if f.zip != nil && len(f.attrs) == 0 {
			good = x.empty(f.zip, "an axis", "two such as concurrency = [1, 4]")
		}
		for _, a := range f.attrs {
			if first, twice := at[a.Name]; twice {
				x.fail(a.NameRange, "Axis given twice",
					"The axis %q is at %s already. Rename this one, or remove it.", a.Name, pos(first))
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
	x.missing(b.DefRange(), "", "Empty "+b.Type,
		"Each argument of %s block is %s, and this one has none. Write %s.", withArticle(b.Type), each, write)
	return false
}

// rows are the values that a factor's axes take, one after the other.
func (x *expansion) rows(f factor, c *cell) [][]cty.Value {
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
		x.fail(f.zip.DefRange(), "Axes of different length", "The axes of a zip block have as many values each: %s. "+
			"To multiply axes, put them into a matrix block.", inWords(have, "and"))
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
func (x *expansion) included(b *hclsyntax.Block) *cell {
	attrs := inOrder(b.Body.Attributes)
	c := &cell{
		benchmark: x.out.Name, values: map[string]cty.Value{}, partial: true, included: pos(b.DefRange()),
		axes: mapped(attrs, func(a *hclsyntax.Attribute) string { return a.Name }),
	}
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
	notAPoint  = "Axis values name cells: numbers, texts, true, false, engines or other blocks. %s is %s.%s"
	secretAxis = "The values of the axis %q name cells in plans and results, so they cannot be sensitive."
	severalOf  = " %[1]s has for_each, so it is several: write values(%[1]s), and join lists by concat(…)."
)

// axisPoint is the n-th value of an axis; 0: its only one. One that is wrong is reported,
// and stands as an unknown one, so that the rest of the benchmark is still checked.
func (x *expansion) axisPoint(a *hclsyntax.Attribute, n int, v cty.Value) cty.Value {
	at := elementRange(a.Expr, n-1)
	switch {
	case v.IsMarked():
		x.fail(at, "Sensitive value would show", secretAxis, a.Name)
	case !v.IsKnown():
		x.noteUnknown(at)
	case axisValue(v) == nil:
		what, hint := quote(a.Name), ""
		if n > 0 {
			what = fmt.Sprintf("Value %d of %q", n, a.Name)
		} else if isList(v) {
			hint = " An include block is one cell: write one for each, or a matrix block."
		}
		if g := repeatedOf(v); g != nil && n > 0 {
			hint = fmt.Sprintf(severalOf, g.address)
		}
		x.fail(at, "Wrong value", notAPoint, what, describe(v), hint)
	default:
		return v
	}
	return cty.DynamicVal
}

// axisValues evaluates an axis.
func (x *expansion) axisValues(a *hclsyntax.Attribute, zipped bool, c *cell) []cty.Value {
	at, list := a.Expr.Range(), x.eval(a.Expr, c)
	switch {
	case list.IsMarked():
		x.fail(at, "Sensitive value would show", secretAxis, a.Name)
	case !list.IsKnown():
		x.noteUnknown(at)
	case !isList(list):
		hint := ""
		if axisValue(list) != nil {
			hint = fmt.Sprintf(" For a single value, write %s = [%s].", a.Name, describe(list))
		} else if g := repeatedOf(list); g != nil {
			hint = fmt.Sprintf(" For all instances of %[2]s, write %[1]s = values(%[2]s).", a.Name, g.address)
		}
		x.fail(at, "Wrong value", "The axis %q must be %s, not %s.%s", a.Name, axis.want, describe(list), hint)
	case list.LengthInt() == 0:
		x.fail(at, "Empty axis",
			"The axis %q has no values, so the matrix has no cells. Give it one, or remove it.", a.Name)
	default:
		return x.points(a, zipped, list)
	}
	return []cty.Value{cty.DynamicVal}
}

// points are the values of an axis. In a zip, other axes tell the cells of equal ones apart.
func (x *expansion) points(a *hclsyntax.Attribute, zipped bool, list cty.Value) (values []cty.Value) {
	seen := map[string]bool{}
	n := 0
	for it := list.ElementIterator(); it.Next(); {
		_, v := it.Element()
		n++
		v = x.axisPoint(a, n, v)
		if v.IsKnown() && !zipped {
			key := axisKey(v)
			if seen[key] {
				x.warn(elementRange(a.Expr, n-1), "Value given twice", "The axis %q has %s more than once, "+
					"and a cell is measured once. To measure it again, write repeat = ….", a.Name, describe(v))
				continue
			}
			seen[key] = true
		}
		values = append(values, v)
	}
	return values
}

// warnOfExcludes points at exclude blocks that leave nothing out, whatever the variables are.
func (x *expansion) warnOfExcludes() {
	variable := func(t hcl.Traversal) bool { return t.RootName() == "var" || t.RootName() == "local" }
	for _, e := range x.excludes {
		a, ok := e.Body.Attributes["when"]
		if x.count > 0 && ok && !x.held[e] && !slices.ContainsFunc(x.referencesOf(a.Expr).all, variable) {
			x.warn(a.Expr.Range(), "Exclude without effect",
				`This holds for no cell that is not left out already. Numbers and texts are never equal: 4 is not "4".`)
		}
	}
}

// warnOfTwins points at an axis that makes several cells of one thing, since their engine does not
// use it though another does.
func (x *expansion) warnOfTwins() {
	first, all := map[string]Cell{}, map[string]bool{}
	twins := map[[2]string]int{} // of an engine, by the axis in which they differ
	for _, c := range x.out.Cells {
		all[c.Engine.Address()] = true
		load, err := json.Marshal(c.Workload)
		if err != nil {
			return
		}
		key := fmt.Sprintf("%p %s %v %v %v", c.Engine, load, c.Offline, c.Headers, c.From)
		before, seen := first[key]
		if !seen {
			first[key] = c
			continue
		}
		var differs []string
		for i, a := range c.Axes {
			if i < len(before.Axes) && before.Axes[i] != a {
				differs = append(differs, a.Name)
			}
		}
		if len(differs) == 1 {
			twins[[2]string{c.Engine.Address(), differs[0]}]++
		}
	}
	alike := map[string]int{} // engines that do not use an axis; all of them: see warnOfAxes
	for e := range twins {
		alike[e[1]]++
	}
	for _, m := range x.block.Body.Blocks {
		for _, a := range inOrder(m.Body.Attributes) {
			if alike[a.Name] == len(all) {
				continue
			}
			for _, e := range slices.SortedFunc(maps.Keys(twins), func(a, b [2]string) int { return strings.Compare(a[0], b[0]) }) {
				if e[1] == a.Name && m.Type == "matrix" {
					x.warn(a.NameRange, "Cells that are the same", "%s of %s only repeat others: it does not use matrix.%s. "+
						"Leave them out by an exclude block.", plain.Count(twins[e], "cell"), e[0], a.Name)
				}
			}
		}
	}
}

// warnOfAxes points at axes that nothing uses: their cells would all be the same.
func (x *expansion) warnOfAxes() {
	used := map[string]hcl.Range{}
	eachReference(x.block.Body, func(t hcl.Traversal) { x.noteAxes(t, used) })
	for _, d := range x.order {
		maps.Copy(used, x.axesOf(d))
	}
	if _, all := used[""]; all {
		return
	}
	multiplied := map[string]bool{}
	for _, t := range tables(x.block) {
		for _, f := range t.factors {
			for _, a := range f.attrs {
				multiplied[a.Name] = true
			}
		}
	}
	for _, m := range x.block.Body.Blocks {
		for _, a := range inOrder(m.Body.Attributes) {
			// What advances with other axes, in a zip, may be there as a name.
			alone := m.Type == "include" && len(multiplied) > 0 && !multiplied[a.Name]
			if _, ok := used[a.Name]; !ok && (m.Type == "matrix" || alone) {
				x.warn(a.NameRange, "Axis without effect",
					"Nothing uses matrix.%s, so all its values would give the same cell. Use it, or remove it.", a.Name)
			}
		}
	}
}
