package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/plain"
)

// sheet is a table, whoever writes it: as text, Markdown, CSV or a part of the page.
type sheet struct {
	columns []column
	rows    int
	common  []string // what all rows have in common, in words, beside what all sheets of a report have
	colour  bool     // classes of entries are colours of a terminal
}

// column is one column of a sheet.
type column struct {
	key     string // what CSV, and filters of the page, call it
	group   string // what it has in common with its neighbours; empty: nothing
	name    string
	entries []entry // one for each row
	left    bool    // aligned left: text; else right: numerals
	blank   bool    // where there is no value stands nothing, not [none]
	// weight says which columns go first when there is no room: the lowest. Zero stays always.
	weight int
	// constant says what the caption says when every row has the same entry;
	// nil: a measurement, which is a column always.
	constant func(text string) string
}

// best is the class of what leads under its load.
const best = "best"

// entry is one value of a sheet.
type entry struct {
	Text  string // as people read it; empty: there is no value
	Exact string // for programs, where Text is not
	Class string // of what the page and terminals colour; empty: it is as its column
	Doubt int    // number of the reason against it; 0: none
	Needs int    // values that the percentile needs which would stand here; 0: none would
}

// none stands where there is no value.
const none = "-"

// filled is the column with what is said of each of n things.
func (c column) filled(n int, say func(i int) string) column {
	return c.with(n, func(i int) entry { return entry{Text: plain.Line(say(i))} })
}

func (c column) with(n int, of func(i int) entry) column {
	c.entries = make([]entry, n)
	for i := range c.entries {
		c.entries[i] = of(i)
	}
	return c
}

// tabulate is the sheet of lines of text under these columns.
func tabulate(columns []column, lines [][]string) *sheet {
	for i, c := range columns {
		columns[i] = c.filled(len(lines), func(line int) string { return lines[line][i] })
	}
	return &sheet{columns: columns, rows: len(lines)}
}

// text is the i-th entry as people read it.
func (c column) text(i int) string {
	switch e := c.entries[i]; {
	case e.Doubt > 0:
		return strings.TrimSpace(fmt.Sprintf("%s [%d]", e.Text, e.Doubt))
	case e.Needs > 0:
		return fewer(e.Needs)
	case e.Text == "" && !c.blank:
		return none
	default:
		return e.Text
	}
}

// exact is the i-th entry for programs.
func (c column) exact(i int) string {
	return cmp.Or(c.entries[i].Exact, c.entries[i].Text)
}

func (c column) width() int {
	w := plain.Width(c.name)
	for i := range c.entries {
		w = max(w, plain.Width(c.text(i)))
	}
	return w
}

func (c column) same() bool {
	return !slices.ContainsFunc(c.entries, func(e entry) bool { return e.Text != c.entries[0].Text })
}

func (c column) known() bool {
	return slices.ContainsFunc(c.entries, func(e entry) bool { return e.Text != "" })
}

// aligned is the column with numerals to the right, if any of its values is a number.
func (c column) aligned() column {
	c.left = !slices.ContainsFunc(c.entries, func(e entry) bool { return isNumber(e.Text) })
	return c
}

// label names the column where it stands alone: "TTFT p99".
func (c column) label() string {
	return strings.TrimSpace(strings.TrimSuffix(c.group, " ms") + " " + c.name)
}

// project takes out of the sheet what all of its rows have in common, and says it in
// words: the columns that stay are those in which rows differ, and the measurements.
func (s *sheet) project() (common []string) {
	if s.rows == 0 {
		return nil
	}
	s.columns = slices.DeleteFunc(s.columns, func(c column) bool {
		if c.constant == nil || !c.same() {
			return false
		}
		if text := c.entries[0].Text; text != "" {
			common = append(common, c.constant(text))
		}
		return true
	})
	return common
}

// groups are the columns' indexes, neighbours of one group together.
func (s *sheet) groups() [][]int {
	var all [][]int
	for i, c := range s.columns {
		if n := len(all); i > 0 && c.group != "" && c.group == s.columns[i-1].group {
			all[n-1] = append(all[n-1], i)
		} else {
			all = append(all, []int{i})
		}
	}
	return all
}

// notesBelow leaves numbers of what the last column says, where there is no room for
// its sentences, and returns them.
func (s *sheet) notesBelow(width int) (notes []string) {
	last := &s.columns[len(s.columns)-1]
	if _, total := s.layout(); width == 0 || total <= width || !last.left {
		return nil
	}
	for i, e := range last.entries {
		if e.Text == "" {
			continue
		}
		notes = once(notes, e.Text)
		last.entries[i] = entry{Doubt: slices.Index(notes, e.Text) + 1}
	}
	return notes
}

