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
	switch {
	case best == "":
		return ""
	case say == nil:
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
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " " + last + " " + names[n-1]
	}
	return strings.Join(names, "")
}

func withArticle(noun string) string {
	if strings.ContainsRune("aeio", rune(noun[0])) || noun == "slo" {
		return "an " + noun
	}
	return "a " + noun
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

func title(s string) string { return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):] }
