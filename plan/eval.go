package plan

import (
	"fmt"
	"strings"

	"hclbench/accuracy"
	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/plain"
	"hclbench/results"
)

// Eval asks the deployment the questions of a task, at one concurrency, and keeps the answers. Its workload is how they are
// sent; which they are, and how many, is in their file.
type Eval struct {
	Load
	hcl.Asking
	Against   []results.Asker   // whose answers its own are held against, where the very starts are known
	Own       *results.OwnStart // that it is asked on; nil: it is asked on that of its loads
	Questions int               // as many as the file has, where somebody has read it; 0: nobody has
	Takes     int               // tokens of its longest prompt and answer, at least, where somebody has read it; 0: nobody has
	Context   int               // tokens that the engine has for both, as far as it says; 0: it does not
	// Changed is the part of the answers that were right of one of the two alone when they were asked last; nil: they were not.
	Changed *float64
}

// newEval asks what the lab says, of the files that the load has.
func newEval(of Load, asks hcl.Asking, e *engines.Engine) *Eval {
	d := of.Workload.Dataset
	asks.Spec.SHA256, asks.Spec.ShotsSHA256 = d.SHA256, d.ShotsSHA256
	context, _, _ := engines.MaxContext(e)
	return &Eval{Load: of, Asking: asks, Context: context}
}

// Eval is the cell's task when it is one; else nil.
func (c *Cell) Eval() *Eval {
	e, _ := c.Task.(*Eval)
	return e
}

// asked is what of a spec can change an answer, but for the files, which are the workload's.
func asked(s accuracy.Spec) map[string]string {
	s.Path, s.SHA256, s.ShotsPath, s.ShotsSHA256 = "", "", "", ""
	return results.MembersOf(s)
}

// Accuracy is the task as results keep it, without answers.
func (e *Eval) Accuracy() *results.Accuracy {
	return &results.Accuracy{Spec: e.Spec, Baseline: e.Baseline, Margin: e.Margin, Against: e.Against, Own: e.Own}
}

// words implement [Task].
func (e *Eval) words() []string {
	s := e.Spec
	words := []string{s.Task + " as " + s.Protocol + " asks it"}
	if s.Scoring != "" {
		words = append(words, s.Scoring+" answers")
	}
	if s.Shots != nil && *s.Shots > 0 {
		words = append(words, plain.Count(*s.Shots, "example"))
	}
	if s.Samples > 1 {
		words = append(words, plain.Count(s.Samples, "sample")+" of each")
	}
	return append([]string{strings.Join(words, ", ")}, e.Workload.Told()...)
}

// String is how many questions there are, and what they can show: "1,319 questions, held against vllm.bf16: …".
func (e *Eval) String() string {
	if e.Context > 0 && e.Takes > e.Context {
		return fmt.Sprintf("%s; the longest takes %d tokens with its answer, or more, and the engine has %d: it will be refused, or cut", e.shows(), e.Takes, e.Context)
	}
	return e.shows()
}

// shows is [Eval.String] without what stands in the way.
func (e *Eval) shows() string {
	questions := "as many questions as its file has"
	if e.Questions > 0 {
		questions = plain.Count(e.Questions, "question")
	}
	if e.Spec.Task == accuracy.NextToken {
		questions = strings.Replace(questions, "question", "text", 1)
	}
	if e.Spec.Samples > 1 {
		questions += fmt.Sprintf(", %d times each", e.Spec.Samples)
	}
	takes := e.Spec.Decides()
	switch {
	case e.Baseline == "":
		return questions + ", held against nothing"
	case e.Spec.Task == accuracy.NextToken:
		return questions + ": KL divergence of the next token from that of " + e.Baseline
	case takes == 0:
		return questions + ", held against " + e.Baseline + ": of this task there is no verdict"
	case e.Spec.Samples < takes:
		return fmt.Sprintf("%s, held against %s: no verdict, which takes %d answers to each: write samples = %[3]d", questions, e.Baseline, takes)
	}
	text := fmt.Sprintf("%s, held against %s: it may lose %s", questions, e.Baseline, accuracy.Points(e.Margin))
	if e.Questions > 0 {
		d := accuracy.Design{Questions: e.Questions, Samples: e.Spec.Samples, Margin: e.Margin}.Guessed()
		before := ""
		if e.Changed != nil && e.Spec.Samples <= 1 {
			d.Discordance, before = *e.Changed, ", as before,"
		}
		text += fmt.Sprintf("; where %.2g %% of the answers turn out otherwise%s and nothing is lost, that it holds is shown with a chance of %.0f %%",
			100*d.Discordance, before, 100*d.Power())
		if need := d.Needed(); need > e.Questions {
			text += fmt.Sprintf(", and for 80 %% it takes %s", plain.Count(need, "question"))
		}
	}
	return text
}

// Block is what the lab calls the block that the cell is of.
func (c *Cell) Block() string {
	if c.Eval() != nil {
		return "accuracy"
	}
	return "benchmark"
}