const gap = 2 // blanks between columns

// layout gives each column a width: its own, and more where the title of its group needs it.
func (s *sheet) layout() (widths []int, total int) {
	widths = make([]int, len(s.columns))
	for _, group := range s.groups() {
		span := -gap
		for _, i := range group {
			widths[i] = s.columns[i].width()
			span += widths[i] + gap
		}
		title := plain.Width(s.columns[group[0]].group)
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

// fit shortens long names in the middle, leaves out columns, the least important first,
// and shortens names more, until the sheet is at most width wide. It returns the names of
// the columns that it left out, in order. Zero is no limit.
func (s *sheet) fit(width int) (dropped []string) {
	if s.over(width) <= 0 {
		return nil
	}
	for i := range s.columns {
		s.shorten(i, max(longName, width/3))
		s.columns[i].fold()
	}
	var labels []string
	for _, c := range s.columns {
		labels = append(labels, c.label())
	}
	at, gone := make([]int, len(labels)), map[int]bool{} // of each column that is still there; of labels
	for i := range at {
		at[i] = i
	}
	for s.over(width) > 0 {
		least := -1
		for i, c := range s.columns {
			if c.weight > 0 && (least < 0 || c.weight < s.columns[least].weight) {
				least = i
			}
		}
		if least < 0 {
			break
		}
		gone[at[least]] = true
		s.columns, at = slices.Delete(s.columns, least, least+1), slices.Delete(at, least, least+1)
	}
	for over := s.over(width); over > 0 && s.widestName() >= 0; over = s.over(width) {
		widest := s.widestName()
		s.shorten(widest, max(shortestName, s.columns[widest].width()-over))
	}
	for i, label := range labels {
		if gone[i] {
			dropped = append(dropped, label)
		}
	}
	return dropped
}

// fold writes a name that is wider than its entries in two lines: "input" above "tokens".
func (c *column) fold() {
	cut := strings.LastIndexByte(c.name, '_')
	if c.group != "" || cut < 0 {
		return
	}
	entries := *c
	if entries.name = ""; entries.width() < plain.Width(c.name) {
		c.group, c.name = c.name[:cut], c.name[cut+1:]
	}
}

// over is by how much the sheet is wider than it may be.
func (s *sheet) over(width int) int {
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
func (s *sheet) widestName() int {
	widest, most := -1, shortestName
	for i, c := range s.columns {
		if w := c.width(); c.left && w > most && w > plain.Width(c.name) {
			widest, most = i, w
		}
	}
	return widest
}

// shorten cuts the middle out of what is longer than n runes in a column of text.
func (s *sheet) shorten(column, n int) {
	c := s.columns[column]
	if !c.left || c.width() <= n {
		return
	}
	s.columns[column] = c.with(s.rows, func(i int) entry {
		e := c.entries[i]
		if r := []rune(c.text(i)); len(r) > n {
			half := (n - 1) / 2
			e = entry{Text: string(r[:n-1-half]) + "…" + string(r[len(r)-half:])}
		}
		return e
	})
}

// lines writes the sheet, without blanks at the ends of lines.
func (s *sheet) lines() []string {
	widths, _ := s.layout()
	var top, head []string
	for _, group := range s.groups() {
		span := -gap
		for _, i := range group {
			span += widths[i] + gap
			head = append(head, s.columns[i].align(s.columns[i].name, widths[i]))
		}
		title := s.columns[group[0]].group
		if len(group) > 1 {
			title = " " + title + " "
			dashes := span - plain.Width(title)
			title = strings.Repeat("-", dashes/2) + title + strings.Repeat("-", dashes-dashes/2)
		}
		top = append(top, s.columns[group[0]].align(title, span))
	}
	lines := []string{join(top), join(head)}
	if lines[0] == "" {
		lines = lines[1:]
	}
	for r := range s.rows {
		var cells []string
		for i, c := range s.columns {
			cells = append(cells, c.align(c.text(r), widths[i]))
			if s.colour {
				cells[i] = paint(cells[i], c.entries[r].Class)
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

func (c column) align(s string, width int) string {
	pad := strings.Repeat(" ", max(0, width-plain.Width(s)))
	if c.left {
		return s + pad
	}
	return pad + s
}

func join(cells []string) string {
	return strings.TrimRight(strings.Join(cells, strings.Repeat(" ", gap)), " ")
}
