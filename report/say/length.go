package say

import (
	"fmt"

	"hclbench/load"
	"hclbench/report/chart"
	"hclbench/report/figure"
	"hclbench/results"
)

// Lengths says whose answers are shorter than those of others of the same model under the same load, or end otherwise, where the model
// ends them: a server that says less is faster for that alone. Of each series it says the worst.
func Lengths(rows []results.Row, layout *figure.Layout) (sentences []string) {
	all := figure.NewSeries(rows, layout.Series)
	free := figure.Those(rows, func(r *results.Row) bool {
		return figure.IsMeasured(r) && !r.Stale && r.Summary != nil && r.Job.Batch == nil && !r.Job.Workload.IgnoreEOS &&
			r.Summary.Completed > 0 && r.Summary.Knows("output_tokens") && r.Summary.Knows("completed")
	})
	type worst struct {
		who, than *chart.Series
		by        float64
		ends      [2]float64
	}
	var found []worst
	type work struct {
		load  figure.Load
		model string
	}
	for _, cells := range figure.Grouped(free, func(r *results.Row) work { return work{figure.LoadOf(r, nil), r.Deployment.Model} }) {
		sums := figure.Grouped(cells, func(r *results.Row) *chart.Series { return all.Find(r) })
		for _, own := range sums {
			for _, other := range sums {
				a, b := together(own), together(other)
				w := worst{all.Find(own[0]), all.Find(other[0]), a.Shorter(&b), [2]float64{ended(&a), ended(&b)}}
				if longer := b.Shorter(&a) > 0; w.by == 0 && (longer || !a.EndsOtherwise(&b) || w.ends[0] > w.ends[1]) {
					continue // nothing, or it is said of the other
				}
				at := len(found)
				for i := range found {
					if found[i].who == w.who {
						at = i
					}
				}
				if at == len(found) {
					found = append(found, w)
				} else if w.by > found[at].by {
					found[at] = w
				}
			}
		}
	}
	for _, w := range found {
		if w.by > 0 {
			sentences = append(sentences, fmt.Sprintf("Answers of %s are %.0f %% shorter than those of %s under the same load: "+
				"their speeds are of other work, and one of the two may answer wrong.", w.who.Label, 100*w.by, w.than.Label))
			continue
		}
		sentences = append(sentences, fmt.Sprintf("%.0f %% of the answers of %s end before their length does, and %.0f %% of those of %s "+
			"under the same load: one of the two may answer wrong.", 100*w.ends[0], w.who.Label, 100*w.ends[1], w.than.Label))
	}
	return sentences[:min(len(sentences), maxFindings)]
}

// together is what repetitions of a cell have counted of their answers.
func together(cells []*results.Row) (sum load.Figures) {
	for _, r := range cells {
		f := &r.Summary.Figures
		sum.Completed += f.Completed
		sum.OutputTokens += f.OutputTokens
		sum.EndedEarly += f.EndedEarly
		sum.UsageMissing += f.UsageMissing
	}
	return sum
}

func ended(f *load.Figures) float64 { return float64(f.EndedEarly) / float64(max(1, f.Completed)) }
