package accuracy_test

import (
	"slices"
	"testing"

	"hclbench/accuracy"
	"hclbench/plain"
)

// FuzzMark: whatever is answered, each protocol marks it, and what is stored of it can be printed.
func FuzzMark(f *testing.F) {
	for _, reply := range []string{"", "#### 18", `\boxed{\frac1{2}}`, "Answer: (B)", "$\\sqrt$", "The answer is \n", "ANSWER: A and", "1e99999", "\xff\x1b[2J"} {
		f.Add(reply, "stop")
	}
	var sets []*accuracy.Set
	for _, task := range accuracy.Tasks() {
		for _, protocol := range task.Protocols() {
			if _, public := files[task.Name]; public {
				sets = append(sets, made(f, accuracy.Spec{Task: task.Name, Protocol: protocol}))
			}
		}
	}
	for scoring, line := range map[string]string{"exact": `{"question":"?","answer":"1"}`, "numeric": `{"question":"?","answer":"1"}`,
		"choice": `{"question":"?","answer":"1","choices":["1","2"]}`} {
		sets = append(sets, own(f, accuracy.Spec{Scoring: scoring}, line))
	}
	f.Fuzz(func(t *testing.T, reply, finish string) {
		for _, set := range sets {
			a := set.Mark(0, accuracy.Reply{Text: reply, Finish: finish})
			if !slices.Contains([]accuracy.Mark{accuracy.Right, accuracy.Wrong, accuracy.Invalid, accuracy.Cut}, a.Mark) {
				t.Errorf("%s by %s: %q is %q", set.Spec.Task, set.Spec.Protocol, reply, a.Mark)
			}
			if stored := a.Extracted + a.Text + a.Finish; stored != plain.Text(stored) {
				t.Errorf("%s by %s: stores %q", set.Spec.Task, set.Spec.Protocol, stored)
			}
		}
	})
}
