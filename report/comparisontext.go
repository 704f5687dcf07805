package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/report/number"
	"hclbench/results"
)

// Write writes the comparison: "text", "markdown", "json" or "benchstat", which is
// the benchmark format of Go with each repetition on a line of its own.
func (d *Difference) Write(w io.Writer, format string, width int) error {
	var b bytes.Buffer
	switch format {
	case "json":
		if err := writeJSON(&b, d); err != nil {
			return err
		}
	case "benchstat":
		d.benchstat(&b)
	case "markdown":
		d.markdown(&b)
	default:
		return d.text(w, width)
	}
	_, err := io.WriteString(w, plain.Text(b.String()))
	return err
}

// sheets are the cells, a table for each metric, and in words what all cells have in
// common: the tables have the columns in which cells differ.
func (d *Difference) sheets() (common, titles []string, sheets []*sheet) {
	common, names := d.names()
	for _, figures := range d.figures() {
		if !slices.ContainsFunc(figures, func(f FigureDiff) bool { return f.Needs == 0 }) {
			continue
		}
		title, s := d.sheet(figures[0].of, names)
		titles, sheets = append(titles, title), append(sheets, s)
	}
	return common, titles, sheets
}

// names are the columns that tell the cells of both apart, and in words what all of them have in common.
func (d *Difference) names() (common []string, names *sheet) {
	var rows []results.Row
	for _, c := range d.Cells {
		rows = append(rows, *slices.Concat(c.b, c.a)[0])
	}
	names = &sheet{rows: len(rows), columns: append(identity(rows)[:2], axisColumns(rows)...)}
	if common = names.project(); common != nil && len(rows) > 1 {
		common[0] = "in all cells: " + common[0]
	}
	return common, names
}

// sheet is one metric of all cells that have it; names are the columns that tell cells apart.
func (d *Difference) sheet(m Metric, names *sheet) (title string, s *sheet) {
	var lines [][]string
	var at []int
	for i, c := range d.Cells {
		switch f := c.figure(m.Name); {
		case f == nil:
			continue
		case f.Needs > 0:
			lines = append(lines, []string{fewer(f.Needs), fewer(f.Needs), "", ""})
		default:
			lines = append(lines, []string{f.A.text(), f.B.text(), f.text(), f.doubt(c)})
		}
		at = append(at, i)
	}
	s = tabulate([]column{{name: "A"}, {name: "B"}, {name: "change"}, {left: true, blank: true}}, lines)
	title = m.Title
	if m.Unit != "" {
		title += ", " + m.Unit
	}
	if doubt := s.columns[3]; doubt.same() && doubt.known() { // said once
		s.columns = s.columns[:3]
		title += ": " + doubt.text(0)
	}
	var picked []column
	for _, c := range names.columns {
		picked = append(picked, c.with(len(at), func(i int) entry { return c.entries[at[i]] }))
	}
	s.columns = append(picked, s.columns...)
	return title, s
}

func (c CellDiff) name() string { return cellName(c.Engine, c.Axes) }

// text is the change, or ~ where the repetitions do not tell the two apart.
func (f FigureDiff) text() string {
	if f.chance() {
		return "~"
	}
	return f.Change.text()
}

// text is a change for people. What is more than doubled is said as a factor.
func (p Percent) text() string {
	v := math.Round(float64(p)*10) / 10
	switch {
	case math.IsInf(v, 0):
		return "from 0"
	case v == 0:
		return "0.0 %"
	case v > 100:
		return "×" + number.Text(1+float64(p)/100)
	}
	return fmt.Sprintf("%+.1f %%", v)
}

// doubt says how sure a change is.
func (f FigureDiff) doubt(c CellDiff) string {
	var words []string
	switch n := min(f.A.N, f.B.N); {
	case f.Significant || n >= fewest:
		words = append(words, fmt.Sprintf("p=%.3f n=%d+%d", f.P, f.A.N, f.B.N))
		if !f.Significant && f.Needed > 0 {
			words = append(words, fmt.Sprintf("some %d repetitions would tell", f.Needed))
		}
	default:
		words = append(words, fmt.Sprintf("n=%d+%d, too few to tell, which takes %d of each", f.A.N, f.B.N, max(f.Needed, fewest)))
		if f.Intervals != "" {
			words = append(words, "intervals "+f.Intervals)
		}
	}
	if f.a.judged != f.b.judged {
		words = append(words, "judged by "+f.b.judged+", was "+f.a.judged)
	}
	for _, side := range []struct {
		name, verdict string
		rows          []*results.Row
		used          int
	}{{"A", c.VerdictA, c.a, f.A.N}, {"B", c.VerdictB, c.b, f.B.N}} {
		switch {
		case side.verdict == load.Valid:
		case side.used < len(side.rows):
			words = append(words, fmt.Sprintf("%s %d of %d, the others %s", side.name, side.used, len(side.rows), side.verdict))
		default:
			words = append(words, side.name+" "+side.verdict)
		}
		if rows := notVoid(side.rows); len(rows) > 0 && forced(rows[0]) != "" {
			words = append(words, side.name+" "+forced(rows[0]))
		}
	}
	for _, u := range c.Unlike {
		words = append(words, "another "+u.What)
	}
	return strings.Join(words, ", ")
}

// rest says what was not compared.
func (d *Difference) rest() string {
	var void, only string
	for _, side := range d.sides() {
		n := 0
		for _, c := range d.Cells {
			if len(notVoid(side.rows(c))) == 0 {
				n++
			}
		}
		if n > 0 {
			void += fmt.Sprintf(" (%d void in %s)", n, side.name)
		}
		if side.only > 0 {
			only += fmt.Sprintf(", %d only in %s", side.only, side.name)
		}
	}
	return number.Count(len(d.Cells), "cell") + " in both" + void + only
}

