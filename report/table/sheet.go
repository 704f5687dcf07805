// Package table writes what was measured as text, Markdown, CSV and JSON. It computes nothing, and draws nothing.
package table

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/report/figure"
	"hclbench/report/say"
)

// Sheet is a table, whoever writes it: as text, Markdown, CSV or a part of the page.
type Sheet struct {
	Columns []Column
	Rows    int
	common  []string // what all rows have in common, in words, beside what all sheets of a report have
	colour  bool     // classes of entries are colours of a terminal
}

// Column is one column of a sheet.
type Column struct {
	Key     string // what CSV, and filters of the page, call it
	Group   string // what it has in common with its neighbours; empty: nothing
	Name    string
	Entries []Entry // one for each row
	Left    bool    // aligned left: text; else right: numerals
	Blank   bool    // where there is no value stands nothing, not [None]
	// weight says which columns go first when there is no room: the lowest. Zero stays always.
	weight int
	// constant says what the caption says when every row has the same entry;
	// nil: a measurement, which is a column always.
	constant func(text string) string
}

// Fact is something known, under its name.
type Fact struct{ Name, Value string }

// best is the class of what leads under its load.
const best = "best"

// Entry is one value of a sheet.
type Entry struct {
	Text  string // as people read it; empty: there is no value
	Exact string // for programs, where Text is not
	Class string // of what the page and terminals colour; empty: it is as its column
	Doubt int    // number of the reason against it; 0: none
	Needs int    // values that the percentile needs which would stand here; 0: none would
}

// None stands where there is no value.
const None = "-"

// filled is the column with what is said of each of n things.
func (c Column) filled(n int, say func(i int) string) Column {
	return c.With(n, func(i int) Entry { return Entry{Text: plain.Line(say(i))} })
}

// With is the column with an entry for each of n things.
func (c Column) With(n int, of func(i int) Entry) Column {
	c.Entries = make([]Entry, n)
	for i := range c.Entries {
		c.Entries[i] = of(i)
	}
	return c
}

// Tabulate is the sheet of lines of text under these columns.
func Tabulate(columns []Column, lines [][]string) *Sheet {
	for i, c := range columns {
		columns[i] = c.filled(len(lines), func(line int) string { return lines[line][i] })
	}
	return &Sheet{Columns: columns, Rows: len(lines)}
}

// Text is the i-th entry as people read it.
func (c Column) Text(i int) string {
	switch e := c.Entries[i]; {
	case e.Doubt > 0:
		return strings.TrimSpace(fmt.Sprintf("%s [%d]", e.Text, e.Doubt))
	case e.Needs > 0:
		return say.Fewer(e.Needs)
	case e.Text == "" && !c.Blank:
		return None
	default:
		return e.Text
	}
}

// exact is the i-th entry for programs.
func (c Column) exact(i int) string {
	return cmp.Or(c.Entries[i].Exact, c.Entries[i].Text)
}

func (c Column) width() int {
	w := plain.Width(c.Name)
	for i := range c.Entries {
		w = max(w, plain.Width(c.Text(i)))
	}
	return w
}

// Same reports whether all entries are the same.
func (c Column) Same() bool {
	return !slices.ContainsFunc(c.Entries, func(e Entry) bool { return e.Text != c.Entries[0].Text })
}

// Known reports whether any entry has a value.
func (c Column) Known() bool {
	return slices.ContainsFunc(c.Entries, func(e Entry) bool { return e.Text != "" })
}

// aligned is the column with numerals to the right, if any of its values is a number.
func (c Column) aligned() Column {
	c.Left = !slices.ContainsFunc(c.Entries, func(e Entry) bool { return figure.IsNumber(e.Text) })
	return c
}

// label names the column where it stands alone: "TTFT p99".
func (c Column) label() string {
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimSuffix(c.Group, " ms"), " s") + " " + c.Name)
}

// Project takes out of the sheet what all of its rows have in common, and says it in
// words: the columns that stay are those in which rows differ, and the measurements.
func (s *Sheet) Project() (common []string) {
	if s.Rows == 0 {
		return nil
	}
	s.Columns = slices.DeleteFunc(s.Columns, func(c Column) bool {
		if c.constant == nil || !c.Same() {
			return false
		}
		if text := c.Entries[0].Text; text != "" {
			common = append(common, c.constant(text))
		}
		return true
	})
	return common
}

// Groups are the columns' indexes, neighbours of one group together.
func (s *Sheet) Groups() [][]int {
	var all [][]int
	for i, c := range s.Columns {
		if n := len(all); i > 0 && c.Group != "" && c.Group == s.Columns[i-1].Group {
			all[n-1] = append(all[n-1], i)
		} else {
			all = append(all, []int{i})
		}
	}
	return all
}

