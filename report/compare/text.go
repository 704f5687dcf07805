package compare

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/say"
	"hclbench/report/table"
	"hclbench/results"
)

// Rows are those of both sides, told apart by an axis more, under the newer names; those of a pair
// follow each other, B first. pair is that of each, by its place in [Difference.Pairs].
func (d *Difference) Rows() (rows []results.Row, pair []int) {
	for n, c := range d.Pairs() {
		for _, side := range []struct {
			name string
			rows []*results.Row
		}{{"B", c.b}, {"A", c.a}} {
			for _, r := range side.rows {
				x := *r
				x.ID += "@" + side.name // one cell may be on both sides
				x.Benchmark, x.Deployment.Engine = c.Benchmark, c.Engine
				x.Axes = append(slices.Clone(c.Axes), results.Axis{Name: figure.SideAxis, Value: side.name})
				rows, pair = append(rows, x), append(pair, n)
			}
		}
	}
	return rows, pair
}

// Pairs are all cells, those that only one side has at the end.
func (d *Difference) Pairs() []CellDiff { return slices.Concat(d.Cells, d.onlyB, d.onlyA) }

// UnlikeText says in how many cells something is another on either side; empty: in none.
func (d *Difference) UnlikeText(what string) string {
	var found []Unlike
	for _, c := range d.Cells {
		for _, u := range c.Unlike {
			if u.What == what {
				found = append(found, u)
			}
		}
	}
	if len(found) == 0 {
		return ""
	}
	text := fmt.Sprintf("Another %s in %s", what, number.Count(len(found), "cell"))
	if first := found[0]; !slices.ContainsFunc(found, func(u Unlike) bool { return u != first }) {
		text += ": " + first.text()
	}
	return plain.Line(text)
}

// InputsTogether are the inputs that differ, those of engines in which they differ alike in one line.
func (d *Difference) InputsTogether() (lines [][]string) {
	for _, same := range figure.Grouped(d.Inputs, func(i InputDiff) [3]string { return [3]string{i.Name, i.A, i.B} }) {
		var engines []string
		cells := 0
		for _, i := range same {
			engines, cells = figure.Once(engines, i.Engine), cells+i.Cells
		}
		lines = append(lines, []string{same[0].Name, shortValue(same[0].A), shortValue(same[0].B),
			say.Listed(engines), number.Whole(cells)})
	}
	return lines
}

// shortValue is an input as a table has it: of a digest the beginning.
func shortValue(s string) string {
	if at := strings.Index(s, "sha256:"); at >= 0 && len(s) > at+19 {
		return s[:at+19] + "…"
	}
	return plain.Cut(s, 120)
}

// Largest are, of each metric, the largest change for the worse and the largest for the better.
func (d *Difference) Largest() *table.Sheet {
	var lines [][]string
	var classes []string
	_, names := d.Names()
	var all cellChanges
	for i := range d.Cells {
		all = append(all, d.changesOf(i)...)
	}
	for _, verdict := range []string{"worse", "better", "unknown"} {
		for _, same := range figure.Grouped(all.those(verdict), func(c cellChange) string { return c.Metric }) {
			c := same[0]
			values := say.Amounts(c.Of, c.A.Median, c.B.Median)
			lines = append(lines, []string{c.Of.Title, names.Place(c.cell), values[0], values[1], c.Change.String(),
				c.doubt(d.Cells[c.cell])})
			classes = append(classes, "n "+verdict)
		}
	}
	s := table.Tabulate([]table.Column{{Name: "figure", Left: true}, {Name: "cell", Left: true}, {Name: "A"}, {Name: "B"},
		{Name: "change"}, {Name: "how sure", Left: true}}, lines)
	for i := range s.Columns[4].Entries {
		s.Columns[4].Entries[i].Class = classes[i]
	}
	return s
}

