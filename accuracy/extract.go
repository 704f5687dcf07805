package accuracy

import (
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Harnesses are written in Python, whose \s, \d and strip() know all of Unicode. What is here finds what they find: the recordings in
// testdata/accuracy say so.

// pySpace is the inside of a class: what Python's \s matches.
const pySpace = `\s\x0b\x1c-\x1f\x{85}\p{Z}`

// strip is Python's strip().
func strip(s string) string { return strings.TrimFunc(s, isPySpace) }

func isPySpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

const invalid = "[invalid]" // what lm-eval has where a pattern does not match

// matched is lm-eval's filter `regex`: of all matches one, the first (0) or the last (-1); of that the first group that is not empty.
func matched(pattern *regexp.Regexp, which int, text string) (found string, ok bool) {
	all := pattern.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return invalid, false
	}
	if which < 0 {
		which += len(all)
	}
	groups := all[which][1:]
	i := 0
	if len(groups) > 1 {
		if i = slices.IndexFunc(groups, func(g string) bool { return g != "" }); i < 0 {
			return invalid, false
		}
	}
	return strip(groups[i]), true
}

var (
	fourHashes = regexp.MustCompile(`#### (\-?[0-9\.\,]+)`)
	anyNumber  = regexp.MustCompile(`(-?[$0-9.,]{2,})|(-?[0-9]+)`)
	answerIs   = regexp.MustCompile(`answer is \(?([ABCDEFGHIJ])\)?`)
	inParens   = regexp.MustCompile(`(\([A-Z]\))`)
	letterLine = regexp.MustCompile(`(?i)Answer[ \t]*:[ \t]*\$?([A-D])\$?`)
	digits     = regexp.MustCompile(`\p{Nd}+`)
)

// gsm8kWays are lm-eval's two filters for GSM8K; strict says which match of the strict one counts.
func gsm8kWays(strict int) []extraction {
	way := func(pattern *regexp.Regexp, which int) func(Question, string) (string, bool, bool) {
		return func(q Question, text string) (string, bool, bool) {
			found, ok := matched(pattern, which, text)
			return found, ok, gsm8kForm(found) == gsm8kForm(q.Worked)
		}
	}
	return []extraction{{"strict-match", way(fourHashes, strict)}, {"flexible-extract", way(anyNumber, -1)}}
}

// gsm8kForm is what lm-eval compares: without commas, dollars, all up to the last "#### ", and a full stop at the end.
func gsm8kForm(s string) string {
	s = strings.NewReplacer(",", "", "$", "").Replace(s)
	if i := strings.LastIndex(s, "#### "); i >= 0 {
		s = s[i+len("#### "):]
	}
	return strings.ToLower(strings.TrimSuffix(s, "."))
}

// unpunctuated is what lm-eval compares where case and punctuation do not count.
func unpunctuated(s string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		if strings.ContainsRune("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", r) {
			return -1
		}
		return r
	}, s))
}

// lastNumber is how vLLM and SGLang score GSM8K: commas are dropped, and the last run of digits is the answer, whatever stands before it. One
// that Python does not take for a number (007, ٣) is invalid.
var lastNumber = []extraction{{"last number", func(q Question, text string) (string, bool, bool) {
	value := func(s string) (string, bool) {
		all := digits.FindAllString(strings.ReplaceAll(s, ",", ""), -1)
		if len(all) == 0 {
			return "", false
		}
		last := all[len(all)-1]
		zero := strings.Trim(last, "0") == ""
		if strings.IndexFunc(last, func(r rune) bool { return r > '9' }) >= 0 || last[0] == '0' && !zero || len(last) > 4300 {
			return "", false
		}
		if zero {
			last = "0"
		}
		return last, true
	}
	right, _ := value(q.Worked)
	found, ok := value(text)
	return found, ok, ok && found == right
}}}

// gpqaStrict is (?<=The answer is )(.*)(?=.), the first match: the rest of a line without its last character.
func gpqaStrict(q Question, text string) (string, bool, bool) {
	const before = "The answer is "
	for rest := text; ; {
		i := strings.Index(rest, before)
		if i < 0 {
			return invalid, false, false
		}
		rest = rest[i+len(before):]
		line, _, _ := strings.Cut(rest, "\n")
		if line == "" {
			continue
		}
		_, width := utf8.DecodeLastRuneInString(line)
		found := strip(line[:len(line)-width])
		return found, true, unpunctuated(found) == unpunctuated(q.letter())
	}
}

