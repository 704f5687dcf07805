package plan

import (
	"slices"
	"strings"
)

// common are the words that all these cells share, and in the place of every other an
// empty one.
func common(cells []*Cell) []string {
	all := cells[0].Task.words()
	for _, c := range cells[1:] {
		for i, word := range c.Task.words() {
			if word != all[i] {
				all[i] = ""
			}
		}
	}
	return all
}

// differs is what of a cell's load the others do not share.
func (c *Cell) differs(shared []string) string {
	words := c.Task.words()
	for i, word := range shared {
		if words[i] == word {
			words[i] = ""
		}
	}
	return commaList(words)
}

// commaList joins the words that are not empty.
func commaList(words []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" }), ", ")
}
