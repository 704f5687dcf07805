package say

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"hclbench/plain"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/results"
	"hclbench/tune"
)

// TuningOf is what a tuning is about: "output_throughput of benchmark chat, begins with vllm.h200".
func TuningOf(s *tune.Summary) string {
	return fmt.Sprintf("%s of benchmark %s, begins with %s", s.Figure, s.Objective, s.Start)
}

// Tuned is the answer of a tuning as a finding.
func Tuned(t *figure.Tuning) string {
	return "Tuning " + t.Summary.Tune + ", " + Lower(TuningVerdict(t.Summary))
}

// TuningVerdict is what is certain of a tuning: who is best by how much, or why nobody is, of how many, at what price.
func TuningVerdict(s *tune.Summary) string {
	name := func(c tune.Candidate) string {
		if i := s.Place(c); i > 0 && s.Candidates[i-1].Altered != "" {
			return fmt.Sprintf("%s (altered by %s)", c.Settings(), s.Candidates[i-1].Altered)
		}
		return c.Settings()
	}
	over := "the next" // of an earlier hcl, which says no more
	if s.Next != nil {
		if over = name(*s.Next); s.Next.IsBaseline() {
			over = "the start"
		}
	}
	text := "No winner: " + s.Why + "."
	tells := s.Floor == nil || *s.Floor <= 1 // beyond, a figure of it would say less than nothing
	switch {
	case s.Winner != nil && s.Floor != nil:
		text = fmt.Sprintf("Best: %s, by %.1f %% over %s, where %.1f %% would have counted%s.", name(*s.Winner), 100*s.Lead, over, 100**s.Floor, gain(s))
	case s.Left != nil:
		text = fmt.Sprintf("No winner: %s stays the best of those tried, as %s.", name(*s.Left), s.Why)
	case len(s.Tied) > 0 && s.Floor != nil && s.Lead <= *s.Floor:
		var names []string
		for _, c := range s.Tied {
			names = append(names, name(c))
		}
		if !tells {
			text = fmt.Sprintf("No winner: starts of the same lie so far apart that the finals of %s tell nothing.", plain.List(names, "and"))
			break
		}
		text = fmt.Sprintf("No winner: %s are tied, less than %.1f %% apart; the first has the fewest settings of its own.", plain.List(names, "and"), 100**s.Floor)
	}
	if s.Winner != nil && s.Candidates[s.Place(*s.Winner)-1].Unproved != "" {
		text += " That its answers hold is not shown."
	}
	if s.Winner == nil && s.Leader != nil {
		text += fmt.Sprintf(" Ahead in the finals, be it by luck: %s, by %.1f %% over %s%s.", name(*s.Leader), 100*s.Lead, over, gain(s))
	}
	if s.Shows != nil && tells {
		text += fmt.Sprintf(" Such finals show a difference of %.1f %% nine times in ten.", 100**s.Shows)
	}
	text += fmt.Sprintf(" Best of %d tried of %d. Two starts of the same lie %.1f %% apart (one standard deviation). It took %s and %s", s.Tried, s.Of,
		100*s.Noise, number.Count(s.Starts, "start"), time.Duration(s.Seconds*float64(time.Second)).Round(time.Second))
	if s.Cost > 0 {
		text += fmt.Sprintf(", $%.2f", s.Cost)
	}
	return text + "."
}

// gain is how far from the start the leader is, where its lead is not over that: "; +13 % (+11 % to +14 %) against the start".
func gain(s *tune.Summary) string {
	g := s.Gain
	if g == nil || s.Next != nil && s.Next.IsBaseline() {
		return ""
	}
	text := "; " + number.Change(g.Value-1)
	switch {
	case g.High > 100*g.Low:
		text += " (no bounds)"
	case g.High > g.Low:
		text += fmt.Sprintf(" (%s to %s)", number.Change(g.Low-1), number.Change(g.High-1))
	}
	if text += " against the start"; s.Candidates[0].Finals == nil {
		text += " as A/A has measured it"
	}
	return text
}

// Why is why a candidate has its fate, as far as there is more to say than that, and what is not shown of its accuracy.
func Why(c *tune.Standing) string {
	if c.Unproved == "" {
		return c.Why
	}
	return figure.ListedWith("; ", c.Why, "accuracy "+c.Accuracy+", which excludes nobody: "+c.Unproved)
}

// ChecksText is what the answers of a start prove, at each concurrency at which it was asked: "holds, not shown".
func ChecksText(s results.Tried) string {
	var all []string
	for _, c := range s.Checks {
		all = append(all, cmp.Or(string(c.Verdict), tune.Baseline))
	}
	return strings.Join(all, ", ")
}

// EstimateText is a figure with its interval, "917 (916 to 918)"; empty: there is none. Few starts that lie far apart bound nothing: so
// it says, where the interval is a hundredfold.
func EstimateText(e *tune.Estimate) string {
	switch {
	case e == nil:
		return ""
	case e.High <= e.Low:
		return number.Text(e.Value)
	case e.High > 100*e.Low:
		return number.Text(e.Value) + " (no bounds)"
	}
	return fmt.Sprintf("%s (%s to %s)", number.Text(e.Value), number.Text(e.Low), number.Text(e.High))
}

// PhaseText is what a start is for: "A/A", "stage batching", "second look", "final 2".
func PhaseText(s results.Tried) string {
	switch {
	case s.Phase == tune.Search && s.Stage == "":
		return "proposed"
	case s.Phase == tune.Search:
		return "stage " + s.Stage
	case s.Phase == tune.Again:
		return "second look"
	case s.Phase == tune.Final:
		return fmt.Sprintf("final %d", s.Round)
	}
	return string(s.Phase)
}
