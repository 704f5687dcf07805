package plan

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// only is one --only: benchmarks by name, and conditions that all must hold.
type only struct {
	text       string
	benchmark  string // a glob
	nameAt     int    // its column
	conditions []condition
}

type condition struct {
	axis     string
	op       string // "=", "!=", "<", "<=", ">", ">="
	value    string // a glob with = and !=
	literal  bool   // the value was in quotes: no character of it is special
	axisAt   int    // columns
	valueAt  int
	number   float64
	isNumber bool
}

// scanner walks over the text of one --only.
type scanner struct {
	text []rune
	at   int
}

func (s *scanner) fail(at int, format string, args ...any) error {
	return &SelectionError{"--only", string(s.text), at + 1, fmt.Sprintf(format, args...)}
}

func (s *scanner) space() {
	for s.at < len(s.text) && (s.text[s.at] == ' ' || s.text[s.at] == '\t') {
		s.at++
	}
}

// skip steps over a prefix, if it is there.
func (s *scanner) skip(prefix string) {
	if strings.HasPrefix(string(s.text[s.at:]), prefix) {
		s.at += utf8.RuneCountInString(prefix)
	}
}

// word reads up to one of the characters in stop, without blanks at its end.
func (s *scanner) word(stop string) string {
	start := s.at
	for s.at < len(s.text) && !strings.ContainsRune(stop, s.text[s.at]) {
		s.at++
	}
	return strings.TrimRight(string(s.text[start:s.at]), " \t")
}

func (s *scanner) take(c rune) bool {
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

const onlyExample = "An example: benchmark.online[engine=vllm.*, concurrency<=64]"

func parseOnly(text string) (only, error) {
	s := &scanner{text: []rune(text)}
	s.space()
	s.skip("benchmark.")
	o := only{text: text, nameAt: s.at}
	o.benchmark = s.word("[],=<>! ")
	s.space()
	switch {
	case s.at == len(s.text) && o.benchmark == "":
		return o, s.fail(s.at, "Here stands the name of a benchmark; * is all of them. %s", onlyExample)
	case s.at == len(s.text):
		return o, nil
	case strings.ContainsRune("=<>!", s.text[s.at]):
		return o, s.fail(s.at, "Conditions stand in brackets after the benchmark's name. %s", onlyExample)
	case !s.take('['):
		return o, s.fail(s.at, "%q was not expected: after the benchmark's name stands [ or nothing. %s", s.text[s.at], onlyExample)
	}
	if o.benchmark == "" {
		o.benchmark = "*"
	}
	for {
		c, err := s.condition()
		if err != nil {
			return o, err
		}
		o.conditions = append(o.conditions, c)
		s.space()
		if s.take(',') {
			continue
		}
		if !s.take(']') {
			return o, s.fail(s.at, "After a condition stands a comma or the closing ]. %s", onlyExample)
		}
		s.space()
		if s.at < len(s.text) {
			return o, s.fail(s.at, "The closing ] ends it. Give --only once more for another selection.")
		}
		return o, nil
	}
}

func (s *scanner) condition() (condition, error) {
	s.space()
	c := condition{axisAt: s.at}
	c.axis = s.word("=!<>,[]\" \t")
	if c.axis == "" {
		return c, s.fail(s.at, "Here stands the name of an axis. %s", onlyExample)
	}
	s.space()
	opAt := s.at
	for s.at < len(s.text) && strings.ContainsRune("=!<>", s.text[s.at]) {
		s.at++
	}
	c.op = string(s.text[opAt:s.at])
	switch c.op {
	case "==":
		c.op = "="
	case "=", "!=", "<", "<=", ">", ">=":
	case "":
		return c, s.fail(opAt, "After the axis %q stands how its value is compared: =, !=, <, <=, > or >=. %s", c.axis, onlyExample)
	default:
		return c, s.fail(opAt, "%q compares nothing. Write =, !=, <, <=, > or >=.", c.op)
	}
	s.space()
	c.valueAt = s.at
	if s.take('"') {
		start := s.at
		for s.at < len(s.text) && s.text[s.at] != '"' {
			s.at++
		}
		c.value, c.literal = string(s.text[start:s.at]), true
		if !s.take('"') {
			return c, s.fail(c.valueAt, "The closing quote is missing.")
		}
	} else if c.value = s.value(); c.value == "" {
		return c, s.fail(s.at, "Here stands a value. %s", onlyExample)
	}
	number, err := strconv.ParseFloat(c.value, 64)
	c.number, c.isNumber = number, err == nil
	if !c.isNumber && c.op != "=" && c.op != "!=" {
		return c, s.fail(c.valueAt, "%s compares numbers, and %q is none.", c.op, c.value)
	}
	return c, nil
}

// value reads up to a comma or the closing bracket; what stands in brackets
// itself, as in vllm.all["a,b"], belongs to it.
func (s *scanner) value() string {
	start := s.at
	for s.at < len(s.text) && s.text[s.at] != ',' && s.text[s.at] != ']' {
		if s.take('[') {
			s.word("]")
		}
		s.at = min(s.at+1, len(s.text))
	}
	return strings.TrimRight(string(s.text[start:s.at]), " \t")
}

// coordinates are what conditions can speak of: the cell's axes, and what every
// cell has besides.
func coordinates(d *Deployment, c *Cell) map[string]any {
	at := map[string]any{
		"engine":     d.Engine.Label(),
		"host":       d.Host().Name,
		"repetition": int64(c.Repetition),
	}
	for _, a := range c.Axes {
		at[a.Name] = a.Value
	}
	return at
}

func asNumber(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// holds reports whether the condition is true of a value.
func (c condition) holds(v any) bool {
	if n, ok := asNumber(v); ok && c.isNumber {
		switch order := cmp.Compare(n, c.number); c.op {
		case "=":
			return order == 0
		case "!=":
			return order != 0
		case "<":
			return order < 0
		case "<=":
			return order <= 0
		case ">":
			return order > 0
		case ">=":
			return order >= 0
		}
	}
	text, value := fmt.Sprint(v), c.value
	if c.axis == "engine" {
		value = strings.TrimPrefix(value, "engine.")
	}
	same := text == value || !c.literal && glob(value, text)
	switch c.op {
	case "=":
		return same
	case "!=":
		return !same
	}
	return false
}

func (o only) picks(d *Deployment, c *Cell) bool {
	if !glob(o.benchmark, c.Benchmark) {
		return false
	}
	if len(o.conditions) == 0 {
		return true
	}
	at := coordinates(d, c)
	for _, cond := range o.conditions {
		if v, ok := at[cond.axis]; !ok || !cond.holds(v) {
			return false
		}
	}
	return true
}

// glob reports whether text matches a pattern in which * stands for any number
// of characters and ? for one.
func glob(pattern, text string) bool {
	p, t := []rune(pattern), []rune(text)
	star, mark := -1, 0
	i, j := 0, 0
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i, j = i+1, j+1
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}
