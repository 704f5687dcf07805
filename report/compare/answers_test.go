package compare

import (
	"strings"
	"testing"

	"hclbench/report/figure"
	"hclbench/report/reporttest"
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
	d.Answers(scores)
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
