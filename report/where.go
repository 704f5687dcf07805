package report

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"hclbench/results"
)

// Where keeps the rows for which a condition holds, such as
//
//	engine = "vllm" and concurrency >= 64 and not (verdict = "void" or p99_ttft_ms > 5000)
//
// A name is an axis, a metric, or another column of [CSV]. The operators are =, !=,
// <, <=, >, >=, and, or, not and parentheses; * in a text stands for any characters.
// "engine" is the engine's name or its kind. What a row does not have is not equal
// to anything, and neither below nor above it. A name that no row knows is an error.
func Where(rows []results.Row, condition string) ([]results.Row, error) {
	p := whereParser{text: condition, fields: newFields(rows)}
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
	var kept []results.Row
	for i := range rows {
		if holds(&rows[i]) {
			kept = append(kept, rows[i])
		}
	}
	return kept, nil
}

// field is the value of a row under a name: a float64 or a text.
type field func(r *results.Row) (any, bool)

// newFields are the names that conditions on these rows may use.
func newFields(rows []results.Row) map[string]field {
	text := func(of func(r *results.Row) string) field {
		return func(r *results.Row) (any, bool) { s := of(r); return s, s != "" }
	}
	all := map[string]field{
		"lab":        text(func(r *results.Row) string { return r.Run.Lab }),
		"run":        text(func(r *results.Row) string { return r.RunID }),
		"command":    text(func(r *results.Row) string { return r.Run.Command }),
		"cell":       text(func(r *results.Row) string { return r.ID }),
		"benchmark":  text(func(r *results.Row) string { return r.Benchmark }),
		"kind":       text(func(r *results.Row) string { return r.Deployment.Kind }),
		"host":       text(func(r *results.Row) string { return r.Deployment.Host }),
		"gpus":       text(func(r *results.Row) string { return r.Deployment.GPUs }),
		"model":      text(func(r *results.Row) string { return r.Deployment.Model }),
		"image":      text(func(r *results.Row) string { return r.Deployment.Image }),
		"digest":     text(func(r *results.Row) string { return r.Deployment.Digest }),
		"verdict":    text(func(r *results.Row) string { return r.Verdict().Verdict }),
		"repetition": func(r *results.Row) (any, bool) { return float64(r.Repetition), true },
		"gpu_count":  func(r *results.Row) (any, bool) { return float64(gpuCount(r)), gpuCount(r) > 0 },
	}
	for _, m := range allMetrics(rows) {
		all[m.name] = func(r *results.Row) (any, bool) { return m.value(r) }
	}
	for _, name := range axes(rows) {
		all[name] = func(r *results.Row) (any, bool) {
			v, ok := r.Axes.Value(name)
			if f, isNumber := float(v); ok && isNumber {
				return f, true
			}
			return axisText(v), ok
		}
	}
	all["engine"] = text(func(r *results.Row) string { return r.Deployment.Engine })
	return all
}

// whereParser reads a condition from left to right, a token ahead.
type whereParser struct {
	text   string
	fields map[string]field
	at     int    // where the token begins
	after  int    // where it ends
	token  string // empty: the end
	quoted bool
}

func (p *whereParser) fail(format string, args ...any) error {
	return fmt.Errorf("the condition is wrong:\n\n    %s\n    %s^\n\n%s", p.text, strings.Repeat(" ", len([]rune(p.text[:p.at]))), fmt.Sprintf(format, args...))
}

func (p *whereParser) next() error {
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
func (p *whereParser) word(w string) bool { return !p.quoted && strings.EqualFold(p.token, w) }

type holds func(r *results.Row) bool

func (p *whereParser) either() (holds, error) {
	return p.joined("or", p.both, func(a, b holds) holds { return func(r *results.Row) bool { return a(r) || b(r) } })
}

func (p *whereParser) both() (holds, error) {
	return p.joined("and", p.one, func(a, b holds) holds { return func(r *results.Row) bool { return a(r) && b(r) } })
}

// joined reads conditions with a word between them.
func (p *whereParser) joined(word string, part func() (holds, error), join func(a, b holds) holds) (holds, error) {
	all, err := part()
	for err == nil && p.word(word) {
		if err = p.next(); err != nil {
			break
		}
		var more holds
		if more, err = part(); err == nil {
			all = join(all, more)
		}
	}
	return all, err
}

func (p *whereParser) one() (holds, error) {
	switch {
	case p.word("not"):
		if err := p.next(); err != nil {
			return nil, err
		}
		inner, err := p.one()
		return func(r *results.Row) bool { return !inner(r) }, err
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
	of, known := p.fields[name]
	if !known {
		return nil, p.fail("no result has a column %q. There are %s.", name, strings.Join(p.names(), ", "))
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
	return compared(name, of, op, want), p.next()
}

// names are those that conditions may use, in order.
func (p *whereParser) names() []string {
	var names []string
	for name := range p.fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// compared is one comparison of a row's value.
func compared(name string, of field, op, want string) holds {
	number, err := strconv.ParseFloat(want, 64)
	isNumber := err == nil
	equal := func(v any, r *results.Row) bool {
		if f, ok := v.(float64); ok {
			return isNumber && f == number
		}
		texts := []string{fmt.Sprint(v)}
		if name == "engine" {
			texts = append(texts, r.Deployment.Kind)
		}
		return slices.ContainsFunc(texts, func(s string) bool { ok, _ := path.Match(want, s); return ok || s == want })
	}
	return func(r *results.Row) bool {
		v, ok := of(r)
		if !ok {
			return op == "!="
		}
		switch op {
		case "=", "==":
			return equal(v, r)
		case "!=":
			return !equal(v, r)
		}
		order := 0
		if f, ok := v.(float64); ok {
			if !isNumber {
				return false
			}
			order = cmp.Compare(f, number)
		} else {
			order = strings.Compare(fmt.Sprint(v), want)
		}
		return map[string]bool{"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[op]
	}
}
