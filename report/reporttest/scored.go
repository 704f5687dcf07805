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
			x.Held = accuracy.Compare(first, answers, first, accuracy.Rule{Margin: 0.01, Samples: 1})
		}
		scores = append(scores, x)
	}
	return rows, scores
}
