package tokenizer

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// matcher splits by any regular expression, some five times slower than a scanner does.
type matcher struct {
	re       *regexp2.Regexp
	behavior string // what becomes of the matches
	invert   bool   // what does not match is the match
}

// newMatcher takes an expression in the dialect of the file.
func newMatcher(pattern, behavior string, invert bool) (splitter, error) {
	behaviors := []string{"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"}
	if !slices.Contains(behaviors, behavior) {
		return nil, fmt.Errorf("behavior %q is not supported", behavior)
	}
	translated, err := translate(pattern)
	if err != nil {
		return nil, fmt.Errorf("read expression %q: %w", pattern, err)
	}
	// Without a limit on its stack the library can fail only at a time limit, and there is none.
	re, err := regexp2.Compile(translated, regexp2.OptionMaxBacktrackingStackSize(-1))
	if err != nil {
		return nil, fmt.Errorf("read expression %q: %w", pattern, err)
	}
	return (&matcher{re, behavior, invert}).split, nil
}

type cut struct {
	from, to int
	match    bool
}

func (m *matcher) split(text string, piece func(string)) {
	for _, c := range m.merged(m.cuts(text)) {
		if c.from < c.to && !(c.match && m.behavior == "Removed") {
			piece(text[c.from:c.to])
		}
	}
}

func (m *matcher) cuts(text string) []cut {
	var cuts []cut
	count, at, done := 0, 0, 0
	offset := func(to int) int { // in bytes, of a position that never goes back
		for ; count < to; count++ {
			_, n := utf8.DecodeRuneInString(text[at:])
			at += n
		}
		return at
	}
	err := m.re.FindRunesMatches([]rune(text), 0, func(v regexp2.MatchView) bool {
		first, n, _ := v.GroupRange(0)
		from := offset(first)
		to := offset(first + n)
		if done < from {
			cuts = append(cuts, cut{done, from, m.invert})
		}
		cuts = append(cuts, cut{from, to, !m.invert})
		done = to
		return true
	})
	if err != nil {
		panic(fmt.Sprintf("tokenizer: split text by %q: %v", m.re, err)) // cannot be: see newMatcher
	}
	if done < len(text) {
		cuts = append(cuts, cut{done, len(text), m.invert})
	}
	return cuts
}

// merged joins neighbours as the behavior says.
func (m *matcher) merged(cuts []cut) []cut {
	if m.behavior != "MergedWithPrevious" && m.behavior != "MergedWithNext" && m.behavior != "Contiguous" {
		return cuts
	}
	next := m.behavior == "MergedWithNext" // the same from right to left
	if next {
		slices.Reverse(cuts)
	}
	before := false // whether the one before is a match
	out := cuts[:0]
	for _, c := range cuts {
		join := c.match && !before
		if m.behavior == "Contiguous" {
			join = c.match == before
		}
		before = c.match
		if join && len(out) > 0 {
			last := &out[len(out)-1]
			last.from, last.to = min(last.from, c.from), max(last.to, c.to)
			continue
		}
		out = append(out, c)
	}
	if next {
		slices.Reverse(out)
	}
	return out
}

// translate turns an expression for Oniguruma, with which Hugging Face's library matches, into one
// for regexp2, which follows .NET. The two agree on little more than what is accepted here;
// everything else is an error, as it would split some text differently. Properties are widened to
// the version of Unicode that Oniguruma follows.
func translate(pattern string) (string, error) {
	t := translator{rest: pattern}
	if err := t.alternatives(false); err != nil {
		return "", err
	}
	return string(t.out), nil
}

type translator struct {
	rest    string
	out     []byte
	anyCase bool   // inside (?i:…)
	letters string // of the literal being read, while anyCase
}

// alternatives reads to the end of the expression, or of the group it is in.
func (t *translator) alternatives(group bool) error {
	for t.rest != "" && t.rest[0] != ')' {
		if t.take("|") {
			t.letters = ""
			t.emit("|")
			continue
		}
		start := len(t.out)
		if err := t.atom(); err != nil {
			return err
		}
		if err := t.quantifier(start); err != nil {
			return err
		}
	}
	switch {
	case group && t.rest == "":
		return errors.New("a group does not end")
	case !group && t.rest != "":
		return errors.New("a group ends that does not begin")
	}
	return nil
}

