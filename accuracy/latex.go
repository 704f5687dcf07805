package accuracy

import (
	"regexp"
	"strings"
	"unicode"
)

// The equality of answers in LaTeX is that of Hendrycks et al., "Measuring Mathematical Problem Solving With the MATH Dataset" (2021), as
// lm-eval has it: texts that are the same once spelling is made even. It knows no algebra: 1/2 and 0.5 are the same, 2/4 is another.

// boxed is what stands in the last \boxed{…} of a text, braces matched.
func boxed(text string) (string, bool) {
	const begin = `\boxed`
	if i := strings.LastIndex(text, begin+" "); i >= 0 { // \boxed 5$: up to the next dollar, wherever else boxes are
		inside, _, _ := strings.Cut(text[i+len(begin)+1:], "$")
		return inside, true
	}
	i := strings.LastIndex(text, begin)
	if i < 0 {
		return "", false // of \fbox the harness takes no content
	}
	open := 0
	for j := i; j < len(text); j++ {
		switch text[j] {
		case '{':
			open++
		case '}':
			if open--; open == 0 {
				inside, ok := strings.CutPrefix(text[i:j], begin+"{")
				return inside, ok
			}
		}
	}
	return "", false
}

// betweenDollars is what stands between the first and the last dollar of a text, or all of it where there are not two.
func betweenDollars(text string) string {
	first, last := strings.IndexByte(text, '$'), strings.LastIndexByte(text, '$')
	if first == last {
		return text
	}
	return text[first+1 : last]
}

func hendrycksAnswer(q Question, text string) (string, bool, bool) {
	found := betweenDollars(text)
	right, _ := boxed(q.Worked) // the reader has seen to it
	return found, strip(found) != "", sameLaTeX(found, right)
}

func aimeAnswer(q Question, text string) (string, bool, bool) {
	found, ok := boxed(text)
	if !ok {
		found = betweenDollars(text)
	}
	return found, strip(found) != "", sameLaTeX(found, q.Right[0])
}

// sameLaTeX compares two answers in even spelling; as they are, where one has none.
func sameLaTeX(a, b string) bool {
	x, ok1 := evenLaTeX(a)
	y, ok2 := evenLaTeX(b)
	if !ok1 || !ok2 {
		return a == b
	}
	return x == y
}

// evenLaTeX makes the spelling of an answer even; ok is false where the harness stumbles, so that it compares the texts as they are.
func evenLaTeX(s string) (even string, ok bool) {
	for _, r := range [][2]string{{"\n", ""}, {`\!`, ""}, {`\\`, `\`}, {"tfrac", "frac"}, {"dfrac", "frac"}, {`\left`, ""}, {`\right`, ""},
		{`^{\circ}`, ""}, {`^\circ`, ""}, {`\$`, ""}} {
		s = strings.ReplaceAll(s, r[0], r[1])
	}
	const unit = `\text{ `
	if n := strings.Count(s, unit); n > 1 {
		return "", false
	} else if n == 1 {
		s, _, _ = strings.Cut(s, unit)
	}
	for _, r := range [][2]string{{`\%`, ""}, {" .", " 0."}, {"{.", "{0."}} {
		s = strings.ReplaceAll(s, r[0], r[1])
	}
	if s == "" {
		return "", true
	}
	if s[0] == '.' {
		s = "0" + s
	}
	if name, value, one := strings.Cut(s, "="); one && !strings.Contains(value, "=") && len([]rune(name)) <= 2 {
		s = value
	}
	if s, ok = bracedRoots(s); !ok {
		return "", false
	}
	s = strings.ReplaceAll(s, " ", "")
	if s, ok = bracedFractions(s); !ok {
		return "", false
	}
	if s == "0.5" {
		s = `\frac{1}{2}`
	}
	return slashFraction(s)
}

// bracedRoots makes \sqrt3 \sqrt{3}.
func bracedRoots(s string) (string, bool) {
	parts := strings.Split(s, `\sqrt`)
	for i, part := range parts[1:] {
		if part == "" {
			return "", false
		}
		if part[0] != '{' {
			r := []rune(part)
			parts[i+1] = "{" + string(r[:1]) + "}" + string(r[1:])
		}
	}
	return strings.Join(parts, `\sqrt`), true
}

// bracedFractions makes \frac12 and \frac1{2} \frac{1}{2}. Where one has too little behind it, all stays as it is.
func bracedFractions(s string) (string, bool) {
	parts := strings.Split(s, `\frac`)
	for i, part := range parts[1:] {
		if part == "" {
			return "", false
		}
		if part[0] == '{' {
			continue
		}
		r := []rune(part)
		if len(r) < 2 {
			return s, true
		}
		if r[1] != '{' {
			parts[i+1] = "{" + string(r[:1]) + "}{" + string(r[1:2]) + "}" + string(r[2:])
		} else {
			parts[i+1] = "{" + string(r[:1]) + "}" + string(r[1:])
		}
	}
	return strings.Join(parts, `\frac`), true
}

var (
	pyInt    = regexp.MustCompile(`^[` + pySpace + `]*[+-]?\p{Nd}+(_\p{Nd}+)*[` + pySpace + `]*$`)
	plainInt = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)
)

// slashFraction makes 3/4 \frac{3}{4}. Of two parts that are no whole numbers Python's int() says so, which the harness does not expect.
func slashFraction(s string) (string, bool) {
	a, b, one := strings.Cut(s, "/")
	if !one || strings.Contains(b, "/") {
		return s, true
	}
	if !pyInt.MatchString(a) || !pyInt.MatchString(b) || strings.Count(a, "")+strings.Count(b, "") > 4300 {
		return "", false
	}
	if !plainInt.MatchString(a) || !plainInt.MatchString(b) || strings.ContainsFunc(s, unicode.IsSpace) {
		return s, true
	}
	return `\frac{` + a + "}{" + b + "}", true
}