type side struct {
	name, of string
	only     int // cells that the other has not
	rows     func(CellDiff) []*results.Row
}

func (d *Difference) sides() []side {
	return []side{{"A", d.A, d.OnlyA, func(c CellDiff) []*results.Row { return c.a }},
		{"B", d.B, d.OnlyB, func(c CellDiff) []*results.Row { return c.b }}}
}

// verdicts say of each metric in a line how many cells are better and worse.
func (d *Difference) verdicts() (lines []string) {
	for _, figures := range d.figures() {
		n := map[string]int{}
		for i := range d.Cells {
			c := &d.Cells[i]
			switch f := c.figure(figures[0].Metric); {
			case f == nil:
			case c.doubtful():
				n[load.Suspect]++
			default:
				n[f.Verdict]++
			}
		}
		var parts []string
		for _, word := range []string{"worse", "better", "changed", "level", "unknown", load.Suspect, unsaid} {
			if n[word] > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n[word], word))
			}
		}
		if n[unsaid] > 0 {
			most := slices.MaxFunc(figures, func(a, b FigureDiff) int { return cmp.Compare(a.Needs, b.Needs) })
			parts[len(parts)-1] += " (" + fewer(most.Needs) + ")"
		}
		lines = append(lines, figures[0].Metric+": "+strings.Join(parts, ", "))
	}
	return lines
}

func (d *Difference) figures() [][]FigureDiff {
	var all []FigureDiff
	for _, c := range d.Cells {
		all = append(all, c.Figures...)
	}
	return grouped(all, func(f FigureDiff) string { return f.Metric })
}

func (d *Difference) inputSheet() *sheet {
	var lines [][]string
	for _, i := range d.Inputs {
		lines = append(lines, []string{i.Engine, i.Name, i.A, i.B, strconv.Itoa(i.Cells)})
	}
	return tabulate([]column{{name: "engine", left: true}, {name: "what went in", left: true}, {name: "A", left: true},
		{name: "B", left: true}, {name: "cells"}}, lines)
}

func (d *Difference) text(w io.Writer, width int) error {
	common, titles, sheets := d.sheets()
	blocks := [][]string{d.head(common, width)}
	for i, s := range sheets {
		below := s.notesBelow(width)
		s.fit(width)
		blocks = append(blocks, slices.Concat([]string{titles[i]}, s.lines(), numbered(below, width)))
	}
	switch {
	case len(d.Inputs) > 0:
		blocks = append(blocks, append([]string{"What else is not the same"}, d.inputSheet().lines()...))
	case d.compared():
		blocks = append(blocks, []string{"Everything that is known to have gone in is the same."})
	}
	return writeBlocks(w, blocks)
}

// compared reports whether it is known of any cell what went into both sides.
func (d *Difference) compared() bool {
	return slices.ContainsFunc(d.Cells, func(c CellDiff) bool { return ofInputs(c.a) != nil && ofInputs(c.b) != nil })
}

func (d *Difference) head(common []string, width int) []string {
	lines := slices.Concat([]string{"A: " + d.A, "B: " + d.B, d.rest()}, plain.Wrap(common, ", ", width), d.Notes, d.verdicts())
	for i, line := range lines {
		lines[i] = plain.Line(line)
	}
	return lines
}

func (d *Difference) markdown(b *bytes.Buffer) {
	common, titles, sheets := d.sheets()
	head := d.head(common, 0)
	for i, line := range head {
		head[i] = markdownText(line)
	}
	fmt.Fprintln(b, strings.Join(head, "  \n"))
	for i, s := range sheets {
		fmt.Fprintf(b, "\n**%s**\n\n", titles[i])
		s.markdown(b)
	}
	if len(d.Inputs) > 0 {
		b.WriteString("\n**What else is not the same**\n\n")
		d.inputSheet().markdown(b)
	}
}

// benchstat writes the rows of both sides, told apart by the key "side": benchstat -col side.
func (d *Difference) benchstat(b *bytes.Buffer) {
	for _, side := range d.sides() {
		fmt.Fprintf(b, "side: %s\nresults: %s\n", side.name, strings.Join(strings.Fields(side.of), " "))
		for _, c := range d.Cells {
			for _, r := range side.rows(c) {
				var figures []string
				for _, f := range c.Figures {
					if v, ok := f.of.value(r); ok && (!r.Verdict().Doubts(f.of.Name) || f.a.Doubt || f.b.Doubt) {
						unit := strings.ReplaceAll(f.Metric, "_ms", "-ms")
						figures = append(figures, fmt.Sprintf("%s %s", number.Exact(v), unit))
					}
				}
				if len(figures) > 0 {
					fmt.Fprintf(b, "Benchmark%s\t1\t%s\n", benchmarkName(c), strings.Join(figures, "\t"))
				}
			}
		}
	}
}

// benchmarkName is a cell in the form of Go's benchmarks: Online/engine=vllm.h200/concurrency=4.
func benchmarkName(c CellDiff) string {
	clean := func(s string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsSpace(r) || r == '/' {
				return '_'
			}
			return r
		}, s)
	}
	name := []rune(cmp.Or(clean(c.Benchmark), "cell"))
	name[0] = unicode.ToUpper(name[0])
	parts := []string{string(name), "engine=" + clean(c.Engine)}
	for _, x := range c.Axes {
		if x.Name != "engine" {
			parts = append(parts, clean(x.Name+"="+axisText(x.Value)))
		}
	}
	return strings.Join(parts, "/")
}
