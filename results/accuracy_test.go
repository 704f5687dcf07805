package results

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/accuracy"
	"hclbench/load"
)

// TestAnswers keeps a cell that asks questions beside those that measure: neither is in an answer of the other, its answers are
// those that were put, and an attempt that brought none leaves none.
func TestAnswers(t *testing.T) { everywhere(t, testAnswers) }

func testAnswers(t *testing.T, place string) {
	s := open(t, place)
	ctx := t.Context()
	run := Run{ID: "20261124-120000-aaaa", Lab: "lab", Command: "apply"}
	if err := s.BeginRun(ctx, run); err != nil {
		t.Fatal(err)
	}
	if err := s.PutDeployment(ctx, Deployment{ID: "d", RunID: run.ID}); err != nil {
		t.Fatal(err)
	}
	answers := []accuracy.Answer{
		{Question: "1", Mark: accuracy.Right, Extracted: "7", Text: "7 <b>"},
		{Question: "2", Mark: accuracy.Cut, Text: "so", Finish: "length"},
	}
	asked := Cell{ID: "a", RunID: run.ID, DeploymentID: "d", Benchmark: "own", Repetition: 1, Accuracy: &Accuracy{
		Spec: accuracy.Spec{Task: "jsonl"}, Score: accuracy.Sum(answers), Baseline: "vllm.bf16", Margin: 0.01, Answers: answers}}
	for _, c := range []Cell{asked, {ID: "b", RunID: run.ID, DeploymentID: "d", Benchmark: "chat", Repetition: 1}} {
		if err := s.PutCell(ctx, c, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range []struct {
		Query
		want string
	}{{Query{Run: run.ID}, "b"}, {Query{Run: run.ID, Asked: true}, "a"}, {Query{Latest: true, Asked: true}, "a"}} {
		rows, err := s.Rows(ctx, q.Query)
		if err != nil || len(rows) != 1 || rows[0].ID != q.want {
			t.Fatalf("%+v selects %v, %v; want %s", q.Query, rows, err, q.want)
		}
		if q.Asked && rows[0].Accuracy.Score != asked.Accuracy.Score {
			t.Errorf("the score is %+v, want %+v", rows[0].Accuracy.Score, asked.Accuracy.Score)
		}
	}
	got, err := s.Answers(ctx, run.ID, "a")
	if diff := cmp.Diff(answers, got); err != nil || diff != "" {
		t.Errorf("the answers (-put +got), %v:\n%s", err, diff)
	}
	asked.Accuracy = &Accuracy{Spec: asked.Accuracy.Spec}
	if err := s.PutCell(ctx, asked, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Answers(ctx, run.ID, "a"); err != nil || got != nil {
		t.Errorf("answers are left of another attempt: %v, %v", got, err)
	}
}

// TestHeldAgainstItself: a start of the same engine that answers worse than a stored run is worse. It is not the second start of its baseline.
func TestHeldAgainstItself(t *testing.T) {
	s := open(t, t.TempDir())
	ctx := t.Context()
	ids := []string{"20261123-120000-aaaa", "20261124-120000-bbbb"}
	for i, id := range ids {
		var answers []accuracy.Answer
		for q := range 200 {
			a := accuracy.Answer{Question: fmt.Sprint(q), Mark: accuracy.Right}
			if i == 1 && q < 60 {
				a.Mark = accuracy.Wrong
			}
			answers = append(answers, a)
		}
		c := Cell{ID: "a", RunID: id, DeploymentID: "d", Benchmark: "own", Repetition: 1, Summary: &load.Summary{}, Accuracy: &Accuracy{
			Spec: accuracy.Spec{Task: "jsonl"}, Score: accuracy.Sum(answers), Baseline: []string{"", ids[0]}[i], Margin: 0.01, Answers: answers}}
		if err := errors.Join(s.BeginRun(ctx, Run{ID: id, Lab: "lab", Command: "apply"}),
			s.PutDeployment(ctx, Deployment{ID: "d", RunID: id, Engine: "vllm.a"}), s.PutCell(ctx, c, nil)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.Scored(ctx, Query{Run: ids[1]}, nil)
	if err != nil || len(all) != 1 || all[0].Held.Verdict != accuracy.Worse {
		t.Errorf("it says %+v, %v", all, err)
	}
}
