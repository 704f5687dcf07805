package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"hclbench/plain"
)

// sheet is a table, whoever writes it: as text, Markdown, CSV or a part of the page.
type sheet struct {
	columns []column
	rows    int
}

// column is one column of a sheet.
type column struct {
	key     string // what CSV, and filters of the page, call it
	group   string // what it has in common with its neighbours; empty: nothing
	name    string
	entries []entry // one for each row
	left    bool    // aligned left: text; else right: numerals
	blank   bool    // where there is no value stands nothing, not [none]
	// weight says which columns go first when there is no room: the lowest. Zero
	// stays always.
	weight int
	// constant says what the caption says when every row has the same entry;
	// nil: a measurement, which is a column always.
	constant func(text string) string
}

// entry is one value of a sheet. The page has those that it does not show at once as
// JSON.
type entry struct {
	Text  string `json:"t,omitempty"` // as people read it; empty: there is no value
	Sort  string `json:"v,omitempty"` // exact, where Text is not
	Class string `json:"c,omitempty"` // where it is not the column's
	Chip  int    `json:"k,omitempty"` // marker of a series, by its index, from 1; 0: none
	Doubt int    `json:"d,omitempty"` // number of the reason against it; 0: none
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
	return &sheet{columns, len(lines)}
}

// text is the i-th entry as people read it.
func (c column) text(i int) string {
	switch e := c.entries[i]; {
	case e.Doubt > 0:
		return strings.TrimSpace(fmt.Sprintf("%s [%d]", e.Text, e.Doubt))
	case e.Text == "" && !c.blank:
		return none
	default:
		return e.Text
	}
}

// exact is the i-th entry for programs.
func (c column) exact(i int) string {
	if e := c.entries[i]; e.Sort != "" {
		return e.Sort
	}
	return c.entries[i].Text
}

func (c column) width() int {
	w := utf8.RuneCountInString(c.name)
	for i := range c.entries {
		w = max(w, utf8.RuneCountInString(c.text(i)))
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
		n := slices.Index(notes, e.Text)
		if n < 0 {
			n, notes = len(notes), append(notes, e.Text)
		}
		last.entries[i] = entry{Doubt: n + 1}
	}
	return notes
}