// gpqaFlexible is lm-eval's filter `multi_choice_regex`: the last (X); else the last place where the text of a choice stands, case and
// punctuation apart; else the last letter behind a colon. longest says that of two choices that begin at one place the longer one is found,
// as since 0.4.13; before, the one that stands first.
func gpqaFlexible(longest bool) func(Question, string) (string, bool, bool) {
	return func(q Question, text string) (string, bool, bool) {
		found, ok := matched(inParens, -1, text)
		if !ok {
			found, ok = choiceText(q.Choices, longest, text)
		}
		if !ok {
			behindColon := regexp.MustCompile(`:[` + pySpace + `]*([A-` + letters[len(q.Choices)-1:len(q.Choices)] + `])`)
			if found, ok = matched(behindColon, -1, text); ok {
				found = "(" + found + ")"
			}
		}
		if !ok {
			found = invalid
		}
		return found, ok, unpunctuated(found) == unpunctuated(q.letter())
	}
}

// choiceText finds the last choice whose text stands in a text, as its letter in parentheses.
func choiceText(choices []string, longest bool, text string) (string, bool) {
	plainly := func(s string) string {
		return strings.Map(func(r rune) rune {
			if unicode.Is(unicode.P, r) {
				return -1
			}
			return r
		}, strings.ToLower(s))
	}
	letter := map[string]string{}
	var all []string
	for i, c := range choices {
		c = plainly(strip(c))
		if c == "" {
			return "", false // the empty text stands everywhere: the harness finds it, and goes on
		}
		letter[c] = "(" + letters[i:i+1] + ")"
		all = append(all, c)
	}
	if longest {
		slices.SortStableFunc(all, func(a, b string) int { return utf8.RuneCountInString(b) - utf8.RuneCountInString(a) })
	}
	last := ""
	for rest := plainly(text); rest != ""; {
		i := slices.IndexFunc(all, func(c string) bool { return strings.HasPrefix(rest, c) })
		if i >= 0 {
			last, rest = all[i], rest[len(all[i]):]
			continue
		}
		_, width := utf8.DecodeRuneInString(rest)
		rest = rest[width:]
	}
	if last = strip(last); last == "" {
		return "", false
	}
	if l, ok := letter[last]; ok {
		last = l
	}
	return last, true
}

// standaloneLetter is (?i)\b\(?([A-D])\)?\b, the last match.
func standaloneLetter(q Question, text string) (string, bool, bool) {
	runes := []rune(text)
	at := func(i int) rune {
		if i < 0 || i >= len(runes) {
			return ' '
		}
		return runes[i]
	}
	word := func(i int) bool {
		r := at(i)
		return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.N, r)
	}
	boundary := func(i int) bool { return word(i-1) != word(i) }
	found := ""
	for i := 0; i < len(runes); i++ {
		if !boundary(i) {
			continue
		}
		for _, letter := range []int{i + 1, i} {
			if (letter == i || at(i) == '(') && strings.ContainsRune("ABCDabcd", at(letter)) && boundary(letter+1) { // behind it a parenthesis may be, and is one
				found, i = string(at(letter)), letter
				break
			}
		}
	}
	if found == "" {
		return invalid, false, false
	}
	return found, true, strings.EqualFold(found, q.letter())
}

// simpleLetter is how simple-evals reads GPQA, and SGLang both of its tasks: the first "Answer: X", whose case counts.
var simpleLetter = []extraction{{"answer", func(q Question, text string) (string, bool, bool) {
	m := letterLine.FindStringSubmatch(text)
	if m == nil {
		return "", false, false
	}
	return m[1], true, m[1] == q.letter()
}}}

var (
	scopeMarker   = regexp.MustCompile(`(?i)ANSWER[` + pySpace + `]*:[` + pySpace + `]*\**[` + pySpace + `]*`)
	scopeMarkup   = regexp.MustCompile(`^(?:(?:\$+|\\\(|\\(?:boxed|fbox|text|textbf|mathbf|mathrm)[` + pySpace + `]*\{)[` + pySpace + `]*)*`)
	scopeBrackets = regexp.MustCompile(`^[(\[（【][` + pySpace + `]*([A-Za-z\p{Nd}](?:[` + pySpace + `]*[,，/、][` + pySpace + `]*[A-Za-z\p{Nd}])*)[` + pySpace + `]*[)\]）】]`)
	scopePlain    = regexp.MustCompile(`^([A-Za-z\p{Nd}][A-Za-z\p{Nd} ,，/、]*)`)
	scopeWord     = regexp.MustCompile(`[A-Za-z\p{Nd}]+`)
)