// Kept is what the gate says of each cell, by its benchmark and name.
func (d *Difference) Kept() map[[2]string]string {
	said := map[[2]string]string{}
	for _, x := range d.Checks {
		cell := [2]string{x.Benchmark, x.Cell}
		switch was := said[cell]; {
		case x.Result == Fail || x.Result == Unknown:
			said[cell] = "not kept"
		case x.Result == Pass && was == "":
			said[cell] = "kept"
		}
	}
	return said
}

// Write writes the comparison: "text", "markdown", "json" or "benchstat", which is
// the benchmark format of Go with each repetition on a line of its own.
func (d *Difference) Write(w io.Writer, format string, width int) error {
	var b bytes.Buffer
	switch format {
	case "json":
		if err := table.WriteJSON(&b, d); err != nil {
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
func (d *Difference) sheets() (common, titles []string, sheets []*table.Sheet) {
	common, names := d.Names()
	if len(d.Searches) > 0 {
		titles, sheets = append(titles, searchTitle), append(sheets, d.searchSheet())
	}
	for _, figures := range d.Figures() {
		if !slices.ContainsFunc(figures, func(f FigureDiff) bool { return f.Needs == 0 }) {
			continue
		}
		title, s := d.sheet(figures[0].Of, names)
		titles, sheets = append(titles, title), append(sheets, s)
	}
	return common, titles, sheets
}

// Names are the columns that tell the cells of both apart, and in words what all of them have in common.
func (d *Difference) Names() (common []string, names *table.Sheet) {
	var rows []results.Row
	for _, c := range d.Cells {
		rows = append(rows, *slices.Concat(c.b, c.a)[0])
	}
	names = &table.Sheet{Rows: len(rows), Columns: append(table.Identity(rows)[:2], table.AxisColumns(rows)...)}
	if common = names.Project(); common != nil && len(rows) > 1 {
		common[0] = "in all cells: " + common[0]
	}
	return common, names
}

// sheet is one metric of all cells that have it; names are the columns that tell cells apart.
func (d *Difference) sheet(m figure.Metric, names *table.Sheet) (title string, s *table.Sheet) {
	var lines [][]string
	var at []int
	for i, c := range d.Cells {
		switch f := c.Figure(m.Name); {
		case f == nil:
			continue
		case f.Needs > 0:
			lines = append(lines, []string{say.Fewer(f.Needs), say.Fewer(f.Needs), "", ""})
		default:
			lines = append(lines, []string{say.Spread(f.A), say.Spread(f.B), f.text(), f.doubt(c)})
		}
		at = append(at, i)
	}
	s = table.Tabulate([]table.Column{{Name: "A"}, {Name: "B"}, {Name: "change"}, {Left: true, Blank: true}}, lines)
	title = m.Title
	if m.Unit != "" {
		title += ", " + m.Unit
	}
	if doubt := s.Columns[3]; doubt.Same() && doubt.Known() { // said once
		s.Columns = s.Columns[:3]
		title += ": " + doubt.Text(0)
	}
	var picked []table.Column
	for _, c := range names.Columns {
		picked = append(picked, c.With(len(at), func(i int) table.Entry { return c.Entries[at[i]] }))
	}
	s.Columns = append(picked, s.Columns...)
	return title, s
}

// text is the change, or ~ where the repetitions, or the boxes, do not tell the two apart.
func (f FigureDiff) text() string {
	if f.chance() {
		return "~"
	}
	return f.Change.String()
}

// doubt says how sure a change is.
func (f FigureDiff) doubt(c CellDiff) string {
	var words []string
	switch n := min(f.A.N, f.B.N); {
	case f.Within():
		words = append(words, f.cannotShow())
	case f.Significant || n >= figure.Fewest:
		words = append(words, fmt.Sprintf("p=%.3f n=%d+%d", f.P, f.A.N, f.B.N))
		if !f.Significant && f.Needed > 0 {
			words = append(words, fmt.Sprintf("some %d repetitions would tell", f.Needed))
		}
	default:
		words = append(words, fmt.Sprintf("n=%d+%d, too few to tell, which takes %d of each", f.A.N, f.B.N, max(f.Needed, figure.Fewest)))
		if f.Intervals != "" {
			words = append(words, "intervals "+f.Intervals)
		}
	}
	if f.a.Judged != f.b.Judged {
		words = append(words, "judged by "+f.b.Judged+", was "+f.a.Judged)
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
		if rows := figure.NotVoid(side.rows); len(rows) > 0 && figure.Forced(rows[0]) != "" {
			words = append(words, side.name+" "+figure.Forced(rows[0]))
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
			if len(figure.NotVoid(side.rows(c))) == 0 {
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
	search   func(CapacityDiff) *figure.Capacity
}

func (d *Difference) sides() []side {
	return []side{{"A", d.A, d.OnlyA, func(c CellDiff) []*results.Row { return c.a },
		func(c CapacityDiff) *figure.Capacity { return c.a }},
		{"B", d.B, d.OnlyB, func(c CellDiff) []*results.Row { return c.b },
			func(c CapacityDiff) *figure.Capacity { return c.b }}}
}

// verdicts say of each metric in a line how many cells are better and worse.
func (d *Difference) verdicts() (lines []string) {
	if text := d.searchVerdict(); text != "" {
		lines = append(lines, text)
	}
	for _, figures := range d.Figures() {
		n := map[string]int{}
		for i := range d.Cells {
			c := &d.Cells[i]
			switch f := c.Figure(figures[0].Metric); {
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
			parts[len(parts)-1] += " (" + say.Fewer(most.Needs) + ")"
		}
		lines = append(lines, figures[0].Metric+": "+strings.Join(parts, ", "))
	}
	return lines
}

// Figures are those of all cells, those of a metric together.
func (d *Difference) Figures() [][]FigureDiff {
	var all []FigureDiff
	for _, c := range d.Cells {
		all = append(all, c.Figures...)
	}
	return figure.Grouped(all, func(f FigureDiff) string { return f.Metric })
}

func (d *Difference) inputSheet() *table.Sheet {
	var lines [][]string
	for _, i := range d.Inputs {
		lines = append(lines, []string{i.Engine, i.Name, i.A, i.B, strconv.Itoa(i.Cells)})
	}
	return table.Tabulate([]table.Column{{Name: "engine", Left: true}, {Name: "what went in", Left: true}, {Name: "A", Left: true},
		{Name: "B", Left: true}, {Name: "cells"}}, lines)
}

func (d *Difference) text(w io.Writer, width int) error {
	common, titles, sheets := d.sheets()
	blocks := [][]string{d.head(common, width)}
	for i, s := range sheets {
		below := s.NotesBelow(width)
		s.Fit(width)
		blocks = append(blocks, slices.Concat([]string{titles[i]}, s.Lines(), table.Numbered(below, width)))
	}
	switch {
	case len(d.Inputs) > 0:
		blocks = append(blocks, append([]string{"What else is not the same"}, d.inputSheet().Lines()...))
	case d.Compared():
		blocks = append(blocks, []string{"Everything that is known to have gone in is the same."})
	}
	return table.WriteBlocks(w, blocks)
}

// Compared reports whether it is known of any cell what went into both sides.
func (d *Difference) Compared() bool {
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
		head[i] = table.MarkdownText(line)
	}
	fmt.Fprintln(b, strings.Join(head, "  \n"))
	for i, s := range sheets {
		fmt.Fprintf(b, "\n**%s**\n\n", titles[i])
		s.Markdown(b)
	}
	if len(d.Inputs) > 0 {
		b.WriteString("\n**What else is not the same**\n\n")
		d.inputSheet().Markdown(b)
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
					if v, ok := f.Of.Value(r); ok && (!r.Verdict().Doubts(f.Of.Name) || f.a.Doubt || f.b.Doubt) {
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
			parts = append(parts, clean(x.Name+"="+figure.AxisText(x.Value)))
		}
	}
	return strings.Join(parts, "/")
}
