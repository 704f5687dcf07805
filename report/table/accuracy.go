package table

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hclbench/accuracy"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/results"
)

// scoreLines say what answers are worth, a table for each block that asks, and below it what they prove beside those of the baseline.
func scoreLines(all []results.Scored, width int) (blocks [][]string) {
	for _, of := range figure.Grouped(all, func(s results.Scored) string { return s.Benchmark }) {
		sheet, below := ScoreSheet(of)
		if dropped := sheet.Fit(width); len(dropped) > 0 {
			below = append(below, fmt.Sprintf("Left out to fit %d columns: %s", width, strings.Join(dropped, ", ")))
		}
		blocks = append(blocks, plain.Wrap(titled(of), ", ", width), sheet.Lines())
		for _, text := range below {
			blocks = append(blocks, plain.Wrap(plain.Words(text), " ", width))
		}
	}
	return blocks
}

// scoreMarkdown writes what [scoreLines] says.
func scoreMarkdown(b *bytes.Buffer, all []results.Scored) {
	for _, of := range figure.Grouped(all, func(s results.Scored) string { return s.Benchmark }) {
		sheet, below := ScoreSheet(of)
		for i, text := range titled(of) {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(MarkdownText(text))
		}
		b.WriteString("\n\n")
		sheet.Markdown(b)
		for _, text := range below {
			fmt.Fprintf(b, "\n%s\n", MarkdownText(text))
		}
		b.WriteByte('\n')
	}
}

// titled are the words for a block, and for what it asks.
func titled(of []results.Scored) []string {
	return append([]string{"accuracy " + of[0].Benchmark}, Asked(of)...)
}

// Asked are the words for what the cells of a block were asked, but for its name, and what a reader has to know of all of them.
func Asked(of []results.Scored) []string {
	s := &of[0]
	p := s.Accuracy.Spec
	words := []string{p.Task + " as " + p.Protocol + " asks it"}
	if p.Scoring != "" {
		words = append(words, p.Scoring+" answers")
	}
	if p.Shots != nil && *p.Shots > 0 {
		words = append(words, plain.Count(*p.Shots, "example"))
	}
	if p.Samples > 1 {
		words = append(words, fmt.Sprintf("%d samples of each question", p.Samples))
	}
	if p.MaxTokens > 1 {
		words = append(words, "answers of up to "+number.Whole(int64(p.MaxTokens))+" tokens")
	}
	if b := s.Accuracy.Baseline; b != "" {
		words = append(words, "held against "+b)
		if s.Accuracy.Margin > 0 {
			words[len(words)-1] += " with a margin of " + accuracy.Points(s.Accuracy.Margin)
		}
	}
	ofAll, _ := notes(of)
	return append(words, ofAll...)
}

// notes are what a reader has to know of scores: of all of a block, and of some, with whose they are. Each stands once.
func notes(of []results.Scored) (ofAll, ofSome []string) {
	var order []string
	whose, met, scored := map[string][]string{}, map[string]int{}, 0
	for i := range of {
		s := &of[i]
		if s.Summary == nil {
			continue // nobody has answered
		}
		scored++
		said := slices.Clone(s.Accuracy.Notes)
		if own := s.Accuracy.Own; own != nil {
			said = append(said, own.String())
		}
		for _, note := range figure.Once(nil, said...) {
			if met[note]++; met[note] == 1 {
				order = append(order, note)
			}
			whose[note] = figure.Once(whose[note], cellName(s))
		}
	}
	for _, note := range order {
		if met[note] == scored {
			ofAll = append(ofAll, note)
		} else {
			ofSome = append(ofSome, plain.List(whose[note], "and")+": "+note)
		}
	}
	return ofAll, ofSome
}

// cellName is "vllm.fp8 at 64".
func cellName(s *results.Scored) string {
	if at, ok := s.Axes.Value("concurrency"); ok {
		return fmt.Sprintf("%s at %v", s.Deployment.Engine, at)
	}
	return s.Deployment.Engine // others have asked, and do not say
}

