package report

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"hclbench/results"
	"hclbench/telemetry"
)

// accepting are rows of an engine that was told to accept its drafts, and of one that was not.
func accepting() []results.Row {
	told := []results.Row{row("sglang.h200", 4, 180, 21), row("sglang.h200", 16, 310, 25)}
	for i := range told {
		told[i].Deployment.Identity = map[string]string{"env SGLANG_SIMULATE_ACC_LEN": "3.12"}
		told[i].Telemetry = &telemetry.Record{StepTokens: new(3.119)}
	}
	return append(told, row("vllm.h200", 4, 95, 20), row("vllm.h200", 16, 240, 27))
}

// TestForced: a cell whose engine was told to accept its drafts is marked wherever its figures stand.
func TestForced(t *testing.T) {
	rows := accepting()
	const note = "Forced acceptance: the engine was told to accept drafted tokens whatever they are " +
		"(SGLANG_SIMULATE_ACC_LEN), so many tokens a step. Such figures are of that setting, and not of what the model would accept."
	text := written(t, func(w io.Writer) error { return Table(w, rows, Options{Width: 0}) })
	holds(t, text, "valid (forced acceptance 3.12)\n", note, "H200 · SGLang, forced acceptance 3.12", "3.12")
	if n := strings.Count(text, "valid ("); n != 2 {
		t.Errorf("%d verdicts have a mark, want 2:\n%s", n, text)
	}
	holds(t, written(t, func(w io.Writer) error { return Table(w, rows, Options{Width: 80}) }), "forced acceptance 3.12")
	alone := written(t, func(w io.Writer) error { return Table(w, rows[:1], Options{}) })
	holds(t, alone, "valid (forced acceptance 3.12)", note)
	holds(t, written(t, func(w io.Writer) error { return Markdown(w, rows, About{}) }),
		"| valid (forced acceptance 3.12) |", strings.ReplaceAll(note, "_", `\_`))
	holds(t, written(t, func(w io.Writer) error { return Cell(w, rows[0], nil) }),
		"Forced acceptance   3.12 tokens a step: drafted tokens are accepted whatever they are, by SGLANG_SIMULATE_ACC_LEN\n",
		"3.12 tokens a step\n")
	page := written(t, func(w io.Writer) error { return HTML(w, rows, About{}) })
	holds(t, page, `<p class="mark">`+note+"</p>", `"H200 · SGLang, forced acceptance 3.12"`, "valid (forced acceptance 3.12)",
		`"key":"forced_acceptance"`, "<dt>Forced acceptance</dt>")
	csv := written(t, func(w io.Writer) error { return CSV(w, rows) })
	holds(t, strings.SplitN(csv, "\n", 2)[0], "forced_acceptance", "tokens_per_step")
	holds(t, csv, ",3.119,3.12,")

	for _, r := range rows[2:] {
		if text := written(t, func(w io.Writer) error { return Table(w, []results.Row{r}, Options{}) }); strings.Contains(text, "orced") {
			t.Errorf("an engine that was told nothing is marked:\n%s", text)
		}
	}
	var doc struct {
		Rows []struct {
			Forced *forcedFigures `json:"forced_acceptance"`
		}
	}
	if err := json.Unmarshal([]byte(written(t, func(w io.Writer) error { return JSON(w, rows, About{}) })), &doc); err != nil {
		t.Fatal(err)
	}
	if f := doc.Rows[0].Forced; f == nil || *f != (forcedFigures{3.12, "SGLANG_SIMULATE_ACC_LEN"}) || doc.Rows[2].Forced != nil {
		t.Errorf("JSON has %+v and %+v", f, doc.Rows[2].Forced)
	}
}

// TestForcedInPart: one series of both kinds says so, and so does a value that nobody knows.
func TestForcedInPart(t *testing.T) {
	labels := func(s *seriesOf) (names []string) {
		for _, x := range s.all {
			names = append(names, x.Label)
		}
		return names
	}
	rows := accepting()
	rows[1].Deployment.Identity = map[string]string{"env SGLANG_SIMULATE_ACC_LEN": "(sensitive)"}
	check(t, "series", []string{"H200 · SGLang, in part with forced acceptance", "H200 · vLLM"}, labels(newSeries(rows, nil)))
	check(t, "series of GPUs", []string{"8×H200, in part with forced acceptance"}, labels(newSeries(rows, []string{"gpus"})))
	holds(t, table(t, rows, 0), "valid (forced acceptance)\n", "valid (forced acceptance 3.12)\n")
}

// TestForcedCompared: forced figures are not like others, and a gate does not take them for those.
func TestForcedCompared(t *testing.T) {
	told, real := accepting()[:1], accepting()[:1]
	real[0].Deployment.Identity = nil
	d, err := Diff("a", real, "b", told, DefaultMetrics())
	if err != nil {
		t.Fatal(err)
	}
	text := written(t, func(w io.Writer) error { return d.Write(w, "text", 0) })
	holds(t, text, "B forced acceptance 3.12", "another acceptance")
	limit, err := ParseLimit("output_throughput < -5%")
	if err != nil {
		t.Fatal(err)
	}
	for allow, want := range map[string]Result{"": Unknown, "acceptance": Pass} {
		if err := d.Check([]Limit{limit}, strings.Fields(allow)); err != nil {
			t.Fatal(err)
		}
		if got := d.Checks[0]; got.Result != want {
			t.Errorf("allowing %q: %s %s, want %s", allow, got.Result, got.Why, want)
		}
	}
	holds(t, written(t, func(w io.Writer) error { return d.Write(w, "json", 0) }),
		`"forced_acceptance_b": {`, `"tokens_per_step": 3.12`)
	if same, _ := Diff("a", told, "b", told, DefaultMetrics()); len(same.Cells[0].Unlike) > 0 {
		t.Errorf("forced alike, and unlike in %+v", same.Cells[0].Unlike)
	}
}
