package table

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"hclbench/accuracy"
	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
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
	if said := strings.Join(strings.Fields(text), " "); !strings.Contains(said, "vLLM fp8 answers worse than its baseline.") {
		t.Errorf("who answers worse is not said:\n%s", text)
	}
	if text := reporttest.Written(t, func(w io.Writer) error { return Table(w, rows, Options{Width: 100}) }); strings.Contains(text, "accuracy") {
		t.Errorf("nobody was asked, and yet:\n%s", text)
	}
}

// TestCallColumns: where tool calls were asked for, F1 stands beside speed, in the table and in CSV, and the scores say how many answers call, and how many
// of those are valid; else there are no such columns.
func TestCallColumns(t *testing.T) {
	rows, scores := reporttest.Called()
	found := figure.Found{Scores: scores}
	checked := found.Check(rows)
	text := reporttest.Written(t, func(w io.Writer) error { return Table(w, checked, Options{Width: 200, Found: found}) })
	csv := reporttest.Written(t, func(w io.Writer) error { return CSV(w, checked, figure.About{}) })
	var lines []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 3 && fields[0] == "vllm.hasty" && fields[1] != "at" {
			lines = append(lines, strings.Join(fields, " "))
		}
	}
	// 2·8/(8+10) = 0.889
	if len(lines) != 2 || !strings.HasSuffix(lines[0], " not shown 0.89") || !strings.HasSuffix(lines[1], "8 75.0 % 0.89 20 2 0 0 0 30") {
		t.Errorf("lines %q of\n%s", lines, text)
	}
	if !strings.Contains(text, "answers of up to 4,096 tokens") || !strings.Contains(csv, "tool_call_f1") || !strings.Contains(csv, "0.888888888888888") {
		t.Errorf("what is missing?\n%s%s", text, csv)
	}
	other, scores := reporttest.Scored()
	found = figure.Found{Scores: scores}
	if text := reporttest.Written(t, func(w io.Writer) error { return Table(w, found.Check(other), Options{Width: 200, Found: found}) }); strings.Contains(text, "calls") {
		t.Errorf("nobody was asked to call anything, and yet:\n%s", text)
	}
}

// TestPublishedBeside: a score that others expect of the model by the same protocol stands below, and none where the examples are others.
func TestPublishedBeside(t *testing.T) {
	_, scores := reporttest.Scored()
	five, three := 5, 3
	for _, x := range []struct {
		spec  accuracy.Spec
		model string
		says  string
	}{
		{accuracy.Spec{Task: accuracy.GSM8K, Protocol: accuracy.VLLM, Shots: &five}, "deepseek-ai/DeepSeek-R1", "95.0 % of deepseek-ai/DeepSeek-R1 is expected, and 87.0 % passes"},
		{accuracy.Spec{Task: accuracy.GSM8K, Protocol: accuracy.InferenceX, Shots: &five}, "deepseek-ai/DeepSeek-R1-0528", "91.0 % of deepseek-ai/DeepSeek-R1-0528 passes (Semi"},
		{accuracy.Spec{Task: accuracy.GSM8K, Protocol: accuracy.InferenceX, Shots: &five}, "zai-org/GLM-5.1-FP8", "93.0 % of zai-org/GLM-5.1 passes, of which zai-org/GLM-5.1-FP8 is a variant by its name"},
		{accuracy.Spec{Task: accuracy.GSM8K, Protocol: accuracy.VLLM, Shots: &five}, "deepseek-ai/DeepSeek-R1-0528", ""},
		{accuracy.Spec{Task: accuracy.GSM8K, Protocol: accuracy.InferenceX, Shots: &five}, "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", ""},
		{accuracy.Spec{Task: accuracy.GSM8K, Protocol: accuracy.InferenceX, Shots: &five}, "Qwen/Qwen3.5-0.8B", ""},
		{accuracy.Spec{Task: accuracy.GSM8K, Protocol: accuracy.InferenceX, Shots: &five}, "openai/gpt-oss-20b", ""},
		{accuracy.Spec{Task: accuracy.GSM8K, Protocol: accuracy.InferenceX, Shots: &five}, "QWEN/qwen3.5-397b-a17b", "94.0 % of Qwen/Qwen3.5-397B-A17B passes (Semi"},
		{accuracy.Spec{Task: accuracy.GSM8K, Protocol: accuracy.VLLM, Shots: &three}, "deepseek-ai/DeepSeek-R1", ""},
		{accuracy.Spec{Task: accuracy.GSM8K, Protocol: accuracy.SGLang, Shots: &five}, "deepseek-ai/DeepSeek-R1", ""},
	} {
		spec, err := x.spec.Check()
		if err != nil {
			t.Fatal(err)
		}
		for i := range scores {
			scores[i].Accuracy.Spec, scores[i].Deployment.Model = spec, x.model
		}
		_, below := ScoreSheet(scores)
		got := below[slices.IndexFunc(append(below, "Published"), func(s string) bool { return strings.HasPrefix(s, "Published") }):]
		if text := strings.Join(got, "; "); x.says == "" && text != "" || !strings.Contains(text, x.says) || strings.Count(text, "Published") > 1 {
			t.Errorf("%s by %s: %q, want %q once", x.model, spec.Protocol, text, x.says)
		}
	}
}

