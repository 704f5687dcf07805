package compare

import (
	"slices"
	"strings"
	"testing"

	"hclbench/accuracy"
	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
)

// TestWorseAnswers: the gate fails for who answers worse alone, says nothing of who was not asked, and does not pass where nobody was.
func TestWorseAnswers(t *testing.T) {
	rows, scores := reporttest.Scored()
	found := figure.Found{Scores: scores}
	limit, err := ParseLimit(" accuracy  worse ")
	if err != nil {
		t.Fatal(err)
	}
	checked := found.Check(rows)
	d, err := Diff("a", checked, "b", checked, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Check([]GateLimit{limit}, nil); err != nil {
		t.Fatal(err)
	}
	var results []string
	for _, c := range d.Checks {
		results = append(results, string(c.Result))
	}
	reporttest.Check(t, "what comes of each", []string{"pass", "fail", "pass", "skipped"}, results)
	if why := d.Failing()[0].Why; !strings.Contains(why, "are worse than those of vllm.bf16") {
		t.Errorf("it fails because %q", why)
	}
	others := checked[2:] // of who is worse, no load was measured
	if d, err = Diff("a", others, "b", others, nil); err != nil {
		t.Fatal(err)
	}
	d.Answers(nil, scores)
	if err := d.Check([]GateLimit{limit}, nil); err != nil {
		t.Fatal(err)
	}
	if failing := d.Failing(); len(failing) != 1 || failing[0].Benchmark != "own" || !strings.Contains(failing[0].Why, "worse: ") {
		t.Errorf("of who was asked and not loaded it says %+v", failing)
	}
	if d, err = Diff("a", rows, "b", rows, nil); err != nil {
		t.Fatal(err)
	}
	if err := d.Check([]GateLimit{limit}, nil); err != nil || len(d.Failing()) == 0 {
		t.Errorf("where nobody was asked it passes: %+v, %v", d.Checks, err)
	}
}

// TestUndecidedAnswers: the gate passes where the questions are too few to tell, and not where something else stands in the way of a verdict,
// or where answers are missing.
func TestUndecidedAnswers(t *testing.T) {
	rows, scores := reporttest.Scored()
	limit, err := ParseLimit(Worse)
	if err != nil {
		t.Fatal(err)
	}
	held := func(c accuracy.Comparison) []results.Scored {
		all := slices.Clone(scores)
		all[1].Held = c
		return all
	}
	void := slices.Clone(scores)
	void[1].Summary = &load.Summary{}
	void[1].Summary.Verdict = load.Verdict{Verdict: load.Void, Reasons: load.Because(load.CodeNoneCompleted, "none of 9 requests completed")}
	lacks := slices.Delete(slices.Clone(scores), 1, 2)
	failing := map[string]string{}
	for name, b := range map[string][]results.Scored{
		"few":      held(accuracy.Comparison{Verdict: accuracy.NotShown, Needs: 3000, Why: []string{"it takes about 3000 questions"}}),
		"close":    held(accuracy.Comparison{Verdict: accuracy.NotShown}),
		"cut":      held(accuracy.Comparison{Verdict: accuracy.NotShown, Needs: 3000, Why: []string{"it takes about 3000 questions", "cut"}}),
		"none":     held(accuracy.Comparison{Verdict: accuracy.Unchecked, Why: []string{"it has no answers"}}),
		"no other": held(accuracy.Comparison{Verdict: accuracy.Unchecked}),
		"missing":  lacks,
		"void":     lacks,
	} {
		found := figure.Found{Scores: b}
		checked := found.Check(rows)
		d, err := Diff("a", checked, "b", checked, nil)
		if err != nil {
			t.Fatal(err)
		}
		a := scores
		if name == "void" {
			a = void
		}
		d.Answers(a, b)
		if err := d.Check([]GateLimit{limit}, nil); err != nil {
			t.Fatal(err)
		}
		failing[name] = ""
		if i := slices.IndexFunc(d.Checks, func(c Check) bool { return strings.Contains(c.Why, "void in A") }); i >= 0 {
			failing[name] = string(d.Checks[i].Result) + " " + d.Checks[i].Why
		}
		for _, c := range d.Failing() {
			failing[name] += string(c.Result) + " " + c.Cell + " " + c.Why
		}
	}
	reporttest.Check(t, "what fails", map[string]string{"few": "", "close": "", "no other": "",
		"cut":     "unknown vllm.fp8 concurrency=8 not shown: of 0 questions it has lost 0 and gained 0, which is 0.0 points (0.0 to 0.0); it may lose more than the margin of 0.0; it takes about 3000 questions; cut",
		"none":    "unknown vllm.fp8 concurrency=8 unchecked: it has no answers",
		"missing": "unknown vllm.fp8 concurrency=8 its answers are missing in B",
		"void":    "skipped it is void in A (none of 9 requests completed), and nobody has asked it in B"}, failing)
}