// NotesBelow leaves numbers of what the last column says, where there is no room for
// its sentences, and returns them.
func (s *Sheet) NotesBelow(width int) (notes []string) {
	last := &s.Columns[len(s.Columns)-1]
	if _, total := s.layout(); width == 0 || total <= width || !last.Left {
		return nil
	}
	for i, e := range last.Entries {
		if e.Text == "" {
			continue
		}
		notes = figure.Once(notes, e.Text)
		last.Entries[i] = Entry{Doubt: slices.Index(notes, e.Text) + 1}
	}
	return notes
}

const gap = 2 // blanks between columns

// layout gives each column a width: its own, and more where the title of its group needs it.
func (s *Sheet) layout() (widths []int, total int) {
	widths = make([]int, len(s.Columns))
	for _, group := range s.Groups() {
		span := -gap
		for _, i := range group {
			widths[i] = s.Columns[i].width()
			span += widths[i] + gap
		}
		title := plain.Width(s.Columns[group[0]].Group)
		if len(group) > 1 {
			title += 4 // "- title -"
		}
		if title > span {
			widths[group[0]] += title - span
			span = title
		}
		total += span + gap
	}
	return widths, total - gap
}

// Fit shortens long names in the middle, leaves out columns, the least important first,
// and shortens names more, until the sheet is at most width wide. It returns the names of
// the columns that it left out, in order. Zero is no limit.
func (s *Sheet) Fit(width int) (dropped []string) {
	if s.over(width) <= 0 {
		return nil
	}
	for i := range s.Columns {
		s.shorten(i, max(longName, width/3))
		s.Columns[i].fold()
	}
	var labels []string
	for _, c := range s.Columns {
		labels = append(labels, c.label())
	}
	at, gone := make([]int, len(labels)), map[int]bool{} // of each column that is still there; of labels
	for i := range at {
		at[i] = i
	}
	for s.over(width) > 0 {
		least := -1
		for i, c := range s.Columns {
			if c.weight > 0 && (least < 0 || c.weight < s.Columns[least].weight) {
				least = i
			}
		}
		if least < 0 {
			break
		}
		gone[at[least]] = true
		s.Columns, at = slices.Delete(s.Columns, least, least+1), slices.Delete(at, least, least+1)
	}
	for over := s.over(width); over > 0 && s.widestName() >= 0; over = s.over(width) {
		widest := s.widestName()
		s.shorten(widest, max(shortestName, s.Columns[widest].width()-over))
	}
	for i, label := range labels {
		if gone[i] {
			dropped = append(dropped, label)
		}
	}
	return dropped
}

// fold writes a name that is wider than its entries in two lines: "input" above "tokens".
func (c *Column) fold() {
	cut := strings.LastIndexByte(c.Name, '_')
	if c.Group != "" || cut < 0 {
		return
	}
	entries := *c
	if entries.Name = ""; entries.width() < plain.Width(c.Name) {
		c.Group, c.Name = c.Name[:cut], c.Name[cut+1:]
	}
}

// over is by how much the sheet is wider than it may be.
func (s *Sheet) over(width int) int {
	if width == 0 {
		return 0
	}
	_, total := s.layout()
	return total - width
}

const (
	longName     = 24 // runes that a name may have before a figure gives way to it
	shortestName = 9
)

// widestName is the widest column of text that can be shortened; −1: there is none.
func (s *Sheet) widestName() int {
	widest, most := -1, shortestName
	for i, c := range s.Columns {
		if w := c.width(); c.Left && w > most && w > plain.Width(c.Name) {
			widest, most = i, w
		}
	}
	return widest
}

// shorten cuts what is longer than n runes in a column of text.
func (s *Sheet) shorten(column, n int) {
	c := s.Columns[column]
	if !c.Left || c.width() <= n {
		return
	}
	s.Columns[column] = c.With(s.Rows, func(i int) Entry {
		e := c.Entries[i]
		if text := shortened(c.Text(i), n); text != c.Text(i) {
			e = Entry{Text: text}
		}
		return e
	})
}

// shortened is a name of at most n runes: the longest of its parts, as options of a candidate are, lose their middles, so that names which
// differ in one of them stay apart. Of too many it is the name that does.
func shortened(name string, n int) string {
	parts := strings.Split(name, nameParts)
	each := n - utf8.RuneCountInString(nameParts)*(len(parts)-1) // runes of a part at most
	if each < shortestPart*len(parts) {
		parts, each = []string{name}, n
	}
	for ; utf8.RuneCountInString(strings.Join(parts, nameParts)) > n; each-- {
		for i, part := range parts {
			if r := []rune(part); len(r) > each {
				half := (each - 1) / 2
				parts[i] = string(r[:each-1-half]) + "…" + string(r[len(r)-half:])
			}
		}
	}
	return strings.Join(parts, nameParts)
}