// TestNoTokens: where all answers have failed there is no answer of some length, and of tool calls no part of them.
func TestNoTokens(t *testing.T) {
	_, scores := reporttest.Scored()
	for _, score := range []accuracy.Score{accuracy.Sum([]accuracy.Answer{{Mark: accuracy.Failed, OutputTokens: 9}}), {Asked: 1, Failed: 1, OutputTokens: 9}} {
		scores[0].Accuracy.Score = score
		sheet, _ := ScoreSheet(scores[:1])
		if text := strings.Join(sheet.Lines(), "\n"); strings.Contains(text, "Inf") || strings.Contains(text, "NaN") {
			t.Error(text)
		}
	}
	if got := accuracy.Sum([]accuracy.Answer{{Mark: accuracy.Failed, OutputTokens: 9}, {Mark: accuracy.Right, OutputTokens: 3}}); got.OutputTokens != 3 {
		t.Errorf("%d tokens of answers", got.OutputTokens)
	}
}

// TestFewInFlight: a score whose answers came faster than questions were asked says so, and is in no doubt for it.
func TestFewInFlight(t *testing.T) {
	_, scores := reporttest.Scored()
	scores[0].Summary.MeanConcurrency = 1.5
	_, below := ScoreSheet(scores)
	if text := strings.Join(below, "\n"); strings.Count(text, "vllm.bf16 at 8: answers came too fast to keep 8 requests in flight: there were 1.5 on average") != 1 || strings.Count(text, "too fast") != 1 {
		t.Error(text)
	}
}

// TestDoubtedScores: why a score is doubted stands below it, and answers with reasoning are counted.
func TestDoubtedScores(t *testing.T) {
	_, scores := reporttest.Scored()
	s := &scores[0]
	s.Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because(load.CodeCutShort, "30 of 1000 answers were cut: raise max_tokens")}
	s.Accuracy.Score.Reasoned = 700
	sheet, below := ScoreSheet(scores)
	text := strings.Join(append(sheet.Lines(), below...), "\n")
	for _, want := range []string{"vllm.bf16 at 8: suspect: 30 of 1000 answers were cut: raise max_tokens", "reasoned", " 700\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	scores[0].Accuracy.Score.Reasoned = 0
	if sheet, _ := ScoreSheet(scores); strings.Contains(strings.Join(sheet.Lines(), ""), "reasoned") {
		t.Errorf("nobody has reasoned, and yet:\n%s", strings.Join(sheet.Lines(), "\n"))
	}
}