// atom reads what a quantifier may follow.
func (t *translator) atom() error {
	if c := t.rest[0]; c != '\\' && !isPunct(rune(c)) || strings.IndexByte("!\"#%&',-/:;<=>@_`~]", c) >= 0 {
		return t.literal()
	}
	t.letters = ""
	switch {
	case t.take("("):
		return t.group()
	case t.take("["):
		return t.set()
	case t.take("."):
		t.emit(".")
		return nil
	case t.take("\\"):
		return t.escape(false)
	}
	return fmt.Errorf("%q is not supported here", t.rest[:1])
}

func (t *translator) group() error {
	outer := t.anyCase
	defer func() { t.anyCase, t.letters = outer, "" }()
	open := "(?:"
	for _, kind := range []string{"?:", "?i:", "?=", "?!", "?<=", "?<!", "?>"} {
		if t.take(kind) {
			if kind == "?i:" {
				t.anyCase = true // each letter becomes a set
			} else {
				open = "(" + kind
			}
			break
		}
	}
	if strings.HasPrefix(t.rest, "?") {
		return fmt.Errorf("group (%.3s is not supported", t.rest)
	}
	t.emit(open)
	if err := t.alternatives(true); err != nil {
		return err
	}
	t.take(")")
	t.emit(")")
	return nil
}

func (t *translator) literal() error {
	r := t.next()
	if !t.anyCase {
		t.emit(quoted(r))
		return nil
	}
	folds, err := folded(r)
	if err != nil {
		return err
	}
	t.letters += strings.ToLower(string(r))
	for _, one := range []string{"ff", "fi", "fl", "ss", "st"} {
		if strings.HasSuffix(t.letters, one) {
			return fmt.Errorf("%q in (?i:) is not supported: it is the upper case of one character, too", one)
		}
	}
	t.emit("[" + folds + "]")
	return nil
}

// quantifier reads one, if there is any, after the atom that begins at out[start].
func (t *translator) quantifier(start int) error {
	switch {
	case t.rest != "" && strings.IndexByte("*+?", t.rest[0]) >= 0:
		t.emit(t.rest[:1])
		t.rest = t.rest[1:]
		switch {
		case t.take("?"):
			t.emit("?")
		case t.take("+"): // never gives back, which the other dialect has no sign for
			t.out = slices.Concat(t.out[:start:start], []byte("(?>"), t.out[start:], []byte(")"))
		}
	case strings.HasPrefix(t.rest, "{"):
		bounds := regexp.MustCompile(`^\{[0-9]+(,[0-9]*)?\}`).FindString(t.rest)
		if bounds == "" {
			return errors.New("{ is not supported without bounds")
		}
		t.emit(bounds)
		t.rest = t.rest[len(bounds):]
	default:
		return nil
	}
	t.letters = ""
	if t.rest != "" && strings.IndexByte("*+?{", t.rest[0]) >= 0 {
		return fmt.Errorf("%q after a quantifier is not supported", t.rest[:1])
	}
	return nil
}

func (t *translator) set() error {
	t.emit("[")
	if t.take("^") {
		t.emit("^")
	}
	for first := true; ; first = false {
		switch {
		case t.rest == "":
			return errors.New("a set does not end")
		case t.take("]"):
			if first {
				return errors.New("an empty set is not supported")
			}
			t.emit("]")
			return nil
		case t.rest[0] == '[' || strings.HasPrefix(t.rest, "&&"):
			return errors.New("a set in a set is not supported")
		case t.rest[0] == '\\' && len(t.rest) > 1 && !isPunct(rune(t.rest[1])) && strings.IndexByte("rntfv", t.rest[1]) < 0:
			t.rest = t.rest[1:]
			if err := t.escape(true); err != nil {
				return err
			}
		default:
			if err := t.span(first); err != nil {
				return err
			}
		}
	}
}

