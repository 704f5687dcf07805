package report

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const gap = 2 // blanks between columns

// layout gives each column a width: its own, and more where the title of its
// group needs it.
func (s *sheet) layout() (widths []int, total int) {
	widths = make([]int, len(s.columns))
	for _, group := range s.groups() {
		span := -gap
		for _, i := range group {
			widths[i] = s.columns[i].width()
			span += widths[i] + gap
		}
		title := utf8.RuneCountInString(s.columns[group[0]].group)
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
	}
	var labels []string
	for _, c := range s.columns {
		labels = append(labels, c.label())
	}
	kept := slices.Clone(labels)
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
		s.columns, kept = slices.Delete(s.columns, least, least+1), slices.Delete(kept, least, least+1)
	}
	for over := s.over(width); over > 0 && s.widestName() >= 0; over = s.over(width) {
		widest := s.widestName()
		s.shorten(widest, max(shortestName, s.columns[widest].width()-over))
	}
	return slices.DeleteFunc(labels, func(label string) bool { return slices.Contains(kept, label) })
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
		if w := c.width(); c.left && w > most && w > utf8.RuneCountInString(c.name) {
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
			dashes := span - utf8.RuneCountInString(title)
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
