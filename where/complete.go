package where

import (
	"slices"
	"strings"
)

var operators = []string{"=", "!=", "<", "<=", ">", ">="}

// Complete returns what a condition that is being typed may go on as: the whole text, with the name, the
// operator or the word that is begun at its end. A value is anything: nothing is returned for it.
func Complete(text string, names []string) []string {
	p := parser{text: text}
	next, depth := slices.Sorted(slices.Values(names)), 0
	conditions := append(next, "not", "(")
	joined := func() []string {
		if depth > 0 {
			return []string{"and", "or", ")"}
		}
		return []string{"and", "or"}
	}
	for next = conditions; ; {
		if err := p.next(); err != nil {
			return nil // a text that has no end yet
		}
		if p.after == len(text) && !p.quoted {
			return begun(text[:p.at], p.token, next)
		}
		switch {
		case p.quoted || next == nil: // a value
			next = joined()
		case p.token == "(":
			depth++
		case p.token == ")":
			depth--
			next = joined()
		case slices.Contains(names, p.token):
			next = operators
		case slices.Contains(append(operators, "=="), p.token):
			next = nil
		default: // and, or, not
			next = conditions
		}
	}
}

// begun are the words that go on as a text has begun, each with what stands before it.
func begun(before, text string, words []string) (all []string) {
	for _, w := range words {
		if strings.HasPrefix(w, text) {
			all = append(all, before+w)
		}
	}
	return all
}
