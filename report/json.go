package report

import (
	"encoding/json"
	"io"

	"hclbench/load"
	"hclbench/results"
)

// FormatVersion is the version of what JSON writes. Its second number grows when
// members are added, its first when any changes its meaning or goes.
const FormatVersion = "1.0"

// JSON writes every row with exact numbers; docs/results.md lists the members.
func JSON(w io.Writer, rows []results.Row) error {
	type row struct {
		results.Row
		Verdict load.Verdict `json:"verdict"` // also of a cell without a summary
	}
	doc := struct {
		FormatVersion string `json:"format_version"`
		Rows          []row  `json:"rows"`
	}{FormatVersion, make([]row, len(rows))}
	for i, r := range rows {
		doc.Rows[i] = row{r, r.Verdict()}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(doc)
}
