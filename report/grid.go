package report

import (
	"strings"
	"unicode/utf8"
)

// grid is a table of text with two lines of header: what neighbouring columns
// have in common, and what each one is.
type grid struct {
	columns []column
	rows    int
}

type column struct {
	group string // shared with its neighbours; empty: none
	name  string
	cells []string // one per row
	left  bool     // aligned left: text; else right: numerals
	// weight says which columns go first when there is no room: the lowest. Zero
	// stays always.
	weight int
	// constant says what the caption says when every row has the same cell;
	// nil: a measurement, which is a column always.
	constant func(cell string) string
}

const gap = 2 // blanks between columns

func (c column) width() int {
	w := utf8.RuneCountInString(c.name)
	for _, cell := range c.cells {
		w = max(w, utf8.RuneCountInString(cell))
	}
	return w
}

// same reports whether all rows have the same cell.
func (c column) same() bool {
	for _, cell := range c.cells {
		if cell != c.cells[0] {
			return false
		}
	}
	return true
}

// groups are the columns' indexes, neighbours of one group together.
func (g *grid) groups() [][]int {
	var all [][]int
	for i, c := range g.columns {
		if n := len(all); i > 0 && c.group != "" && c.group == g.columns[i-1].group {
			all[n-1] = append(all[n-1], i)
		} else {
			all = append(all, []int{i})
		}
	}
	return all
}

// layout gives each column a width: its own, and more where the title of its
// group needs it.
func (g *grid) layout() (widths []int, total int) {
	widths = make([]int, len(g.columns))
	for _, group := range g.groups() {
		span := -gap
		for _, i := range group {
			widths[i] = g.columns[i].width()
			span += widths[i] + gap
		}
		title := utf8.RuneCountInString(g.columns[group[0]].group)
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
// and shortens names more, until the grid is at most width wide. It returns the names of
// the columns that it left out, in order. Zero is no limit.
func (g *grid) fit(width int) (dropped []string) {
	out := map[string]bool{}
	order := g.columns
	if _, total := g.layout(); width > 0 && total > width {
		for i := range g.columns {
			g.shorten(i, max(longName, width/3))
		}
	}
	for width > 0 {
		if _, total := g.layout(); total <= width {
			break
		}
		least := -1
		for i, c := range g.columns {
			if c.weight > 0 && (least < 0 || c.weight < g.columns[least].weight) {
				least = i
			}
		}
		if least < 0 {
			break
		}
		out[g.columns[least].label()] = true
		g.columns = append(append([]column{}, g.columns[:least]...), g.columns[least+1:]...)
	}
	for width > 0 {
		_, total := g.layout()
		widest := g.widestName()
		if total <= width || widest < 0 {
			break
		}
		g.shorten(widest, max(shortestName, g.columns[widest].width()-(total-width)))
	}
	for _, c := range order {
		if out[c.label()] {
			dropped = append(dropped, c.label())
		}
	}
	return dropped
}

const (
	longName     = 24 // runes that a name may have before a figure gives way to it
	shortestName = 9
)

// widestName is the widest column of text that can be shortened; −1: there is none.
func (g *grid) widestName() int {
	widest := -1
	for i, c := range g.columns {
		if w := c.width(); c.left && w > max(shortestName, utf8.RuneCountInString(c.name)) && (widest < 0 || w > g.columns[widest].width()) {
			widest = i
		}
	}
	return widest
}

// shorten cuts the middle out of what is longer than n runes in a column of text.
func (g *grid) shorten(column, n int) {
	c := &g.columns[column]
	if !c.left || c.width() <= n {
		return
	}
	cells := make([]string, len(c.cells))
	for i, cell := range c.cells {
		if r := []rune(cell); len(r) > n {
			half := (n - 1) / 2
			cell = string(r[:n-1-half]) + "…" + string(r[len(r)-half:])
		}
		cells[i] = cell
	}
	c.cells = cells
}

// label names the column where it stands alone: "TTFT p99".
func (c column) label() string {
	return strings.TrimSpace(strings.TrimSuffix(c.group, " ms") + " " + c.name)
}

// lines writes the grid, without blanks at the ends of lines.
func (g *grid) lines() []string {
	widths, _ := g.layout()
	var top, head []string
	for _, group := range g.groups() {
		span := -gap
		for _, i := range group {
			span += widths[i] + gap
			head = append(head, g.columns[i].align(g.columns[i].name, widths[i]))
		}
		title := g.columns[group[0]].group
		if len(group) > 1 {
			title = " " + title + " "
			dashes := span - utf8.RuneCountInString(title)
			title = strings.Repeat("-", dashes/2) + title + strings.Repeat("-", dashes-dashes/2)
		}
		top = append(top, g.columns[group[0]].align(title, span))
	}
	lines := []string{join(top), join(head)}
	if lines[0] == "" {
		lines = lines[1:]
	}
	for r := range g.rows {
		var cells []string
		for i, c := range g.columns {
			cells = append(cells, c.align(c.cells[r], widths[i]))
		}
		lines = append(lines, join(cells))
	}
	return lines
}

func (c column) align(s string, width int) string {
	pad := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
	if c.left {
		return s + pad
	}
	return pad + s
}

func join(cells []string) string {
	return strings.TrimRight(strings.Join(cells, strings.Repeat(" ", gap)), " ")
}

// wrap joins words with a separator, in lines of at most width; zero is no limit.
func wrap(words []string, separator string, width int) []string {
	var lines []string
	line := ""
	for i, word := range words {
		if i < len(words)-1 {
			word += separator
		}
		if line != "" && width > 0 && utf8.RuneCountInString(strings.TrimRight(line+word, " ")) > width {
			lines = append(lines, strings.TrimRight(line, " "))
			line = ""
		}
		line += word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
