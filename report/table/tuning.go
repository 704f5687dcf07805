package table

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"hclbench/plain"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/say"
	"hclbench/results"
	"hclbench/tune"
)

// Tuning prints every candidate with its fate, every start with what came of it, and what is certain.
func Tuning(w io.Writer, t *figure.Tuning, width int) error {
	starts := StartSheet(t)
	starts.Fit(width)
	return WriteBlocks(w, append(tuningBlocks(t, width), starts.Lines()))
}

// tuningBlocks are a tuning without its starts: what it is about, its candidates, why they have their fates, the verdict.
func tuningBlocks(t *figure.Tuning, width int) [][]string {
	candidates := CandidateSheet(t.Summary)
	why := candidates.Columns[len(candidates.Columns)-1]
	candidates.Columns = candidates.Columns[:len(candidates.Columns)-1]
	candidates.Fit(width)
	var notes []string
	for i, c := range t.Summary.Candidates {
		text := why.Entries[i].Text
		if candidates.Columns[1].Text(i) != plain.Line(c.Settings) { // there was no room for it
			text = figure.ListedWith(": ", c.Settings, text)
		}
		if text != "" {
			notes = append(notes, plain.Wrap(plain.Words(fmt.Sprintf("%d: %s", i+1, text)), " ", width)...)
		}
	}
	return [][]string{plain.Wrap(plain.Words("tune "+t.Summary.Tune+": "+say.TuningOf(t.Summary)), " ", width), candidates.Lines(), notes,
		plain.Wrap(plain.Words(say.TuningVerdict(t.Summary)), " ", width)}
}

// tuningMarkdown writes what [tuningBlocks] says.
func tuningMarkdown(b *bytes.Buffer, all []*figure.Tuning) {
	for _, t := range all {
		fmt.Fprintf(b, "\n%s\n\n", MarkdownText("Tuning "+t.Summary.Tune+": "+say.TuningOf(t.Summary)))
		CandidateSheet(t.Summary).Markdown(b)
		fmt.Fprintf(b, "\n%s\n", MarkdownText(say.TuningVerdict(t.Summary)))
	}
}

// CandidateSheet is every candidate of a tuning with its fate; its last column says why.
func CandidateSheet(s *tune.Summary) *Sheet {
	sheet := &Sheet{Rows: len(s.Candidates)}
	add := func(name string, left bool, of func(c *tune.Standing) string) {
		c := Column{Key: name, Name: name, Left: left, Blank: true}.With(sheet.Rows, func(i int) Entry {
			e := Entry{Text: plain.Line(of(&s.Candidates[i]))}
			if s.Candidates[i].Fate == tune.Won {
				e.Class = best
			}
			return e
		})
		sheet.Columns = append(sheet.Columns, c)
	}
	add("no.", false, func(c *tune.Standing) string { return strconv.Itoa(s.Place(c.Candidate)) })
	add("settings", true, func(c *tune.Standing) string { return c.Settings })
	add("fate", true, func(c *tune.Standing) string { return string(c.Fate) })
	add("starts", false, func(c *tune.Standing) string { return strconv.Itoa(c.Starts) })
	if slices.ContainsFunc(s.Candidates, func(c tune.Standing) bool { return c.Altered != "" }) {
		add("altered by", true, func(c *tune.Standing) string { return c.Altered })
	}
	if slices.ContainsFunc(s.Candidates, func(c tune.Standing) bool { return c.Predicted > 0 }) {
		add("predicted", false, func(c *tune.Standing) string {
			if c.Predicted == 0 {
				return ""
			}
			return number.Text(c.Predicted)
		})
	}
	add("searched", false, func(c *tune.Standing) string { return say.EstimateText(c.Searched) })
	add(fmt.Sprintf("finals, %s %%", number.Short(100*s.Confidence)), false, func(c *tune.Standing) string { return say.EstimateText(c.Finals) })
	if slices.ContainsFunc(s.Candidates, func(c tune.Standing) bool { return c.Holds != nil || c.Breaks != nil }) {
		add("certainly, each start", true, func(c *tune.Standing) string { return say.Certain(c.Holds, c.Breaks) })
	}
	if slices.ContainsFunc(s.Candidates, func(c tune.Standing) bool { return c.Accuracy != "" }) {
		add("accuracy", true, func(c *tune.Standing) string { return c.Accuracy })
	}
	add("why", true, say.Why)
	return sheet
}

// StartSheet is every start of a tuning, by phase: its candidate by the number that [CandidateSheet] gives it, and what came of it.
func StartSheet(t *figure.Tuning) *Sheet {
	n := len(t.Starts)
	column := func(name string, left bool, of func(s results.Tried) string) Column {
		return Column{Key: name, Name: name, Left: left, Blank: true}.filled(n, func(i int) string { return of(t.Starts[i]) })
	}
	sheet := &Sheet{Rows: n, Columns: []Column{
		column("start", false, func(s results.Tried) string { return strconv.Itoa(s.Number) }),
		column("phase", true, say.PhaseText),
		column("candidate", false, func(s results.Tried) string {
			if place := t.Summary.Place(s.Candidate); place > 0 {
				return strconv.Itoa(place)
			}
			return "" // with another budget it would not have come
		}),
		column(t.Of.Name, false, func(s results.Tried) string {
			if v, ok := t.Measured(s); ok {
				return number.Text(v)
			}
			return ""
		}),
		column("outcome", true, func(s results.Tried) string { return string(figure.Came(s)) }),
		column("at", true, func(s results.Tried) string {
			if s.Result == nil {
				return ""
			}
			return s.Result.At
		}),
		column("took", false, func(s results.Tried) string { return s.Cost.Time.Round(time.Second).String() }),
	}}
	if slices.ContainsFunc(t.Starts, func(s results.Tried) bool { return len(s.Loads) > 0 && s.Loads[0].Capacity != nil }) {
		sheet.Columns = append(sheet.Columns, column("certainly", true, func(s results.Tried) string {
			if len(s.Loads) == 0 || s.Loads[0].Capacity == nil {
				return ""
			}
			return say.Certain(s.Loads[0].Capacity.Holds, s.Loads[0].Capacity.Breaks)
		}))
	}
	if slices.ContainsFunc(t.Starts, func(s results.Tried) bool { return len(s.Checks) > 0 }) {
		sheet.Columns = append(sheet.Columns, column("accuracy", true, say.ChecksText))
	}
	return sheet
}
