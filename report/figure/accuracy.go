package figure

import (
	"fmt"
	"slices"

	"hclbench/accuracy"
	"hclbench/load"
	"hclbench/results"
)

// Check says of each row what the answers of its deployment prove, as package accuracy has decided: by the worst of all that it was
// asked. Where nobody was asked anything it says nothing. What is worse is suspect for that, so that it leads nothing.
func (f *Found) Check(rows []results.Row) []results.Row {
	if len(f.Scores) == 0 {
		return rows
	}
	rows = slices.Clone(rows)
	var worst []string
	for _, v := range accuracy.Verdicts() {
		worst = append(worst, string(v))
	}
	worst = append(worst, results.IsBase)
	for i := range rows {
		r := &rows[i]
		r.Checked, r.CallF1 = "", nil
		for j := range f.Scores {
			s := &f.Scores[j]
			if !s.IsOf(r.DeploymentID) || s.Run.Command != r.Run.Command || s.Stale || s.Accuracy.Spec.Decides() == 0 || otherImages(&s.Deployment, &r.Deployment) {
				continue
			}
			verdict := s.Standing()
			if r.Checked == "" || slices.Index(worst, verdict) < slices.Index(worst, r.Checked) {
				r.Checked = verdict
			}
			if f1, ok := s.Held.CallF1(); ok && (r.CallF1 == nil || f1 < *r.CallF1) {
				r.CallF1 = &f1
			}
			if s.Held.Verdict == accuracy.Worse && r.Verdict().Verdict != load.Void {
				doubted := *r.Summary
				doubted.Verdict.Verdict = load.Suspect
				doubted.Verdict.Reasons = append(slices.Clip(doubted.Verdict.Reasons), load.Because(load.CodeAnswers,
					fmt.Sprintf("its answers to %s are worse than those of %s: %s", s.Benchmark, s.Accuracy.Baseline, s.Held.Reason()))...)
				r.Summary = &doubted
			}
		}
		if r.Checked == "" {
			r.Checked = string(accuracy.Unchecked)
		}
	}
	return rows
}

// otherImages reports whether two starts of a deployment ran other images, as their tags have moved: who was scored is not who was timed.
func otherImages(a, b *results.Deployment) bool {
	x, y := a.All(), b.All()
	for i := range min(len(x), len(y)) {
		if x[i].Digest != "" && y[i].Digest != "" && x[i].Digest != y[i].Digest {
			return true
		}
	}
	return false
}
