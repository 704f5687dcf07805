package hcl

import (
	"slices"

	"hclbench/hcl/lang"
	"hclbench/load/metric"
)

// rowsHint says what published numbers look like.
const rowsHint = "A list of objects, such as `csvdecode(file(\"published.csv\"))`. " +
	"The columns named like axes say which cell a row belongs to."

func referenceBlock() *lang.BlockType {
	return &lang.BlockType{
		Name: "reference", Labels: []lang.Label{{What: "name", Form: lang.AnyText}},
		Args: []lang.Argument{
			lang.Arg("source", lang.Text, func(r *Reference, s string) { r.Source = s }),
			lang.Arg("rows", rows, func(r *Reference, list []map[string]any) { r.Rows = list }).Required(rowsHint),
		},
	}
}

// readReferences reads the reference blocks of a benchmark, which hold for all cells.
func readReferences(benchmark *lang.Block) []Reference {
	var all []Reference
	for _, b := range benchmark.Inner("reference") {
		r := Reference{Name: b.Label, Pos: b.Header.String()}
		b = b.Read(&r, nil)
		if r.Rows != nil {
			r.Columns = b.Columns("rows")
			all = append(all, r)
		}
	}
	return all
}

// warnOfReferences is about rows of published numbers whose engine the lab does not have,
// and about columns written in the lab that are a slip of a metric or an axis.
func warnOfReferences(benchmark *lang.Block, out Benchmark) {
	there := namesIn(benchmark.Reader, "engine")
	known := slices.Concat(metric.Names(withPercentiles(out.Percentiles)), ColumnNames(), benchmark.AxisNames())
	blocks := benchmark.Inner("reference")
	for _, r := range out.References {
		b := blocks[slices.IndexFunc(blocks, func(b *lang.Block) bool { return b.Label == r.Name })]
		rows := b.Written("rows")
		for _, row := range r.Rows {
			if name, ok := row["engine"].(string); ok && !slices.Contains(there, name) {
				b.Warn(rows.Once(), "Unknown engine", "Rows of the reference %q name an engine %q, "+
					"which the lab does not have. They stand beside nothing.%s", r.Name, name, lang.DidYouMean(name, there, nil))
				break
			}
		}
		if !b.IsWrittenOut("rows") {
			continue // a table of somebody else has columns of its own
		}
		for _, column := range r.Columns {
			if isMetric(column) || slices.Contains(known, column) {
				continue
			}
			if hint := lang.DidYouMean(column, known, nil); hint != "" {
				b.Warn(rows, "Unknown column", "The column %q of the reference %q is neither a metric nor an axis. "+
					"It stands beside nothing.%s", column, r.Name, hint)
			}
		}
	}
}
