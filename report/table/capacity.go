package table

import (
	"bytes"
	"fmt"
	"strings"

	"hclbench/plain"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/say"
	"hclbench/results"
)

// capacityLines say what searches have found, a paragraph for each question: what each engine holds, its figures there,
// and who holds more than whom. Lines after the first of an engine are indented.
func capacityLines(all []*figure.Capacity, width int) (paragraphs [][]string) {
	for _, of := range figure.Questions(all) {
		lines := plain.Wrap(plain.Words(say.Question(of[0])), " ", width)
		for _, c := range of {
			for _, text := range []string{c.Name() + ": " + say.Capacity(&c.Outcome), say.Holding(c)} {
				for i, line := range plain.Wrap(plain.Words(text), " ", max(width-4, 0)) {
					indent := "    "
					if i == 0 && !strings.HasPrefix(text, "at ") {
						indent = "  "
					}
					lines = append(lines, indent+line)
				}
			}
		}
		if text := say.Ranking(of); text != "" {
			lines = append(lines, plain.Wrap(plain.Words(text), " ", width)...)
		}
		paragraphs = append(paragraphs, lines)
	}
	return paragraphs
}

// capacityMarkdown writes what [capacityLines] says, each engine as a line of a list.
func capacityMarkdown(b *bytes.Buffer, all []*figure.Capacity) {
	for _, of := range figure.Questions(all) {
		fmt.Fprintf(b, "%s\n\n", MarkdownText(say.Question(of[0])))
		for _, c := range of {
			text := "**" + MarkdownText(c.Name()) + "**: " + MarkdownText(say.Capacity(&c.Outcome))
			fmt.Fprintf(b, "- %s\n", figure.ListedWith("; ", text, MarkdownText(say.Holding(c))))
		}
		if text := say.Ranking(of); text != "" {
			fmt.Fprintf(b, "\n%s\n", MarkdownText(text))
		}
		b.WriteByte('\n')
	}
}

// Searched is what a search has found, for programs.
type Searched struct {
	results.Capacity
	Engine string `json:"engine"`
	Answer string `json:"answer"` // in words
}

func searched(rows []results.Row, found []results.Capacity) (all []Searched) {
	for _, c := range figure.Capacities(rows, found) {
		all = append(all, Searched{c.Capacity, c.Engine, say.Capacity(&c.Outcome)})
	}
	return all
}

// capacityFacts are what a search has found that tried the cell, and what is certain of its load.
func capacityFacts(r *results.Row, found []results.Capacity) []Fact {
	c, l := figure.TriedBy(figure.Capacities([]results.Row{*r}, found), r)
	if l == nil {
		return nil
	}
	lines := []string{say.Capacity(&c.Outcome), fmt.Sprintf("%s %s: %s", number.Short(l.Load), say.LoadUnit(c.Outcome.Of), say.LoadVerdict(l))}
	for i := range l.Lines {
		lines = append(lines, say.Attainment(&l.Lines[i]))
	}
	return []Fact{{"Capacity", strings.Join(lines, "\n")}}
}

// capacityColumn says what is certain of the load of a cell that a search has tried; nil: none has tried any.
func capacityColumn(rows []results.Row, all []*figure.Capacity) []Column {
	c := Column{Key: "capacity", Name: "holds", weight: 96, Left: true}.With(len(rows), func(i int) Entry {
		if _, l := figure.TriedBy(all, &rows[i]); l != nil {
			short := *l
			short.Doubt = "" // the cell's own verdict says it
			text := say.LoadVerdict(&short)
			if l.Tries > 1 {
				text += fmt.Sprintf(", %d tries", l.Tries)
			}
			return Entry{Text: text, Exact: string(l.Verdict)}
		}
		return Entry{}
	})
	if !c.Known() {
		return nil
	}
	return []Column{c}
}
