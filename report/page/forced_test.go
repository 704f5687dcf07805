package page

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/report/table"
	"hclbench/results"
)

// TestForced: a cell whose engine was told to accept its drafts is marked wherever its figures stand.
func TestForced(t *testing.T) {
	rows := reporttest.Accepting()
	const note = "Forced acceptance: the engine was told to accept drafted tokens whatever they are " +
		"(SGLANG_SIMULATE_ACC_LEN), so many tokens a step. Such figures are of that setting, and not of what the model would accept."
	text := reporttest.Written(t, func(w io.Writer) error { return table.Table(w, rows, table.Options{Width: 0}) })
	reporttest.Holds(t, text, "valid (forced acceptance 3.12)\n", note, "H200 · SGLang, forced acceptance 3.12", "3.12")
	if n := strings.Count(text, "valid ("); n != 2 {
		t.Errorf("%d verdicts have a mark, want 2:\n%s", n, text)
	}
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return table.Table(w, rows, table.Options{Width: 80}) }), "forced acceptance 3.12")
	alone := reporttest.Written(t, func(w io.Writer) error { return table.Table(w, rows[:1], table.Options{}) })
	reporttest.Holds(t, alone, "valid (forced acceptance 3.12)", note)
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return table.Markdown(w, rows, figure.About{}) }),
		"| valid (forced acceptance 3.12) |", strings.ReplaceAll(note, "_", `\_`))
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return table.Cell(w, rows[0], figure.Found{}, nil, 0) }),
		"Forced acceptance   3.12 tokens a step: drafted tokens are accepted whatever they are, by SGLANG_SIMULATE_ACC_LEN\n",
		"3.12 tokens a step\n")
	page := reporttest.Written(t, func(w io.Writer) error { return HTML(w, rows, figure.About{}) })
	reporttest.Holds(t, page, `<p class="mark">`+note+"</p>", `"H200 · SGLang, forced acceptance 3.12"`, "valid (forced acceptance 3.12)",
		`"key":"forced_acceptance"`, "<dt>Forced acceptance</dt>")
	csv := reporttest.Written(t, func(w io.Writer) error { return table.CSV(w, rows, figure.About{}) })
	reporttest.Holds(t, strings.SplitN(csv, "\n", 2)[0], "forced_acceptance", "tokens_per_step")
	reporttest.Holds(t, csv, ",3.119,3.12,")

	for _, r := range rows[2:] {
		if text := reporttest.Written(t, func(w io.Writer) error { return table.Table(w, []results.Row{r}, table.Options{}) }); strings.Contains(text, "orced") {
			t.Errorf("an engine that was told nothing is marked:\n%s", text)
		}
	}
	var doc struct {
		Rows []struct {
			Forced *table.ForcedFigures `json:"forced_acceptance"`
		}
	}
	if err := json.Unmarshal([]byte(reporttest.Written(t, func(w io.Writer) error { return table.JSON(w, rows, figure.About{}) })), &doc); err != nil {
		t.Fatal(err)
	}
	if f := doc.Rows[0].Forced; f == nil || *f != (table.ForcedFigures{TokensPerStep: 3.12, By: "SGLANG_SIMULATE_ACC_LEN"}) || doc.Rows[2].Forced != nil {
		t.Errorf("JSON has %+v and %+v", f, doc.Rows[2].Forced)
	}
}
