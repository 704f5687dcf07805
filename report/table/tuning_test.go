package table

import (
	"io"
	"strings"
	"testing"

	"hclbench/plain"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
	"hclbench/testhost/golden"
)

// TestTuning: every candidate has its fate and every start what came of it, in `hcl tune` as in a report; a start's cell leads nothing.
func TestTuning(t *testing.T) {
	rows, ledger := reporttest.Tuned()
	found := figure.Found{Tunings: []results.Ledger{ledger}}
	text := reporttest.Written(t, func(w io.Writer) error { return Tuning(w, figure.NewTuning(&ledger), 100) })
	golden.Check(t, "tuning.txt", text)
	table := reporttest.Written(t, func(w io.Writer) error { return Table(w, rows, Options{Width: 100, Found: found}) })
	if _, below, ok := strings.Cut(table, "tune settings: "); !ok || !strings.HasPrefix(text, "tune settings: "+below) ||
		strings.Contains(table, "highest") {
		t.Errorf("a report says\n%s", table)
	}
	if text := reporttest.Written(t, func(w io.Writer) error { return Markdown(w, rows, figure.About{Found: found}) }); !strings.Contains(text, "\n| 5 | max-num-seqs=512, enable-chunked-prefill=false | tied | 4 |") {
		t.Errorf("as Markdown it is\n%s", text)
	}
	if text := reporttest.Written(t, func(w io.Writer) error { return JSON(w, rows, figure.About{Found: found}) }); !strings.Contains(text, `"fate": "not tried"`) {
		t.Error("JSON does not have the candidates")
	}
	for i := range rows {
		rows[i].Stale = true
	}
	if found := figure.Tunings(rows, found.Tunings); found != nil {
		t.Errorf("of what is stale there is %+v", found)
	}
}

// TestTuningAltered: where an engine is another than its image brings, it stands beside its candidate.
func TestTuningAltered(t *testing.T) {
	_, ledger := reporttest.Tuned()
	ledger.Summary.Candidates[4].Altered = "setup and build"
	text := reporttest.Written(t, func(w io.Writer) error { return Tuning(w, figure.NewTuning(&ledger), 140) })
	if !strings.Contains(text, "altered by") || strings.Count(text, "setup and build") != 3 { // in its row, and twice in the verdict
		t.Errorf("the table says\n%s", text)
	}
}

// TestCandidatesApart: candidates that differ in the middle of their names stay apart where these are cut.
func TestCandidatesApart(t *testing.T) {
	spec := "speculative-algorithm=EAGLE speculative-eagle-topk=1 speculative-num-draft-tokens=2 speculative-num-steps=1"
	names := []string{"as it is", "sglang.baseline, enable-dp-attention, enable-torch-compile", "sglang.baseline, enable-torch-compile",
		"sglang.baseline, enable-dp-attention, " + spec, "sglang.baseline, enable-dp-attention, enable-torch-compile, " + spec, "sglang.baseline, " + spec}
	sheet := &Sheet{Rows: len(names)}
	sheet.Columns = []Column{Column{Name: "settings", Left: true}.filled(len(names), func(i int) string { return names[i] })}
	for _, width := range []int{60, 40, 36} {
		sheet.Fit(width)
		seen := map[string]bool{}
		for i := range names {
			text := sheet.Columns[0].Text(i)
			if seen[text] || plain.Width(text) > width {
				t.Errorf("of %d columns %q is written as %q", width, names[i], text)
			}
			seen[text] = true
		}
	}
	if got, want := sheet.Columns[0].Text(0)+"; "+sheet.Columns[0].Text(4), "as it is; sg…e, en…n, en…e, sp…1"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