// TestOnlyReasoning: answers with neither a text nor a call are counted, also where nobody calls, as behind a dead parser.
func TestOnlyReasoning(t *testing.T) {
	_, scores := reporttest.Called()
	lines := func() string {
		sheet, _ := ScoreSheet(scores)
		return strings.Join(sheet.Lines(), "\n")
	}
	if text := lines(); strings.Contains(text, "only") {
		t.Errorf("all have answered, and yet:\n%s", text)
	}
	scores[1].Accuracy.Score = accuracy.Sum([]accuracy.Answer{{Question: "1", Mark: accuracy.Invalid, Extracted: "only reasoning", Reasoning: "hm"}})
	if text := lines(); !strings.Contains(text, "only") {
		t.Errorf("nobody has answered, and it says:\n%s", text)
	}
}

// TestCellOfScores: a cell in full says what it has asked, how each answer was marked, and what they prove.
func TestCellOfScores(t *testing.T) {
	_, scores := reporttest.Scored()
	text := reporttest.Written(t, func(w io.Writer) error { return Cell(w, scores[1].Row, figure.Found{Scores: scores}, nil, 0) })
	reporttest.Holds(t, text, "\nAsked               jsonl as hcl asks it, held against vllm.bf16 with a margin of 1 point\n", "\nRight               85.0 % (82.7 to 87.1)\n",
		"\nMarks               850 right, 150 wrong, 0 invalid, 0 cut, 0 failed\n", "\nAnswers             worse: of 1000 questions it has lost 50 and gained 0")
	text = reporttest.Written(t, func(w io.Writer) error { return Cell(w, scores[0].Row, figure.Found{Scores: scores}, nil, 0) })
	reporttest.Holds(t, text, "\nAnswers             baseline\n")
}

// TestNotesOfScores: what a reader has to know stands once: above the table where it holds of all scores, else below it with whose they are. A score of a
// start of its own says so in its row, too.
func TestNotesOfScores(t *testing.T) {
	_, scores := reporttest.Scored()
	const all, some, none = "the examples leak", "messages \"tools\" are not asked", "nobody has answered this"
	for i := range scores {
		scores[i].Accuracy.Notes = []string{all, all}
	}
	scores[1].Accuracy.Notes = append(scores[1].Accuracy.Notes, some)
	scores[2].Accuracy.Notes = append(scores[2].Accuracy.Notes, some)
	scores[2].Accuracy.Own = &results.OwnStart{Without: "SGLANG_SIMULATE_ACC_LEN", For: "d-vllm.int8"}
	void := scores[0]
	its := *void.Accuracy
	void.Summary, void.Error, void.Accuracy, its.Notes = nil, "it did not start", &its, []string{none}
	scores = append(scores, void)
	text := strings.Join(slices.Concat(scoreLines(scores, 400)...), "\n")
	markdown := bytes.Buffer{}
	scoreMarkdown(&markdown, scores)
	for _, text := range []string{text, strings.ReplaceAll(markdown.String(), "\\", "")} {
		for _, once := range []string{", " + all, "vllm.fp8 at 8 and vllm.int8 at 8: " + some,
			"vllm.int8 at 8: asked on a start of its own without SGLANG"} {
			if strings.Count(text, once) != 1 || strings.Count(text, all) != 1 || strings.Contains(text, none) {
				t.Errorf("it does not say %q once:\n%s", once, text)
			}
		}
	}
	if row := text[strings.Index(text, "\nvllm.int8"):]; !strings.HasPrefix(strings.Join(strings.Fields(row), " "), "vllm.int8 8 its own holds") {
		t.Errorf("the row is %q", row)
	}
	scores[2].Accuracy.Own = nil
	if text := strings.Join(slices.Concat(scoreLines(scores, 400)...), "\n"); strings.Contains(text, " start ") {
		t.Errorf("no score is of a start of its own, and yet:\n%s", text)
	}
}
