package report

import (
	"encoding/json"
	"io"

	"hclbench/load"
	"hclbench/results"
)

// FormatVersion is the version of what JSON writes. Its second number grows when
// members are added, its first when any changes its meaning or goes.
const FormatVersion = "1.4"

// JSON writes every row with exact numbers, published figures beside measured
// ones, and what runs had of their hosts; docs/results.md lists the members.
func JSON(w io.Writer, rows []results.Row, about About) error {
	type row struct {
		results.Row
		Verdict load.Verdict       `json:"verdict"` // also of a cell without a summary
		Costs   map[string]float64 `json:"costs,omitempty"`
	}
	doc := struct {
		FormatVersion string     `json:"format_version"`
		Rows          []row      `json:"rows"`
		Repeated      []Repeated `json:"repeated,omitempty"`
		References    []Compared `json:"references,omitempty"`
		Spending      []Spending `json:"spending,omitempty"`
	}{FormatVersion, make([]row, len(rows)), Repetitions(rows), about.References, about.Spending}
	for i, r := range rows {
		doc.Rows[i] = row{r, r.Verdict(), costs(&r)}
	}
	return writeJSON(w, doc)
}

func writeJSON(w io.Writer, doc any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(doc)
}
