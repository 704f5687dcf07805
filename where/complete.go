package where

import (
	"slices"
	"strings"
)

var operators = []string{"=", "!=", "<", "<=", ">", ">="}

// Complete returns what a condition that is being typed may go on as: the whole text, with the name, the
// operator, the value or the word that is begun at its end. Of a name whose values are not known nothing
// is returned for a value.
func Complete(text string, names []string, valuesOf func(name string) []string) []string {
	p := parser{text: text}
	next, name, depth := slices.Sorted(slices.Values(names)), "", 0
	conditions := append(next, "not", "(")
	joined := func() []string {
		if depth > 0 {
			return []string{"and", "or", ")"}
		}
		return []string{"and", "or"}
	}
	value := false // it is the turn of one
	for next = conditions; ; {
		if err := p.next(); err != nil { // a text that has no end yet
			if !value {
				return nil
			}
			return begun(text[:p.at], text[p.at:], written(valuesOf(name), text[p.at:p.at+1]))
		}
		if p.after == len(text) && !p.quoted {
			return begun(text[:p.at], p.token, next)
		}
		switch {
		case p.quoted || value:
			next, value = joined(), false
		case p.token == "(":
			depth++
		case p.token == ")":
			depth--
			next = joined()
		case slices.Contains(names, p.token):
			next, name = operators, p.token
		case slices.Contains(append(operators, "=="), p.token):
			next, value = written(valuesOf(name), ""), true
		default: // and, or, not
			next = conditions
		}
	}
}

// written are values as a condition has them: in this quote, or without one in quotes where they need it.
func written(values []string, quote string) (all []string) {
	for _, v := range values {
		own := quote
		if own == "" && (v == "" || strings.ContainsFunc(v, ends)) {
			own = "'"
			if strings.Contains(v, own) {
				own = `"`
			}
		}
		if own == "" || !strings.Contains(v, own) { // nothing within quotes stands for them
			all = append(all, own+v+own)
		}
	}
	return all
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
