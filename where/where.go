// Package where reads conditions over named values, such as
//
//	engine = "vllm" and concurrency >= 64 and not (verdict = "void" or p99_ttft_ms > 5000)
//
// The operators are =, !=, <, <=, >, >=, and, or, not and parentheses; * in a text
// stands for any characters. It does not know what has the values, nor what they
// mean.
package where

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Values are what something has under its names: a float64, a text, or several
// texts that all name the same thing, for []string. False: it has none.
type Values func(name string) (any, bool)

// Condition reports whether it holds for something with these values. What is not
// there is not equal to anything, and neither below nor above it.
type Condition func(of Values) bool

// Error says what is wrong with a condition.
type Error struct {
	Text   string // the condition
	At     int    // where in it, in bytes
	Detail string // a sentence without its capital
	Name   string // the name that is not known; empty: it is something else
}

func (e *Error) Error() string {
	return fmt.Sprintf("the condition is wrong:\n\n%s\n\n%s", e.Place(), e.Detail)
}

// Place shows where the mistake is, in two lines.
func (e *Error) Place() string {
	return fmt.Sprintf("    %s\n    %s^", e.Text, strings.Repeat(" ", len([]rune(e.Text[:e.At]))))
}

// Parse reads a condition over these names. Its error is an [*Error].
func Parse(text string, names []string) (Condition, error) {
	p := parser{text: text, known: names}
	if err := p.next(); err != nil {
		return nil, err
	}
	holds, err := p.either()
	if err != nil {
		return nil, err
	}
	if p.token != "" {
		return nil, p.fail("%q is not expected here; join conditions by and, or", p.token)
	}
	return holds, nil
}

// parser reads a condition from left to right, a token ahead.
type parser struct {
	text   string
	known  []string
	at     int    // where the token begins
	after  int    // where it ends
	token  string // empty: the end
	quoted bool
}

func (p *parser) fail(format string, args ...any) error {
	return &Error{Text: p.text, At: p.at, Detail: fmt.Sprintf(format, args...)}
}

func (p *parser) next() error {
	rest := strings.TrimLeftFunc(p.text[p.after:], unicode.IsSpace)
	p.at = len(p.text) - len(rest)
	p.token, p.quoted = "", false
	switch {
	case rest == "":
	case rest[0] == '"' || rest[0] == '\'':
		end := strings.IndexByte(rest[1:], rest[0])
		if end < 0 {
			return p.fail("this text has no end; close it with %c", rest[0])
		}
		p.token, p.quoted, p.after = rest[1:end+1], true, p.at+end+2
		return nil
	case strings.ContainsRune("()", rune(rest[0])):
		p.token = rest[:1]
	case strings.ContainsRune("=!<>", rune(rest[0])):
		p.token = rest[:len(rest)-len(strings.TrimLeft(rest, "=!<>"))]
	default:
		end := strings.IndexFunc(rest, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`()=!<>"'`, r) })
		if end < 0 {
			end = len(rest)
		}
		p.token = rest[:end]
	}
	p.after = p.at + len(p.token)
	return nil
}

// word reports whether the token is this word, and not a text in quotes.
func (p *parser) word(w string) bool { return !p.quoted && strings.EqualFold(p.token, w) }

func (p *parser) either() (Condition, error) {
	return p.joined("or", p.both, func(a, b Condition) Condition { return func(of Values) bool { return a(of) || b(of) } })
}

func (p *parser) both() (Condition, error) {
	return p.joined("and", p.one, func(a, b Condition) Condition { return func(of Values) bool { return a(of) && b(of) } })
}

// joined reads conditions with a word between them.
func (p *parser) joined(word string, part func() (Condition, error), join func(a, b Condition) Condition) (Condition, error) {
	all, err := part()
	for err == nil && p.word(word) {
		if err = p.next(); err != nil {
			break
		}
		var more Condition
		if more, err = part(); err == nil {
			all = join(all, more)
		}
	}
	return all, err
}

func (p *parser) one() (Condition, error) {
	switch {
	case p.word("not"):
		if err := p.next(); err != nil {
			return nil, err
		}
		inner, err := p.one()
		return func(of Values) bool { return !inner(of) }, err
	case p.word("("):
		if err := p.next(); err != nil {
			return nil, err
		}
		inner, err := p.either()
		if err != nil {
			return nil, err
		}
		if !p.word(")") {
			return nil, p.fail("a closing parenthesis is missing here")
		}
		return inner, p.next()
	case p.token == "" || p.quoted:
		return nil, p.fail("the name of a column is missing here")
	}
	name := p.token
	if !slices.Contains(p.known, name) {
		detail := fmt.Sprintf("no result has a column %q. There are %s.", name, strings.Join(slices.Sorted(slices.Values(p.known)), ", "))
		return nil, &Error{Text: p.text, At: p.at, Detail: detail, Name: name}
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	op := p.token
	if p.quoted || !slices.Contains([]string{"=", "==", "!=", "<", "<=", ">", ">="}, op) {
		return nil, p.fail("a comparison is missing here: =, !=, <, <=, > or >=")
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	if p.token == "" && !p.quoted || !p.quoted && strings.ContainsAny(p.token, "()=!<>") {
		return nil, p.fail("a value is missing here: a number, or a text in quotes")
	}
	want := p.token
	if _, err := path.Match(want, ""); errors.Is(err, path.ErrBadPattern) {
		return nil, p.fail("%q is not a pattern", want)
	}
	return compared(name, op, want), p.next()
}

// compared is one comparison of a value.
func compared(name, op, want string) Condition {
	number, err := strconv.ParseFloat(want, 64)
	isNumber := err == nil
	equal := func(v any) bool {
		switch v := v.(type) {
		case float64:
			return isNumber && v == number
		case []string:
			return slices.ContainsFunc(v, func(s string) bool { return matches(want, s) })
		default:
			return matches(want, fmt.Sprint(v))
		}
	}
	return func(of Values) bool {
		v, ok := of(name)
		if !ok {
			return op == "!="
		}
		switch op {
		case "=", "==":
			return equal(v)
		case "!=":
			return !equal(v)
		}
		order := 0
		switch v := v.(type) {
		case float64:
			if !isNumber {
				return false
			}
			order = cmp.Compare(v, number)
		case []string:
			order = strings.Compare(v[0], want)
		default:
			order = strings.Compare(fmt.Sprint(v), want)
		}
		switch op {
		case "<":
			return order < 0
		case "<=":
			return order <= 0
		case ">":
			return order > 0
		default:
			return order >= 0
		}
	}
}

func matches(pattern, s string) bool {
	ok, _ := path.Match(pattern, s) // Parse has tried the pattern
	return ok || s == pattern
}
