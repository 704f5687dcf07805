package hcl

import (
	"encoding/csv"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"hclbench/load/metric"
)

// Reference is a table of numbers that someone else published.
type Reference struct {
	Name    string
	Source  string           // where they are published, usually a URL
	Columns []string         // in the order of the file, as far as the text tells it
	Rows    []map[string]any // values are int64, float64, bool or string, by column; what is empty is not there
	Pos     string
}

// rowsHint says what published numbers look like.
const rowsHint = "A list of objects, such as `csvdecode(file(\"published.csv\"))`. " +
	"The columns named like axes say which cell a row belongs to."

func referenceBlock() *blockType {
	return &blockType{
		name: "reference", labels: []label{{what: "name", form: anyText}},
		args: []argument{
			arg("source", text, func(r *Reference, s string) { r.Source = s }),
			arg("rows", rows, func(r *Reference, list []map[string]any) { r.Rows = list }).must(rowsHint),
		},
	}
}

// references reads the reference blocks of a benchmark, which hold for all cells.
func (x *expansion) references() []Reference {
	var all []Reference
	for _, b := range blocksOf(x.block.Body, "reference") {
		r := Reference{Name: firstLabel(b), Pos: pos(b.DefRange())}
		said := x.read(b, x.typ.inner("reference"), &r, nil).said
		if r.Rows != nil {
			r.Columns = x.columns(b.Body.Attributes["rows"].Expr, said["rows"].raw)
			all = append(all, r)
		}
	}
	return all
}

// columns are the columns of rows, in the order of the text as far as it shows one.
func (r *reader) columns(expr hclsyntax.Expression, rows cty.Value) []string {
	there := map[string]bool{}
	for it := rows.ElementIterator(); it.Next(); {
		_, row := it.Element()
		for name := range row.AsValueMap() {
			there[name] = true
		}
	}
	var out []string
	for _, name := range append(r.writtenColumns(expr), slices.Sorted(maps.Keys(there))...) {
		if there[name] {
			out = append(out, name)
			delete(there, name)
		}
	}
	return out
}

// writtenColumns are the columns as the text has them, where it shows them.
func (r *reader) writtenColumns(expr hclsyntax.Expression) (written []string) {
	switch x := expr.(type) {
	case *hclsyntax.FunctionCallExpr:
		if x.Name != "csvdecode" || len(x.Args) != 1 {
			break
		}
		if v, _ := r.eval(x.Args[0], nil).Unmark(); v.IsKnown() && !v.IsNull() && v.Type() == cty.String {
			written, _ = csv.NewReader(strings.NewReader(v.AsString())).Read()
		}
	case *hclsyntax.TupleConsExpr:
		for _, e := range x.Exprs {
			object, ok := e.(*hclsyntax.ObjectConsExpr)
			if !ok {
				continue
			}
			for _, item := range object.Items {
				if name := hcl.ExprAsKeyword(item.KeyExpr); name != "" {
					written = append(written, name)
				}
			}
		}
	}
	return written
}

// warnOfReferences is about rows of published numbers whose engine the lab does not have,
// and about columns written in the lab that are a slip of a metric or an axis.
func (x *expansion) warnOfReferences() {
	there := x.namesIn("engine")
	known := slices.Concat(metric.Names(withPercentiles(x.out.Percentiles)), ColumnNames(), x.axisNames())
	blocks := blocksOf(x.block.Body, "reference")
	for _, r := range x.out.References {
		i := slices.IndexFunc(blocks, func(b *hclsyntax.Block) bool { return b.Labels[0] == r.Name })
		rows := blocks[i].Body.Attributes["rows"].Expr
		for _, row := range r.Rows {
			if name, ok := row["engine"].(string); ok && !slices.Contains(there, name) {
				x.warnOnce(rows.Range(), "Unknown engine", "Rows of the reference %q name an engine %q, "+
					"which the lab does not have. They stand beside nothing.%s", r.Name, name, didYouMean(name, there, nil))
				break
			}
		}
		if _, written := rows.(*hclsyntax.TupleConsExpr); !written {
			continue // a table of somebody else has columns of its own
		}
		for _, column := range r.Columns {
			if isMetric(column) || slices.Contains(known, column) {
				continue
			}
			if hint := didYouMean(column, known, nil); hint != "" {
				x.warn(rows.Range(), "Unknown column", "The column %q of the reference %q is neither a metric nor an axis. "+
					"It stands beside nothing.%s", column, r.Name, hint)
			}
		}
	}
}