// scopeLetter is how EvalScope reads choices: the last "ANSWER:" with a letter of a choice behind it; where there is none, the last capital of all.
var scopeLetter = []extraction{{"answer", func(q Question, text string) (string, bool, bool) {
	has := letters[:len(q.Choices)]
	label := func(word string) bool { return strings.Trim(word, has) == "" }
	markers := scopeMarker.FindAllStringIndex(text, -1)
	for _, at := range slices.Backward(markers) {
		rest := text[at[1]:]
		rest = rest[len(scopeMarkup.FindString(rest)):]
		for _, form := range []*regexp.Regexp{scopeBrackets, scopePlain} {
			m := form.FindStringSubmatch(rest)
			if m == nil {
				continue
			}
			// Labels count up to the first other word; "and" and "or" between two of them is none.
			words, end := scopeWord.FindAllStringIndex(m[1], -1), 0
			for i, w := range words {
				word := m[1][w[0]:w[1]]
				if label(word) {
					end = w[1]
				} else if join := strings.ToLower(word); end == 0 || join != "and" && join != "or" || i+1 == len(words) || !label(m[1][words[i+1][0]:words[i+1][1]]) {
					break
				}
			}
			if end > 0 {
				found := strip(m[1][:end])
				if len(found) != 1 {
					return "", false, false // several
				}
				return found, true, found == q.letter()
			}
		}
	}
	capital := strings.LastIndexFunc(text, unicode.IsUpper)
	if capital < 0 || !strings.ContainsRune(has, rune(text[capital])) {
		return "", false, false
	}
	return text[capital : capital+1], true, text[capital:capital+1] == q.letter()
}}}

// answerWords are the words for "answer" that simple-evals knows, in the order in which it tries them; \s is Python's.
var answerWords = func() []*regexp.Regexp {
	var all []*regexp.Regexp
	for _, w := range []string{`Answer\s*:`, "Answer\\s*:\u200b\u200b\u200b\u200b\u200b\u200b", `উত্তর\s*:`, `उत्तर\s*:`, `উত্তরঃ`, `উত্তর\s*:`, `Antwort\s*:`, `답변\s*:`,
		`정답\s*:`, `답\s*:`, `答案\s*：`, `答案\s*:`, `答\s*：`, `答\s*:`, `答复\s*：`, `答曰\s*：`, `الإجابة:`, `الجواب:`, `إجابة:`,
		`الإجابة النهائية:`, `الإجابة الصحيحة:`, `الإجابة الصحيحة هي:`, `الإجابة هي:`, `الجواب النهائي:`, `Respuesta\s*:`, `Risposta\s*:`,
		`答え\s*:`, `答え\s*：`, `回答\s*:`, `回答\s*：`, `解答\s*:`, `Jawaban\s*:`, `Réponse\s*:`, `Resposta\s*:`, `Jibu\s*:`, `Idahun\s*:`,
		`Ìdáhùn\s*:`, `Idáhùn\s*:`, `Àmọ̀nà\s*:`, `Àdáhùn\s*:`, `Ànúgọ\s*:`, `Àṣàyàn\s*:`} {
		all = append(all, regexp.MustCompile(`(?i)`+strings.ReplaceAll(w, `\s`, "["+pySpace+"]")+`[ \t]*([A-D]|[أ-د]|[অ]|[ব]|[ড]|[ঢ]|[Ａ]|[Ｂ]|[Ｃ]|[Ｄ])`))
	}
	return all
}()

var (
	withoutMarkup = []string{"**", "$\\boxed{", "}$", "\\$", "$\\text{", "$", "\\mathrm{", "\\{", "\\text", "\\(", "\\mathbf{", "{", "\\boxed"}
	latinLetters  = strings.NewReplacer("أ", " A", "ب", " B", "ج", " C", "د", " D", "অ", " A", "ব", " B", "ড", " C", "ঢ", " D",
		"Ａ", " A", "Ｂ", " B", "Ｃ", " C", "Ｄ", " D")
)

// multilingualLetter is how simple-evals reads MMLU: markup is dropped, and the first word for "answer" that it finds counts.
func multilingualLetter(q Question, text string) (string, bool, bool) {
	for _, s := range withoutMarkup { // one after the other: each sees what those before have left
		text = strings.ReplaceAll(text, s, "")
	}
	for _, word := range answerWords {
		if m := word.FindStringSubmatch(text); m != nil {
			found := strip(latinLetters.Replace(m[1]))
			return found, true, found == q.letter()
		}
	}
	return "", false, false
}

