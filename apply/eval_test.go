package apply

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hclbench/accuracy"
	"hclbench/hcl"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/results"
)

// TestMark: no half of a secret stays where an answer is cut to be kept, and an answer whose end is not known is failed, not marked.
func TestMark(t *testing.T) {
	const secret = "sk-0123456789abcdef"
	set, err := accuracy.New(accuracy.Spec{Task: accuracy.JSONL, Path: "q.jsonl"}, strings.NewReader(`{"question": "?", "answer": "7"}`+"\n"+`{"question": "!", "answer": "7"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	run := &run{keep: &keeper{secrets: plain.NewSecrets(secret)}}
	m := &measurement{t: &trial{run: run}, cell: &plan.Cell{Task: &plan.Eval{}}, tell: teller{to: func(Event) {}}}
	m.out.Accuracy, m.out.Summary = &results.Accuracy{}, &load.Summary{}
	text := strings.Repeat("x", accuracy.MaxText/4-8) + secret + strings.Repeat("y", accuracy.MaxText)
	doubts := (&asking{set: set}).mark(m, []load.Record{{Said: &load.Said{Text: text}}, {Seq: 1, Said: &load.Said{Text: "7", Cut: true}}})
	answers := m.out.Accuracy.Answers
	if len(answers) != 2 || doubts != nil || !answers[0].Short || strings.Contains(answers[0].Text, "sk-") {
		t.Fatalf("it keeps %d answers, doubts %v, around the cut %.80q", len(answers), doubts, answers[0].Text[accuracy.MaxText/4-20:])
	}
	if a := answers[1]; a.Mark != accuracy.Failed || !strings.Contains(a.Error, "4 MiB") {
		t.Errorf("an answer without an end is %s: %q", a.Mark, a.Error)
	}
	if slices.ContainsFunc(answers, func(a accuracy.Answer) bool { return a.Mark == accuracy.Right }) {
		t.Error("one of them is right")
	}
}

// TestOtherPrompts: prompts of which the server counts other tokens put a doubt on what was asked, with both counts.
func TestOtherPrompts(t *testing.T) {
	tokens, err := os.Open("../testdata/tokenizers/llama3-shaped.json")
	if err != nil {
		t.Fatal(err)
	}
	defer tokens.Close()
	set, err := accuracy.New(accuracy.Spec{Task: accuracy.PromptCounts, Path: "chat_template.jinja", ShotsPath: "tokenizer.json"},
		strings.NewReader("{% for m in messages %}{{ m.content }}{% endfor %}"), tokens)
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []int{0, 1} {
		m := &measurement{t: &trial{run: &run{keep: &keeper{secrets: plain.NewSecrets()}}}, cell: &plan.Cell{Task: &plan.Eval{}}, tell: teller{to: func(Event) {}}}
		m.out.Accuracy, m.out.Summary = &results.Accuracy{}, &load.Summary{}
		var records []load.Record
		for i, q := range set.Questions {
			n, err := strconv.Atoi(q.Right[0])
			if err != nil {
				t.Fatal(err)
			}
			records = append(records, load.Record{Seq: i, InputTokens: n + more, Said: &load.Said{Text: "a"}})
		}
		doubts := (&asking{set: set}).mark(m, records)
		if more == 0 && doubts != nil || more == 1 && (len(doubts) != 1 || doubts[0].Code != load.CodePrompts ||
			!strings.Contains(doubts[0].Text, `5 of 5 prompts are not counted as the model's chat template and tokenizer have them ("user": `)) {
			t.Errorf("%d more tokens: %+v", more, doubts)
		}
	}
}

// TestOtherFile: of a file that is not what the lab says nobody claims that it was changed.
func TestOtherFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "q.jsonl"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := accuracy.Spec{Task: accuracy.JSONL, Path: "q.jsonl", SHA256: strings.Repeat("0", 64)}
	_, err := Questions(&plan.Eval{Asking: hcl.Asking{Spec: spec}}, func(path string) string { return filepath.Join(dir, path) })
	if err == nil || !strings.Contains(err.Error(), "q.jsonl is another file than is planned: its sha256 is ca3d") || !strings.Contains(err.Error(), ", and not 0000") {
		t.Errorf("it says %v", err)
	}
}

// TestOfAnswers: how fast a generator was says nothing of answers; that some are missing does.
func TestOfAnswers(t *testing.T) {
	v := load.Verdict{Verdict: load.Suspect, Reasons: []load.Reason{{Code: "starved"}, {Code: "read-lag", Metrics: []string{"ttft"}}, {Code: load.CodeFailed}}}
	if ofAnswers(&v); v.Verdict != load.Suspect || len(v.Reasons) != 1 || v.Reasons[0].Code != load.CodeFailed {
		t.Errorf("got %+v, want what failed alone", v)
	}
	v.Reasons = []load.Reason{{Code: "fell-behind"}}
	if ofAnswers(&v); v.Verdict != load.Valid || len(v.Reasons) != 0 {
		t.Errorf("got %+v, want no doubt", v)
	}
}
