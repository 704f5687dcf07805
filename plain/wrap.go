package plain

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Words are the words of a text. A number and the % behind it are one.
func Words(s string) (words []string) {
	for _, w := range strings.Fields(s) {
		if n := len(words) - 1; n >= 0 && strings.HasPrefix(w, "%") {
			words[n] += " " + w
			continue
		}
		words = append(words, w)
	}
	return words
}

// Wrap joins words with a separator, in lines of at most width columns; zero is no limit. A word that
// is longer has a line of its own.
func Wrap(words []string, separator string, width int) (lines []string) {
	line := ""
	for i, word := range words {
		if i < len(words)-1 {
			word += separator
		}
		if line != "" && width > 0 && ansi.StringWidth(strings.TrimRight(line+word, " ")) > width {
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

// Fit is s when it has at most width columns, and otherwise its beginning, with "…" after it.
func Fit(s string, width int) string { return ansi.Truncate(s, max(width, 1), "…") }

// List joins names as a sentence does: "a, b or c".
func List(names []string, last string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " " + last + " " + names[n-1]
	}
	return strings.Join(names, "")
}

// Width is how many columns of a terminal a line of text takes: a Chinese letter takes two.
func Width(s string) int { return ansi.StringWidth(s) }