// scorings are those of jsonl. Reasoning that a server tells apart is no answer.
var scorings = []extraction{
	{"exact", func(q Question, text string) (string, bool, bool) {
		found := strip(text)
		return found, found != "", q.isRight(found)
	}},
	{"choice", func(q Question, text string) (string, bool, bool) {
		found, ok := chosenLetter(text)
		return found, ok, ok && len(q.Choices) > 0 && found == q.letter()
	}},
	{"numeric", func(q Question, text string) (string, bool, bool) {
		found, ok := lastNumberOf(text)
		if !ok {
			return "", false, false
		}
		n, _ := number(found)
		return found, true, slices.ContainsFunc(q.Right, func(right string) bool {
			r, ok := number(right)
			return ok && r.Cmp(n) == 0
		})
	}},
	{"pattern", nil}, // [pattern], once it is known
}

// isRight reports whether a text is a right answer, or the text of the right choice.
func (q Question) isRight(text string) bool {
	if q.Choices != nil {
		return text == strip(q.Choices[q.right()])
	}
	return slices.ContainsFunc(q.Right, func(r string) bool { return strip(r) == text })
}

// pattern finds an answer by a user's own regular expression: its last match, or the first group of that.
func pattern(re *regexp.Regexp) extraction {
	return extraction{"pattern", func(q Question, text string) (string, bool, bool) {
		all := re.FindAllStringSubmatch(text, -1)
		if len(all) == 0 {
			return "", false, false
		}
		last := all[len(all)-1]
		found := strip(last[min(1, len(last)-1)])
		if q.Choices != nil && found == q.letter() {
			return found, true, true
		}
		return found, true, q.isRight(found)
	}}
}

var (
	saidLetter = regexp.MustCompile(`(?:(?i:answer(?:\s+is)?)[\s*_]*[:=]|\\(?:boxed|fbox)\s*\{)[\s*_$({\[]*(?:\\(?:text|textbf|mathrm|boxed)\s*\{)?([A-Za-z])(?:[^A-Za-z0-9]|$)` +
		`|(?i:answer\s+is)[\s*_$]*(?:\(([A-Za-z])\)|([A-Z])(?:[^A-Za-z0-9]|$))`)
	onlyLetter = regexp.MustCompile(`^[\s*_$(\[]*([A-Za-z])[\s*_$).:\]]*$`)
)

// chosenLetter is the letter that an answer chooses, as a capital: the last one behind "answer:", "answer is" or in a box; else all that
// there is.
func chosenLetter(text string) (string, bool) {
	found := ""
	if all := saidLetter.FindAllStringSubmatch(text, -1); len(all) > 0 {
		found = strings.Join(all[len(all)-1][1:], "") // one of the groups
	} else if m := onlyLetter.FindStringSubmatch(text); m != nil {
		found = m[1]
	}
	return strings.ToUpper(found), found != ""
}

var numbers = regexp.MustCompile(`[-−+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?(?:/\d+)?`)

// lastNumberOf is the last number of an answer: of what stands behind the last "####", or in the last box, if either is there. A sign right
// behind a word or a number is none: "16-3".
func lastNumberOf(text string) (string, bool) {
	if i := strings.LastIndex(text, "####"); i >= 0 {
		text = text[i:]
	} else if inside, ok := boxed(text); ok {
		text = inside
	}
	all := numbers.FindAllStringIndex(text, -1)
	if len(all) == 0 {
		return "", false
	}
	at := all[len(all)-1]
	found := text[at[0]:at[1]]
	if before, _ := utf8.DecodeLastRuneInString(text[:at[0]]); unicode.IsLetter(before) || unicode.IsDigit(before) || before == ')' {
		found = strings.TrimLeft(found, "-−+")
	}
	_, ok := number(found)
	return found, ok
}

// number is the value of a number as people write it: 1,234.50, −3, 3/4, 1e3.
func number(s string) (*big.Rat, bool) {
	s = strings.NewReplacer(",", "", "−", "-", "$", "", "%", "").Replace(strip(s))
	s = strings.TrimSuffix(strings.TrimPrefix(s, "+"), ".")
	if len(s) > 400 {
		return nil, false
	}
	if whole, exponent, ok := strings.Cut(strings.ToLower(s), "e"); ok && (len(exponent) > 4 || whole == "") {
		return nil, false
	}
	// The two parts of a fraction one by one: together, Rat takes a leading 0 for octal.
	over, under, fraction := strings.Cut(s, "/")
	n, ok := new(big.Rat).SetString(over)
	if d, isNumber := new(big.Rat).SetString(under); fraction && ok {
		if ok = isNumber && d.Sign() != 0; ok {
			n.Quo(n, d)
		}
	}
	return n, ok
}
