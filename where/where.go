// Package where reads conditions over named values, such as
//
//	engine = "vllm" and concurrency >= 64 and not (verdict = "void" or p99_ttft_ms > 5000)
//
// The operators are =, !=, <, <=, >, >=, and, or, not and parentheses. A value is a
// number, a time such as 1.5s, or a text, in quotes where it has blanks or one of the operators' characters;
// * in a text stands for any characters, and no other character is special. The
// package does not know what has the values, nor what they mean.
package where

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/agext/levenshtein"
)

// Values are what something has under its names: a float64, [Milliseconds], a text, or several
// texts that all name the same thing, for []string. False: it has none.
type Values func(name string) (any, bool)

// Milliseconds are a time, which a condition compares with a number of them, or with 250ms or 1.5s.
type Milliseconds float64

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

// Comparison is one comparison of a condition.
type Comparison struct {
	Name, Op, Value string
	Holds           Condition // of this comparison alone
	Negated         bool      // it stands in a not
	At              int       // where its value stands in the text, in bytes
}

// Parse reads a condition over these names. Its error is an [*Error].
func Parse(text string, names []string) (Condition, error) {
	holds, _, err := Read(text, names)
	return holds, err
}

// Read is [Parse] that also returns the comparisons of which the condition is made,
// in the order of the text.
func Read(text string, names []string) (Condition, []Comparison, error) {
	p := parser{text: text, known: names}
	if err := p.next(); err != nil {
		return nil, nil, err
	}
	holds, err := p.disjunction()
	if err != nil {
		return nil, nil, err
	}
	if p.token != "" {
		return nil, nil, p.fail("%q is not expected here; join conditions by and, or", p.token)
	}
	return holds, p.comparisons, nil
}

// parser reads a condition from left to right, a token ahead.
type parser struct {
	text   string
	known  []string
	at     int    // where the token begins
	after  int    // where it ends
	token  string // empty: the end
	quoted bool

	not         int // how many of them the token stands in
	depth       int // how many nots and parentheses
	comparisons []Comparison
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
		end := strings.IndexFunc(rest, ends)
		if end < 0 {
			end = len(rest)
		}
		p.token = rest[:end]
	}
	p.after = p.at + len(p.token)
	return nil
}

// ends reports whether a character ends a word that has no quotes.
func ends(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`()=!<>"'`, r) }

// word reports whether the token is this word, and not a text in quotes.
func (p *parser) word(w string) bool { return !p.quoted && strings.EqualFold(p.token, w) }

func (p *parser) disjunction() (Condition, error) {
	return p.joined("or", p.conjunction, func(a, b Condition) Condition { return func(of Values) bool { return a(of) || b(of) } })
}

