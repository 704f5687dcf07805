package reporttest

import (
	"fmt"

	"hclbench/accuracy"
	"hclbench/load"
	"hclbench/results"
)

// Scored are a cell each of three deployments, of which "vllm.fp8" is fastest and answers worse than "vllm.bf16", "vllm.int8" holds,
// and "vllm.old" was not asked; and their scores.
func Scored() (rows []results.Row, scores []results.Scored) {
	marks := func(n, right int) (answers []accuracy.Answer) {
		for i := range n {
			a := accuracy.Answer{Question: fmt.Sprint(i), Mark: accuracy.Right}
			if i >= right {
				a.Mark = accuracy.Wrong
			}
			answers = append(answers, a)
		}
		return answers
	}
	first := marks(1000, 900)
	for i, name := range []string{"vllm.bf16", "vllm.fp8", "vllm.int8", "vllm.old"} {
		r := Row(name, 8, 200, 20)
		r.ID, r.DeploymentID = name, "d-"+name
		r.Summary.OutputThroughput = []float64{500, 900, 700, 400}[i]
		rows = append(rows, r)
		if name == "vllm.old" {
			continue
		}
		answers := marks(1000, []int{900, 850, 900}[i])
		x := results.Scored{Row: r, Held: accuracy.Comparison{Verdict: accuracy.Unchecked}}
		x.ID, x.Benchmark = "asked-"+name, "own"
		x.Axes = results.Axes{{Name: "engine", Value: name}, {Name: "concurrency", Value: int64(8)}}
		x.Summary = &load.Summary{}
		x.Accuracy = &results.Accuracy{Spec: accuracy.Spec{Task: "jsonl", Protocol: "hcl"}, Score: accuracy.Sum(answers), Baseline: "vllm.bf16", Margin: 0.01}
		if name != "vllm.bf16" {
			x.Held = accuracy.Compare(first, answers, accuracy.Others{Baseline: [][]accuracy.Answer{first}}, accuracy.Rule{Margin: 0.01, Samples: 1})
		}
		scores = append(scores, x)
	}
	return rows, scores
}

// Called are a cell each of two deployments that were asked to call tools: "vllm.whole" calls in 10 of 20 requests, and "vllm.hasty" in 8 of these, twice
// with arguments that are not valid, and in none of the others.
func Called() (rows []results.Row, scores []results.Scored) {
	answers := func(called, bad int) (all []accuracy.Answer) {
		for i := range 20 {
			a := accuracy.Answer{Question: fmt.Sprint(i), Mark: accuracy.Right, Extracted: "no call", Text: "No.", Finish: "stop", OutputTokens: 30}
			if i < called {
				a.Extracted, a.Text, a.Calls = "call f", "", []accuracy.Call{{Name: "f", Arguments: "{}"}}
			}
			if i < bad {
				a.Mark, a.Extracted = accuracy.Wrong, "bad call of f"
			}
			all = append(all, a)
		}
		return all
	}
	first := answers(10, 0)
	for _, name := range []string{"vllm.whole", "vllm.hasty"} {
		r := Row(name, 8, 200, 20)
		r.ID, r.DeploymentID = name, "d-"+name
		rows = append(rows, r)
		x := results.Scored{Row: r, Held: accuracy.Comparison{Verdict: accuracy.Unchecked}}
		x.ID, x.Benchmark = "asked-"+name, "tools"
		x.Axes = results.Axes{{Name: "engine", Value: name}, {Name: "concurrency", Value: int64(8)}}
		x.Summary = &load.Summary{}
		own := first
		if name == "vllm.hasty" {
			own = answers(8, 2)
			x.Held = accuracy.Compare(first, own, accuracy.Others{}, accuracy.Rule{Margin: 0.01, Samples: 1})
		}
		x.Accuracy = &results.Accuracy{Spec: accuracy.Spec{Task: accuracy.ToolCalls, Protocol: accuracy.Own, MaxTokens: 4096}, Score: accuracy.Sum(own),
			Baseline: "vllm.whole", Margin: 0.01}
		scores = append(scores, x)
	}
	return rows, scores
}
