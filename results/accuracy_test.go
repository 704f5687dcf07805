package results

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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

// TestVoidBaseline: where the baseline alone has no answers, its name and what came of it are said, be they of the same run or of the one that is named.
func TestVoidBaseline(t *testing.T) {
	s := open(t, t.TempDir())
	ctx := t.Context()
	put := func(run Run, engine, baseline, failed string) {
		t.Helper()
		c := Cell{ID: engine, RunID: run.ID, DeploymentID: engine, Benchmark: "own", Repetition: 1, Error: failed,
			Accuracy: &Accuracy{Spec: accuracy.Spec{Task: "jsonl"}, Baseline: baseline, Margin: 0.01}}
		if failed == "" {
			c.Summary, c.Accuracy.Answers = &load.Summary{}, []accuracy.Answer{{Question: "1", Mark: accuracy.Right}}
		}
		if err := errors.Join(s.PutDeployment(ctx, Deployment{ID: engine, RunID: run.ID, Engine: engine}), s.PutCell(ctx, c, nil)); err != nil {
			t.Fatal(err)
		}
	}
	begun := func(day int) Run {
		run := Run{ID: fmt.Sprintf("202611%02d-120000-aaaa", day), Lab: "lab", Command: "apply", Started: time.Date(2026, 11, day, 12, 0, 0, 0, time.UTC)}
		if err := s.BeginRun(ctx, run); err != nil {
			t.Fatal(err)
		}
		return run
	}
	first, second := begun(1), begun(2)
	put(first, "vllm.a", "vllm.a", "it did not start\nand this is its log")
	put(first, "vllm.b", "vllm.a", "")
	put(second, "vllm.c", first.ID, "")
	for run, want := range map[string]string{
		first.ID:  "its baseline vllm.a has no answers: it did not start",
		second.ID: "",
	} {
		all, err := s.Scored(ctx, Query{Run: run}, nil)
		if err != nil {
			t.Fatal(err)
		}
		x := all[len(all)-1]
		if want == "" { // of a run with several engines none is its baseline
			want = "there are no answers of " + first.ID + " to it"
		}
		if x.Held.Verdict != accuracy.Unchecked || !slices.Equal(x.Held.Why, []string{want}) || !x.Held.Barred() {
			t.Errorf("%s is %s: %q, want %q", x.Deployment.Engine, x.Held.Verdict, x.Held.Why, want)
		}
	}
	third := begun(3)
	put(third, "vllm.a", "", "it was lost")
	fourth := begun(4)
	put(fourth, "vllm.a", third.ID, "")
	all, err := s.Scored(ctx, Query{Run: fourth.ID}, nil)
	if want := "its baseline vllm.a of run " + third.ID + " has no answers: it was lost"; err != nil || !slices.Equal(all[0].Held.Why, []string{want}) {
		t.Errorf("%q, %v; want %q", all[0].Held.Why, err, want)
	}
	fifth := begun(5)
	put(fifth, "vllm.a", "vllm.a", "")
	if all, err := s.Scored(ctx, Query{Lab: "lab", Latest: true}, nil); err != nil || !slices.ContainsFunc(all, func(x Scored) bool {
		return x.Deployment.Engine == "vllm.b" && x.Baseline != nil && x.Baseline.RunID == fifth.ID
	}) {
		t.Errorf("the newest answers do not count: %+v, %v", all, err)
	}
}

// TestDrawnAnswers: engines that are batch invariant answer alike where answers are not drawn: of those that are, another one is no sign of anything.
func TestDrawnAnswers(t *testing.T) {
	s := open(t, t.TempDir())
	ctx := t.Context()
	run := Run{ID: "20261124-120000-aaaa", Lab: "lab", Command: "apply"}
	if err := s.BeginRun(ctx, run); err != nil {
		t.Fatal(err)
	}
	for benchmark, spec := range map[string]accuracy.Spec{"likeliest": {Task: accuracy.MMLU}, "drawn": {Task: accuracy.MMLU, Protocol: accuracy.SimpleEvals}} {
		for _, engine := range []string{"vllm.a", "vllm.b"} {
			c := Cell{ID: benchmark + engine, RunID: run.ID, DeploymentID: engine, Benchmark: benchmark, Repetition: 1, Summary: &load.Summary{}, Accuracy: &Accuracy{Spec: spec,
				Baseline: "vllm.a", Margin: 0.01, Answers: []accuracy.Answer{{Question: "1", Mark: accuracy.Right, Text: "A, says " + engine}}}}
			if err := errors.Join(s.PutDeployment(ctx, Deployment{ID: engine, RunID: run.ID, Engine: engine, Identity: map[string]string{"env VLLM_BATCH_INVARIANT": "1"}}),
				s.PutCell(ctx, c, nil)); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := s.Scored(ctx, Query{Run: run.ID}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		if said := strings.Contains(x.Held.String(), "it is no chance"); x.Baseline != nil && said != (x.Benchmark == "likeliest") {
			t.Errorf("%s: %s", x.Benchmark, x.Held)
		}
	}
}
