package hcl

import (
	"strconv"
	"strings"

	"hclbench/where"
)

// didYouMean is " Did you mean x?" for the known name nearest to the wrong one,
// or "" when none is near. The suggestion is shown as say(name); nil: in quotes.
func didYouMean(wrong string, known []string, say func(string) string) string {
	best := where.Nearest(wrong, known)
	if best == "" {
		return ""
	}
	if say == nil {
		say = quote
	}
	return " Did you mean " + say(best) + "?"
}

// below is how a name is shown behind what it belongs to.
func below(root string) func(string) string {
	return func(name string) string { return root + "." + name }
}

func plainly(s string) string { return s }

// inWords joins names as a sentence does: "a, b or c".
func inWords(names []string, last string) string {
	switch n := len(names); n {
	case 0:
		return ""
	case 1:
		return names[0]
	default:
		return strings.Join(names[:n-1], ", ") + " " + last + " " + names[n-1]
	}
}

func quote(s string) string { return strconv.Quote(s) }

func quoted(names []string) []string { return mapped(names, quote) }

// ticked are names as Markdown shows code.
func ticked(names []string) []string {
	return mapped(names, func(s string) string { return "`" + s + "`" })
}

func mapped[T any](list []T, do func(T) string) []string {
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = do(x)
	}
	return out
}

func title(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// fold joins the lines of each paragraph of a message, as a long one is broken where it
// is written. An empty line ends a paragraph, and what is indented stays as it is.
func fold(message string) string {
	var b strings.Builder
	before := ""
	for i, line := range strings.Split(message, "\n") {
		switch {
		case i == 0:
		case before == "" || line == "" || strings.HasPrefix(line, " ") || strings.HasPrefix(before, " "):
			b.WriteByte('\n')
		default:
			b.WriteByte(' ')
		}
		b.WriteString(line)
		before = line
	}
	return b.String()
}