// ScoreSheet is the table of a block's cells, and what they prove, in words.
func ScoreSheet(of []results.Scored) (*Sheet, []string) {
	var models []string
	_, below := notes(of)
	for i := range of {
		s := &of[i]
		name := cellName(s)
		if at, ok := s.Axes.Value("concurrency"); ok && s.Summary != nil && s.Summary.MeanConcurrency > 0 {
			if n, ok := at.(int64); ok && 2*s.Summary.MeanConcurrency < float64(n) {
				below = append(below, fmt.Sprintf("%s: answers came too fast to keep %d requests in flight: there were %.1f on average", name, n, s.Summary.MeanConcurrency))
			}
		}
		switch {
		case s.Summary == nil && s.Held.Why == nil:
			below = append(below, name+": no score: "+s.Verdict().Texts()[0])
		case s.Verdict().Verdict == load.Suspect:
			below = append(below, name+": "+s.Verdict().String())
		}
		if s.Held.Reason() != "" {
			below = append(below, name+": "+s.Held.String())
		}
		if models = append(models, s.Deployment.Model); slices.Index(models, s.Deployment.Model) == i {
			for _, p := range s.Accuracy.Spec.Beside(s.Deployment.Model) {
				below = append(below, "Published, which is no verdict: "+p.String())
			}
		}
	}
	known := func(name string, weight int, say func(s *results.Scored) string) Column {
		return Column{Name: name, weight: weight}.filled(len(of), func(i int) string {
			if of[i].Summary == nil {
				return ""
			}
			return say(&of[i])
		})
	}
	count := func(name string, n func(accuracy.Score) int) Column {
		return known(name, 50, func(s *results.Scored) string { return fmt.Sprint(n(s.Accuracy.Score)) })
	}
	columns := []Column{
		Column{Name: "engine", Left: true, weight: 100}.filled(len(of), func(i int) string { return of[i].Deployment.Engine }),
		Column{Name: "concurrency", weight: 90}.filled(len(of), func(i int) string {
			if at, ok := of[i].Axes.Value("concurrency"); ok {
				return fmt.Sprint(at)
			}
			return "" // others have asked, and do not say
		}),
	}
	if slices.ContainsFunc(of, func(s results.Scored) bool { return s.Accuracy.Own != nil }) {
		columns = append(columns, Column{Name: "start", Left: true, weight: 85}.filled(len(of), func(i int) string {
			if of[i].Accuracy.Own != nil {
				return "its own"
			}
			return ""
		}))
	}
	if of[0].Accuracy.Spec.Task == accuracy.NextToken {
		lies := func(name string, weight int, say func(accuracy.Divergence) string) Column {
			return known(name, weight, func(s *results.Scored) string {
				if s.Held.Divergence == nil {
					return ""
				}
				return say(*s.Held.Divergence)
			})
		}
		return &Sheet{Rows: len(of), Columns: append(columns,
			lies("KL, nats at least", 98, func(d accuracy.Divergence) string { return fmt.Sprintf("%.2g", d.Mean) }),
			lies("same likeliest", 95, func(d accuracy.Divergence) string { return fmt.Sprintf("%.1f %%", 100*d.Same) }),
			lies("positions", 60, func(d accuracy.Divergence) string { return fmt.Sprint(d.Positions) }),
			count("texts", func(s accuracy.Score) int { return s.Asked }),
			count("told", func(s accuracy.Score) int { return s.Right }),
			count("invalid", func(s accuracy.Score) int { return s.Invalid }),
			count("failed", func(s accuracy.Score) int { return s.Failed }))}, below
	}
	columns = append(columns,
		Column{Name: "verdict", Left: true, weight: 98}.With(len(of), func(i int) Entry {
			e := Entry{Text: of[i].Standing()}
			if e.Text == string(accuracy.Worse) {
				e.Class = load.Suspect
			}
			return e
		}),
		known("right", 95, func(s *results.Scored) string { return share(s.Accuracy.Score) }))
	if of[0].Accuracy.Spec.Task == accuracy.ToolCalls {
		calls := func(s *results.Scored) accuracy.CallScore {
			return *cmp.Or(s.Accuracy.Score.Calls, &accuracy.CallScore{})
		}
		columns = append(columns,
			known("called", 92, func(s *results.Scored) string { return fmt.Sprint(calls(s).Called) }),
			known("calls valid", 94, func(s *results.Scored) string {
				if valid, ok := calls(s).Accuracy(); ok {
					return fmt.Sprintf("%.1f %%", 100*valid)
				}
				return ""
			}),
			known("calls F1", 93, func(s *results.Scored) string {
				if f1, ok := s.Held.CallF1(); ok {
					return Ratio(f1)
				}
				return ""
			}))
		if slices.ContainsFunc(of, func(s results.Scored) bool { return calls(&s).OnlyReasoning > 0 }) {
			columns = append(columns, known("only reasoning", 91, func(s *results.Scored) string { return fmt.Sprint(calls(s).OnlyReasoning) }))
		}
	}
	columns = append(columns,
		count("asked", func(s accuracy.Score) int { return s.Asked }),
		count("wrong", func(s accuracy.Score) int { return s.Wrong }),
		count("invalid", func(s accuracy.Score) int { return s.Invalid }),
		count("cut", func(s accuracy.Score) int { return s.Cut }),
		count("failed", func(s accuracy.Score) int { return s.Failed }),
		known("tok/answer", 40, func(s *results.Scored) string {
			x := s.Accuracy.Score
			if x.OutputTokens == 0 || x.Failed >= x.Asked {
				return "" // the server has not counted, or there is no answer
			}
			return fmt.Sprintf("%.0f", float64(x.OutputTokens)/float64(x.Asked-x.Failed))
		}))
	if slices.ContainsFunc(of, func(s results.Scored) bool { return s.Accuracy.Score.Reasoned > 0 }) {
		columns = append(columns, count("reasoned", func(s accuracy.Score) int { return s.Reasoned }))
	}
	return &Sheet{Rows: len(of), Columns: columns}, below
}

// scoreFacts are what a cell has asked, and what its answers are worth; none where it has asked nothing.
func scoreFacts(r *results.Row, all []results.Scored) []Fact {
	i := slices.IndexFunc(all, func(s results.Scored) bool { return s.ID == r.ID && s.RunID == r.RunID })
	if i < 0 {
		return nil
	}
	s, verdict := &all[i], all[i].Standing()
	if s.Held.Reason() != "" {
		verdict = s.Held.String()
	}
	facts := []Fact{{"Asked", strings.Join(Asked(all[i:i+1]), ", ")}}
	if x := s.Accuracy.Score; s.Summary != nil {
		facts = append(facts, Fact{"Right", share(x)},
			Fact{"Marks", fmt.Sprintf("%d right, %d wrong, %d invalid, %d cut, %d failed", x.Right, x.Wrong, x.Invalid, x.Cut, x.Failed)})
	}
	return append(facts, Fact{"Answers", verdict})
}

// Ratio is a part of 1, as F1 is written: "0.97".
func Ratio(part float64) string { return fmt.Sprintf("%.2f", part) }

// share is how many answers are right, with where the truth lies in 95 of 100 runs: "92.0 % (90.2 to 93.6)".
func share(of accuracy.Score) string {
	return fmt.Sprintf("%.1f %% (%.1f to %.1f)", 100*of.Share, 100*of.Low, 100*of.High)
}
