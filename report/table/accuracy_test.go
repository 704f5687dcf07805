package table

import (
	"io"
	"strings"
	"testing"

	"hclbench/report/figure"
	"hclbench/report/reporttest"
)

// TestAccuracyColumn: where anybody was asked, each cell says what its answers prove, or that they are unchecked; else there is no column.
func TestAccuracyColumn(t *testing.T) {
	rows, scores := reporttest.Scored()
	found := figure.Found{Scores: scores}
	text := reporttest.Written(t, func(w io.Writer) error { return Table(w, found.Check(rows), Options{Width: 100}) })
	var column []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 2 && strings.HasPrefix(fields[0], "vllm.") && !strings.HasSuffix(fields[0], ":") {
			for _, f := range fields {
				if f == "baseline" || f == "worse" || f == "holds" || f == "unchecked" {
					column = append(column, f)
				}
			}
		}
	}
	reporttest.Check(t, "the column of\n"+text, []string{"baseline", "worse", "holds", "unchecked"}, column[:min(4, len(column))])
	if !strings.Contains(text, "its answers to own are worse than those of vllm.bf16") {
		t.Errorf("why is not said:\n%s", text)
	}
	if text := reporttest.Written(t, func(w io.Writer) error { return Table(w, rows, Options{Width: 100}) }); strings.Contains(text, "accuracy") {
		t.Errorf("nobody was asked, and yet:\n%s", text)
	}
}