func (p *parser) conjunction() (Condition, error) {
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
	const deepest = 100
	if p.depth++; p.depth > deepest {
		return nil, p.fail("parentheses and nots stand in each other too deep here")
	}
	defer func() { p.depth-- }()
	switch {
	case p.word("not"):
		if err := p.next(); err != nil {
			return nil, err
		}
		p.not++
		inner, err := p.one()
		p.not--
		return func(of Values) bool { return !inner(of) }, err
	case p.word("("):
		if err := p.next(); err != nil {
			return nil, err
		}
		inner, err := p.disjunction()
		if err != nil {
			return nil, err
		}
		if !p.word(")") {
			return nil, p.fail("a closing parenthesis is missing here")
		}
		return inner, p.next()
	case p.token == "" || p.quoted:
		return nil, p.fail("a name is missing here, such as concurrency")
	}
	name := p.token
	if !slices.Contains(p.known, name) {
		return nil, &Error{Text: p.text, At: p.at, Detail: p.unknown(name), Name: name}
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	op := p.token
	if p.quoted || op != "==" && !slices.Contains(operators, op) {
		return nil, p.fail("a comparison is missing here: =, !=, <, <=, > or >=")
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	if p.token == "" && !p.quoted || !p.quoted && strings.ContainsAny(p.token, "()=!<>") {
		return nil, p.fail("a value is missing here: a number, or a text in quotes")
	}
	c := Comparison{Name: name, Op: op, Value: p.token, Holds: compared(name, op, p.token), Negated: p.not%2 == 1, At: p.at}
	p.comparisons = append(p.comparisons, c)
	return c.Holds, p.next()
}

// unknown says what could be meant by a name that is not there.
func (p *parser) unknown(name string) string {
	return fmt.Sprintf("there is no %q to compare. %s", name, Instead(name, p.known))
}

// Instead is a sentence for who wrote a name that a list does not have: what was meant, perhaps, or which
// names begin so or have it in them, or, of a long list, which are the nearest.
func Instead(wrong string, list []string) string {
	known := slices.Sorted(slices.Values(list))
	if near := Nearest(wrong, known); near != "" {
		return fmt.Sprintf("Did you mean %q?", near)
	}
	const few = 12
	has := func(in func(name, word string) bool) []string {
		return slices.DeleteFunc(slices.Clone(known), func(name string) bool { return !in(name, strings.ToLower(wrong)) })
	}
	begun := has(strings.HasPrefix)
	if len(begun) == 0 {
		begun = has(strings.Contains)
	}
	switch {
	case wrong != "" && len(begun) > 0 && len(begun) <= few:
		known = begun
	case len(known) > few:
		slices.SortStableFunc(known, func(a, b string) int {
			return levenshtein.Distance(wrong, a, nil) - levenshtein.Distance(wrong, b, nil)
		})
		return fmt.Sprintf("The nearest of %d are %s.", len(known), strings.Join(known[:3], ", "))
	}
	return fmt.Sprintf("There are %s.", strings.Join(known, ", "))
}

// Nearest is the name of a list that was meant by a wrong one, perhaps; empty: none.
// Capitals make no difference, nor whether words are joined by - or _.
func Nearest(wrong string, list []string) string {
	same := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }
	best, distance := "", 3
	for _, name := range list {
		if d := levenshtein.Distance(same(wrong), same(name), nil); d < distance && 2*d <= max(len(wrong), len(name)) {
			best, distance = name, d
		}
	}
	return best
}

func compared(name, op, want string) Condition {
	number, err := strconv.ParseFloat(want, 64)
	isNumber := err == nil
	milliseconds, isTime := number, isNumber
	if d, err := time.ParseDuration(want); err == nil && !isNumber {
		milliseconds, isTime = d.Seconds()*1e3, true
	}
	equal := func(v any) bool {
		switch v := v.(type) {
		case float64:
			return isNumber && v == number
		case Milliseconds:
			return isTime && float64(v) == milliseconds
		case []string:
			return slices.ContainsFunc(v, func(s string) bool { return Match(want, s) })
		}
		return Match(want, fmt.Sprint(v))
	}
	return func(of Values) bool {
		v, ok := of(name)
		switch {
		case op == "!=":
			return !ok || !equal(v)
		case !ok:
			return false
		case op == "=" || op == "==":
			return equal(v)
		}
		var order int
		switch v := v.(type) {
		case float64:
			if !isNumber {
				return false
			}
			order = cmp.Compare(v, number)
		case Milliseconds:
			if !isTime {
				return false
			}
			order = cmp.Compare(float64(v), milliseconds)
		case []string:
			if len(v) == 0 {
				return false
			}
			order = strings.Compare(v[0], want)
		default:
			order = strings.Compare(fmt.Sprint(v), want)
		}
		return order < 0 && op[0] == '<' || order > 0 && op[0] == '>' || order == 0 && len(op) == 2
	}
}

// Match reports whether a text is as a pattern says, in which * stands for any
// number of characters, and every other character for itself.
func Match(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return s == pattern
	}
	s, ok := strings.CutPrefix(s, first)
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		if _, s, ok = strings.Cut(s, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(s, last)
}
