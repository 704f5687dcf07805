package hcl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

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

const (
	axisBelow      = "The axis %q has no value here: it refers to those above it, in a zip block to those above the block."
	noMatrix       = "Benchmark %q has no matrix block, so there is no matrix.%[2]s. Write matrix { %[2]s = […] }"
	noAxis         = "The matrix of benchmark %q has no axis %q.%s"
	noAxisInEngine = "Benchmark %q names this engine, but its matrix has no axis %q.%s"
)

// matrixValue is what matrix stands for in a cell.
func (s *scope) matrixValue(t hcl.Traversal, c *cell) (cty.Value, bool) {
	at := t.SourceRange()
	switch {
	case c == nil:
		s.err(at, "No matrix here",
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
		s.err(at, unknown, axisBelow, axis)
	case c.included != "":
		s.err(at, unknown,
			"The include block at %s needs the axis %q too: it names every axis that is used.%s", c.included, axis, hint)
	case len(c.axes) == 0:
		s.err(at, unknown, noMatrix, c.benchmark, axis)
	default:
		if hint == "" {
			hint = fmt.Sprintf(" Its axes are %s.", inWords(quoted(c.axes), "and"))
		}
		what := noAxis
		if inEngine {
			what = noAxisInEngine
		}
		s.err(at, unknown, "%s", fmt.Sprintf(what, c.benchmark, axis, hint))
	}
	return cty.DynamicVal, false
}

// settle makes what the cell's expressions see as matrix: engines among the axes
// are as they are in this very cell.
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
