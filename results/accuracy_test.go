package results

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

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

// TestHeldByThen: a run is held against the newest answers of its baseline that had begun by then, and by nothing later; of the lab the
// newest count. A baseline without answers is none, a run that is its own baseline is held against nothing.
func TestHeldByThen(t *testing.T) {
	s := open(t, t.TempDir())
	ctx := t.Context()
	put := func(day int, engine string, right int, summary *load.Summary) string {
		t.Helper()
		id := fmt.Sprintf("202611%02d-120000-aaaa", day)
		c := Cell{ID: engine, RunID: id, DeploymentID: engine, Benchmark: "own", Repetition: 1, Summary: summary, Error: "it did not start",
			Finished: time.Date(2026, 11, day, 13, 0, 0, 0, time.UTC),
			Accuracy: &Accuracy{Spec: accuracy.Spec{Task: "jsonl"}, Baseline: "vllm.a", Margin: 0.01}}
		if summary != nil {
			c.Error = ""
			for q := range 300 {
				a := accuracy.Answer{Question: fmt.Sprint(q), Mark: accuracy.Right}
				if q >= right {
					a.Mark = accuracy.Wrong
				}
				c.Accuracy.Answers = append(c.Accuracy.Answers, a)
			}
		}
		if err := errors.Join(s.BeginRun(ctx, Run{ID: id, Lab: "lab", Command: "apply", Started: time.Date(2026, 11, day, 12, 0, 0, 0, time.UTC)}),
			s.PutDeployment(ctx, Deployment{ID: engine, RunID: id, Engine: engine}), s.PutCell(ctx, c, nil)); err != nil {
			t.Fatal(err)
		}
		return id
	}
	put(1, "vllm.a", 300, &load.Summary{})
	second := put(2, "vllm.b", 300, &load.Summary{})
	later := put(3, "vllm.a", 295, &load.Summary{})
	broken := put(4, "vllm.a", 0, nil)
	for _, x := range []struct {
		q    Query
		cell string
		want string
	}{
		{Query{Run: second}, "vllm.b", "holds, and gains 0"},
		{Query{Lab: "lab", Latest: true}, "vllm.b", "not shown, and gains 5"},
		{Query{Run: later}, "vllm.a", "baseline, and gains 0"},
		{Query{Run: broken}, "vllm.a", "unchecked, and gains 0"},
	} {
		all, err := s.Scored(ctx, x.q, nil)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(s Scored) bool { return s.ID == x.cell })
		if i < 0 {
			t.Fatalf("%+v: %s has no score", x.q, x.cell)
		}
		if got := fmt.Sprintf("%s, and gains %.0f", all[i].Standing(), all[i].Held.Gained); got != x.want {
			t.Errorf("%+v: %s %s, want %s", x.q, x.cell, got, x.want)
		}
	}
	now := map[string]Cell{"vllm.b": {Benchmark: "own", Accuracy: &Accuracy{Baseline: second, Margin: 0.01}}}
	if all, err := s.Scored(ctx, Query{Run: second}, now); err != nil || all[0].Standing() != IsBase {
		t.Errorf("held against itself: %+v, %v", all, err)
	}
}