const (
	nameParts    = ", " // between parts of a name
	shortestPart = 4
)

// Lines writes the sheet, without blanks at the ends of lines.
func (s *Sheet) Lines() []string {
	widths, _ := s.layout()
	var top, head []string
	for _, group := range s.Groups() {
		span := -gap
		for _, i := range group {
			span += widths[i] + gap
			head = append(head, s.Columns[i].align(s.Columns[i].Name, widths[i]))
		}
		title := s.Columns[group[0]].Group
		if len(group) > 1 {
			title = " " + title + " "
			dashes := span - plain.Width(title)
			title = strings.Repeat("-", dashes/2) + title + strings.Repeat("-", dashes-dashes/2)
		}
		top = append(top, s.Columns[group[0]].align(title, span))
	}
	lines := []string{join(top), join(head)}
	if lines[0] == "" {
		lines = lines[1:]
	}
	for r := range s.Rows {
		var cells []string
		for i, c := range s.Columns {
			cells = append(cells, c.align(c.Text(r), widths[i]))
			if s.colour {
				cells[i] = paint(cells[i], c.Entries[r].Class)
			}
		}
		lines = append(lines, join(cells))
	}
	return lines
}

// paint is text as a terminal shows its class: the best is bold, what is good green, what is
// in doubt amber, what is no measurement red.
func paint(text, class string) string {
	code := map[string]string{best: "1", load.Valid: "32", load.Suspect: "33", load.Void: "31"}[class]
	if code == "" || strings.TrimSpace(text) == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (c Column) align(s string, width int) string {
	pad := strings.Repeat(" ", max(0, width-plain.Width(s)))
	if c.Left {
		return s + pad
	}
	return pad + s
}

func join(cells []string) string {
	return strings.TrimRight(strings.Join(cells, strings.Repeat(" ", gap)), " ")
}

// Markdown writes the sheet as a table of GitHub's Markdown.
func (s *Sheet) Markdown(b *bytes.Buffer) {
	line := func(of func(c Column) string) {
		for _, c := range s.Columns {
			b.WriteString("|" + of(c))
		}
		b.WriteString("|\n")
	}
	line(func(c Column) string { return " " + MarkdownText(strings.TrimSpace(c.Group+" "+c.Name)) + " " })
	line(func(c Column) string {
		if c.Left {
			return "---"
		}
		return "---:"
	})
	for row := range s.Rows {
		line(func(c Column) string { return " " + MarkdownText(c.Text(row)) + " " })
	}
}

// MarkdownText is text that Markdown shows as it is, and that names nobody to GitHub.
func MarkdownText(s string) string {
	return strings.NewReplacer(`\`, `\\`, "](", `]\(`, "@", "@\u200b", "|", `\|`, "\n", " ", "*", `\*`, "_", `\_`, "<", "&lt;", "`", "\\`").Replace(s)
}

// Place says in words where a row of the columns that tell cells apart is.
func (s *Sheet) Place(row int) string {
	var words []string
	for _, c := range s.Columns {
		switch text := c.Entries[row].Text; {
		case text == "":
		case c.Left:
			words = append(words, text)
		default:
			words = append(words, strings.ReplaceAll(c.Name, "_", " ")+" "+text)
		}
	}
	return cmp.Or(strings.Join(words, ", "), "the one cell")
}

// csv writes the sheet under the keys of its columns.
func (s *Sheet) csv(w io.Writer) error {
	out := csv.NewWriter(w)
	line := make([]string, len(s.Columns))
	for row := -1; row < s.Rows; row++ {
		for i, c := range s.Columns {
			if line[i] = c.Key; row >= 0 {
				line[i] = c.exact(row)
			}
		}
		_ = out.Write(line) // Error says it
	}
	out.Flush()
	return out.Error()
}

// WriteBlocks writes blocks of lines, as far as there is anything in them.
func WriteBlocks(w io.Writer, blocks [][]string) error {
	_, err := io.WriteString(w, plain.Text(inBlocks(blocks...)))
	return err
}

// inBlocks are blocks of lines with an empty line between two.
func inBlocks(blocks ...[]string) string {
	var parts []string
	for _, lines := range blocks {
		if len(lines) > 0 {
			parts = append(parts, strings.Join(lines, "\n")+"\n")
		}
	}
	return strings.Join(parts, "\n")
}

// Numbered are texts under numbers, from 1, in lines of at most width.
func Numbered(texts []string, width int) (lines []string) {
	for i, text := range texts {
		lines = append(lines, plain.Wrap(plain.Words(fmt.Sprintf("[%d] %s", i+1, text)), " ", width)...)
	}
	return lines
}

// first is a name in the first line of several.
func first(i int, name string) string {
	if i > 0 {
		return ""
	}
	return name
}
