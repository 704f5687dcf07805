package plan

import (
	"strings"
	"testing"
	"time"

	"hclbench/accuracy"
	"hclbench/hcl"
	"hclbench/results"
)

// TestEvalPower: the plan says what its questions can show, and how many it takes.
func TestEvalPower(t *testing.T) {
	for _, x := range []struct {
		questions, samples int
		margin             float64
		says               string
		changed            *float64
		task               string
	}{
		{1319, 1, 0.01, "1319 questions, held against vllm.bf16: it may lose 1 point; where 5 % of the answers turn out otherwise and nothing is " +
			"lost, that it holds is shown with a chance of 49 %, and for 80 % it takes 3162 questions", nil, ""},
		{1319, 1, 0.02, "with a chance of 94 %", nil, ""},
		{198, 8, 0.03, "198 questions, 8 times each, held against vllm.bf16: it may lose 3 points; where 30 % of the answers turn out otherwise", nil, ""},
		{0, 1, 0.02, "as many questions as its file has, held against vllm.bf16: it may lose 2 points", nil, ""},
		{1319, 1, 0.01, "where 1.5 % of the answers turn out otherwise, as before, and nothing is lost, that it holds is shown with a chance of 88 %", new(0.015), ""},
		{198, 8, 0.03, "where 30 % of the answers turn out otherwise and", new(0.015), ""},
		{5, 1, 0, "5 questions, held against vllm.bf16: of this task there is no verdict", nil, accuracy.PromptCounts},
		{198, 2, 0.03, "198 questions, 2 times each, held against vllm.bf16: no verdict, which takes 4 answers to each: write samples = 4", nil, accuracy.GPQA},
		{198, 4, 0.03, "is shown with a chance of", nil, accuracy.GPQA},
	} {
		e := Eval{Asking: hcl.Asking{Baseline: "vllm.bf16", Margin: x.margin, Spec: accuracy.Spec{Task: x.task, Samples: x.samples}}, Questions: x.questions, Changed: x.changed}
		if got := e.String(); !strings.Contains(got, x.says) {
			t.Errorf("got %q, want %q", got, x.says)
		}
	}
}

// TestEvalTooLong: a plan whose questions are read says where the longest does not go into the engine's context with its answer.
func TestEvalTooLong(t *testing.T) {
	for context, want := range map[int]bool{0: false, 4900: true, 5000: false} {
		e := Eval{Questions: 3, Takes: 5000, Context: context}
		if got := strings.Contains(e.String(), "; the longest takes 5000 tokens with its answer, or more, and the engine has 4900: it will be refused, or cut"); got != want {
			t.Errorf("of %d tokens it says %s", context, e.String())
		}
	}
	p := New(readLab(t, `
host "h" { address = "10.0.0.1" }
model "m" { repo = "m" }
engine "vllm" "e" {
  host  = host.h
  model = model.m
  image = "vllm/vllm-openai:v0.20.0"
  flags = { max-model-len = 5000 }
}
accuracy "a" {
  engine  = engine.vllm.e
  task    = "jsonl"
  path    = "q.jsonl"
  scoring = "exact"
}`), Options{})
	if e := p.Deployments[0].Cells[0].Eval(); e == nil || e.Context != 5000 {
		t.Errorf("it knows %+v", e)
	}
}

// TestOwnStart: questions to an engine that is timed with forced acceptance are asked on a start of its own without that, one for all blocks. A cell
// knows for which deployment it answers; a rehearsal does the same. Once the lab forces nothing, the answers are there.
func TestOwnStart(t *testing.T) {
	lab := func(env string) *hcl.Config {
		asks := func(name string) string {
			return `
accuracy "` + name + `" {
  engine   = [engine.vllm.plain, engine.vllm.drafts]
  task     = "jsonl"
  path     = "` + name + `.jsonl"
  scoring  = "exact"
  baseline = engine.vllm.plain
  at       = [1]
}`
		}
		engine := func(name, more string) string {
			return `
engine "vllm" "` + name + `" {
  host  = host.h
  model = model.m
  image = "vllm/vllm-openai:v0.20.0"
  ` + more + `
}`
		}
		return readLab(t, `
host "h" { address = "10.0.0.1" }
model "m" { repo = "m" }
dataset "random" "d" { input_tokens = 16 }
benchmark "chat" {
  matrix { engine = [engine.vllm.plain, engine.vllm.drafts] }
  engine   = matrix.engine
  dataset  = dataset.random.d
  requests = 8
  load {
    concurrency   = 4
    output_tokens = 16
  }
}`+engine("plain", "")+engine("drafts", env)+asks("one")+asks("two"))
	}
	const forced = "flags = { speculative-config = jsonencode({ method = \"mtp\", num_speculative_tokens = 3, rejection_sample_method = \"synthetic\", synthetic_acceptance_length = 3.1 }) }"
	const free = "flags = { speculative-config = jsonencode({ method = \"mtp\", num_speculative_tokens = 3 }) }"
	p := New(lab(forced), Options{})
	rehearsed, err := Rehearse(lab(forced), 1, Here{Free: func(int) bool { return true }, There: func(string) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Plan{p, rehearsed} {
		if n := p.Count(); n.Deployments != 3 || n.Starts != 3 || n.Cells != 6 {
			t.Fatalf("there are %+v", n)
		}
		timed, asked := p.Deployments[1], p.Deployments[2]
		if len(timed.Cells) != 1 || len(asked.Cells) != 2 || asked.Engine.Label() != "vllm.drafts" || asked.ID == timed.ID {
			t.Errorf("%s has %d cells, %s of %s has %d", timed.ID, len(timed.Cells), asked.ID, asked.Engine.Label(), len(asked.Cells))
		}
		for _, c := range asked.Cells {
			if own := c.Eval().Accuracy().Own; own == nil || *own != (results.OwnStart{Without: "synthetic_acceptance_length", For: timed.ID}) {
				t.Errorf("cell %s is of %+v", c.ID, own)
			}
		}
		for _, c := range p.Deployments[0].Cells {
			if e := c.Eval(); e != nil && e.Own != nil {
				t.Errorf("%s has a start of its own: %+v", p.Deployments[0].Engine.Label(), e.Own)
			}
		}
		if text := printed(t, p, false); strings.Count(text, "a start of its own, for questions alone: without synthetic_acceptance_length") != 1 {
			t.Errorf("it says:\n%s", text)
		}
	}
	known := map[string]results.Known{}
	for _, c := range p.Deployments[2].Cells {
		known[c.ID] = results.Known{RunID: "run", Identity: c.Identity(), Verdict: "valid", Engine: "vllm.drafts", Finished: time.Now()}
	}
	if n := New(lab(free), Options{Known: known}).Count(); n.Deployments != 2 || n.Done != 2 {
		t.Errorf("where nothing is forced there are %+v", n)
	}
}
