package table

import (
	"bytes"
	"fmt"
	"slices"

	"hclbench/accuracy"
	"hclbench/plain"
	"hclbench/report/figure"
	"hclbench/results"
)

// scoreLines say what answers are worth, a table for each block that asks, and below it what they prove beside those of the baseline.
func scoreLines(all []results.Scored, width int) (blocks [][]string) {
	for _, of := range figure.Grouped(all, func(s results.Scored) string { return s.Benchmark }) {
		sheet, below := ScoreSheet(of)
		sheet.Fit(width)
		blocks = append(blocks, plain.Wrap(Asked(&of[0]), ", ", width), sheet.Lines())
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
		for i, text := range Asked(&of[0]) {
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

// Asked are the words for what a cell was asked.
func Asked(s *results.Scored) []string {
	p := s.Accuracy.Spec
	words := []string{"accuracy " + s.Benchmark, p.Task + " as " + p.Protocol + " asks it"}
	if p.Scoring != "" {
		words = append(words, p.Scoring+" answers")
	}
	if p.Shots != nil && *p.Shots > 0 {
		words = append(words, plain.Count(*p.Shots, "example"))
	}
	if p.Samples > 1 {
		words = append(words, fmt.Sprintf("%d samples of each question", p.Samples))
	}
	if b := s.Accuracy.Baseline; b != "" {
		words = append(words, fmt.Sprintf("held against %s with a margin of %s", b, accuracy.Points(s.Accuracy.Margin)))
	}
	return append(words, s.Accuracy.Notes...)
}

// ScoreSheet is the table of a block's cells, and what they prove, in words.
func ScoreSheet(of []results.Scored) (*Sheet, []string) {
	count := func(name string, of []results.Scored, n func(accuracy.Score) int) Column {
		return Column{Name: name, weight: 50}.filled(len(of), func(i int) string {
			if of[i].Summary == nil {
				return "-"
			}
			return fmt.Sprint(n(of[i].Accuracy.Score))
		})
	}
	var below []string
	for i := range of {
		s := &of[i]
		name := s.Deployment.Engine
		if at, ok := s.Axes.Value("concurrency"); ok {
			name = fmt.Sprintf("%s at %v", name, at)
		}
		switch {
		case s.Summary == nil:
			below = append(below, name+": no score: "+s.Verdict().Texts()[0])
		case s.Held.Verdict != accuracy.Unchecked, s.Held.Why != nil:
			below = append(below, name+": "+s.Held.String())
		}
	}
	columns := []Column{
		Column{Name: "engine", Left: true, weight: 100}.filled(len(of), func(i int) string { return of[i].Deployment.Engine }),
		Column{Name: "concurrency", weight: 90}.filled(len(of), func(i int) string {
			at, _ := of[i].Axes.Value("concurrency")
			return fmt.Sprint(at)
		}),
	}
	return &Sheet{Rows: len(of), Columns: slices.Concat(columns, []Column{
		Column{Name: "right", weight: 95}.filled(len(of), func(i int) string { return share(of[i].Summary != nil, of[i].Accuracy.Score) }),
		count("asked", of, func(s accuracy.Score) int { return s.Asked }),
		count("wrong", of, func(s accuracy.Score) int { return s.Wrong }),
		count("invalid", of, func(s accuracy.Score) int { return s.Invalid }),
		count("cut", of, func(s accuracy.Score) int { return s.Cut }),
		count("failed", of, func(s accuracy.Score) int { return s.Failed }),
		Column{Name: "verdict", Left: true, weight: 94}.filled(len(of), func(i int) string {
			if of[i].IsBaseline() {
				return "baseline"
			}
			return string(of[i].Held.Verdict)
		}),
	})}, below
}

// share is how many answers are right, with where the truth lies in 95 of 100 runs: "92.0 % (90.2 to 93.6)".
func share(known bool, of accuracy.Score) string {
	if !known {
		return "-"
	}
	return fmt.Sprintf("%.1f %% (%.1f to %.1f)", 100*of.Share, 100*of.Low, 100*of.High)
}