// span reads a character of a set, or two and what is between them.
func (t *translator) span(first bool) error {
	if t.rest[0] == '-' && !first && !strings.HasPrefix(t.rest, "-]") {
		return errors.New("- in the middle of a set is not supported")
	}
	lo, err := t.member()
	if err != nil {
		return err
	}
	hi := lo
	if strings.HasPrefix(t.rest, "-") && !strings.HasPrefix(t.rest, "-]") {
		t.take("-")
		if hi, err = t.member(); err != nil {
			return err
		}
	}
	if hi < lo {
		return fmt.Errorf("range %c-%c is empty", lo, hi)
	}
	if !t.anyCase {
		t.emit(quoted(lo) + "-" + quoted(hi))
		return nil
	}
	if hi >= utf8.RuneSelf {
		return fmt.Errorf("%q in (?i:) is not supported", hi)
	}
	for r := lo; r <= hi; r++ {
		folds, err := folded(r)
		if err != nil {
			return err
		}
		t.emit(folds)
	}
	return nil
}

func (t *translator) member() (rune, error) {
	if !t.take("\\") {
		if t.rest == "" || t.rest[0] == '[' {
			return 0, errors.New("a range does not end")
		}
		return t.next(), nil
	}
	if t.rest == "" {
		return 0, errors.New("\\ at the end")
	}
	r := t.next()
	if i := strings.IndexRune("rntfv", r); i >= 0 {
		return rune("\r\n\t\f\v"[i]), nil
	}
	if !isPunct(r) {
		return 0, fmt.Errorf("\\%c as the end of a range is not supported", r)
	}
	return r, nil
}

// escape reads what follows a backslash, in a set or outside.
func (t *translator) escape(inSet bool) error {
	if t.rest == "" {
		return errors.New("\\ at the end")
	}
	switch r := t.next(); {
	case strings.ContainsRune("rntfvsS", r):
		t.emit("\\" + string(r))
	case isPunct(r):
		t.emit(quoted(r))
	case r == 'd':
		return t.property("Nd", false, inSet)
	case r == 'p' || r == 'P':
		end := strings.IndexByte(t.rest, '}')
		if end < 0 || t.rest[0] != '{' {
			return fmt.Errorf("\\%c without {} is not supported", r)
		}
		name := t.rest[1:end]
		t.rest = t.rest[end+1:]
		return t.property(name, r == 'P', inSet)
	default:
		return fmt.Errorf("\\%c is not supported", r)
	}
	return nil
}

// property writes a general category, with what Go's tables lack of it.
func (t *translator) property(name string, not, inSet bool) error {
	known := []string{"L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "N", "Nd", "Nl", "No", "P", "S", "Z"}
	switch {
	case !slices.Contains(known, name):
		return fmt.Errorf("property %q is not supported", name)
	case t.anyCase:
		return fmt.Errorf("property %q in (?i:) is not supported", name)
	case not && inSet:
		return fmt.Errorf(`\P{%s} in a set is not supported`, name)
	}
	all := `\p{` + name + `}`
	for _, s := range assignedSince(name) {
		all += string(s.lo) + "-" + string(s.hi)
	}
	switch {
	case inSet:
		t.emit(all)
	case not:
		t.emit("[^" + all + "]")
	default:
		t.emit("[" + all + "]")
	}
	return nil
}

func (t *translator) emit(s string) { t.out = append(t.out, s...) }

// take reads a prefix, if it is there.
func (t *translator) take(prefix string) bool {
	rest, ok := strings.CutPrefix(t.rest, prefix)
	t.rest = rest
	return ok
}

func (t *translator) next() rune {
	r, n := utf8.DecodeRuneInString(t.rest)
	t.rest = t.rest[n:]
	return r
}

// folded returns the members of a set that matches a character in any case.
func folded(r rune) (string, error) {
	if r >= utf8.RuneSelf {
		return "", fmt.Errorf("%q in (?i:) is not supported", r)
	}
	all := quoted(r)
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		all += quoted(f)
	}
	return all, nil
}

// quoted returns a character as it means itself, in a set and outside.
func quoted(r rune) string {
	if isPunct(r) && r != '_' {
		return `\` + string(r)
	}
	return string(r)
}

// isPunct reports whether a character is one of ASCII that a backslash makes mean itself.
func isPunct(r rune) bool {
	return r < utf8.RuneSelf && (unicode.IsPunct(r) || unicode.IsSymbol(r))
}
