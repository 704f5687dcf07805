package table

import (
	"encoding/csv"
	"hclbench/report/figure"
	"io"
	"os"
	"strings"
	"testing"

	"hclbench/report/number"
	"hclbench/report/reporttest"
)

// CSV is exact, has the columns that docs/report.md names, and is what the page offers to save.
func TestCSV(t *testing.T) {
	rows := reporttest.Measured()
	text := reporttest.Written(t, func(w io.Writer) error { return CSV(w, rows, figure.About{}) })
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != len(rows)+1 {
		t.Fatalf("%d lines for %d cells", len(lines), len(rows))
	}
	column := map[string]int{}
	for i, name := range lines[0] {
		column[name] = i
	}
	page, err := os.ReadFile("../../docs/report.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lines[0] {
		if strings.HasSuffix(name, "_ms") || strings.HasPrefix(name, "axis_") {
			continue // by their pattern
		}
		reporttest.Holds(t, string(page), "`"+name+"`")
	}
	for i, r := range rows {
		line := lines[i+1]
		want := ""
		if r.Summary != nil {
			want = number.Exact(r.Summary.OutputThroughput)
		}
		if got := line[column["output_throughput"]]; got != want {
			t.Errorf("cell %s: output_throughput %q, want %q", r.ID, got, want)
		}
		if got, want := line[column["verdict"]], r.Verdict().Verdict; got != want {
			t.Errorf("cell %s: verdict %q, want %q", r.ID, got, want)
		}
	}
}
